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

    >>> channel = phyloop.Channel("site.npz")
    >>> channel.statistics.gain_db, channel.dispersion.angular_spread_deg
    >>> channel.figures()["Power over delay"].savefig("delay.pdf")

    Raises:
        ScenarioError: the file holds no channel that could be simulated.
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
        """Return the figures of `phyloop channel show` by title."""
        from scenarios.report.figures.channels import page_figures

        return page_figures(self.trace, self.statistics, self.dispersion)

    def report(self, out: str | Path) -> Path:
        """Write the page of `phyloop channel show`, one HTML file; return its path."""
        from scenarios.report.channel import write_channel_page

        return write_channel_page(self.trace, self.statistics, self.dispersion, Path(out))
