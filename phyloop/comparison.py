"""Several runs in one figure and one table."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from phyloop.arguments import checked
from phyloop.results import Run, curve_table
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Curve
from scenarios.report.figures.style import render
from scenarios.schema.errors import ScenarioError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Curves of several runs.

    - `table`: as `Run.curve` returns it, with the column `run` in front;
    - `figure`: the curves in one matplotlib figure, in the style of the report.
    """

    table: pd.DataFrame
    figure: Figure

    def _repr_html_(self) -> str:
        picture = b64encode(render(self.figure, "png")).decode()
        shown = self.table.to_html(index=False, max_rows=20, border=0)
        return f'<img src="data:image/png;base64,{picture}" width="640">{shown}'


@checked
def compare(
    runs: Mapping[str, Run],
    *,
    y: str,
    x: str,
    series: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    **style: str,
) -> Comparison:
    """Draw the curves of several runs in one figure.

    Args:
        runs: name of each run in the legend, and the run.
        y: as in `Run.curve`.
        x: as in `Run.curve`.
        series: as in `Run.curve`.
        where: as in `Run.curve`.
        style: as in `Run.plot`.

    Returns:
        The curves as a table and as a figure. A notebook shows both.

    Raises:
        ScenarioError: there is no run, or a run has no such x, y or series.

    Example:
        >>> import phyloop
        >>> few = {"sweep": {"link.power.snr_max_db": [10]}, "learning.rounds": 3}
        >>> runs = {
        ...     f"{devices} devices": phyloop.run(
        ...         "fedavg-digits", trials=1, set={**few, "learning.num_devices": devices}, out=f"runs/{devices}"
        ...     )
        ...     for devices in (5, 10)
        ... }
        >>> both = phyloop.compare(runs, y="test_accuracy", x="round")
        >>> both.table[["run", "round"]].values.tolist()[2:4]
        [['5 devices', 3.0], ['10 devices', 1.0]]
        >>> both.figure.axes[0].get_xlabel()
        'rounds'
    """
    if not runs:
        raise ScenarioError(key="runs", problem="is empty", remedy="give at least one run, as {name: run}")
    drawings = {name: run._drawing_of(y, x=x, series=series, where=where, **style) for name, run in runs.items()}
    table = pd.concat([curve_table(one).assign(run=name) for name, one in drawings.items()], ignore_index=True)
    table.insert(0, "run", table.pop("run"))
    curves: list[Curve] = []
    for name, drawing in drawings.items():
        for curve in (curve for _, some in drawing.panels for curve in some):
            label = ", ".join(filter(None, (name, curve.label)))
            curves.append(replace(curve, label=label, series=len(curves)))
    joined = replace(next(iter(drawings.values())), panels=(("", tuple(curves)),))
    return Comparison(table=table, figure=draw(joined))
