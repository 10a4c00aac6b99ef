"""Draw the stored results of `flmc-fair` as a PNG: `python benchmarks/fair_figure.py docs/flmc-fair.png`.

Two panels, equal airtime and equal energy, of the 2-Wasserstein distance to the posterior over the proved epsilon of
the run. Levels of 2 and 4 bits lie on the curve of analog, and 2 bit planes between analog and 4: they are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scenarios.report.figures import style
from scenarios.report.figures.draw import PAPER, PAPER_DPI, draw
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.published import read_reference
from scenarios.schema.schema import FigureConfig

METRIC, EPSILON = "wasserstein2", "privacy.budget.epsilon"
SERIES = ("analog", "1 bit", "4 bit planes", "1 bit, coded")
PANELS = ("equal airtime", "equal energy")


def drawing() -> Drawing:
    """The figure before it is drawn."""
    rows = [row for row in read_reference("flmc-fair") if row["metric"] == METRIC]

    def curve(number: int, label: str, panel: str) -> Curve:
        found = [row for row in rows if row["label"] == f"{label}, {panel}"]
        spots = (
            Spot(x=float(row[EPSILON]), y=float(row["mean"]), low=float(row["low"]), high=float(row["high"]))
            for row in found
        )
        return Curve(label=label, series=number, spots=(*spots,))

    panels = tuple((one, tuple(curve(*pair, one) for pair in enumerate(SERIES))) for one in PANELS)
    return Drawing(config=FigureConfig(x=EPSILON, y=METRIC, x_scale="log", y_scale="log"), panels=panels, caption="")


if __name__ == "__main__":
    for file in sys.argv[1:]:
        Path(file).write_bytes(style.render(draw(drawing(), inches=PAPER[2]), "png", dpi=PAPER_DPI))
        print(file)
