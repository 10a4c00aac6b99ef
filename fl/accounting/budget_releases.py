"""What every round of federated averaging releases at most, known before the run: as `ledgers` will have it."""

from __future__ import annotations

from dataclasses import dataclass

from fl.accounting.budget_forms import Form, flmc_form, upload_form
from fl.config import FedAvgConfig, FlmcConfig
from fl.config.scheme import (
    AggregatorConfig,
    CpaScheme,
    JopeqScheme,
    LaplaceScheme,
    ProbitScheme,
    SignScheme,
)
from fl.footprint import fedavg, flmc
from fl.uplink.channel_credit import errors_arrive, law_of_errors
from phy.config import LinkConfig
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig, UploadPrivacy
from privacy.errors import PrivacyError
from privacy.events.events import Event
from privacy.events.superposed import analog_noise_multiplier
from privacy.mechanisms.bit_flipping import aes_ciphertext_rate


@dataclass(frozen=True, kw_only=True)
class Release:
    """What one device releases in every round.

    `parameter`: as configured, the least private that the round may come to; None where a budget is to find it.
    `evidence`: probability per round that credited noise of the channel is not there.
    """

    form: Form
    parameter: float | None = None
    evidence: float = 0.0

    def event(self) -> Event:
        """One release. Raises PrivacyError where no parameter is known."""
        if self.parameter is None:
            raise PrivacyError("a release has no parameter before the budget sets it; calibrate first.")
        return self.form.event(self.parameter)


def release_of(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy,
    num_values: int | None = None,
    target: float | None = None,
) -> Release:
    """What a round of one device releases; raises PrivacyError, problem and remedy, where no account can be made of it.

    `link` names its modulation. `num_values` M: None for those that the model's layers tell. `target`: the bit error
    rate of bit flipping where it is known from the trial alone.
    """
    size = fedavg.dimension(config) if num_values is None else num_values
    if size is None:
        raise PrivacyError(
            "the budget counts the parameters that are sent, and only the model's own function knows how many; "
            "choose a model of the library."
        )
    form = upload_form(config, privacy=privacy, num_values=size)
    if isinstance(privacy, GaussianConfig | GaussianBudget):
        return Release(form=form, parameter=noise_multiplier(config, privacy))
    if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
        rate = _target(config, privacy) if target is None else target
        evidence = _evidence(privacy.channel, privacy.confidence, link)
        if isinstance(privacy, BitFlippingBudget):
            rate = None
        elif privacy.cipher == "aes" and rate is not None:
            rate = float(aes_ciphertext_rate(rate))
        return Release(form=form, parameter=rate, evidence=evidence)
    _require_protected(config)
    return _of_scheme(config, link=link, form=form, num_values=size)


def flmc_release(config: FlmcConfig, *, relative_amplitude: float | None) -> Release:
    """What a round of one device of FLMC releases at an amplitude in units of sqrt(noise power), None: not known."""
    form, parameter = flmc_form(config), relative_amplitude
    if config.scheme == "analog" and relative_amplitude is not None:
        parameter = float(
            analog_noise_multiplier(
                amplitude=relative_amplitude,
                dimension=flmc.dimension(config),
                gradient_bound=config.gradient_bound,
                noise_power=1.0,
            )
        )
    return Release(form=form, parameter=parameter)


def _require_protected(config: FedAvgConfig) -> None:
    scheme = config.aggregation
    if isinstance(scheme, AggregatorConfig):
        raise PrivacyError(
            f"aggregation {scheme.name} sends numbers as they are, which nothing protects and no budget holds; write "
            "mechanism: bit-flipping or gaussian, or an aggregation with an epsilon."
        )
    if scheme.epsilon is None:
        with_what = "epsilon and l1_clip" if isinstance(scheme, ProbitScheme) else "an epsilon"
        raise PrivacyError(
            f"aggregation {scheme.name} without an epsilon protects nothing, and no budget holds that; write "
            f"{with_what} under learning.aggregation."
        )
    if isinstance(scheme, LaplaceScheme | JopeqScheme) and scheme.as_coded:
        raise PrivacyError(
            f"aggregation {scheme.name} as_coded does not clip numbers to the range that its noise is for, so that no "
            "budget holds; leave as_coded out."
        )


