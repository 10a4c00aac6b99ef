"""Who sits on which of the link's resources: all devices always, or only those who take part where that is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config import FedAvgConfig
from fl.results import LINK_COUNTS
from fl.uplink.exchange import digital_link
from phy.config import LinkConfig
from phy.links.link import Reception


class Slots:
    """Seats of the link.

    Where every device's channel has the same law and nothing of it lasts from round to round, the `devices_per_round`
    that take part are given seats anew, and no others are simulated. Else every device keeps its own seat; silent ones
    stay off the air where others share their resources, and what they would have heard or cost is not counted.
    """

    def __init__(self, config: FedAvgConfig, *, link: LinkConfig) -> None:
        self._num_devices = config.num_devices
        some = config.participation.devices_per_round
        links = [link] if config.downlink == "ideal" else [link, config.downlink]
        self._shared = some is not None and all(exchangeable(one) for one in links)
        self.count = some if some is not None and self._shared else config.num_devices
        self._meet = not digital_link(link).plain

    def seat(self, devices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Seats of some devices, ascending."""
        return np.arange(len(devices)) if self._shared else devices

    def owners(self, devices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The device on every seat `[count]` when `devices` take part; an empty seat belongs to device 0."""
        owners = np.zeros(self.count, np.int64) if self._shared else np.arange(self._num_devices)
        owners[self.seat(devices)] = devices
        return owners

    def empty(self, devices: NDArray[np.int64]) -> tuple[int, ...]:
        """Seats of which the link has to know that nobody sends on them when `devices` do.

        None where every device has resources of its own: a million of them would be listed for nobody, round by round.
        """
        if not self._meet:
            return ()
        return tuple(np.setdiff1d(np.arange(self.count), self.seat(devices)).tolist())

    def spread(self, values: NDArray[np.float32], seat: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of those who send on their seats, `[count, M]`; zeros elsewhere."""
        if len(seat) == self.count:
            return values
        out = np.zeros((self.count, values.shape[1]), values.dtype)
        out[seat] = values
        return out

    def place(
        self,
        values: NDArray[Any],
        seat: NDArray[np.int64],
        devices: NDArray[np.int64],
        *,
        elsewhere: float | None = None,
    ) -> NDArray[Any]:
        """Numbers of seats `[count]` as numbers of devices `[num_devices]`.

        Others have `elsewhere`; if that is left out NaN, or 0 for counts.
        """
        if elsewhere is None:
            elsewhere = np.nan if values.dtype.kind == "f" else 0
        out = np.full(self._num_devices, elsewhere, values.dtype)
        out[devices] = values[seat]
        return out

    def link_series(
        self, heard: Reception, seat: NDArray[np.int64], devices: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        """Counts of the radio by device."""
        series = {name: getattr(heard.counts, name)[0] for name in LINK_COUNTS}
        if heard.power_db is not None:
            series["power_db"] = heard.power_db[0]
        # Who did not send has no SNR, but spent exactly nothing.
        nothing = {"airtime_s": 0.0, "energy_j": 0.0}
        return {name: self.place(values, seat, devices, elsewhere=nothing.get(name)) for name, values in series.items()}


def exchangeable(link: LinkConfig) -> bool:
    """Whether any device on any seat in any round meets the same law, whatever was before."""
    channel = link.channel
    drawn = channel.fades or channel.selective or link.csi_error_variance > 0.0
    lasting = channel.coherence in ("run", "doppler") and drawn
    own_gain = isinstance(channel.gain, tuple) or channel.cell is not None
    return not (lasting or own_gain or link.power.policy == "closed-loop" or link.access == "noma")
