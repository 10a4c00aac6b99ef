"""A release: what one upload of one device gives away, before the run and in the ledger after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PlainRemedy, PrivacyError
from privacy.events.events import Event, Floats, Kind, Ledger, Unit
from privacy.mechanisms.bit_flipping import composed_rate


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """Records of the uploads of a trial.

    - `sent` bool `[num_rounds, num_devices]`;
    - `rounds`, `devices`: recorded numbers by name, `[num_rounds]` and `[num_rounds, num_devices]`;
    - `independent`: errors of the channel may count as independent flips; `reasons`: sentences that say why or why not.
    """

    sent: NDArray[np.bool_]
    rounds: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    devices: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    independent: bool = False
    reasons: tuple[str, ...] = ()

    def where_sent(self, values: ArrayLike) -> Floats:
        """Return `values` (broadcast) as float64 `[num_rounds, num_devices]`, NaN where nothing was sent."""
        return np.where(self.sent, np.asarray(values, np.float64), np.nan)


@dataclass(frozen=True, kw_only=True)
class Release:
    """What one device releases in every round; the fields of `privacy.events.events.Ledger` that it shares hold here.

    - `parameter` of the ledger, at its least private; None if a budget sets it, or if only the run tells it;
    - `confidence`: level of the limit at which channel errors count as flips; None: they do not count;
    - `evidence`: probability per round that counted channel errors were not there;
    - `problem`: the reason if no budget holds; `remedies`: as those of a PrivacyError.
    """

    kind: Kind
    unit: Unit
    coordinates: int = 1
    per_number: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)
    parameter: float | None = None
    confidence: float | None = None
    evidence: float = 0.0
    assumptions: tuple[str, ...] = ()
    problem: str | None = None
    remedies: tuple[PlainRemedy, ...] = field(default=(), hash=False)

    def event(self) -> Event:
        """Return one release. Raises PrivacyError without a parameter."""
        from privacy.events.kinds import event_of  # with scipy, which loading a scenario leaves out

        if self.parameter is None:
            raise PrivacyError("a release has no parameter before the budget sets it", "calibrate first")
        return event_of(self.kind, self.parameter, self.facts)

    def ledger(self, parameter: Floats, **more: Any) -> Ledger:
        """Return the ledger with `parameter` `[num_rounds, num_devices]`; `more`: its other fields."""
        shared = ("kind", "unit", "coordinates", "per_number", "facts", "assumptions")
        return Ledger(parameter=parameter, **{**{name: getattr(self, name) for name in shared}, **more})

    def recorded(self, uploads: Uploads, *, by_round: Floats | None = None) -> Ledger:
        """Return the ledger of a run: with flips as they were drawn, and with `parameter` for other kinds.

        `by_round` `[num_rounds, 1]`: parameters that a budget set. Channel errors count, at `probed_low` of every round
        and device, if `confidence` and `uploads` allow it.
        """
        if self.kind != "flipped-bits":
            fixed = 0.0 if self.parameter is None else self.parameter
            return self.ledger(uploads.where_sent(fixed if by_round is None else by_round))
        own = uploads.where_sent(uploads.devices["flip_probability"])
        low = uploads.devices.get("probed_low", 0.0)
        if self.confidence is None or (uploads.independent and not np.nansum(np.where(uploads.sent, low, 0.0))):
            return self.ledger(own)
        if not uploads.independent:
            return self.ledger(own, assumptions=(*self.assumptions, *uploads.reasons))
        both = uploads.where_sent(composed_rate(np.nan_to_num(own), np.nan_to_num(low)))
        return self.credited(both, uploads, uncredited=own)

    def credited(self, parameter: Floats, uploads: Uploads, *, uncredited: Floats) -> Ledger:
        """Return the ledger in which channel errors count, at `confidence` in every round and device."""
        assert self.confidence is not None
        return self.ledger(
            parameter, uncredited=uncredited, credit_failure=1.0 - self.confidence, credit_assumptions=uploads.reasons
        )
