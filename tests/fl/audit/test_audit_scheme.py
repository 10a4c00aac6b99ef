"""Audits of a scheme by itself that states no law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fl.base.checkpoints import State
from fl.models.federated import Piece
from fl.schemes.coders.coder import Coder, Gathering, Senders
from fl.schemes.scheme import Response, Scheme, flip_target
from phy.fading.block_taps import UplinkContext
from scenarios.contracts.scheme import audit_scheme


class FirstSign(Coder):
    """The sign of the first number of an upload, in the first `rounds` rounds; then zeros."""

    def __init__(self, rounds: int) -> None:
        self._left = rounds

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        del devices, context
        self._left -= 1
        return np.where((updates[:, :1] > 0) & (self._left >= 0), 128, 0).astype(np.uint8)[None]

    def gather(self, senders: Senders) -> Gathering:
        raise NotImplementedError(senders)

    def state(self) -> State:
        return {"left": self._left}

    def restore(self, state: State) -> None:
        self._left = int(state["left"])


class OneSign(Scheme):
    """One bit per upload with randomized response at `used`; the scheme declares `epsilon`."""

    name: Literal["one-sign"] = "one-sign"
    epsilon: float | None = None
    used: float | None = None
    rounds: int = 1_000_000
    epsilon_per: ClassVar[Literal["number", "round"]] = "round"

    def upload_bits(self, num_values: int) -> int:
        del num_values
        return 1

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> FirstSign:
        del pieces, receiver_limit
        return FirstSign(self.rounds)

    @property
    def response(self) -> Response:
        return Response(flip_target(self.used), "agnostic", 0.99)


def test_a_scheme_without_a_law_is_audited_by_a_classifier_on_two_opposite_uploads() -> None:
    found = audit_scheme(OneSign(epsilon=1.0, used=1.0))
    assert found.attack == "classifier"
    assert found.game.worlds == "two uploads of 16 numbers of one device, opposite in all"
    assert 0.5 < found.result.epsilon_lower <= 1.0
    assert not any(found.refuted(claim) for claim in found.claims)


def test_an_epsilon_that_a_scheme_does_not_keep_is_refuted() -> None:
    found = audit_scheme(OneSign(epsilon=0.3, used=1.0))
    (claim,) = found.claims
    assert (claim.epsilon, claim.standing, claim.scope) == (0.3, "as published", "round")
    assert found.refuted(claim)


class OneNumber(OneSign):
    """The same scheme, whose epsilon is that of a number."""

    epsilon_per: ClassVar[Literal["number", "round"]] = "number"


def test_an_epsilon_of_a_number_is_audited_on_uploads_that_differ_in_one() -> None:
    found = audit_scheme(OneNumber(epsilon=0.3, used=1.0))
    assert found.game.worlds == "two uploads of 16 numbers of one device, opposite in one"
    assert found.game.scope == found.claims[0].scope == "coordinate"
    assert found.refuted(found.claims[0])


def test_epsilon_of_two_rounds_is_twice_that_of_one() -> None:
    assert [claim.epsilon for claim in audit_scheme(OneSign(epsilon=0.5, used=0.5), rounds=2).claims] == [1.0]


def test_every_batch_of_games_begins_with_the_first_state_of_the_coder() -> None:
    # 4000 games are several batches; a coder that went on from the batch before would send zeros.
    result = audit_scheme(OneSign(rounds=1)).result
    assert result.false_positives + result.false_negatives == 0
