"""Kernels: the same machine code for whoever compiles them and whoever finds them on disk, in any order."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.event import end_event, start_event
from numpy.typing import NDArray

from phy.numerics.compiled import aligned_zeros, compilations, contracted, inlined, shared

JOBS = ("link", "sums", "packets", "training")
INTEGER_PARTS = {"draw_lanes", "draw_listed", "draw_words", "_draw_words"}
"""Parts that may stay functions of their own."""

PROCESS = r"""
import hashlib, re, sys
import numba
import numpy as np
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

WHERE = UplinkContext(seed=1, trials=(0, 1), round_index=3)
FADING = {"fading": "rayleigh", "coherence": "packet"}
POWER = {"policy": "truncated-inversion", "snr_max_db": 20, "cutoff_db": -10}
TDL = {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3}

def sent(link, num_bits=9000):
    config = LinkConfig.model_validate({"access": "orthogonal", "packet_size_bytes": 120, "engine": "fused", **link})
    uplink = compile_digital(config, num_devices=3, num_bits=num_bits)
    payload = np.random.default_rng(1).integers(0, 256, (2, 3, num_bits // 8), np.uint8)
    found = uplink.send(payload, context=WHERE, caps={})
    return found.payload, found.counts.transmit_energy, found.counts.signal_energy, found.decision.level

def link():
    return sent({"modulation": "16qam", "channel": FADING, "power": POWER, "csi": {"error_variance": 0.01}})

def packets():
    power = {"policy": "fixed", "snr_max_db": 13}
    return sent({"modulation": "qpsk", "channel": TDL, "ofdm": {}, "csi": {"estimator": "lmmse"}, "power": power})

def sums():
    link = {"access": "superposition", "modulation": "bpsk", "channel": FADING, "power": POWER, "packet_size_bytes": 64}
    uplink = compile_air(LinkConfig.model_validate({**link, "engine": "fused"}), num_devices=5, num_symbols=3000)
    payload = np.random.default_rng(2).integers(0, 256, (2, 5, 375), np.uint8)
    found = uplink.superpose(payload, context=WHERE, caps={})
    return found.received, found.energy_j

def training():
    from fl.local.linear_kernel import Rule, Task, train_linear
    draws, (samples, pixels, classes) = np.random.default_rng(3), (60, 77, 10)
    images, labels = draws.integers(0, 256, (samples, pixels), np.uint8), draws.integers(0, classes, samples, np.int32)
    start = draws.normal(0, 0.1, (1, (pixels + 1) * classes)).astype(np.float32)
    batches = np.arange(samples).reshape(1, 3, 20)
    task = Task(images, labels, start, batches, np.full((1, 3), 20), np.full(3, 2))
    rule = Rule(*(np.float32(n) for n in (0.1, 0.0, 0.01, 0.1, 0.5, 1 / 255, 0.0)))
    out = np.empty((3, start.size), np.float32)
    return (*train_linear(rule, task, classes=classes, velocity=None, out=out), out)

for job in sys.argv[1:]:
    found = b"".join(np.ascontiguousarray(array).tobytes() for array in globals()[job]())
    print(job, hashlib.sha256(found).hexdigest())
for name, module in sorted(sys.modules.items()):
    for kernel in list(vars(module).values()) if name.split(".")[0] in ("phy", "fl") else ():
        if isinstance(kernel, type(numba.njit(lambda: None))) and kernel.__module__ == name:
            for path in kernel.stats.cache_misses:
                defined = re.findall(r"^define [^@]*@(\S+)\(", kernel.inspect_llvm(path), re.MULTILINE)
                for function in defined:
                    parts = re.match(r"_ZN(?:2fl|3phy)(.*?)B\d+v", function)
                    if parts:
                        print("defined", kernel.__name__, re.split(r"\d+", parts[1])[-1])
"""


def found_by(cache: Path, *jobs: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Hashes of the results of jobs, one after the other in a new process, and (kernel, function) pairs it compiled."""
    environment = {"NUMBA_CACHE_DIR": str(cache), "PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, *jobs], env=environment, capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[0]: line[1] for line in lines if line[0] != "defined"}, {
        (line[1], line[2]) for line in lines if line[0] == "defined"
    }


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], set[tuple[str, str]], Path]:
    cache = tmp_path_factory.mktemp("kernels")
    return *found_by(cache, *JOBS), cache


