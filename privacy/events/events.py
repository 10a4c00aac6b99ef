"""Events of the ledger: the privacy loss of one release for one unit, a sample or a device with all its samples.

An event is the release of one number, bit or vector to a listener. Its three functions hold for the worst pair of
neighbours and the worse of the two directions, so that each returns an upper bound:

- `pure_epsilon`: the largest loss in nats, math.inf where only approximate privacy can hold;
- `delta(epsilon)`: the hockey-stick divergence at epsilon >= 0, the privacy profile (Balle, Barthe and Gaboardi 2018);
- `renyi(order)`: the Renyi divergence in nats (Mironov 2017).

Accountants need nothing else. `repeated` is the exact sum of equal events if a closed form is known, else None.
Distances are those of replacing the unit; see `Relation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError

Unit = Literal["sample", "device"]
"""Data in which two neighbours differ: one sample of one device, or all samples of one device."""

Relation = Literal["replace-one", "add-or-remove-one"]

Floats = NDArray[np.float64]


@runtime_checkable
class Event(Protocol):
    """One release, with respect to one unit."""

    def pure_epsilon(self) -> float:
        """The largest loss in nats, math.inf if unbounded."""
        ...

    def delta(self, epsilon: Floats) -> Floats:
        """delta at every epsilon >= 0 [nats], of the same shape, never too small."""
        ...

    def renyi(self, order: Floats) -> Floats:
        """Renyi divergence [nats] at every order > 1, of the same shape, never too small."""
        ...

    def repeated(self, count: int) -> Event | None:
        """`count` such releases as one event if the sum is known exactly, else None."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoRelease(Event):
    """Nothing was sent, or nothing that depends on the data."""

    def pure_epsilon(self) -> float:
        return 0.0

    def delta(self, epsilon: Floats) -> Floats:
        return np.zeros_like(np.asarray(epsilon, np.float64))

    def renyi(self, order: Floats) -> Floats:
        return np.zeros_like(np.asarray(order, np.float64))

    def repeated(self, count: int) -> Event:
        del count
        return self


@dataclass(frozen=True, kw_only=True)
class Unprotected(Event):
    """Sent without any guaranteed noise: no epsilon holds."""

    def pure_epsilon(self) -> float:
        return math.inf

    def delta(self, epsilon: Floats) -> Floats:
        return np.ones_like(np.asarray(epsilon, np.float64))

    def renyi(self, order: Floats) -> Floats:
        return np.full_like(np.asarray(order, np.float64), math.inf)

    def repeated(self, count: int) -> Event:
        return self if count else NoRelease()


@dataclass(frozen=True, kw_only=True)
class Spending:
    """An event and the number of its repetitions."""

    event: Event
    count: int


Kind = Literal[
    "none",
    "unprotected",
    "gaussian",
    "laplace",
    "pure",
    "flipped-bits",
    "superposed-bits",
    "superposed-levels",
    "stated",
]
"""Kind of a ledger, which defines its parameter:

- `gaussian`: noise multiplier, standard deviation over l2 distance of neighbours;
- `laplace`, `pure`: epsilon of one release, of Laplace noise or of an unknown law;
- `flipped-bits`: probability of a wrong bit, independent of all others;
- `superposed-bits`: received amplitude of one +-1 in the unit of sqrt(noise power), bits drawn by a quantizer whose
  log odds are at most `facts["entry_bound"]`; Zhang et al. 2022;
- `superposed-levels`: received amplitude of the outermost of `facts["levels"]` levels, rounded to without a bias,
  gradients reaching the share `facts["share"]` of their range; `privacy.events.levels`;
- `stated`: strength of a mechanism that builds its own events, 1 as written, more being more loss; the facts of
  `privacy.events.stated.stated_event`;
- `none`, `unprotected`: no parameter.
"""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All releases of every round and device in one trial, in columns.

    - `kind` of release; `parameter` float64 `[num_rounds, num_devices]`, NaN for a device that sent nothing;
    - `uncredited`: the same parameter without channel noise, from the device's own randomness; None if no channel noise
      counts (`parameter` then has none), or if nothing else protects the data;
    - `coordinates`: releases per device and round that depend on one unit's data, `per_number` of them for one number:
      its bits, or all bits of the cipher blocks around it;
    - `unit`, `relation`: the difference between neighbours;
    - `facts`: what the events need beside their parameter, numbers and words;
    - `credit_failure`: probability, per round and device, that there was less noise than `parameter` counts;
    - `assumptions`: sentences that every claim needs, beside the mechanism itself;
    - `credit_assumptions`: further sentences for claims that count channel noise;
    - `sampled`: share of devices in a round, drawn anew each round with equal probabilities; None: all devices, or
      devices chosen otherwise.
    """

    kind: Kind
    parameter: Floats
    coordinates: int
    unit: Unit
    per_number: int = 1
    relation: Relation = "replace-one"
    uncredited: Floats | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    credit_failure: float = 0.0
    assumptions: tuple[str, ...] = ()
    credit_assumptions: tuple[str, ...] = ()
    sampled: float | None = None

    def __post_init__(self) -> None:
        """Raise PrivacyError for a ledger without an account."""
        if self.parameter.ndim != 2:
            raise PrivacyError(
                f"a ledger has a parameter of shape {self.parameter.shape}", "give [num_rounds, num_devices]"
            )
        if self.uncredited is not None and self.uncredited.shape != self.parameter.shape:
            raise PrivacyError("the two parameters of a ledger differ in shape", "give both [num_rounds, num_devices]")
        if self.coordinates < 0 or self.coordinates != int(self.coordinates):
            raise PrivacyError(f"coordinates is {self.coordinates}", "give the number of releases per round, 0 or more")
        if not 1 <= self.per_number <= max(self.coordinates, 1):
            raise PrivacyError(
                f"per_number is {self.per_number} of {self.coordinates} coordinates", "give 1 or more, and at most all"
            )
        if not 0.0 <= self.credit_failure < 1.0:
            raise PrivacyError(
                f"credit_failure is {self.credit_failure}, but it is a probability", "give one in [0, 1)"
            )

    def to_dict(self) -> dict[str, Any]:
        """All fields except the arrays, as plain values for JSON."""
        return {
            "kind": self.kind,
            "coordinates": int(self.coordinates),
            "unit": self.unit,
            "per_number": int(self.per_number),
            "relation": self.relation,
            "facts": dict(self.facts),
            "credit_failure": self.credit_failure,
            "assumptions": list(self.assumptions),
            "credit_assumptions": list(self.credit_assumptions),
            "sampled": self.sampled,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], *, parameter: Floats, uncredited: Floats | None = None) -> Ledger:
        """The ledger of the values from `to_dict` and its arrays."""
        sentences = {name: tuple(plain[name]) for name in ("assumptions", "credit_assumptions")}
        return cls(**{**plain, **sentences}, parameter=parameter, uncredited=uncredited)
