"""The same command on a finished folder changes no byte in it, whatever the kind of study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import phyloop
from scenarios.engine.run import run_study
from scenarios.files.log import LOG
from scenarios.studies import prepare
from scenarios.studies.status import read_status

FEDAVG = {
    "name": "small",
    "link": {"modulation": "qpsk", "power": {"snr_max_db": 10}},
    "learning": {"algorithm": "fedavg", "data": "digits", "model": "linear", "num_devices": 4, "rounds": 2},
}
MEASURE: dict[str, Any] = {"values": [0, 4, 60], "stop": {"bit_errors": 50, "max_bits": 100_000}}
LINK = {
    "name": "small",
    "link": {"modulation": "qpsk"},
    "measure": MEASURE,
}
AUDIT = {"name": "small", "learning": {"algorithm": "flmc", "rounds": 4, "burn_in": 0}, "privacy": {"epsilon": 5}}


def verify(out: Path) -> Any:
    study, _ = prepare.verify(only=["flmc-caps-digital"], fast=True, seed=None, out=out, debug=False)
    return run_study(study, folder=out)


STUDIES: dict[str, Callable[[Path], Any]] = {
    "run": lambda out: phyloop.run(FEDAVG, out=out),
    "link": lambda out: phyloop.link_study(LINK, out=out),
    "verify": verify,
    "audit": lambda out: phyloop.audit(AUDIT, out=out, games=200),
}


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != LOG]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


@pytest.mark.parametrize("kind", list(STUDIES))
def test_the_same_command_again_changes_no_file(kind: str, tmp_path: Path) -> None:
    STUDIES[kind](tmp_path / "out")
    before = files(tmp_path / "out")
    assert len(before) > 2
    STUDIES[kind](tmp_path / "out")
    assert files(tmp_path / "out") == before


def test_a_point_that_is_measured_further_has_not_failed(tmp_path: Path) -> None:
    for bit_errors in (50, 500):
        stop = {**MEASURE["stop"], "bit_errors": bit_errors}
        phyloop.link_study({**LINK, "measure": {**MEASURE, "stop": stop}}, out=tmp_path)
    status = read_status(tmp_path)
    assert (status.attempts, status.failed) == (0, 0)
