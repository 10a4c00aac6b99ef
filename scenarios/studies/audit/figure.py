"""Figure of an audit: the refuted epsilons as a bar, the claimed ones as marks on the same line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privacy.events.claims import Claim
from scenarios.report.figures.style import STYLE, wrap
from scenarios.studies.audit.results import Audits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE = "audit"
_MARKS = {
    ("paper", "as published"): ("D", "white", "as published"),
    ("paper", "proved"): ("D", "#222222", "proved, as published"),
    ("basic", "proved"): ("s", "#222222", "proved, basic composition"),
    ("exact", "proved"): ("o", "#222222", "proved, closed form"),
    ("pld", "proved"): ("^", "#222222", "proved, privacy loss distribution"),
}
_FOR_THE_RUN = {
    "as published": ("P", "white", "as published, for the whole run"),
    "proved": ("P", "#222222", "proved, for the whole run"),
}
_OTHER = ("v", "white", "claimed otherwise")
_INFINITY = r"$\infty$"
_BAR: dict[str, Any] = {"facecolor": "#9a9a9a", "edgecolor": "#222222", "hatch": "///"}
_POINT: dict[str, Any] = {"linestyle": "", "color": "#222222"}
_WIDE = 30.0
_LINE = 0.46


def draw_audit(audits: Audits) -> Figure:
    """A row per point; epsilon along x, logarithmic but for 0 where it spans much, infinity at the right edge."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter

    results = [audited.result for _, audited in audits.done]
    lower = [result.epsilon_lower for result in results]
    shown = [[claim for claim in audited.claims if claim.order is None] for _, audited in audits.done]
    finite = [claim.epsilon for claims in shown for claim in claims if math.isfinite(claim.epsilon)]
    top = max([*lower, *finite, 0.1])
    least = min([value for value in (*lower, *finite) if value > 0.01], default=top)
    wide = top / least > _WIDE
    edge = top * (3.0 if wide else 1.18)
    labels = [wrap(audits.label(point), width=2.6) for point, _ in audits.done]
    confidence = 100.0 * results[0].confidence
    with rc_context(STYLE):
        rows = [max(1.0, 0.55 * (label.count("\n") + 1)) for label in labels]
        figure = Figure(figsize=(7.4, 1.9 + _LINE * sum(rows)), layout="constrained")
        axes = figure.subplots()
        seen: dict[tuple[str, str, str], None] = {}
        unbounded = False
        places = [sum(rows[:row]) + rows[row] / 2.0 for row in range(len(rows))]
        for place, bound, claims in zip(places, lower, shown, strict=True):
            axes.barh(place, bound, height=0.5, linewidth=0.8, **_BAR)
            for claim in claims:
                if math.isfinite(claim.epsilon):
                    shape, fill, _ = mark = _mark_of(claim)
                    seen.setdefault(mark)
                    look: dict[str, Any] = {
                        "marker": shape,
                        "markerfacecolor": fill,
                        "markersize": 7,
                        "markeredgewidth": 1.4,
                    }
                    axes.plot(claim.epsilon, place, zorder=3, clip_on=False, **_POINT, **look)
                else:
                    unbounded = True
                    axes.plot(edge, place, marker=_INFINITY, markersize=11, zorder=3, **_POINT)
        axes.set_yticks(places, labels)
        axes.set_ylim(sum(rows) + 0.1, -0.1)
        if wide:
            axes.set_xscale("symlog", linthresh=10.0 ** math.floor(math.log10(max(least, 1e-3))))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlim(0.0, edge * (1.5 if wide else 1.05))
        deltas = {result.delta for result in results}
        axes.set_xlabel(f"ε at δ = {deltas.pop():g} [nats]" if len(deltas) == 1 else "ε, each at its own δ [nats]")
        axes.grid(visible=True, axis="x", color="#d9d9d9", linewidth=0.7)
        handles: list[Any] = [Patch(label=f"refuted by games ({confidence:g} % conf.)", **_BAR)]
        handles += [
            Line2D([], [], marker=shape, markerfacecolor=fill, label=label, **_POINT) for shape, fill, label in seen
        ]
        if unbounded:
            handles.append(Line2D([], [], marker=_INFINITY, label="no ε claimed", **_POINT))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _mark_of(claim: Claim) -> tuple[str, str, str]:
    """Shape, fill and words of a claim."""
    if claim.scope == "run":
        return _FOR_THE_RUN[claim.standing]
    return _MARKS.get((claim.accountant, claim.standing), _OTHER)