def test_bits_and_sums_do_not_depend_on_the_order_in_which_kernels_are_compiled_or_loaded(
    compiled: tuple[dict[str, str], set[tuple[str, str]], Path], tmp_path: Path
) -> None:
    expected, _, cache = compiled
    assert set(expected) == set(JOBS)
    assert found_by(cache, *reversed(JOBS)) == (expected, set())  # all found on disk
    found_by(tmp_path, "sums")
    # The kernel of gains is found on disk, compiled for sums; the others are compiled here.
    assert found_by(tmp_path, "link", "packets")[0] == {job: expected[job] for job in ("link", "packets")}


def test_kernels_call_only_parts_that_compute_integers(
    compiled: tuple[dict[str, str], set[tuple[str, str]], Path],
) -> None:
    _, defined, _ = compiled
    assert {kernel for kernel, _ in defined} >= {"_carry", "_measure", "_superpose", "_train"}
    assert {function for kernel, function in defined if function != kernel} <= INTEGER_PARTS
    assert ("_carry", "draw_lanes") in defined


@pytest.mark.parametrize("part", [contracted, inlined, shared])
def test_parts_have_no_machine_code_of_their_own(
    part: Callable[..., Callable[..., int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted: list[str] = []
    finalize = JITCodeLibrary._finalize_specific
    monkeypatch.setattr(
        JITCodeLibrary, "_finalize_specific", lambda library: (emitted.append(library.name), finalize(library))
    )
    double = part(lambda i: i + i)
    assert numba.njit(lambda i: double(i) + 1)(3) == 7
    assert len([name for name in emitted if "<lambda>" in name]) == 1


@pytest.mark.parametrize(("part", "asks"), [(numba.njit, True), (contracted, False), (inlined, False), (shared, False)])
def test_parts_go_through_vectors_without_asking_whether_arrays_overlap(
    part: Callable[..., Callable[..., None]], asks: bool
) -> None:
    def add(values: NDArray[np.int16], sums: NDArray[np.int16]) -> None:
        for i in range(len(sums)):
            sums[i] = np.int16(sums[i] + values[i])

    added, sums = part(add), np.arange(32, dtype=np.int16)
    kernel = numba.njit(lambda values, sums: added(values, sums))
    kernel(np.ones(32, np.int16), sums)
    assert np.array_equal(sums, np.arange(1, 33))
    (compiled,) = kernel.inspect_llvm().values()
    assert " x i16>" in compiled
    assert ("vector.memcheck" in compiled) == asks


@pytest.mark.parametrize("part", [contracted, inlined, shared])
def test_parts_are_functions_of_python_for_python_code(part: Callable[..., Callable[..., int]]) -> None:
    def squares(count: int) -> int:
        return sum(i * i for i in range(count))

    assert part(squares)(4) == 14


@pytest.mark.parametrize("before", [True, False])
def test_cycles_are_collected_after_compilations_as_before_them(before: bool) -> None:
    assert compilations.under_way == 0
    was = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        start_event("numba:compile")
        start_event("numba:compile")
        end_event("numba:compile")
        assert not gc.isenabled()
        end_event("numba:compile")
        assert gc.isenabled() == before
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize("shape", [1, 1040, (3, 32), (2, 5)])
def test_scratch_arrays_begin_at_a_cache_line(shape: int | tuple[int, ...]) -> None:
    for kind in (np.uint8, np.int16, np.float32, np.float64):
        array = aligned_zeros(shape, kind)
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
        assert np.array_equal(array, np.zeros(shape, kind))
        assert array.dtype == kind


def test_machine_code_stays_in_its_folder_where_numba_was_imported_first_and_a_variable_of_numba_changed(
    tmp_path: Path,
) -> None:
    process = """
import os, numba
import phy.numerics.compiled

os.environ["NUMBA_NUM_THREADS"] = "1"
numba.njit(lambda: None)()  # reads the variables

from phy.numerics.random_kernels import fill_real_normals
print(fill_real_normals.stats.cache_path, numba.config.CPU_FEATURES)
"""
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", process], env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.split()[0]).is_relative_to(tmp_path)
    assert ("-prefer-256-bit" in done.stdout) == ("avx512f" in done.stdout)
