"""Choice of an MCS for every device and round, from the effective SNR of a probe and from what arrived before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phy.config.mcs import OFFSET_LIMIT_DB, McsAdaptation, McsEntry
from phy.fading.block_taps import UplinkContext
from phy.links.adaptation.curves import BlerCurve
from phy.links.adaptation.effective_snr import mean_information, snr_of_information
from phy.links.link import LinkError
from phy.measure.counts import LinkCounts

if TYPE_CHECKING:
    from phy.links.packets.link import PacketLink


def move_offset(
    offset_db: NDArray[np.float64], counts: LinkCounts, *, target: float, step_db: float
) -> NDArray[np.float64]:
    """Offset of the next round `[num_trials, num_devices]` [dB]; unchanged where nothing was sent.

    With e of n packets lost it moves by step ((n - e) / n target / (1 - target) - e / n), whose mean is 0 where a share
    `target` is lost (Sampath, Kumar and Holtzman, "On setting reverse link target SIR in a CDMA system", 1997).
    """
    lost = counts.packet_errors / np.maximum(counts.packets, 1)
    moved = offset_db + step_db * ((1.0 - lost) * target / (1.0 - target) - lost)
    return np.where(counts.packets > 0, np.clip(moved, -OFFSET_LIMIT_DB, OFFSET_LIMIT_DB), offset_db)


class Chooser:
    """Chooses among the entries of `config`, whose payloads take `each_s` [s]; `base` is the link of the first one.
    `curve_of` returns the block error rate of an entry's packets over AWGN.

    Of the candidates with a block error rate of at most the target the one with the shortest payload is chosen; of
    those alike, which carriers of whole slots make, the most robust one. Without any it is the first one.
    """

    def __init__(
        self,
        config: McsAdaptation,
        *,
        base: PacketLink,
        each_s: NDArray[np.float64],
        curve_of: Callable[[McsEntry], BlerCurve],
    ) -> None:
        self._config, self._base, self._curve_of, self._entries = config, base, curve_of, config.entries
        # The most robust one last among those alike: later places win.
        self._order = np.lexsort((-np.arange(len(each_s)), -each_s))
        self._known: dict[int, NDArray[np.float64]] = {}
        self._whose: tuple[int, tuple[int, ...]] | None = None

    @cached_property
    def curves(self) -> tuple[BlerCurve, ...]:
        """Block error rates over AWGN of the candidates' packets."""
        return tuple(map(self._curve_of, self._entries))

    @cached_property
    def _modulations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.modulation for entry in self._entries))

    def effective_snr_db(self, context: UplinkContext) -> NDArray[np.float64]:
        """Effective SNR of every device at full power by candidate, `[num_trials, num_devices, candidates]` [dB]."""
        at_full_power = 0.5 * self._base.config.max_power / self._base.config.channel.noise_power

        def information(powers: NDArray[np.float64]) -> NDArray[np.float64]:
            snr_db = 10.0 * np.log10(np.maximum(at_full_power * powers, 1e-30))
            return np.stack([mean_information(one, snr_db) for one in self._modulations], axis=1)

        found = self._base.carrier_powers(context, information)
        by_modulation = [snr_of_information(one, found[..., n]) for n, one in enumerate(self._modulations)]
        return np.stack([by_modulation[self._modulations.index(one.modulation)] for one in self._entries], axis=-1)

    def choose(self, context: UplinkContext) -> NDArray[np.int64]:
        """Place of the entry of every device in this round, `[num_trials, num_devices]`."""
        probed = context.round_index - self._config.outdated_rounds
        if probed < 0:
            return np.zeros((len(context.trials), self._base.num_devices), np.int64)
        snr_db = self.effective_snr_db(replace(context, round_index=probed))
        if self._config.adapt == "outer-loop":
            snr_db = snr_db + self.offset_db(context)[..., None]
        needed_db = np.array([curve.snr_db(self._config.target_bler) for curve in self.curves])
        able = (snr_db >= needed_db)[..., self._order]
        last = able.shape[-1] - 1 - able[..., ::-1].argmax(axis=-1)
        return np.where(able.any(axis=-1), self._order[last], 0)

    def offset_db(self, context: UplinkContext) -> NDArray[np.float64]:
        """Offset of every device in this round, `[num_trials, num_devices]` [dB]."""
        if self._whose != (context.seed, context.trials):
            self._whose, self._known = (context.seed, context.trials), {}
        shape = (len(context.trials), self._base.num_devices)
        return self._known.get(context.round_index, np.zeros(shape))

    def update(self, context: UplinkContext, counts: LinkCounts) -> None:
        """Set the offsets of the next round from what arrived in this one."""
        if self._config.adapt != "outer-loop":
            return
        here, now = self.offset_db(context), context.round_index
        following = move_offset(here, counts, target=self._config.target_bler, step_db=self._config.step_db)
        self._known = {now: here, now + 1: following}

    def state(self) -> Mapping[str, Any]:
        """See `DigitalUplink.state`: offsets of the last round and of the next one, and whose they are."""
        if self._whose is None:
            return {"offsets": None}
        seed, trials = self._whose
        known = {str(number): offsets for number, offsets in self._known.items()}
        return {"offsets": {"seed": str(seed), "trials": np.array(trials, np.int64), "known": known}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `DigitalUplink.restore`."""
        kept = state["offsets"]
        self._whose, self._known = None, {}
        if kept is None:
            return
        trials = tuple(int(trial) for trial in kept["trials"])
        shape = (len(trials), self._base.num_devices)
        for number, offsets in kept["known"].items():
            fits = isinstance(offsets, np.ndarray) and offsets.dtype == np.float64 and offsets.shape == shape
            if not (number.isdecimal() and fits):
                raise LinkError(f"offsets of round {number} must be of {shape} trials and devices")
        self._whose = (int(kept["seed"]), trials)
        self._known = {int(number): offsets.copy() for number, offsets in kept["known"].items()}
