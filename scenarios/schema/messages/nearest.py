"""The known key or word that a user most likely meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import product

_SYNONYMS = {
    "clients": "devices",
    "users": "devices group_size",
    "workers": "devices",
    "attackers": "attack_share",
    "fraction": "share devices_per_round",
    "share": "devices_per_round",
    "fraction_fit": "devices_per_round",
    "participants": "devices_per_round",
    "epochs": "steps",
    "iterations": "steps iterations",
    "minibatch": "batch_size",
    "eta": "learning_rate",
    "step_size": "learning_rate",
    "max_grad_norm": "clip",
    "concentration": "alpha",
    "beta": "alpha",
    "retries": "retransmissions",
    "classes": "labels",
    "byzantine": "attack",
    "sampling": "participation",
    "ratio": "share",
    "repetitions": "trials",
    "runs": "trials",
    "bler": "packet_error_rate",
    "ber": "bit_error_rate",
    "dataset": "data",
    "optimiser": "optimizer",
    "layers": "hidden",
    "eps": "epsilon",
    "total": "budget",
    "velocity": "speed",
    "ebn0": "ebno",
    "esn0": "esno",
    "code_rate": "rate",
    "k_factor": "rician_k",
    "threshold": "cutoff",
    "fft_size": "num_subcarriers",
    "cp": "cyclic_prefix",
    "antennas": "num_antennas",
    "block": "packet packet_errors",
    "time_limit": "max_seconds",
    "minutes": "seconds",
    "begin": "start",
    "from": "start",
    "min": "start",
    "end": "stop",
    "to": "stop",
    "max": "stop",
    "title": "name title",
    "samples": "train_samples samples_per_device samples",
    "warmup": "burn_in",
    "non_iid": "dirichlet",
    "harq": "retransmit_combine",
    "type": "kind name code model",
    "kind": "name",
    "name": "kind",
    "metric": "y metric",
    "hue": "series",
    "curves": "series",
    "plots": "report",
    "ofdma": "orthogonal",
    "tdma": "orthogonal",
    "aircomp": "superposition fedavg",
    "air": "superposition",
    "ota": "superposition",
    "4qam": "qpsk",
    "16": "16qam crc16",
    "awgn": "constant",
    "constant": "fixed",
    "fedprox": "fedavg",
    "fedsgd": "fedavg",
    "federated_averaging": "fedavg",
    "fl": "fedavg",
    "fedavg": "mean",
    "average": "mean",
    "float32": "binary32",
    "float": "binary32",
    "quantized": "uniform",
    "linear_regression": "gaussian_linear",
    "fmnist": "fashion-mnist",
    "femnist": "emnist",
    "signsgd": "sign",
    "softmax": "linear",
    "logistic": "linear",
    "flip_bits": "invert",
    "bit_flip": "invert",
    "analytic": "dp-accounting",
}
"""Words of the field, and the part of our names that means the same, or several such parts."""

_COMMON = {"num", "max", "min", "per", "device", "db", "s", "hz", "m", "rate", "error", "power"}
"""Parts that many names share."""


def nearness(written: str, known: str) -> float:
    """Return the similarity of two names from 0 to 1.

    Case and hyphens do not count. A part of a name, as `devices` of `num_devices`, and the initials of its parts, as
    `lr` of `learning_rate`, are near. Names without its numbers, as 256qam or qpsk for 32qam, are not.
    """
    return max(_alike(written, parts, _split(known)) for parts in _meanings(written))


def _alike(written: str, one: list[str], other: list[str]) -> float:
    alike = SequenceMatcher(None, written.lower(), "_".join(other)).ratio()
    if sorted(one) == sorted(other) or "".join(one) == "".join(other):
        return 1.0
    numbers = [sorted(re.findall(r"\d+", "_".join(parts))) for parts in (one, other)]
    if numbers[0] and numbers[0] != numbers[1]:
        return 0.0
    initials = "".join(part[0] for part in other) if len(other) > 1 else None
    if set(one) <= set(other) or set(other) <= set(one) or "".join(one) == initials:
        return 0.8 + 0.1 * alike
    common = (set(one) & set(other)) - _COMMON  # noise_variance, noise_power
    return max(alike, 0.7) if common or "".join(other).startswith("".join(one)) else alike


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"[^a-z0-9]+", name.lower()) if part]


def _meanings(name: str) -> list[list[str]]:
    """The parts of a name as written, and with the synonyms of the whole name or of its parts."""
    own = _split(name)
    whole = _SYNONYMS.get("_".join(own), "").split()
    parts = product(*([part, *_SYNONYMS.get(part, "").split()] for part in own))
    return [_split("_".join(words)) for words in (*((one,) for one in whole), *parts)]


def nearest(written: object, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the most similar known word, or None if the similarity of all is below `least`."""
    word = str(written)
    best = max(known, key=lambda other: nearness(word, other), default=None)
    return best if best is not None and nearness(word, best) >= least else None
