"""One table of every chain in every engine and peer, what rounds cost, and how cost grows.

    python benchmarks/all_chains.py [--quick] [--aff3ct PATH] [--markdown FILE]

Rates are medians over turns in one run; ratios are medians of the ratios of single turns. `--quick` shows a few rows
with few turns. `--aff3ct` is the path of AFF3CT's simulator (`aff3ct.py` says what it is asked for); scikit-commpy and
pyldpc are taken where they are installed. `--markdown` writes the tables to a file as well.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import aff3ct
import flmc_point
import numpy as np
import peers
import round_costs
from chains import EVERY, FEW
from coded import LDPC_N
from ldpc import FRAMES, POINTS, received, sionna_decoder
from rivals import Chain, Rival, digital
from timing import SLOW_TURNS, half_spread, interleaved_rates, markdown_table, print_table, turn_ratios

from phy.engines.choice import instructions
from phy.numerics.workers import available_threads
from scenarios.files.provenance import find_cpu_model

COLUMNS = {
    "fused": "fused [Mbit/s]",
    "sionna": "Sionna engine",
    "plain": "plain Sionna XLA",
    "peer": "commpy / pyldpc",
    "aff3ct": "AFF3CT",
}
RATIOS = {"sionna": "fused / engine", "plain": "fused / plain", "aff3ct": "fused / AFF3CT"}
REPEATS, QUICK_REPEATS = 7, 2
AFF3CT_SECONDS = 2
VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
ABSENT = "-"
NOTES = (
    "Received bits are packed, but for OFDM in plain Sionna, scikit-commpy's and pyldpc's go through one more call of "
    "NumPy, and AFF3CT's stay one per word. Ours also counts errors, energies and how errors lie together. Plain "
    "Sionna's Viterbi decoder runs in graph mode: XLA does not compile it within minutes.",
    "scikit-commpy works in double precision on one core; pyldpc decodes a regular code of its own of the same length "
    "and rate, noisy zeros without an encoder, one block at a time on one core. AFF3CT decodes the same base graph at "
    "k = 4224, n = 8448, zeros without an encoder, and runs on all cores.",
)


@dataclass
class Report:
    """What was printed, to be written as Markdown too."""

    pieces: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """A paragraph."""
        print(text + "\n", flush=True)
        self.pieces.append(text)

    def table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        """A table."""
        print_table(header, rows)
        print(flush=True)
        self.pieces.append(markdown_table(header, rows))


def paced(rival: Rival) -> Callable[[], float]:
    """A call that carries the rival's bits and tells Mbit/s."""

    def measure() -> float:
        start = time.perf_counter()
        rival.call()
        return rival.bits / 1e6 / (time.perf_counter() - start)

    return measure


