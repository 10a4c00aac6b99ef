"""What schemes say that an upload releases."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from fl.schemes.scheme import Scheme, schemes

PRIVATE: dict[str, dict[str, Any]] = {"probit": {"epsilon": 1.0, "l1_clip": 0.01}, "sign": {"epsilon": 0.5}}
WITH_EPSILON = [
    one
    for one in schemes.words()
    if schemes[one].__module__.startswith("fl.") and "epsilon" in schemes[one].model_fields
]


@pytest.mark.parametrize("name", WITH_EPSILON)
def test_every_private_scheme_releases_an_event_and_states_its_claim(name: str) -> None:
    scheme = schemes.read({"name": name, **PRIVATE.get(name, {})})
    release = scheme.release(100)
    assert release.problem is None
    assert release.coordinates >= release.per_number >= 1
    assert release.event().delta(0.0) > 0.0
    assert [claim.epsilon for claim in scheme.published] == [scheme.own_epsilon]
    if name != "jopeq":  # its noise follows from the quantiser as well
        assert scheme.with_epsilon(0.25, num_values=100).own_epsilon == 0.25


class Undeclared(Scheme):
    """A scheme that has an epsilon and does not say what an upload releases."""

    name: Literal["undeclared"] = "undeclared"
    epsilon: float = 1.0


def test_an_epsilon_of_a_scheme_that_declares_no_release_proves_nothing() -> None:
    release = Undeclared().release(10)
    assert release.kind == "unprotected"
    assert release.problem is not None
