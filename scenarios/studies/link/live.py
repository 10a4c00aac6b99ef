"""The table that grows while a study runs: a row per finished point, and on a terminal the point in hand below it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from phy.measure.monte_carlo import StopRule
from scenarios.studies.link.batches import Measured
from scenarios.studies.link.plan import Curve, LinkPlan, LinkPoint
from scenarios.studies.link.report import plain
from scenarios.studies.link.results import PointResult
from scenarios.studies.link.run import Listener
from scenarios.studies.link.words import cells, heads, seconds

WIDTHS = (10, 14, 9, 36, 9, 9, 36, 9, 0)
"""Columns of the table; the last is aligned to the left."""
_REFRESH_S = 0.2


@contextmanager
def live_table(plan: LinkPlan, rule: StopRule, *, console: Console | None = None) -> Iterator[Listener]:
    """A listener that prints to standard output; plain lines where that is no terminal."""
    console = console or Console(soft_wrap=True, highlight=False)
    table = _Table(plan, rule, console)
    try:
        yield Listener(curve=table.curve, batch=table.batch, point=table.point, skipped=table.skipped)
    finally:
        table.close()


class _Table:
    def __init__(self, plan: LinkPlan, rule: StopRule, console: Console) -> None:
        self._plan, self._rule, self._console = plan, rule, console
        self._status = Status("starting", console=console) if console.is_terminal else None
        self._refreshed = 0.0
        if self._status is not None:
            self._status.start()

    def close(self) -> None:
        """Take the line of the point in hand away."""
        if self._status is not None:
            self._status.stop()

    def curve(self, curve: Curve) -> None:
        """A heading and the column heads."""
        devices = f"{curve.num_devices} device{'s' if curve.num_devices > 1 else ''}"
        bits = f"{curve.shape.transmissions * curve.shape.num_bits:,} bits a batch"
        number = f"curve {curve.index + 1} of {len(self._plan.curves)}"
        self._print(f"\n{plain(curve.label)}  ({number}, {devices}, {bits})")
        self._print(_row(heads(self._plan)))

    def batch(self, point: LinkPoint, measured: Measured) -> None:
        """How far the point in hand is."""
        if self._status is None or time.monotonic() - self._refreshed < _REFRESH_S:
            return
        self._refreshed = time.monotonic()
        bits, packets = measured.tally.bits, measured.tally.packets
        self._status.update(
            f"{point.value_db:g} dB: {bits.observations:,} bits, {bits.errors:,} wrong; {packets.observations:,} "
            f"packets, {packets.errors:,} wrong; {seconds(measured.seconds)} of {self._rule.max_seconds:g} s"
        )

    def point(self, result: PointResult, added: int) -> None:
        """The finished row; what was already stored says so."""
        row = _row(cells(result))
        self._print(row if added else f"{row}, stored")

    def skipped(self, points: Sequence[LinkPoint], silent: LinkPoint) -> None:
        """Rows that are not needed."""
        values = ", ".join(f"{point.value_db:g}" for point in points)
        self._print(f"  skipped: {values} dB, for no error was seen at {silent.value_db:g} dB")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _row(texts: tuple[str, ...]) -> str:
    aligned = (text.rjust(width) for text, width in zip(texts[:-1], WIDTHS, strict=False))
    return "  ".join((*aligned, texts[-1]))
