"""link_points.csv: one row per point and device, and one for all devices together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from scenarios.report.settings import csv_value, setting_of
from scenarios.report.tables.table import csv_row
from scenarios.schema.schema import Axis
from scenarios.studies.link.batches import AMOUNTS, COUNTS
from scenarios.studies.link.closed_form import theory

if TYPE_CHECKING:
    from phy.measure.monte_carlo import RateEstimate
    from scenarios.studies.link.plan import LinkPlan
    from scenarios.studies.link.results import CurveResult, PointResult

NAME = "link_points.csv"
ALL = "all"
RATES = ("bit_error_rate", "packet_error_rate")


def csv_rows(plan: LinkPlan, results: Sequence[CurveResult]) -> Iterator[str]:
    """Rows of the points that hold a batch, in the columns of `columns_of`."""
    columns = columns_of(plan)
    for result in results:
        for point in result.points:
            for row in _rows(plan, result, point):
                yield csv_row(row.get(name, "") for name in columns)


def columns_of(plan: LinkPlan) -> list[str]:
    """Columns of `link_points.csv`.

    The swept settings, `curve` (its label), the level on all three axes [dB], `device` (from 0, or `all`), counts,
    energies and airtime as in `LinkCounts`, and for bits and packets rate, interval and design effect as drawn,
    `measured_esno_db` from the energies observed, the closed form where there is one, seconds, batches, and why the
    point ended. A rate that stopped on its target of errors is the unbiased estimate, not errors over observations:
    `..._unbiased` says 1 there, else 0. An empty cell is a value that does not exist.
    """
    rates = [
        f"{rate}{part}" for rate in RATES for part in ("", "_unbiased", "_low", "_high", "_design_effect", "_theory")
    ]
    return [
        *plan.swept_paths,
        "curve",
        *get_args(Axis),
        "device",
        *COUNTS,
        *rates,
        *AMOUNTS,
        "measured_esno_db",
        "transmissions",
        "batches",
        "seconds",
        "stop",
        "stop_target",
    ]


def _rows(plan: LinkPlan, result: CurveResult, point: PointResult) -> Iterator[dict[str, Any]]:
    curve, num_devices = result.curve, result.curve.num_devices
    head: dict[str, Any] = {path: csv_value(setting_of(curve.point, path)) for path in plan.swept_paths}
    head["curve"] = curve.label
    head |= {axis: round(curve.budget.value_db(point.point.esno_db, axis), 9) for axis in get_args(Axis)}
    foot = {
        "batches": point.measured.tally.batches,
        "seconds": point.measured.seconds,
        "stop": "" if point.stop is None else point.stop.reason,
        "stop_target": "" if point.stop is None or point.stop.target is None else point.stop.target,
    }
    devices: Sequence[int | None] = (None, *range(num_devices)) if num_devices > 1 else (None,)
    for device in devices:
        chosen = slice(None) if device is None else slice(device, device + 1)
        tally = point.measured.tally if device is None else point.measured.devices[device]
        counts = {name: int(point.measured.count(name)[chosen].sum()) for name in COUNTS}
        amounts = {name: float(point.measured.amount(name)[chosen].sum()) for name in AMOUNTS}
        rates = point.of(device)
        yield {
            **head,
            "device": ALL if device is None else device,
            **counts,
            **_estimate("bit_error_rate", rates.bits),
            **_estimate("packet_error_rate", rates.packets),
            **{f"{rate}_theory": _number(theory(curve, rate, point.point.esno_db, device=device)) for rate in RATES},
            **amounts,
            "measured_esno_db": _ratio_db(amounts["signal_energy"], amounts["noise_energy"]),
            "transmissions": tally.packets.clusters,
            **foot,
        }


def _estimate(name: str, estimate: RateEstimate | None) -> dict[str, Any]:
    if estimate is None:
        return {}
    return {
        name: "" if estimate.rate is None else estimate.rate,
        f"{name}_unbiased": int(estimate.rate not in (None, estimate.errors / estimate.observations)),
        f"{name}_low": estimate.low,
        f"{name}_high": estimate.high,
        f"{name}_design_effect": estimate.design_effect,
    }


def _ratio_db(signal: float, noise: float) -> float | str:
    return float(10.0 * np.log10(signal / noise)) if signal > 0 and noise > 0 else ""


def _number(value: Any) -> float | str:
    return "" if value is None else float(value)
