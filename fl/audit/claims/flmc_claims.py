"""What is claimed of rounds of FLMC at the amplitudes that they were sent with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fl.audit.claims.claims import accounted, claim, nothing_promised, of_the_budget, smallest_epsilon
from fl.config import FlmcConfig
from fl.footprint.flmc import dimension
from fl.uplink.noise_floor import listener_of
from privacy import PrivacyConfig
from privacy.config import AmplitudeBudget
from privacy.events.claims import Claim
from privacy.events.events import Event, Spending
from privacy.events.noise_events import GaussianNoise
from privacy.events.superposed import SuperposedBit
from privacy.mechanisms.flmc_analog import analog_delta
from privacy.mechanisms.flmc_digital import digital_delta, digital_loss_bound

NOISE_IS_THERE = "the receiver noise is there with the power that it is said to have"


def flmc_claims(
    config: FlmcConfig,
    *,
    privacy: PrivacyConfig | AmplitudeBudget | None,
    noise_power: float,
    rounds: int,
    peaks: Sequence[float],
    delta: float,
) -> tuple[Claim, ...]:
    """Claims over `rounds`, at the received amplitude `peaks` [W^(1/2)] of each (none: nothing was sent)."""
    digital, sent = config.scheme != "analog", [peak for peak in peaks if peak > 0.0]
    size = dimension(config)
    found = []
    if privacy is None:
        found.append(nothing_promised(scope="round", unit="device"))
    elif isinstance(privacy, PrivacyConfig) and privacy.delta <= delta and rounds == 1:
        found.append(
            claim(
                privacy.epsilon,
                delta=privacy.delta,
                accountant="paper",
                standing="as published",
                scope="round",
                unit="device",
                source="asked for, Zhang et al. 2022 (11)",
                channel_credited=True,
            )
        )
    if privacy is not None and privacy.budget is not None:
        found.append(
            of_the_budget(
                privacy.budget,
                num_rounds=config.rounds,
                unit="device",
                assumptions=(listener_of(privacy),),
                channel_credited=True,
            )
        )
    if rounds == 1 and delta > 0.0 and sent:

        def spent(epsilon: float) -> float:
            return _round_delta(epsilon, config=config, amplitude=sent[0], noise_power=noise_power)

        found.append(
            claim(
                smallest_epsilon(spent, delta=delta),
                delta=delta,
                accountant="paper",
                standing="as published",
                scope="round",
                unit="device",
                source=f"Zhang et al. 2022 ({16 if digital else 21}) at the amplitude in force",
                channel_credited=True,
            )
        )
    if digital:
        largest = digital_loss_bound(
            dimension=size, gradient_bound=config.gradient_bound, quantizer_slope=config.quantizer_slope
        )
        found.append(
            claim(
                rounds * largest,
                delta=0.0,
                accountant="basic",
                standing="proved",
                scope="round",
                unit="device",
                source="m a l, whatever the noise",
            )
        )
    if sent:
        found.append(_proved(config, sent, noise_power=noise_power, delta=delta))
    return tuple(found)


def _proved(config: FlmcConfig, sent: Sequence[float], *, noise_power: float, delta: float) -> Claim:
    """By the events of the ledger, at the amplitudes that the games were sent with."""
    size, bound = dimension(config), config.gradient_bound

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
                dimension=dimension(config),
                gradient_bound=config.gradient_bound,
                noise_power=noise_power,
            )
        )
    return digital_delta(
        epsilon,
        amplitude=amplitude,
        dimension=dimension(config),
        gradient_bound=config.gradient_bound,
        quantizer_slope=config.quantizer_slope,
        num_devices=config.num_devices if config.superposes else 2,
        noise_power=noise_power,
    )
