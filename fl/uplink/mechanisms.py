"""The registry of privacy mechanisms: those of `privacy.config`, and those of plug-ins."""

from __future__ import annotations

from phy.config.registry import Registry
from privacy.config import MECHANISMS, Mechanism, StatedNoise, key_of_mechanism

mechanisms: Registry[Mechanism] = Registry(
    "mechanism",
    Mechanism,
    tag="mechanism",
    extended=StatedNoise,
    known=MECHANISMS,
    key_of=key_of_mechanism,
)
