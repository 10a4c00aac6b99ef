"""What attackers among the other devices change of a game against an honest one: nothing, and why not.

The audited device is honest. Whoever listens is with the attackers: it knows what they send, as it knows what all the
others send, the worst case over them. On resources of its own a device is heard apart from them anyway. Attackers that
follow honest updates (`zero-gradient`, `duplicate`) know these without any radio, and with them all that a mechanism
hides: in the game they follow everybody but the audited device.
"""

from __future__ import annotations

from fl.attacks.attacks import number_of
from fl.config.attack import Attack
from fl.tasks.base import LearningError


def nobody_honest(attack: Attack | None, *, num_devices: int) -> bool:
    """Whether all devices surely attack."""
    if attack is None or number_of(attack, num_devices) < num_devices:
        return False
    return attack.drawn == "without-replacement" or num_devices == 1


def beside_attackers(attack: Attack | None, *, num_devices: int, superposes: bool) -> str:
    """Words for `Game.worlds`, empty without attackers. Raises LearningError where no device is honest."""
    if attack is None:
        return ""
    if nobody_honest(attack, num_devices=num_devices):
        raise LearningError(
            f"all {num_devices} devices attack, and an audit plays against an honest one; leave at least one honest"
        )
    count = number_of(attack, num_devices)
    if not count:
        return ""
    who = f"attackers among the others ({count}, {attack.kind})"
    if superposes:
        return f"; the device is honest, and what {who} send is known as well"
    return f"; the device is honest, and {who} change nothing of what it is heard to send"
