"""Error rates over the axis: measured points, closed forms and the caption of a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, cast, get_args

import numpy as np

from fl.config.measured import LINK_RATES
from scenarios.report.figures.curves import Drawing, Shown, Spot, sort_into_panels
from scenarios.schema.schema import Axis, FigureConfig
from scenarios.studies.link.closed_form import theory

if TYPE_CHECKING:
    from scenarios.studies.link.plan import LinkPlan
    from scenarios.studies.link.results import CurveResult, PointResult

DENSE = 201
"""Points of a drawn closed form."""


def figures_of(plan: LinkPlan, configured: Sequence[FigureConfig]) -> tuple[FigureConfig, ...]:
    """The figures of a study: those the scenario names that are about rates over an axis, or bits and packets."""
    own = tuple(logarithmic(config) for config in configured if config.x in get_args(Axis))
    return own or tuple(FigureConfig(x=plan.measure.over, y=y, y_scale="log") for y in LINK_RATES[:2])


def logarithmic(config: FigureConfig) -> FigureConfig:
    """The same figure on a logarithmic axis, unless it is about something else or says which axis it wants."""
    if config.x not in get_args(Axis) or "y_scale" in config.model_fields_set:
        return config
    return config.model_copy(update={"y_scale": "log"})


def arrange(config: FigureConfig, plan: LinkPlan, results: Sequence[CurveResult]) -> Drawing:
    """Sort measured points and closed forms into panels and curves."""
    by_device = "device" in config.series_paths
    shown = list(chain.from_iterable(_measured(config, result, by_device) for result in results))
    closed = list(chain.from_iterable(_closed_forms(config, result, by_device) for result in results))
    return Drawing(
        config=config,
        panels=sort_into_panels(config, plan.swept_paths, shown, theory=closed),
        caption=_caption(plan, config, results, [spot for _, _, spot in shown], theory=bool(closed)),
    )


def _devices(result: CurveResult, by_device: bool) -> list[tuple[int | None, str]]:
    return [(device, f"device {device}") for device in range(result.curve.num_devices)] if by_device else [(None, "")]


def _measured(config: FigureConfig, result: CurveResult, by_device: bool) -> Iterator[Shown]:
    for device, word in _devices(result, by_device):
        for found in result.points:
            x = result.curve.budget.value_db(found.point.esno_db, cast(Axis, config.x))
            if (spot := _spot(config.y, x, found, device)) is not None:
                yield result.curve.point, word, spot


def _spot(quantity: str, x: float, found: PointResult, device: int | None) -> Spot | None:
    if quantity == "raw_bit_error_rate":  # hard decisions before any decoder; without an error nothing is drawn
        chosen = slice(None) if device is None else slice(device, device + 1)
        errors, bits = (int(found.measured.count(name)[chosen].sum()) for name in ("raw_bit_errors", "raw_bits"))
        return Spot(x=x, y=errors / bits, n=bits) if errors else None
    rates = found.of(device)
    estimate = rates.bits if quantity == "bit_error_rate" else rates.packets
    if estimate is None:
        return None
    return Spot(x=x, y=estimate.rate, low=estimate.low, high=estimate.high, n=estimate.observations)


def _closed_forms(config: FigureConfig, result: CurveResult, by_device: bool) -> Iterator[Shown]:
    curve = result.curve
    esno_db = np.linspace(curve.points[0].esno_db, curve.points[-1].esno_db, DENSE)
    for device, word in _devices(result, by_device):
        rates = None if config.y == "raw_bit_error_rate" else theory(curve, config.y, esno_db, device=device)
        if rates is not None:
            values_db = esno_db + curve.budget.value_db(0.0, cast(Axis, config.x))
            for x, rate in zip(values_db.tolist(), rates.tolist(), strict=True):
                yield curve.point, word, Spot(x=x, y=rate)


def _caption(
    plan: LinkPlan, config: FigureConfig, results: Sequence[CurveResult], spots: Sequence[Spot], *, theory: bool
) -> str:
    points = [point for result in results for point in result.points]
    if not points:
        return "No point has been measured yet."
    percent = f"{100 * plan.measure.confidence:g} %"
    text = (
        "Hard decisions before any decoder."
        if config.y == "raw_bit_error_rate"
        else (
            f"Bars: {percent} interval of each point (Korn and Graubard), from the spread between independent "
            "transmissions, so that errors in bursts widen it."
        )
    )
    if any(spot.y is None for spot in spots):
        text += f" {_arrows(results, config.y)}"
    if theory:
        text += " Dashed: closed form."
    if any(point.stop is not None and point.stop.reason == "time" for point in points):
        text += " Some points were ended by max_seconds: how far they came depends on the machine."
    if any(point.stop is None for point in points):
        text += " Some points are not finished."
    return f"{text} Points share random numbers, so neighbours err alike. Seed {plan.seed}."


def _arrows(results: Sequence[CurveResult], quantity: str) -> str:
    """What the upper limits take as independent."""
    kinds = {result.curve.independent for result in results}
    units = "transmissions" if "transmissions" in kinds else "packets"
    if quantity == "packet_error_rate":
        return f"Arrows: one-sided upper limit where no error was seen, from the number of independent {units}."
    if kinds == {"bits"}:
        return "Arrows: one-sided upper limit where no error was seen; bits of this link err independently."
    besides = " (independent bits where nothing else joins them)" if "bits" in kinds else ""
    return (
        f"Arrows: one-sided upper limit where no error was seen, from the number of independent {units}, half of whose "
        f"bits may be wrong{besides}."
    )
