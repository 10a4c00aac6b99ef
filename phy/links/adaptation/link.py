"""`AdaptedLink`: every device sends with its own MCS, through one packet link for each MCS in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.config.link import with_mcs
from phy.config.mcs import McsAdaptation, McsEntry, entries_of
from phy.fading.block_taps import UplinkContext
from phy.links.adaptation.choice import Chooser
from phy.links.adaptation.curves import BlerCurve, LinkOf, measured_curve
from phy.links.airtime import upload_airtime_s
from phy.links.link import LinkError, Reception, check_part, round_airtime
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts

if TYPE_CHECKING:
    from phy.links.packets.link import PacketLink

_Mine = NDArray[np.bool_]


class AdaptedLink:
    """Orthogonal access of devices with different MCS; see `DigitalUplink`.

    `link_of` builds the link of a single MCS, when a device first uses it. Fades, noise and scrambling of a device are
    drawn by device and round, whatever its MCS. Rounds start at one interval, so that the channel of all moves on in
    the same time: that of a list is the round itself, that of link adaptation a round of the slowest candidate. Raises
    LinkError for a list of another length than `num_devices`.
    """

    def __init__(self, config: LinkConfig, *, num_devices: int, num_bits: int, link_of: LinkOf) -> None:
        self.config, self.num_devices, self.num_bits, self.parted = config.resolve_mcs(), num_devices, num_bits, False
        self._link_of, self._entries, mcs = link_of, entries_of(config.mcs), config.mcs
        self._links: dict[int, PacketLink] = {}
        self._bits_per_symbol = max(BITS_PER_SYMBOL[entry.modulation] for entry in self._entries)
        each_s = np.array(
            [upload_airtime_s(with_mcs(config, entry), payload_bits=num_bits) or 0.0 for entry in self._entries]
        )
        self._fixed: NDArray[np.int64] | None = None
        of_device = np.full(num_devices, each_s.argmax())
        if isinstance(mcs, tuple):
            if len(mcs) != num_devices:
                raise LinkError(f"mcs has length {len(mcs)}, num_devices is {num_devices}", "use one MCS per device")
            places = {entry.number: place for place, entry in enumerate(self._entries)}
            of_device = self._fixed = np.array([places[index] for index in mcs])
        # Multiplied, so that a list of one MCS has the very round of that MCS.
        users = np.bincount(of_device, minlength=len(each_s))
        self._round_s = float((users * each_s).sum() if config.multiplexing == "tdma" else each_s[of_device].max())
        self._genie, self._chooser = False, None
        if isinstance(mcs, McsAdaptation):
            self._genie = mcs.adapt == "genie"
            if not self._genie:
                self._chooser = Chooser(mcs, base=self._link(0), each_s=each_s, curve_of=self._curve)

    def send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        first_device: int | None = None,
    ) -> Reception:
        """See `DigitalUplink.send`. Raises LinkError for a payload of another shape."""
        check_part(payload, first_device=first_device, uplink=self, num_trials=len(context.trials))
        shape = (len(context.trials), self.num_devices)

        scrambling = self._link(0).draw_scrambling(context)

        def sent(place: int, mine: _Mine) -> Reception:
            return self._link(place).send_of(payload, mine=mine, scrambling=scrambling, context=context, caps=caps)

        if self._genie:
            return self._joined(self._best(sent, shape))
        if self._chooser is None:
            assert self._fixed is not None
            places = np.broadcast_to(self._fixed, shape)
        else:
            places = self._chooser.choose(context)
        found = self._joined((place, places == place, sent(place, places == place)) for place in np.unique(places))
        if self._chooser is not None:
            self._chooser.update(context, found.counts)
        return found

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """See `DigitalUplink.probe`: with the MCS of the fewest bits per symbol, whatever the payload has."""
        return self._link(0).probe(num_bits, context=context, caps=caps, again=again)

    def state(self) -> Mapping[str, Any]:
        """See `DigitalUplink.state`: the offsets of the outer loop."""
        return {} if self._chooser is None else self._chooser.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `DigitalUplink.restore`."""
        if self._chooser is not None:
            self._chooser.restore(state)

    def _link(self, place: int) -> PacketLink:
        if place not in self._links:
            self._links[place] = self._link_of(
                with_mcs(self.config, self._entries[place]),
                num_devices=self.num_devices,
                num_bits=self.num_bits,
                round_s=self._round_s,
            )
        return self._links[place]

    def _curve(self, entry: McsEntry) -> BlerCurve:
        packet_bits = min(self.num_bits, 8 * self.config.packet_size_bytes)
        return measured_curve(with_mcs(self.config, entry), packet_bits=packet_bits, link_of=self._link_of)

    def _best(
        self, sent: Callable[[int, _Mine], Reception], shape: tuple[int, int]
    ) -> Iterable[tuple[int, _Mine, Reception]]:
        """Of every device the reception of the MCS with which most packets arrive, of those alike the fastest."""
        best, found = np.zeros(shape, np.int64), list[Reception]()
        most, least_s = np.zeros(shape, np.int64), np.full(shape, np.inf)
        for place in range(len(self._entries)):
            reception = sent(place, np.ones(shape, bool))
            counts = reception.counts
            intact = counts.packets - counts.packet_errors
            sooner = (intact == most) & (intact > 0) & (counts.airtime_s < least_s)
            better = (intact > most) | sooner
            best[better], most[better], least_s[better] = place, intact[better], counts.airtime_s[better]
            found.append(reception)
        return ((place, best == place, _only(one, best == place)) for place, one in enumerate(found))

    def _joined(self, parts: Iterable[tuple[int, _Mine, Reception]]) -> Reception:
        """One reception from those of the devices `mine` of each MCS."""
        total: Reception | None = None
        for place, mine, part in parts:
            index = np.where(mine, self._entries[place].number, 0)
            part = replace(part, bursts=_widened(part.bursts, self._bits_per_symbol))
            total = replace(part, mcs=index) if total is None else _added(total, replace(part, mcs=index))
        assert total is not None
        in_turn = self.config.multiplexing == "tdma"
        return replace(total, round_airtime_s=round_airtime(total.counts.airtime_s, one_after_another=in_turn))


