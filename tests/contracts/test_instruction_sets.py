"""What arrives over a link does not depend on the instructions, the cores or the switches of a processor.

A process for each limit, because libraries read their limits when they are loaded; `.ci/limit` has all of them.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from ten_links import LINKS

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the limits are those of x86-64")

TREE = Path(__file__).parents[2]
TEN_LINKS = TREE / "tests" / "helpers" / "ten_links.py"
KERNEL = """
import numpy as np
from phy.numerics.compiled import contracted_kernel

@contracted_kernel
def scaled(values, out):
    for place in range(len(values)):
        out[place] = values[place] * values[place] + np.float32(1.0)
"""
CALL = """
import json, re, numpy as np
from own_kernel import scaled
values = np.arange(64, dtype=np.float32)
scaled(values, np.empty_like(values))
code = "".join(scaled.inspect_asm().values())
found = {name: len(re.findall(name, code)) > 0 for name in ("zmm", "ymm", "vfmadd")}
print(json.dumps({"hits": sum(scaled.stats.cache_hits.values()), **found}))
"""


def limited(limit: str, *arguments: str | Path, **variables: str) -> subprocess.Popen[str]:
    """Start Python under a limit."""
    command = [TREE / ".ci" / "limit", limit, sys.executable, *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=TREE, env={**os.environ, "PYTHONPATH": str(TREE), **variables}
    )


def finished(process: subprocess.Popen[str]) -> list[str]:
    """Wait for a process and return the lines that it wrote."""
    lines = process.communicate()[0].splitlines()
    assert process.returncode == 0
    return lines


FEW = ("bpsk-awgn", "16qam-ldpc", "noma-sic", "ofdm-tdl")
"""A limit is another instruction set, for which every kernel of a link is compiled anew."""
LIMITS = ("avx2", "sse4", "plain", "one-core", "four-cores")


@pytest.mark.parametrize(
    ("limit", "links"),
    [("avx2", FEW), *(pytest.param(limit, tuple(LINKS), marks=pytest.mark.slow, id=limit) for limit in LIMITS)],
)
def test_bits_received_over_links_are_those_without_a_limit(limit: str, links: tuple[str, ...]) -> None:
    both = [limited(name, TEN_LINKS, "auto", *links) for name in ("native", limit)]
    expected, found = ({name: rest for name, *rest in map(json.loads, finished(process))} for process in both)
    assert tuple(expected) == links
    assert found == expected
    # Noise counts: with all bits right, equal bits say little.
    assert min(wrong for _, wrong in expected.values()) > 1000


def test_machine_code_of_one_instruction_set_is_not_taken_for_another(tmp_path: Path) -> None:
    (tmp_path / "own_kernel.py").write_text(KERNEL)
    where = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{TREE}:{tmp_path}"}
    for turn in range(2):
        for limit, vectors in (("avx2", (False, True, True)), ("sse4", (False, False, False))):
            (line,) = finished(limited(limit, "-c", CALL, **where))
            found = json.loads(line)
            assert found.pop("hits") == turn
            if turn == 0:  # numba does not show code that it found on disk
                assert tuple(found.values()) == vectors