def written(rate: float) -> str:
    """Three digits that count, no exponents."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def spread(values: list[float]) -> str:
    """Median, and half of the distance between the quartiles."""
    return f"{written(statistics.median(values))} ± {half_spread(values):.2g}"


def row_of(name: str, calls: dict[str, Callable[[], float]], *, repeats: int) -> tuple[str, ...]:
    """Rates and ratios of a chain, by who can do it."""
    told = interleaved_rates(calls, repeats=repeats)
    print(f"... {name}, {time.process_time():.0f} s of processor so far", file=sys.stderr, flush=True)
    rates = [spread(told[who]) if who in told else ABSENT for who in COLUMNS]
    over = [
        spread(turn_ratios(told["fused"], told[who])) if {who, "fused"} <= told.keys() else ABSENT for who in RATIOS
    ]
    return (name, *rates, *over)


def chain_calls(chain: Chain, *, binary: Path | None, matrix: Path) -> dict[str, Callable[[], float]]:
    """Who can do the chain, ready to be timed."""
    calls = {who: paced(build()) for who, build in chain.rivals.items()}
    peer = peers.peer_of(chain)
    if peer is not None:
        calls["peer"] = paced(peer())
    command = aff3ct.command(binary, chain, matrix=matrix, seconds=AFF3CT_SECONDS) if binary is not None else None
    if command is not None:
        print(" ".join(command), file=sys.stderr)
        calls["aff3ct"] = aff3ct.rate_of(command)
    return calls


def decoder_rows(*, repeats: int) -> list[tuple[str, ...]]:
    """The decoders of ours and of Sionna alone, on the same LLRs; `ldpc.py` compares their errors."""
    sionna, rows = sionna_decoder(), []
    for point in POINTS:
        _, llrs = received(point.ebno_db, seed=1)
        bits, ours = FRAMES * LDPC_N // 2, point.decoder
        calls = {
            "fused": paced(Rival(bits, partial(ours.decode, llrs))),
            "plain": paced(Rival(bits, partial(sionna, llrs))),
        }
        how = f"at most {point.iterations} iterations" if point.early_stop else f"all of {point.iterations} iterations"
        rows.append(row_of(f"5G LDPC decoder alone, Eb/N0 {point.ebno_db:g} dB, {how}", calls, repeats=repeats))
    return rows


def every_chain(report: Report, *, quick: bool, binary: Path | None) -> None:
    """The table of chains."""
    repeats = QUICK_REPEATS if quick else REPEATS
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder) / "base-graph-1.qc"
        aff3ct.write_matrix(matrix)
        rows += [
            row_of(chain.name, chain_calls(chain, binary=binary, matrix=matrix), repeats=repeats)
            for chain in (FEW if quick else EVERY)
        ]
    if not quick:
        rows += decoder_rows(repeats=repeats)
    here = peers.installed()
    missing = [name for name in ("scikit-commpy", "pyldpc") if name not in here]
    report.table(("chain", *COLUMNS.values(), *RATIOS.values()), rows)
    report.say(
        f"Medians of {repeats} turns in one run (of calls above half a second: {SLOW_TURNS}), ± half of the distance "
        "between the quartiles. "
        + (f"{' and '.join(missing)}: not installed. " if missing else "")
        + ("AFF3CT: not given." if binary is None else f"AFF3CT: {binary}.")
    )
    for note in NOTES:
        report.say(note)


def every_round(report: Report) -> None:
    """What rounds and trials cost, each in a process of its own."""
    found, rows = {name: round_costs.measured(name) for name in ("large", "cpa")}, []
    bits = round_costs.NUM_DEVICES * round_costs.NUM_BITS
    for name, said in (
        ("round of 20 devices x 27.8 Mbit, QPSK over Rayleigh per packet", bits),
        ("CPA round, 1000 devices, linear model, one bit per weight", None),
    ):
        cost = found["large" if said else "cpa"]
        rate = f"{said / cost['seconds'] / 1e6:.0f} Mbit/s" if said else f"{1.0 / cost['seconds']:.1f} rounds/s"
        rows.append((name, f"{cost['seconds']:.3f}", f"{cost['cpu']:.3f}", f"{cost['gigabytes']:.2f}", rate))
    for scheme in flmc_point.STEP:
        cost = flmc_point.measured("phyloop", scheme)
        rows.append(
            (
                f"FLMC point, {scheme}: {flmc_point.TRIALS} trials of {flmc_point.ROUNDS} rounds",
                f"{cost['compiled']:.2f}",
                f"{cost['cpu_compiled']:.2f}",
                f"{cost['gigabytes']:.2f}",
                f"{flmc_point.TRIALS / cost['compiled']:.0f} trials/s",
            )
        )
    report.table(("one call, compiled", "seconds", "CPU seconds", "peak GB", "rate"), rows)


def growth(report: Report, *, quick: bool) -> None:
    """Cost over bits, devices and cores."""
    repeats = QUICK_REPEATS if quick else REPEATS
    link = {
        "modulation": "qpsk",
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "power": {"policy": "fixed", "snr_max_db": 20.0},
    }
    bits = tuple(1 << power for power in (18, 21, 24) + (() if quick else (27,)))
    devices = (1, 10, 100, 1000) + (() if quick else (10_000,))
    by_bits = {f"{n:,} bits": digital(link, engine="fused", num_bits=n) for n in bits}
    by_devices = {f"{k:,} devices": many(link, num_devices=k, num_bits=1 << 14) for k in devices}
    for what, rivals in (("one device", by_bits), ("16,384 bits each", by_devices)):
        told = interleaved_rates({name: paced(rival) for name, rival in rivals.items()}, repeats=repeats, slow_s=10.0)
        rates = {name: statistics.median(values) for name, values in told.items()}
        seconds = [f"{rivals[name].bits / 1e6 / rate:.4f}" for name, rate in rates.items()]
        report.table(
            (f"QPSK over Rayleigh per packet, {what}", *rivals),
            [("seconds", *seconds), ("Mbit/s", *(written(rate) for rate in rates.values()))],
        )
    if not hasattr(os, "sched_setaffinity"):
        report.say("Cores: this system cannot hold a process to some of them.")
        return
    cores = [count for count in (1, 2, 4, 8, 16, 32) if count <= available_threads()]
    found = [round_costs.measured("rates", count) for count in cores]
    rows = [
        (
            name,
            *(written(one[name]) for one in found),
            f"{found[-1][name] / found[0][name]:.2f}",
        )
        for name in round_costs.RATED
    ]
    heads = [f"{count} core{'s' if count > 1 else ''} [Mbit/s]" for count in cores]
    report.table(("fused", *heads, "last / first"), rows)


def many(link: dict[str, Any], *, num_devices: int, num_bits: int) -> Rival:
    """Devices that send so many bits each in one round."""
    import itertools

    from phy.compile import compile_digital
    from phy.config import LinkConfig
    from phy.fading.block_taps import UplinkContext

    config = LinkConfig.model_validate({"access": "orthogonal", **link, "engine": "fused"})
    uplink = compile_digital(config, num_devices=num_devices, num_bits=num_bits)
    payload = np.random.default_rng(1).integers(0, 256, (1, num_devices, num_bits // 8), dtype=np.uint8)
    rounds = itertools.count()
    return Rival(
        8 * payload.size,
        lambda: uplink.send(payload, context=UplinkContext(seed=1, trials=(0,), round_index=next(rounds)), caps={}),
    )


def machine() -> str:
    """CPU with its vector instructions, cores and versions."""
    vectors = " ".join(name for name in VECTORS if name in instructions())
    packages = ("tensorflow", "sionna-no-rt", "numba", "numpy")
    versions = {name: version(name) for name in packages} | peers.installed()
    return (
        f"{find_cpu_model()} ({vectors or 'vector instructions unknown'}), {available_threads()} cores, "
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {number}" for name, number in versions.items())
    )


def main(arguments: list[str]) -> int:
    """Print all tables; exit 2 for a binary that is not there or does not do it."""
    parser = argparse.ArgumentParser(description="every chain in every engine and peer")
    parser.add_argument("--quick", action="store_true", help="few rows and few turns")
    parser.add_argument("--aff3ct", type=Path, metavar="PATH", help="AFF3CT's simulator")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    asked = parser.parse_args(arguments)
    if asked.aff3ct is not None and not os.access(asked.aff3ct, os.X_OK):
        print(f"{asked.aff3ct} cannot be run; give the path of AFF3CT's simulator", file=sys.stderr)
        return 2
    report, started = Report(), time.perf_counter()
    report.say(f"{machine()}.")
    try:
        every_chain(report, quick=asked.quick, binary=asked.aff3ct)
    except aff3ct.Aff3ctError as error:
        print(error, file=sys.stderr)
        return 2
    every_round(report)
    growth(report, quick=asked.quick)
    print(f"{time.perf_counter() - started:.0f} s in all", file=sys.stderr)
    if asked.markdown is not None:
        asked.markdown.write_text("\n\n".join(report.pieces) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
