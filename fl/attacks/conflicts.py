"""Conflicts of an attack with the devices, the learning and the radio."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fl.config.attack import Attack, attacks
from fl.tasks.base import LearningError
from phy.config.conflict import Conflict

_KEYS = (
    *("learning.attack.factor", "learning.attack.devices", "learning.attack.kind", "learning.attack.share"),
    *("learning.scheme", "link.error_model"),
)


def attack_conflicts(attack: Attack, check: Callable[[], object]) -> Iterator[Conflict]:
    """Yield the LearningError that `check` raises, or every number that this kind of attack does not read."""
    try:
        check()
    except LearningError as error:
        problem = str(error).partition("; ")[0]
        named = sorted(_KEYS, key=lambda key: key.partition(".")[2] not in problem)
        yield Conflict.of(" ".join((*named, "learning.attack")), error)
        return
    if attack.devices is not None and attack.drawn != "without-replacement":
        yield Conflict(
            "learning.attack.drawn learning.attack",
            "drawn sets how a share of the devices is drawn, but attack.devices names the devices",
            "leave drawn out, or write share in place of devices",
        )
    for key, field in type(attack).model_fields.items():
        kinds = [word for word in attacks.words() if key in attacks[word].reads]
        if kinds and attack.kind not in kinds and getattr(attack, key) != field.default:
            yield Conflict(
                f"learning.attack.{key} learning.attack",
                f"{key} belongs to attack.kind {' or '.join(kinds)}, the kind is {attack.kind}",
                f"leave {key} out, or change the kind",
            )
