"""Orthogonal access: modulate, fade, add noise, equalise, decide, count; one resource per device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.links.flat_chain import FlatChain, Load
from phy.links.link import LinkError, Reception, check_part, round_airtime
from phy.links.power import AmplitudeDecision, PowerControl
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts, empty_counts
from phy.numerics.random import Purpose, random_bits

_Probed = tuple[int, int, tuple[int, ...], tuple[tuple[str, bytes], ...]]
"""Bits, seed, trials and caps of a probe."""

_PROBE_BYTES = 1 << 24
"""Known bits of all devices that are held at once [B]."""


class OrthogonalLink:
    """Orthogonal access over flat channels: hard decisions, received bits, measured counts.

    `num_bits` is the payload of one device in one round. A partly filled last symbol is padded with zero
    bits that are sent but not counted. `chain` is that of the engine.
    """

    def __init__(self, config: LinkConfig, *, num_devices: int, num_bits: int, chain: FlatChain) -> None:
        self.parted = True
        self.num_devices = num_devices
        self.num_bits = num_bits
        self.num_bytes = -(-num_bits // 8)
        self.config = config
        self._bits_per_symbol = BITS_PER_SYMBOL[config.modulation]
        self._chain = chain
        self._probed: tuple[int, FlatChannel] | None = None
        self._load = Load(channel=self._channel_for(num_bits), num_bits=num_bits)
        self._last_probe: tuple[_Probed, LinkCounts] | None = None
        self._decide = PowerControl(max_power=config.max_power)

    def _channel_for(self, num_bits: int) -> FlatChannel:
        return FlatChannel(
            self.config,
            num_devices=self.num_devices,
            num_symbols=-(-num_bits // self._bits_per_symbol),
            packet_symbols=-(-8 * self.config.packet_size_bytes // self._bits_per_symbol),
            measure=self._chain.measure_gains,
        )

    def decide(self, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> AmplitudeDecision:
        """Power control of this round, for all devices."""
        return self._decide(self._load.channel.block_gains(context), caps)

    def send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        first_device: int | None = None,
    ) -> Reception:
        """See `DigitalUplink.send`: silent devices are left out. Raises LinkError for a payload of another shape."""
        first = check_part(payload, first_device=first_device, uplink=self, num_trials=len(context.trials))
        whole, count = self.decide(context, caps), payload.shape[1]
        on_air = np.setdiff1d(np.arange(first, first + count), context.silent)
        if 0 < len(on_air) < count:
            runs = np.split(on_air, np.flatnonzero(np.diff(on_air) > 1) + 1)
            parts = [self._carry(payload[:, run - first], int(run[0]), whole, context) for run in runs]
            found = _spread(parts, on_air - first, decision=whole.of(slice(first, first + count)))
            turns = self.config.multiplexing == "tdma"
            return replace(found, round_airtime_s=round_airtime(found.counts.airtime_s, one_after_another=turns))
        return self._carry(payload, first, whole, context)

    def _carry(
        self, payload: NDArray[np.uint8], first: int, whole: AmplitudeDecision, context: UplinkContext
    ) -> Reception:
        decision = whole.of(slice(first, first + payload.shape[1]))
        return self._chain.carry(payload, replace(self._load, first_device=first), context=context, decision=decision)

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """See `DigitalUplink.probe`: taps and power of the payload, separate noise.

        A channel that is the same in every round is probed once, unless `again` is set.
        """
        if again or not self._load.channel.same_every_round:
            return self._probe(num_bits, context, caps)
        which = (num_bits, context.seed, context.trials, _values(caps))
        if self._last_probe is None or self._last_probe[0] != which:
            self._last_probe = (which, self._probe(num_bits, context, caps))
        return self._last_probe[1]

    def state(self) -> Mapping[str, Any]:
        """See `DigitalUplink.state`: the one probe of a channel that is the same in every round."""
        if self._last_probe is None:
            return {"probe": None}
        (num_bits, seed, trials, caps), counts = self._last_probe
        return {
            "probe": {
                "num_bits": num_bits,
                "seed": str(seed),
                "trials": np.array(trials, np.int64),
                "caps": {name: np.frombuffer(cap, np.uint8) for name, cap in caps},
                "counts": {one.name: getattr(counts, one.name) for one in fields(LinkCounts)},
            }
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `DigitalUplink.restore`."""
        kept = state["probe"]
        if kept is None:
            self._last_probe = None
            return
        trials = tuple(int(trial) for trial in kept["trials"])
        like = empty_counts(len(trials), self.num_devices)
        counts = {one.name: kept["counts"][one.name] for one in fields(LinkCounts)}
        for name, found in counts.items():
            wanted = getattr(like, name)
            if not isinstance(found, np.ndarray) or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise LinkError(f"{name} of a probe must be of {wanted.shape} trials and devices")
        which = (
            int(kept["num_bits"]),
            int(kept["seed"]),
            trials,
            tuple((name, cap.tobytes()) for name, cap in kept["caps"].items()),
        )
        self._last_probe = (which, LinkCounts(**{name: found.copy() for name, found in counts.items()}))

    def _probe(self, num_bits: int, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> LinkCounts:
        if self._probed is None or self._probed[0] != num_bits:
            self._probed = (num_bits, self._channel_for(num_bits))
        channel, whole = self._probed[1], self.decide(context, caps)
        step = max(_PROBE_BYTES * 8 // (num_bits * len(context.trials)), 1)
        counts = []
        for first in range(0, self.num_devices, step):
            load = Load(channel=channel, num_bits=num_bits, known=True, first_device=first)
            decision = whole.of(slice(first, first + step))
            bits = random_bits(
                context.keys(Purpose.PROBE_BITS),
                num_devices=decision.active.shape[1],
                num_bits=num_bits,
                first_device=first,
            )
            counts.append(self._chain.carry(bits, load, context=context, decision=decision).counts)
        return counts[0] if len(counts) == 1 else LinkCounts.join(counts)


def _spread(parts: Sequence[Reception], at: NDArray[np.int64], *, decision: AmplitudeDecision) -> Reception:
    """One reception of all devices, from those of the devices `at`; the others are silent, with counts of zero."""
    active = decision.active.copy()
    active[:, np.setdiff1d(np.arange(active.shape[1]), at)] = False

    def spread(values: Any) -> Any:
        out = np.zeros((values.shape[0], active.shape[1], *values.shape[2:]), values.dtype)
        out[:, at] = values
        return out

    def spread_all(sums: Any) -> Any:
        return type(sums)(**{one.name: spread(getattr(sums, one.name)) for one in fields(sums)})

    bursts = [part.bursts for part in parts if part.bursts is not None]
    return Reception(
        payload=spread(np.concatenate([part.payload for part in parts], axis=1)),
        counts=spread_all(LinkCounts.join([part.counts for part in parts])),
        decision=replace(decision, active=active),
        bursts=spread_all(Burstiness.join(bursts)) if bursts else None,
    )


def _values(caps: Mapping[str, ArrayLike]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, np.asarray(cap).tobytes()) for name, cap in caps.items())
