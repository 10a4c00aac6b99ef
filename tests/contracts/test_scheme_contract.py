"""Every aggregation scheme keeps its contract, and a broken one is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal
from unittest import SkipTest

import numpy as np
import pytest

from fl.models.federated import Piece
from fl.schemes.aggregation.estimates import weighted_mean
from fl.schemes.coders.coder import Coder, Senders, WholeRound, checked_updates
from fl.schemes.scheme import Scheme, schemes
from scenarios.contracts import scheme as contract

VARIANTS: tuple[dict[str, Any], ...] = (
    {"name": "cpa", "decode": "unbiased", "dither": True, "dimension": 2, "stages": 2},
    {"name": "cpa", "decode": "unbiased", "dither": True, "epsilon": "none"},
    {"name": "cpa", "radius": "scaled", "gamma": 1.5, "rate_bits": 2},
    {"name": "cpa", "radius": "decaying", "gamma_decay": 0.5, "negative_bins": "zero"},
    {"name": "probit", "bound": "adaptive"},
    {"name": "probit", "bound": "adaptive", "epsilon": 1.0, "l1_clip": 0.5},
    {"name": "sign", "epsilon": 0.5, "vote": "mean", "decode": "unbiased"},
    {"name": "jopeq", "dimension": 2, "rate_bits": 2},
    {"name": "mvu", "input_bits": 3, "output_bits": 3},
)
SCHEMES = [*({"name": word} for word in schemes.words()), *VARIANTS]


@pytest.mark.parametrize("settings", SCHEMES, ids=lambda one: "-".join(map(str, one.values())))
def test_every_scheme_keeps_the_contract(settings: dict[str, Any]) -> None:
    scheme = schemes.read(settings)
    for check in contract.NUMBERS if scheme.uses_codec else contract.OWN_BITS:
        with suppress(SkipTest):
            check(scheme)


class Faulty(Scheme):
    """The mean of updates as binary32, with a fault."""

    in_blocks: ClassVar[bool] = True

    name: Literal["faulty"] = "faulty"
    fault: str = ""

    def upload_bits(self, num_values: int) -> int:
        """One bit less for the fault `long`."""
        return 32 * num_values - (self.fault == "long")

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> Coder:
        """Return the coder with the fault."""
        del receiver_limit
        return FaultyCoder(self.fault, num_bits=32 * sum(piece.size for piece in pieces))

    @property
    def unbiased(self) -> bool:
        """True."""
        return True

    @property
    def own_epsilon(self) -> float | None:
        """An epsilon without any noise for the fault `exposed`."""
        return 3.0 if self.fault == "exposed" else None


class FaultyCoder(Coder):
    """See `Faulty`."""

    def __init__(self, fault: str, *, num_bits: int) -> None:
        self.fault, self.num_bits, self.rounds = fault, num_bits, 0

    def encode(self, updates: Any, *, devices: Any, context: Any) -> Any:
        """Return the bytes of the numbers."""
        del context
        values = updates.astype(np.float32).copy()
        if self.fault != "nan":
            checked_updates(values, devices=devices, num_values=self.num_bits // 32)
        if self.fault == "random":
            values += np.random.default_rng().uniform(0.0, 1e-3, values.shape).astype(np.float32)
        elif self.fault == "block":
            values *= np.float32(1.0 + 0.1 * len(values))
        elif self.fault == "forgetful":
            values *= np.float32(1.0 + self.rounds)
        elif self.fault == "biased":
            values *= np.float32(0.9)
        elif self.fault == "long":
            values[:, -1] = np.frombuffer(b"\x00\x00\x00\xff", np.float32)
        self.rounds += 1
        return values.view(np.uint8)[None]

    def gather(self, senders: Senders) -> WholeRound:
        """Return the mean of the numbers that arrived."""

        def mean(payload: Any, known: Any) -> Any:
            values = np.frombuffer(payload.tobytes(), np.float32).reshape(payload.shape[1], -1).astype(np.float64)
            held = np.ones(values.shape, bool) if known is None else known.reshape(*values.shape, 32).all(axis=-1)
            if self.fault == "deaf":
                held[:] = True
            shares = senders.weights[:, None] * held
            total = np.where(held, values, 0.0) * shares
            return (total.sum(axis=0) / np.maximum(shares.sum(axis=0), 1e-30)).astype(np.float32)

        return WholeRound(mean, num_bits=self.num_bits)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("long", contract.the_payload_has_the_bits_that_are_declared),
        ("random", contract.the_same_seed_gives_the_same_bits),
        ("block", contract.any_blocks_of_devices_give_the_same),
        ("block", contract.a_device_has_the_same_bits_alone),
        ("biased", contract.the_update_is_unbiased_where_declared),
        ("deaf", contract.bits_that_did_not_arrive_do_not_count),
        ("nan", contract.numbers_that_are_not_finite_are_refused),
        ("forgetful", contract.a_restored_coder_continues_bit_for_bit),
        ("exposed", contract.the_epsilon_stands_in_an_audit),
    ],
)
def test_a_faulty_scheme_breaks_the_contract(fault: str, check: Callable[[Scheme], None]) -> None:
    with suppress(SkipTest):  # without the fault it declares no epsilon
        check(Faulty())
    with pytest.raises(AssertionError):
        check(Faulty(fault=fault))


class FaultyMean(Scheme):
    """A mean of decoded numbers, with a fault."""

    uses_codec: ClassVar[bool] = True

    name: Literal["faulty-mean"] = "faulty-mean"
    fault: str = ""

    def aggregate(self, values: Any, *, weights: Any, known: Any, otherwise: Any) -> Any:
        """Return the mean with the fault."""
        mean = weighted_mean(
            values, weights=weights, known=None if self.fault == "deaf" else known, otherwise=otherwise
        )
        return mean * np.float32(0.9 if self.fault == "biased" else 1.0)

    @property
    def unbiased(self) -> bool:
        """True."""
        return True


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("deaf", contract.missing_numbers_do_not_count),
        ("biased", contract.the_aggregate_is_the_mean_where_declared),
    ],
)
def test_a_faulty_aggregate_breaks_the_contract(fault: str, check: Callable[[Scheme], None]) -> None:
    check(FaultyMean())
    with pytest.raises(AssertionError):
        check(FaultyMean(fault=fault))


@pytest.mark.parametrize(
    ("scheme", "check"),
    [
        (schemes.read({"name": "median"}), contract.the_aggregate_is_the_mean_where_declared),
        (schemes.read({"name": "probit"}), contract.the_epsilon_stands_in_an_audit),
    ],
    ids=["biased", "no_epsilon"],
)
def test_a_check_of_what_a_scheme_does_not_declare_is_no_check_that_it_passed(
    scheme: Scheme, check: Callable[[Scheme], None]
) -> None:
    with pytest.raises(SkipTest):
        check(scheme)
