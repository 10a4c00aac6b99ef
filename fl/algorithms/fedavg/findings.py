"""What went wrong at a sweep point of federated averaging, the likely cause, and the key to change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fl.algorithms.fedavg.footprint import energy_of_round
from fl.algorithms.learning import PointFacts
from fl.base.words import plural
from phy.config import LinkConfig
from phy.links.budget import more_power

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

NEAR_CHANCE = 0.1
"""Share of the way from guessing to certainty below which an accuracy is that of guessing."""
ALMOST_COINS = 0.45
"""Flip probability from which a device tells next to nothing in a round."""
CORRECTABLE = 0.1
"""Bit error rate up to which a code of rate 1/2 corrects errors."""
LARGE_NOISE = 0.05
"""Standard deviation of the mean update, about the size of its numbers, above which errors are the likely cause."""
MUCH_BIAS = 0.5
"""Share by which a divisor shrinks updates, from which on they are too short."""
FEW_ROUNDS = 20
"""Rounds below which a model may just not have learnt yet."""
MANY_ERRORS = 0.05
"""Bit error rate above which errors are the likely cause."""

TOO_SHORT = (
    "steps are too few or too short; raise learning.rounds, learning.local.steps or learning.local.learning_rate"
)


def fedavg_findings(learning: FedAvgConfig, facts: PointFacts) -> Iterator[str]:
    """See `Learning.findings`."""
    metrics, rounds = facts.metrics, learning.rounds
    empty = metrics.get("empty_rounds", 0.0)
    if empty >= rounds:
        yield f"no update arrived in any of {plural(rounds, 'round')}: {_silence(learning, facts)}"
        return
    if not {"test_accuracy", "best_accuracy", "test_loss"} <= metrics.keys():
        return
    classes = learning.data.described().num_classes
    last, best, chance = metrics["test_accuracy"], metrics["best_accuracy"], 1.0 / classes
    if last <= chance + NEAR_CHANCE * (1.0 - chance):
        guessing = f"the {chance:.1%} of guessing among {classes} classes"
        what = f"test accuracy {last:.1%} after {plural(rounds, 'round')} is near {guessing}"
    elif best - chance > 0.2 and last < chance + 0.5 * (best - chance):
        what = f"test accuracy fell from {best:.1%} to {last:.1%}"
    else:
        return
    if empty > 0.5 * rounds:
        yield f"{what}, and no update arrived in {empty:.0f} rounds: {_silence(learning, facts)}"
    else:
        cause = _cause(learning, facts, guessing=math.log(classes))
        # Rounds do not help against attackers, and steps that are too short name the rounds themselves.
        attacked = learning.attack is not None and _against_attackers(learning) is not None
        if rounds < FEW_ROUNDS and cause != TOO_SHORT and not attacked:
            few = f"{plural(rounds, 'round')} {'is' if rounds == 1 else 'are'} few"
            cause = f"{few}, raise learning.rounds first; otherwise {cause}"
        yield f"{what}: {cause}"


def _silence(learning: FedAvgConfig, facts: PointFacts) -> str:
    link, lost = facts.link, facts.rates.get("packet_error_rate", 0.0)
    if link.packets.policy != "accept" and lost > 0.5:
        return (
            f"{lost:.0%} of the packets have bit errors, and packets.policy {link.packets.policy} leaves them out; "
            f"{more_power(link)}, lower link.packet_size_bytes, or add "
            "link.coding"
        )
    budget, most_j = link.power.budget, _energy_at_full_power(learning, link)
    if budget is not None and (budget.energy_j < 0.5 * most_j or not link.control.silences):
        spread = "" if budget.spread == "even" else ", or write link.power.budget.spread: even"
        return f"devices have spent {budget.energy_j:g} J; raise link.power.budget.energy_j{spread}"
    if link.control.silences:
        return f"power policy {link.control.name} keeps devices in a fade silent; lower link.power.cutoff_db"
    return f"participation.dropout is {learning.participation.dropout:g}; lower it"


def _energy_at_full_power(learning: FedAvgConfig, link: LinkConfig) -> float:
    """Energy that a device spends at full power in all rounds [J]; 0 where no budget is kept."""
    found = energy_of_round(learning, link)
    return 0.0 if found is None else found[0] * learning.rounds


def _of_sum(learning: FedAvgConfig, facts: PointFacts) -> str | None:
    """What a sum over the air does to updates, as a cause, and the keys to change; None where it is small."""
    raised = more_power(facts.link)
    budget, most_j = facts.link.power.budget, _energy_at_full_power(learning, facts.link)
    if budget is not None and budget.energy_j < most_j:
        raised = (
            f"raise link.power.budget.energy_j above {budget.energy_j:g} "
            f"({plural(learning.rounds, 'round')} at full power take {most_j:.3g} J)"
        )
    bias = facts.metrics.get("aggregation_bias", 0.0)
    if bias < -MUCH_BIAS:
        return (
            f"the divisor of the sum shrinks updates by {-bias:.0%}; write link.receiver.scaling: unbiased, or {raised}"
        )
    noise = math.sqrt(max(facts.metrics.get("expected_mse", 0.0) - facts.metrics.get("alignment_mse", 0.0), 0.0))
    if noise > LARGE_NOISE:
        return (
            f"the receiver's noise in a number of the update has standard deviation {noise:.2g}; {raised}, or write "
            "another link.power.policy"
        )
    return None


def _against_attackers(learning: FedAvgConfig) -> str | None:
    """The remedy where an aggregation does not withstand the attackers; None where it may."""
    scheme, attack = learning.aggregation, learning.attack
    assert attack is not None
    share = attack.share if attack.devices is None else len(attack.devices) / learning.num_devices
    if share is not None and share >= 0.5:
        fewer = "lower learning.attack.share" if attack.devices is None else "name fewer learning.attack.devices"
        return f"no aggregation withstands half of the devices or more; {fewer}"
    if scheme.cut_off is not None:
        raised = f"write learning.aggregation.trim: {share:.2g} or more, the share of attackers"
        return raised if share is not None and scheme.cut_off < share else None
    robust = scheme.uses_codec and not scheme.unbiased
    return None if robust else "write learning.aggregation: median, or remove learning.attack"


def _channel_noise(learning: FedAvgConfig, wrong: float) -> float:
    """Standard deviation of the errors that wrong bits make in one number; 0 without a codec.

    A wrong bit i moves a number of range B by B 2^-i, and the squares of all bits add up to 4/3 B^2.
    """
    if not learning.aggregation.uses_codec or wrong == 0.0:
        return 0.0
    return (learning.codec.value_range or math.inf) * math.sqrt(4.0 / 3.0 * wrong)


def _noise(learning: FedAvgConfig, facts: PointFacts) -> str | None:
    """The noise of privacy as a cause, and the keys to change; None without privacy."""
    mechanism, scheme, metrics = facts.mechanism, learning.aggregation, facts.metrics
    averaged = f"{learning.num_devices} devices average out; raise"
    if mechanism is not None and (mechanism.budget is not None or mechanism.for_uploads is not None):
        key = "privacy.epsilon" if mechanism.budget is None else "privacy.budget.epsilon"
        rate = metrics.get("target_bit_error_rate", 0.0)
        if 0.0 < rate < facts.rates.get("bit_error_rate", 0.0):
            return None  # the channel alone has more errors than the mechanism asks for
        if rate > ALMOST_COINS:
            least = learning.rounds * metrics.get("kappa", 0.0) / (getattr(mechanism, "order", 2.0) - 1.0)
            above = f" far above {least:.4g}, at which Theorem 1 asks for fair coins" if least else ""
            return f"bits are flipped with probability {rate:.3f}; raise {key}{above}"
        if mechanism.budget is None and not hasattr(mechanism, "epsilon"):
            return f"the privacy mechanism adds more noise than {averaged} learning.num_devices, or lower the noise"
        return f"the privacy mechanism adds more noise than {averaged} {key} or learning.num_devices"
    if scheme.own_epsilon is None:
        return None
    noise = f"aggregation {scheme.name} at epsilon {scheme.own_epsilon:g} adds more noise than {averaged}"
    if scheme.epsilon_per == "round" and scheme.own_epsilon > 1.0:  # b >= (1 + 1/epsilon) Delta_1 hardly falls
        return f"{noise} learning.num_devices or learning.rounds, or take a smaller learning.model"
    return f"{noise} learning.aggregation.epsilon or learning.num_devices"


def _cause(learning: FedAvgConfig, facts: PointFacts, *, guessing: float) -> str:
    """The likely cause of a low accuracy and the keys to change; `guessing`: loss of equal probabilities."""
    link, scheme, attack = facts.link, learning.aggregation, learning.attack
    loss, wrong = facts.metrics["test_loss"], facts.rates.get("bit_error_rate", 0.0)
    if attack is not None and (remedy := _against_attackers(learning)):
        return f"devices attack with kind {attack.kind}; {remedy}"
    strength = _channel_noise(learning, wrong)
    private = max(facts.metrics.get("sigma", math.inf), 0.0) if scheme.uses_codec else math.inf
    if (noise := _noise(learning, facts)) is not None and not strength > private:
        return noise
    if (of_sum := _of_sum(learning, facts)) is not None:
        return of_sum
    if strength > LARGE_NOISE * learning.num_devices**0.5 or (not scheme.uses_codec and wrong > MANY_ERRORS):
        more = more_power(link)
        more += ", or add link.coding" if link.coding == "none" and wrong < CORRECTABLE else ""
        more += ", or lower learning.codec.bound" if getattr(learning.codec, "bound", 0.0) > 0.5 else ""
        return f"{wrong:.1%} of the bits arrived wrong; {more}"
    if not loss < 2.0 * guessing:
        how = f"learning.{scheme.step_key}"
        return f"test loss {loss:.3g} is above the {guessing:.3g} of guessing, so that steps are too long; lower {how}"
    return TOO_SHORT
