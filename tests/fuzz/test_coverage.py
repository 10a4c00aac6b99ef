"""Inputs that reach new lines of the loader keep its law, too: atheris for `PHYLOOP_FUZZ_SECONDS` (60)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "fuzz_scenarios.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="atheris comes as a wheel for Linux only")
def test_what_a_coverage_guided_fuzzer_writes_is_told_or_taken(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="install it with pip install '.[fuzz]'")
    seconds = int(os.environ.get("PHYLOOP_FUZZ_SECONDS", "60"))
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(corpus), f"-max_total_time={seconds}", f"-artifact_prefix={tmp_path}/"],
        capture_output=True,
        text=True,
        timeout=seconds + 300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
    runs = re.findall(r"Done (\d+) runs", done.stderr)
    assert runs
    assert int(runs[0]) > 10 * seconds