def _of_scheme(config: FedAvgConfig, *, link: LinkConfig, form: Form, num_values: int) -> Release:
    scheme = config.aggregation
    assert not isinstance(scheme, AggregatorConfig)
    assert scheme.epsilon is not None
    if isinstance(scheme, CpaScheme | SignScheme):
        from fl.schemes.cpa.cpa_theory import flip_target

        evidence = _evidence(scheme.channel, scheme.confidence, link)
        return Release(form=form, parameter=flip_target(scheme.epsilon), evidence=evidence)
    if isinstance(scheme, ProbitScheme):
        evidence = _evidence(scheme.channel, scheme.confidence, link)
        return Release(form=form, parameter=_probit_loss(scheme, num_values), evidence=evidence)
    if isinstance(scheme, JopeqScheme):
        return Release(form=form, parameter=jopeq_epsilon(scheme))
    return Release(form=form, parameter=scheme.epsilon)


def jopeq_epsilon(scheme: JopeqScheme) -> float:
    """Of the noise before the dither, which the server knows."""
    from fl.schemes.values.jopeq import JopeqCode

    return JopeqCode(epsilon=scheme.epsilon, rate_bits=scheme.rate_bits, dimension=scheme.dimension).sure_epsilon


def _probit_loss(scheme: ProbitScheme, num_values: int) -> float:
    """The exact loss at the smallest b that any round may take."""
    from fl.schemes.probit.probit import first_bound, needed_bound
    from fl.schemes.probit.probit_bound import privacy_loss

    assert scheme.epsilon is not None
    assert scheme.l1_clip is not None
    least = first_bound(scheme, num_values=num_values)
    if scheme.bound == "adaptive":
        least = needed_bound(scheme.epsilon, scheme.l1_clip, scheme.clip, form=scheme.form, num_values=num_values)
    return privacy_loss(least, l1_clip=scheme.l1_clip, clip=scheme.clip, num_values=num_values)


def noise_multiplier(config: FedAvgConfig, privacy: GaussianConfig | GaussianBudget) -> float | None:
    """sigma over the sensitivity, the same on every device: both printed and calibrated sigma are multiples of it."""
    if isinstance(privacy, GaussianBudget):
        return None
    from privacy.mechanisms.gaussian_mechanism import calibrated_sigma, printed_sigma

    delta = asked_delta(privacy)
    make = printed_sigma if privacy.calibration == "printed" else calibrated_sigma
    return float(make(sensitivity=1.0, num_rounds=config.rounds, epsilon=privacy.epsilon, delta=delta))


def asked_delta(privacy: GaussianConfig) -> float:
    """delta as written, or what turns (order, epsilon) Renyi DP into (epsilon, delta) DP."""
    from privacy.mechanisms.gaussian_mechanism import delta_from_renyi

    if privacy.delta is not None:
        return privacy.delta
    return delta_from_renyi(order=privacy.order, epsilon=privacy.epsilon, epsilon_prime=privacy.epsilon)


def _target(config: FedAvgConfig, privacy: BitFlippingConfig | BitFlippingBudget) -> float | None:
    if isinstance(privacy, BitFlippingBudget) or privacy.kappa == "measured":
        return None
    from privacy.mechanisms.bit_flipping import target_bit_error_rate

    return target_bit_error_rate(
        epsilon=privacy.epsilon, order=privacy.order, num_rounds=config.rounds, kappa=privacy.kappa
    ).rate


def _evidence(channel: str, confidence: float, link: LinkConfig) -> float:
    """What crediting errors of the channel costs; raises PrivacyError where they are not independent by law."""
    if channel != "native" or not errors_arrive(link):
        return 0.0
    if law_of_errors(link) != "independent":
        raise PrivacyError(
            "channel native credits errors of the channel, and on this link nothing says before the run that they are "
            "independent; write channel: agnostic."
        )
    return 1.0 - confidence
