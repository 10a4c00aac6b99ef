"""A recorded channel in Python: its numbers, its figures and its page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from phy.traces.dispersion import Dispersion
    from phy.traces.statistics import ChannelStatistics
    from phy.traces.trace import Trace


@dataclass(frozen=True)
class Channel:
    """A file of a recorded channel, which is read when its numbers are asked for.

    Raises:
        ScenarioError: the file holds no channel that could be simulated.

    Example:
        >>> import numpy as np, phyloop
        >>> from phyloop.channel import save_channel
        >>> taps = np.ones((4, 2, 1, 3)) * np.exp(1j * np.arange(4.0))[:, None, None, None]
        >>> _ = save_channel("walk.npz", h=taps, sample_rate_hz=1e6, snapshot_s=0.1)
        >>> channel = phyloop.Channel("walk.npz")
        >>> channel.trace.num_snapshots, channel.trace.num_devices
        (4, 2)
    """

    file: str | Path

    @cached_property
    def trace(self) -> Trace:
        """Axes, times and snapshots."""
        from scenarios.report.channel import open_channel

        return open_channel(Path(self.file), sound=True)

    @cached_property
    def statistics(self) -> ChannelStatistics:
        """Gains, delay spreads, K-factor and correlation over time, as arrays."""
        from phy.traces.statistics import channel_statistics

        return channel_statistics(self.trace)

    @cached_property
    def dispersion(self) -> Dispersion:
        """Power over delay of each device, spread over angles, correlation of antennas, as arrays."""
        from phy.traces.dispersion import channel_dispersion

        return channel_dispersion(self.trace)

    def figures(self) -> dict[str, Figure]:
        """Return the figures of `phyloop channel show`.

        Returns:
            A figure of Matplotlib by its title.

        Example:
            >>> import numpy as np, phyloop
            >>> from phyloop.channel import save_channel
            >>> taps = np.ones((4, 2, 1, 3)) * np.exp(1j * np.arange(4.0))[:, None, None, None]
            >>> _ = save_channel("walk.npz", h=taps, sample_rate_hz=1e6, snapshot_s=0.1)
            >>> phyloop.Channel("walk.npz").figures()["Power over delay"].savefig("delay.pdf")
        """
        from scenarios.report.figures.channels import page_figures

        return page_figures(self.trace, self.statistics, self.dispersion)

    def report(self, out: str | Path) -> Path:
        """Write the page of `phyloop channel show`, one HTML file.

        Args:
            out: path of the page.

        Returns:
            The path.

        Example:
            >>> import numpy as np, phyloop
            >>> from phyloop.channel import save_channel
            >>> taps = np.ones((4, 2, 1, 3)) * np.exp(1j * np.arange(4.0))[:, None, None, None]
            >>> _ = save_channel("walk.npz", h=taps, sample_rate_hz=1e6, snapshot_s=0.1)
            >>> phyloop.Channel("walk.npz").report("walk.html").name
            'walk.html'
        """
        from scenarios.report.channel import write_channel_page

        return write_channel_page(self.trace, self.statistics, self.dispersion, Path(out))
