"""Reference checks: scenario files with a claim, its source and known answers; and the table of all comparisons."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from fl.base.words import plural
from phy.config import Frozen
from phy.config.conflict import listing
from phy.config.registry import Registry
from phy.measure.monte_carlo import ClusteredCounts, estimate_rate
from scenarios.report.tables.table import Table
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.schema.messages.explain import explain
from scenarios.schema.messages.remedies import answer
from scenarios.studies.link.plan import LinkCurve, LinkPoint
from scenarios.studies.link.results import MeasuredPoint

FAMILY = 0.999
"""Confidence in the table as a whole: a faultless simulator fails somewhere in one run of a thousand."""
MAX_CHECKS = 125
"""Checks that share it (Bonferroni); tests hold the reference checks to this number."""
CONFIDENCE = 1.0 - (1.0 - FAMILY) / MAX_CHECKS
"""Confidence of the interval of each check."""
MIN_ERRORS = 30
"""Below it the spread of bursts is not known well enough to widen an interval by it."""
_FARTHEST_DB = 40.0

INTERVAL_NOTE = (
    f"Intervals hold at {100 * CONFIDENCE:.4f} % each, widened for bursts, so that the table as a whole holds at "
    f"{100 * FAMILY:g} % (Bonferroni)."
)


@dataclass(frozen=True, kw_only=True)
class CardCheck:
    """`measured` in `[low, high]`, which has to meet the band `expected`; counts None where nothing is counted.

    `resolves` names the smallest difference that is surely noticed, tolerances included; `enough`: the interval is as
    narrow as the reference check asks; `card`, `seconds`: its reference check, and the time since the check before [s].
    """

    what: str
    measured: float = nan
    low: float = nan
    high: float = nan
    expected: tuple[float, float] = (nan, nan)
    resolves: str = ""
    enough: bool = True
    errors: int | None = None
    observations: int | None = None
    problem: str | None = None
    card: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """True if interval and band meet, and nothing is missing."""
        return self.verdict == "pass"

    @property
    def verdict(self) -> str:
        """`pass`, or what is wrong."""
        if self.problem is not None:
            return f"FAIL: {self.problem}"
        if not self.enough:
            return "FAIL: too little data"
        if self.low <= self.expected[1] and self.high >= self.expected[0]:
            return "pass"
        return "FAIL: too high" if self.low > self.expected[1] else "FAIL: too low"


def exact(what: str, found: float, known: float, *, tolerance: float) -> CardCheck:
    """Return the check of a number without randomness, known to `tolerance`."""
    band = (known - tolerance, known + tolerance)
    return CardCheck(what=what, measured=found, low=found, high=found, expected=band, resolves=f"{tolerance:g}")


# --- table ----------------------------------------------------------------------------------------


def table_of(checks: Sequence[CardCheck]) -> Table:
    """The table for a terminal of 80 columns: intervals and verdicts, below the name of each reference check."""
    rows: list[tuple[str, ...]] = []
    for name, group in groupby(checks, key=lambda check: check.card):
        rows.append((name, "", "", ""))
        for check in group:
            measured = _number(check.measured) if isnan(check.low) else _span(check.low, check.high)
            rows.append((f"  {check.what}", measured, _span(*check.expected), check.verdict))
    heads = ("reference check", "measured", "expected", "verdict")
    return Table(columns=heads, rows=tuple(rows), left=heads, wrapped=(heads[0], heads[-1]))


def _span(low: float, high: float) -> str:
    """Both ends of an interval, or the one number that it is."""
    exact = isnan(low) or high - low <= 1e-9 * abs(high)
    return _number(low) if exact else f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    return "" if isnan(value) else f"{value:.4g}"


def summary(checks: Sequence[CardCheck], *, seconds: float) -> str:
    """Return the last line: how many checks, and which failed."""
    failed = [check for check in checks if not check.passed]
    number = len({check.card for check in checks})
    counts = f"{plural(number, 'reference check')}, {plural(len(checks), 'comparison')}"
    if not failed:
        return f"{counts}: all pass, in {seconds:.0f} s"
    names = ", ".join(dict.fromkeys(check.card for check in failed))
    return f"{counts}: {len(failed)} FAIL ({names}), in {seconds:.0f} s"


CSV_HEADS = (
    *("card", "what", "errors", "observations", "measured", "low", "high", "expected_low", "expected_high"),
    *("resolves", "verdict", "seconds"),
)


def csv_values(check: CardCheck) -> dict[str, object]:
    """One check in the columns of `CSV_HEADS`; None where nothing is counted or known."""
    low, high = check.expected
    row = {**vars(check), "expected_low": low, "expected_high": high, "verdict": check.verdict}
    row["seconds"] = round(check.seconds, 3)
    return {name: None if row[name] != row[name] else row[name] for name in CSV_HEADS}


CARDS = Path(__file__).parent / "cards"

Decibels = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]


class Expected(Frozen):
    """Base of every kind of known answer: a kind overrides `measure`, or is a `KnownRate`.

    Raises ValueError where the answer does not hold for the scenario. A check whose interval is wider than
    `resolves_db` fails.
    """

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
        """Measure, and compare with the known answer."""
        return iter(())


class KnownRate(Expected):
    """Base of known error rates: how much better the link must be to have the measured rate, and how much it may be.

    A link is measured once for all of them. It may be better by `better_db` and worse by `worse_db`: losses that the
    model of the channel brings, or details that a source leaves open.
    """

    quantity: Literal["bit_error_rate", "packet_error_rate"] = "bit_error_rate"
    of: str = Field(default="", description="words behind BER or PER")
    better_db: Decibels = 0.0
    worse_db: Decibels = 0.0
    device: Annotated[int, Field(ge=0)] | None = None

    @abstractmethod
    def rate(self, curve: LinkCurve, point: LinkPoint, shift_db: float) -> float:
        """Return the known rate if the link were better by `shift_db`; ValueError where it has none."""

    def is_about(self, curve: LinkCurve) -> bool:
        """Tell whether the rate is that of a curve."""
        return True

    def counts(self, measured: MeasuredPoint) -> ClusteredCounts:
        """Return the counts that the rate is about."""
        tally = measured.tally_of(self.device)
        return tally.bits if self.quantity == "bit_error_rate" else tally.packets

    def shift_db(self, curve: LinkCurve, point: LinkPoint, rate: float) -> float:
        """Return how much better the link must be to have this error rate, to a thousandth [dB]."""
        low, high = -_FARTHEST_DB, _FARTHEST_DB
        while high - low > 1e-3:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.rate(curve, point, middle) > rate else (low, middle)
        return (low + high) / 2.0

    def width_db(self, curve: LinkCurve, point: LinkPoint, counts: ClusteredCounts) -> float:
        """Return the width of the interval of the error rate, as a shift of the link [dB]; infinite without data."""
        if counts.errors < MIN_ERRORS or counts.clusters < 2:
            return float("inf")
        found = estimate_rate(counts, confidence=CONFIDENCE)
        return self.shift_db(curve, point, found.low) - self.shift_db(curve, point, found.high)

    def compare(self, curve: LinkCurve, point: LinkPoint, counts: ClusteredCounts, *, resolves_db: float) -> CardCheck:
        """Compare counts at a point of a curve with the known rate."""
        found, width = estimate_rate(counts, confidence=CONFIDENCE), self.width_db(curve, point, counts)
        resolved = width + max(self.better_db, self.worse_db)
        device = "" if self.device is None else f" of device {self.device}"
        quantity = "BER" if self.quantity == "bit_error_rate" else "PER"
        return CardCheck(
            what=f"{quantity}{self.of and f', {self.of}'}{device}",
            measured=nan if found.rate is None else found.rate,
            low=found.low,
            high=found.high,
            expected=(self.rate(curve, point, self.better_db), self.rate(curve, point, -self.worse_db)),
            resolves=f"{resolved:.2f} dB" if isfinite(resolved) else "nothing",
            enough=width <= resolves_db,
            errors=counts.errors,
            observations=counts.observations,
        )


EXPECTED: Registry[Expected] = Registry(
    "reference check", Expected, package="scenarios.studies.verify.kinds", tag="kind"
)


class CardConfig(Frozen):
    """Claim of a reference check.

    A statistical check is measured until its whole interval is no wider than a shift of the link by `resolves_db`
    (twice that under `--fast`), so that such a shift is surely seen, and fails where it does not come to that: no
    reference check passes for want of data.
    """

    claim: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)]
    resolves_db: Annotated[float, Field(gt=0, le=5)] = 0.25
    fast: bool = Field(default=True, description="whether --fast runs it too")
    expect: Annotated[tuple[Annotated[Expected, EXPECTED], ...], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Card:
    """A reference check: a scenario, and the known answers for it."""

    path: Path
    config: CardConfig
    loaded: LoadedScenario

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.loaded.scenario.name


class _Carded(BaseModel):
    card: CardConfig


def card_names() -> tuple[str, ...]:
    """Return the names of the reference checks of the package, in their order in the table."""
    return tuple(path.stem for path in sorted(CARDS.glob("*.yaml")))


def load_card(source: str | Path, *, seed: int | None = None, overrides: Sequence[str] = ()) -> Card:
    """Return a reference check by its name, or from a file. Raises ScenarioError for an unknown name or a bad file."""
    path = Path(source)
    if path.suffix not in (".yaml", ".yml"):
        path = CARDS / f"{source}.yaml"
        if str(source) not in card_names():
            near = get_close_matches(str(source), card_names())
            problem = "no reference check has this name"
            remedy = (f"did you mean {listing(near)}? " if near else "") + "see phyloop verify --list"
            raise ScenarioError(problem=problem, remedy=remedy, file=str(source))
    loaded = load_scenario(path, seed=seed, overrides=overrides)
    if loaded.scenario.card is None:
        problem = "a reference check needs a card: section, and this scenario has none"
        remedy = "add card: {claim: ..., source: ..., expect: [...]}, or use phyloop link"
        raise ScenarioError(problem=problem, remedy=remedy, file=path)
    try:
        config = _Carded.model_validate(loaded.document).card
    except ValidationError as error:
        raise explain(error, answer=answer, document=loaded.document, marks=loaded.marks) from None
    return Card(path=path, config=config, loaded=loaded)
