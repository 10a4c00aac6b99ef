"""The index of each sender on the link: all devices always, or those that take part where that is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import I64
from fl.base.recorder import Recorder, link_columns
from fl.uplink.plan import UploadPlan
from phy.config import LinkConfig
from phy.config.mcs import is_by_device
from phy.links.link import Reception

_SILENT = {"airtime_s": 0.0, "energy_j": 0.0}
"""Counts of a device that did not send: it has no SNR, but it spent exactly nothing."""


class SenderIndex:
    """Indices 0 to `count` - 1 of the devices that the link simulates.

    Where every device's channel has the same law and nothing of it lasts from round to round, the `devices_per_round`
    that take part get indices anew in each round, and no others are simulated. Otherwise, and where channels decide who
    takes part, the index is the number. `alone`: few of many devices send, and numbers of those alone are encoded.
    """

    def __init__(self, plan: UploadPlan, *, link: LinkConfig) -> None:
        self._num_devices = plan.num_devices
        some = plan.devices_per_round
        links = [link] if plan.downlink is None else [link, plan.downlink]
        self._shared = some is not None and not plan.chosen_by_channel and all(exchangeable(one) for one in links)
        self.count = some if some is not None and self._shared else plan.num_devices
        self.alone = plan.chosen_by_channel and self.count > (some or self.count)
        self._named = self.alone or not link.resolve_digital().plain

    def of(self, devices: I64) -> I64:
        """Return the indices of devices, ascending."""
        return np.arange(len(devices)) if self._shared else devices

    def owners(self, devices: I64) -> I64:
        """Return the device of every index `[count]` when `devices` take part; an unused one belongs to device 0."""
        owners = np.zeros(self.count, np.int64) if self._shared else np.arange(self._num_devices)
        owners[self.of(devices)] = devices
        return owners

    def unused(self, devices: I64) -> tuple[int, ...]:
        """Return the indices that stay off the air when `devices` send.

        Empty where each has its own resources, and is simulated without harm.
        """
        if not self._named:
            return ()
        return tuple(np.setdiff1d(np.arange(self.count), self.of(devices)).tolist())

    def spread(self, values: NDArray[Any], at: I64) -> NDArray[Any]:
        """Return the rows `values` `[K, M]` of senders at their indices `at`, `[count, M]`; zeros elsewhere."""
        if len(at) == self.count:
            return values
        out = np.zeros((self.count, values.shape[1]), values.dtype)
        out[at] = values
        return out

    def place(self, name: str, values: NDArray[Any], devices: I64) -> NDArray[Any]:
        """Return the numbers `name` by index `[count]` as those of `devices`, `[num_devices]`; of others NaN, or 0."""
        elsewhere = _SILENT.get(name, np.nan if values.dtype.kind == "f" else 0)
        out = np.full(self._num_devices, elsewhere, values.dtype)
        out[devices] = values[self.of(devices)]
        return out

    def report(
        self,
        record: Recorder,
        reception: Reception,
        *,
        round_index: int,
        senders: I64,
        numbers: Mapping[str, float],
        observed: Mapping[str, NDArray[Any]],
    ) -> None:
        """Note a round: its `numbers`, `observed` numbers by index `[count]`, and the counts of the link."""
        columns = link_columns(reception.counts, power_db=reception.power_db)
        if reception.mcs is not None:
            observed = {**observed, "mcs": reception.mcs[0].astype(np.float64)}
        record.note(
            round_index,
            rounds=numbers,
            link={name: self.place(name, values[0], senders) for name, values in columns.items()},
            devices={name: self.place(name, values, senders) for name, values in observed.items()},
        )
        record.note_bursts(reception.bursts)


def exchangeable(link: LinkConfig) -> bool:
    """Return True if all devices have the same link in every round, by law, independent of earlier rounds."""
    own_level = isinstance(link.channel.gain, tuple) or isinstance(link.power.written[1], tuple)
    return not (link.lasting or own_level or is_by_device(link.mcs) or link.access == "noma")
