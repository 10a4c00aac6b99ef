"""What the studies of a codec alone cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import Binary32Config, FlipMomentsConfig
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Values beyond the codec."""
    learning = scenario.learning
    if not isinstance(learning, FlipMomentsConfig) or isinstance(learning.codec, Binary32Config):
        return
    limit = learning.codec.value_range
    if learning.largest > limit:
        yield Conflict(
            keys=("learning.largest", "learning.codec.bound", "learning.codec"),
            problem=f"values up to {learning.largest:g} lie beyond the {limit:g} that codec {learning.codec.name} "
            "carries, and would all be clipped to it",
            remedy=f"write largest: {limit:g}, or raise codec.bound",
        )
