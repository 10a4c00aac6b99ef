"""The known key or word that a user most likely meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

from scenarios.schema.errors import listing, shorten

_SYNONYMS = {
    "clients": "devices",
    "users": "devices",
    "workers": "devices",
    "epochs": "steps",
    "dataset": "data",
    "eps": "epsilon",
    "velocity": "speed",
    "code_rate": "rate",
    "k_factor": "rician_k_db",
    "non_iid": "dirichlet",
    "harq": "retransmit_combine",
    "participation_fraction_fit": "devices_per_round",
    "participation_fraction": "devices_per_round",
    "participation_share": "devices_per_round",
    "noma_users": "group_size",
    "fraction": "share",
    "attackers": "devices",
    "fmnist": "fashion_mnist",
    "femnist": "emnist",
    "fedavg": "mean",
    "average": "mean",
    "signsgd": "sign",
    "softmax": "linear",
    "logistic_regression": "linear",
    "bit_flip": "invert",
    "flip_bits": "invert",
}
"""Words of the field, some with the section before them, and the part of our names that means the same."""


def nearness(written: str, known: str) -> float:
    """Return the similarity of two names from 0 to 1.

    Case and hyphens do not count. A part of a name, as `devices` of `num_devices`, and the initials of its parts, as
    `lr` of `learning_rate`, are near.
    """
    one, other = _parts(written), _parts(known)
    alike = SequenceMatcher(None, written.lower(), known.lower()).ratio()
    if "".join(one) == "".join(other):
        return 1.0
    initials = "".join(part[0] for part in other) if len(other) > 1 else None
    if set(one) <= set(other) or set(other) <= set(one) or "".join(one) == initials:
        return 0.8 + 0.1 * alike
    return alike


def meant(section: str, key: str) -> str:
    """Return the name of ours that a key of the field means in a section; the key itself where none is known."""
    return _SYNONYMS.get(f"{section.rpartition('.')[2]}_{key.lower()}", key)


def _parts(name: str) -> list[str]:
    name = re.sub(r"[^a-z0-9]+", "_", name.lower())
    return "_".join(_SYNONYMS.get(part, part) for part in _SYNONYMS.get(name, name).split("_") if part).split("_")


def nearest(written: object, known: Iterable[str], *, least: float = 0.5) -> str | None:
    """Return the most similar known word, or None if the similarity of all is below `least`."""
    word = str(written)
    best = max(known, key=lambda other: nearness(word, other), default=None)
    return best if best is not None and nearness(word, best) >= least else None


def suggest(written: object, known: Iterable[str]) -> str:
    """Return the remedy for a word that is not among the known ones."""
    words = list(known)
    if (near := nearest(written, words, least=0.6)) is not None:
        return f"did you mean {shorten(near)}"
    return f"write one of {listing(words)}" if words else "leave it out"
