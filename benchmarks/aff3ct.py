"""The simulator of AFF3CT (C++, SIMD) on the same chains, where its binary is given.

    python benchmarks/all_chains.py --aff3ct PATH      # its command lines are printed with the table

What it prints as SIM_THR is read: information bits per second [Mbit/s] through source, encoder, modem, channel, decoder
and the count of errors, on all cores. Bits are one per 32-bit word on its way and are not packed. Symbols are drawn by
its fast generators; fading is per symbol, for it has no blocks. LDPC: base graph 1 with lifting 192, k = 4224 and
n = 8448 (the same graph, rate and lifting as ours for k = 4096, n = 8192, without filler bits), all-zero code words
and no encoder, layered normalised min-sum on 6-bit values in 16-bit words (AFF3CT 3.0.2 refuses bytes), one frame per
SIMD lane, which ends at code words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from coded import LDPC_ITERATIONS
from rivals import Chain

from phy.coding.ldpc.plan import PUNCTURED_COLUMNS, plan_ldpc
from phy.config import BITS_PER_SYMBOL

FRAME_BITS = 6144
"""Of an uncoded frame: whole symbols of every constellation, and short enough for the second-level cache."""
LDPC_K, LDPC_N = 4224, 8448
TIMEOUT_S = 120.0


class Aff3ctError(Exception):
    """The binary did not do what was asked for; the sentence says what it said."""


def command(binary: Path, chain: Chain, *, matrix: Path, seconds: int) -> list[str] | None:
    """What simulates the chain for so long; None for those that it has not. `matrix`: file of the LDPC code."""
    run = [
        *(str(binary), "--sim-noise-type", "ESN0", "-m", f"{chain.snr_db:.2f}", "-M", f"{chain.snr_db:.2f}", "-s", "1"),
        *("--sim-stop-time", str(seconds), "--mnt-max-fe", "1000000000", "--ter-freq", "0"),
        *("--src-implem", "FAST", "--chn-implem", "FAST"),
    ]
    bits = BITS_PER_SYMBOL[chain.modulation]
    modem = ["--mdm-type", "BPSK"] if bits == 1 else ["--mdm-type", "QAM", "--mdm-bps", str(bits), "--mdm-max", "MAX"]
    if chain.channel in ("AWGN", "Rayleigh per symbol"):
        channel = "AWGN" if chain.channel == "AWGN" else "RAYLEIGH"
        return [*run, "-C", "UNCODED", "-K", str(FRAME_BITS), *modem, "--chn-type", channel]
    if chain.channel == "LDPC":
        columns = plan_ldpc(LDPC_K, LDPC_N, bits_per_symbol=bits).num_columns
        pattern = ",".join("0" if column < PUNCTURED_COLUMNS else "1" for column in range(columns))
        return [
            *(*run, "-C", "LDPC", "--src-type", "AZCW", "--enc-type", "AZCW", "--enc-info-bits", str(LDPC_K), *modem),
            *("--chn-type", "AWGN", "--pct-type", "LDPC", "--pct-fra-size", str(LDPC_N), "--pct-pattern", pattern),
            *("--sim-prec", "16", "--qnt-bits", "6", "--qnt-dec", "2", "--dec-h-path", str(matrix)),
            *("--dec-type", "BP_HORIZONTAL_LAYERED", "--dec-implem", "NMS", "--dec-norm", "0.75"),
            *("--dec-simd", "INTER", "--dec-ite", str(LDPC_ITERATIONS)),
        ]
    return None


def write_matrix(file: Path) -> None:
    """The parity checks in AFF3CT's QC format: columns, rows, lifting; then shifts to the right, -1 where none is."""
    plan = plan_ldpc(LDPC_K, LDPC_N, bits_per_symbol=2)
    shifts = np.full((plan.num_layers, plan.num_columns), -1)
    layer = np.repeat(np.arange(plan.num_layers), np.diff(plan.layer_start))
    shifts[layer, plan.column] = plan.shift
    rows = [f"{plan.num_columns} {plan.num_layers} {plan.lifting_size}", ""]
    file.write_text("\n".join([*rows, *(" ".join(map(str, row)) for row in shifts.tolist())]) + "\n")


def throughput(said: str) -> float:
    """Mbit/s of the last line of results: the first number behind the last double bar."""
    lines = [line for line in said.splitlines() if "||" in line and not line.lstrip().startswith("#")]
    if not lines:
        raise ValueError("no line of results")
    return float(lines[-1].rsplit("||", 1)[1].split("|")[0])


def rate_of(command_line: list[str]) -> Callable[[], float]:
    """A call that runs it once and tells Mbit/s. It raises Aff3ctError with what the simulator said."""

    def measure() -> float:
        try:
            done = subprocess.run(command_line, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
            return throughput(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as problem:
            said = getattr(problem, "stderr", None) or ""
            raise Aff3ctError(f"{command_line[0]}: {problem}; {str(said).strip()[-300:]}") from problem

    return measure
