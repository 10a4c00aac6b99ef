"""A few small jobs of every scenario family, and their results as digests; run as a program, in one process alone."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.engine.batch import Finished, InProcess, Job
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import Point
from scenarios.schema.loader import load_scenario
from scenarios.store.blobs import Blob
from scenarios.store.trials import SERIES_TABLES

_FLMC = ("learning.rounds=20", "learning.burn_in=10")
_OFDM = ("learning.rounds=3", "learning.burn_in=1")
_DIGITS = ("learning.data=digits", "learning.partition={kind: iid}", "learning.num_devices=10", "learning.rounds=2")

FAST: dict[str, tuple[str, ...]] = {
    "flmc-snr": _FLMC,
    "fedavg-digits": ("learning.rounds=3",),
    "bitflip-moments": ("learning.rounds=3", "learning.draws=50"),
}
ALL: dict[str, tuple[str, ...]] = FAST | {
    "bitflip-mechanisms": ("learning.rounds=2", "link.probe_bits=1000"),
    "attack-inversion": ("learning.rounds=1", "learning.num_devices=20"),
    "flmc-epsilon": _FLMC,
    "flmc-quantizer": _FLMC,
    "flmc-rayleigh": _FLMC,
    "flmc-error-models": _FLMC,
    "flmc-jammer": _FLMC,
    "flmc-coded-ofdm": _OFDM,
    "flmc-analog-ofdm": _OFDM,
    "flmc-bursts": _OFDM,
    "fedavg-bursts": ("learning.rounds=1",),
    "bitflip-bound": ("learning.rounds=2",),
    "bitflip-kappa": ("learning.dimension=100", "learning.num_pairs=20"),
    "attack-membership": ("learning.rounds=1", "learning.num_devices=20"),
    "cpa-snr": _DIGITS,
    "cpa-table4-mlp": _DIGITS,
    "probit-attacks": _DIGITS,
    "probit-personal": _DIGITS,
    "one-bit-fading": _DIGITS,
    "aircomp-schemes": _DIGITS,
    "aircomp-power": _DIGITS,
    "aircomp-antennas": _DIGITS,
    "aircomp-privacy": (_DIGITS[0], _DIGITS[1], "learning.num_devices=100", "learning.rounds=2"),
}
"""Overrides that make one scenario of each family small."""

_POINTS, _TRIALS = 3, 4


def small_jobs(names: Iterable[str]) -> list[Job]:
    """Two jobs of two trials for points spread over the sweep of each scenario."""
    points: list[Point] = []
    for name in names:
        every = expand(load_scenario(name, overrides=ALL[name])).points
        some = every[:: max(len(every) // _POINTS, 1)][:_POINTS]
        points += [
            Point(index=len(points) + place, settings=one.settings, scenario=one.scenario)
            for place, one in enumerate(some)
        ]
    return [Job(point=one, trials=(first, first + 1)) for first in range(0, _TRIALS, 2) for one in points]


def digests(finished: Iterable[Finished]) -> dict[str, dict[str, str]]:
    """SHA-256 of every number that is stored, by task and by what it is."""
    told: dict[str, dict[str, str]] = {}
    for one in finished:
        for about, content in rows_of(one):
            for row, trial in enumerate(about["numbers"]):
                task = f"{one.point}/{trial}"
                assert task not in told
                told[task] = {"failure": str(one.failures.get(trial)), "account": content["account"]}
                for table in ("metrics", "ledger", *SERIES_TABLES):
                    told[task] |= {f"{table} {name}": _digest(array[row]) for name, array in content[table].items()}
    return told


def rows_of(finished: Finished) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each batch of what was computed, and its content."""
    place = 0
    while place < len(finished.rows):
        blob = Blob(io.BytesIO(finished.rows), start=place, most=len(finished.rows))
        yield json.loads(blob.about)["batch"], blob.read()
        place = blob.end


def differing(found: Mapping[str, Mapping[str, str]], expected: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Tasks and numbers of theirs that are not the same."""
    return [
        f"{task} {name}"
        for task in sorted({*found, *expected})
        for name in sorted({*found.get(task, {}), *expected.get(task, {})})
        if found.get(task, {}).get(name) != expected.get(task, {}).get(name)
    ]


def _digest(array: np.ndarray | np.float64) -> str:
    value = np.ascontiguousarray(array)
    return hashlib.sha256(f"{value.dtype} {value.shape} ".encode() + value.tobytes()).hexdigest()


def main(out: str, names: Sequence[str]) -> None:
    """Compute the jobs here and write what came of them."""
    Path(out).write_text(json.dumps(digests(InProcess().run(small_jobs(names), progress=Progress()))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
