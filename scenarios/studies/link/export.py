"""link_points.csv: one row per point and device, and one for all devices together."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phy.measure.monte_carlo import LinkTally, RateEstimate
from scenarios.report.tables.cells import csv_record
from scenarios.schema.errors import ScenarioError
from scenarios.store.files import Replacement
from scenarios.store.store import canonical_json
from scenarios.studies.link.batches import AMOUNTS, COUNTS
from scenarios.studies.link.closed_form import theory
from scenarios.studies.link.level import LABELS
from scenarios.studies.link.plan import LinkPlan, setting_of
from scenarios.studies.link.results import CurveResult, PointResult, read_results
from scenarios.studies.link.store import LinkStore

NAME = "link_points.csv"
ALL = "all"
RATES = ("bit_error_rate", "packet_error_rate")


def export_study(folder: Path, out: Path, *, plan: LinkPlan) -> Path:
    """Write `link_points.csv` of the study in `folder` into `out`, whole or not; ScenarioError if it cannot be.

    Columns: the swept settings, `curve` (its label), the level on all three axes [dB], `device` (from 0, or `all`),
    counts, energies and airtime as in `LinkCounts`, and for bits and packets rate, interval and design effect as drawn,
    `measured_esno_db` from the energies observed, the closed form where there is one, seconds, batches, and why the
    point ended. A rate that stopped on its target of errors is the unbiased estimate, not errors over observations:
    `..._unbiased` says 1 there, else 0. An empty cell is a value that does not exist.
    """
    if out.exists() and not out.is_dir():
        raise ScenarioError(file=out, problem="is a file, not a folder", remedy="name a folder for the CSV files")
    with LinkStore.open_existing(folder) as store:
        results = read_results(store, plan)
    rows = [row for result in results for point in result.points for row in _rows(plan, result, point)]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=columns_of(plan), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(csv_record, rows))
    try:
        out.mkdir(parents=True, exist_ok=True)
        with Replacement(out / NAME) as file:
            file.write(buffer.getvalue().encode())
    except OSError as error:
        raise ScenarioError(
            file=out,
            problem=f"CSV files cannot be written here ({error.strerror})",
            remedy="choose a folder on a writable disk",
        ) from error
    return out / NAME


def columns_of(plan: LinkPlan) -> list[str]:
    """Column names."""
    rates = [
        f"{rate}{part}" for rate in RATES for part in ("", "_unbiased", "_low", "_high", "_design_effect", "_theory")
    ]
    return [
        *plan.swept_paths,
        "curve",
        *LABELS,
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
    head: dict[str, Any] = {path: _setting(setting_of(curve.point, path)) for path in plan.swept_paths}
    head["curve"] = curve.label
    head |= {axis: round(curve.budget.value_db(point.point.esno_db, axis), 9) for axis in LABELS}
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
            **_clusters(tally),
            **foot,
        }


def _clusters(tally: LinkTally) -> dict[str, Any]:
    return {"transmissions": tally.packets.clusters}


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


def _setting(value: Any) -> Any:
    if value is None:
        return ""
    return canonical_json(value) if isinstance(value, (Mapping, list, tuple)) else value