def _added(one: Reception, other: Reception) -> Reception:
    """Two receptions of different devices as one; what a device did not send is zero in the other."""
    assert one.delivered is not None
    assert other.delivered is not None
    assert one.mcs is not None
    assert other.mcs is not None
    bursts = None if one.bursts is None or other.bursts is None else one.bursts + other.bursts
    return replace(
        one,
        payload=one.payload | other.payload,
        counts=one.counts + other.counts,
        delivered=one.delivered | other.delivered,
        bursts=bursts,
        mcs=one.mcs + other.mcs,
    )


def _only(reception: Reception, mine: _Mine) -> Reception:
    """The reception with zeros for all other devices."""

    def kept(values: NDArray[Any]) -> NDArray[Any]:
        return np.where(mine.reshape(*mine.shape, *(1,) * (values.ndim - 2)), values, np.zeros((), values.dtype))

    def all_kept(sums: Any) -> Any:
        return None if sums is None else type(sums)(**{f.name: kept(getattr(sums, f.name)) for f in fields(sums)})

    assert reception.delivered is not None
    return replace(
        reception,
        payload=kept(reception.payload),
        counts=all_kept(reception.counts),
        delivered=kept(reception.delivered),
        bursts=all_kept(reception.bursts),
    )


def _widened(bursts: Burstiness | None, bits_per_symbol: int) -> Burstiness | None:
    """The same with room for the labels of larger constellations."""
    if bursts is None:
        return None
    room = [(0, 0)] * (bursts.label_bits.ndim - 1) + [(0, bits_per_symbol - bursts.label_bits.shape[-1])]
    return replace(bursts, label_bits=np.pad(bursts.label_bits, room), label_errors=np.pad(bursts.label_errors, room))
