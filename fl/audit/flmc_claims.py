"""What is claimed of rounds of FLMC at the amplitudes that they were sent with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fl.audit.claims import accounted, claim, nothing_promised, of_the_budget, smallest_epsilon
from privacy.config import AmplitudeMechanism
from privacy.events.claims import Claim
from privacy.events.events import Event, Spending
from privacy.events.noise_events import GaussianNoise
from privacy.events.superposed import SuperposedBit
from privacy.mechanisms.flmc_analog import analog_delta
from privacy.mechanisms.flmc_digital import digital_delta, digital_loss_bound

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig

NOISE_IS_THERE = "the receiver noise is there with the power that it is said to have"


def flmc_claims(
    config: FlmcConfig,
    *,
    privacy: AmplitudeMechanism | None,
    noise_power: float,
    rounds: int,
    peaks: Sequence[float],
    delta: float,
) -> tuple[Claim, ...]:
    """Claims over `rounds`, at the received amplitude `peaks` [W^(1/2)] of each (none: nothing was sent)."""
    digital, sent = config.scheme != "analog", [peak for peak in peaks if peak > 0.0]
    size, found = config.num_values(), []
    labels: dict[str, Any] = {"unit": "device", "scope": "round"}
    credited: dict[str, Any] = {**labels, "channel_credited": True}
    if privacy is None:
        found.append(nothing_promised(**labels))
    elif (asked := privacy.of_rounds) is not None and asked.delta <= delta and rounds == 1:
        found.append(
            claim(
                epsilon=asked.epsilon,
                delta=asked.delta,
                accountant="paper",
                standing="as published",
                source="asked for, Zhang et al. 2022 (11)",
                **credited,
            )
        )
    if privacy is not None and privacy.budget is not None:
        found.append(
            of_the_budget(
                privacy.budget,
                num_rounds=config.rounds,
                unit="device",
                assumptions=(privacy.listener,),
                channel_credited=True,
            )
        )
    if rounds == 1 and delta > 0.0 and sent:

        def spent(epsilon: float) -> float:
            return _round_delta(epsilon, config=config, amplitude=sent[0], noise_power=noise_power)

        found.append(
            claim(
                epsilon=smallest_epsilon(spent, delta=delta),
                delta=delta,
                accountant="paper",
                standing="as published",
                source=f"Zhang et al. 2022 ({16 if digital else 21}) at the amplitude in force",
                **credited,
            )
        )
    if digital:
        largest = digital_loss_bound(
            dimension=size, gradient_bound=config.gradient_bound, quantizer_slope=config.quantizer_slope
        )
        found.append(
            claim(
                epsilon=rounds * largest,
                delta=0.0,
                accountant="basic",
                standing="proved",
                source="m a l, whatever the noise",
                **labels,
            )
        )
    if sent:
        found.append(_proved(config, sent, noise_power=noise_power, delta=delta))
    return tuple(found)


def _proved(config: FlmcConfig, sent: Sequence[float], *, noise_power: float, delta: float) -> Claim:
    """By the events of the ledger, at the amplitudes that the games were sent with."""
    size, bound = config.num_values(), config.gradient_bound

    def event(amplitude: float) -> Event:
        relative = amplitude / math.sqrt(noise_power)
        if config.scheme == "analog":
            return GaussianNoise(noise_multiplier=1.0 / (2.0 * relative * bound))
        return SuperposedBit(amplitude=relative, entry_bound=config.quantizer_slope * bound)

    return accounted(
        [Spending(event=event(amplitude), count=size * n) for amplitude, n in Counter(sent).items()],
        delta=delta,
        scope="round",
        unit="device",
        source="receiver noise as a Gaussian mechanism"
        if config.scheme == "analog"
        else "two mixtures of Gaussians in every entry",
        assumptions=(NOISE_IS_THERE,),
        channel_credited=True,
    )


def _round_delta(epsilon: float, *, config: FlmcConfig, amplitude: float, noise_power: float) -> float:
    """delta of one round."""
    if config.scheme == "analog":
        return float(
            analog_delta(
                epsilon,
                amplitude=amplitude,
                dimension=config.num_values(),
                gradient_bound=config.gradient_bound,
                noise_power=noise_power,
            )
        )
    return digital_delta(
        epsilon,
        amplitude=amplitude,
        dimension=config.num_values(),
        gradient_bound=config.gradient_bound,
        quantizer_slope=config.quantizer_slope,
        num_devices=config.num_devices if config.superposes else 2,
        noise_power=noise_power,
    )
