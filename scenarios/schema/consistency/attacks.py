"""Attackers that are not there, attacks with nothing to act on, and numbers of an attack that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import AttackConfig, FedAvgConfig, FlmcConfig
from fl.tasks.base import LearningError
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario

_KEYS = (
    *("learning.attack.factor", "learning.attack.devices", "learning.attack.kind", "learning.attack.share"),
    *("learning.scheme", "link.error_model"),
)
"""Keys that may be to blame: those that a sentence names before the others."""

_BELONGS = (("factor", ("sign-flip", "scale")), ("std", ("gaussian",)), ("signal", ("jam",)))


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """What an attack needs and does not find."""
    learning = scenario.learning
    if not isinstance(learning, FlmcConfig | FedAvgConfig) or learning.attack is None:
        return
    attack = learning.attack
    if isinstance(learning, FedAvgConfig) and attack.kind == "jam":
        yield Conflict(
            keys=("learning.attack.kind", "learning.attack"),
            problem="a jammer acts on symbols that add up in the air, and fedavg detects every device on its own",
            remedy="write kind: random, which sends coins, or another kind",
        )
        return
    try:
        _check(learning, attack, error_model=scenario.link.error_model)
    except LearningError as error:
        problem, _, remedy = str(error).partition("; ")
        named = sorted(_KEYS, key=lambda key: key.partition(".")[2] not in problem)
        yield Conflict(keys=(*named, "learning.attack"), problem=problem, remedy=remedy)
        return
    usual = AttackConfig(kind=attack.kind, share=0.0)
    if attack.devices is not None and attack.drawn != usual.drawn:
        yield Conflict(
            keys=("learning.attack.drawn", "learning.attack"),
            problem="drawn says how a share of the devices is drawn, and attack.devices names them",
            remedy="leave drawn out, or write share in place of devices",
        )
    for key, kinds in _BELONGS:
        if getattr(attack, key) != getattr(usual, key) and attack.kind not in kinds:
            yield Conflict(
                keys=(f"learning.attack.{key}", "learning.attack"),
                problem=f"{key} belongs to attack.kind {' or '.join(kinds)}, the kind is {attack.kind}",
                remedy=f"leave {key} out, or change the kind",
            )


def _check(learning: FlmcConfig | FedAvgConfig, attack: AttackConfig, *, error_model: str) -> None:
    """Raise LearningError as the run would."""
    from fl.attacks.attacks import choose_attackers
    from fl.attacks.flmc_attackers import check_attack

    if isinstance(learning, FlmcConfig):
        check_attack(learning, error_model=error_model)
    else:
        choose_attackers(attack, num_devices=learning.num_devices, seed=0, trial=0)
