"""What federated averaging released, whatever made numbers of updates: flips, noise, one-bit schemes, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_forms import Form, unprotected, upload_form
from fl.accounting.budget_found import upload_parameters
from fl.accounting.budget_releases import asked_delta, noise_multiplier
from fl.accounting.ledger_schemes import scheme_account
from fl.accounting.ledger_sent import ChannelNoise, channel_noise, rounds_sent, sampled_share
from fl.config import FedAvgConfig
from fl.config.scheme import AggregatorConfig, CpaScheme, SignScheme
from fl.footprint.fedavg import dimension
from fl.results import PrivacyAccount, TrialResult
from phy.config import LinkConfig
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig, UploadPrivacy
from privacy.errors import PrivacyError
from privacy.events.claims import Claim
from privacy.events.published import ONE_STEP, gaussian_claim, local_claim, theorem_1_claim
from privacy.mechanisms.bit_flipping import composed_rate

Floats = NDArray[np.float64]

TOLD_BY_ATTACKERS = (
    "attackers who make their uploads of honest updates know those already, and what they send of them is not counted"
)
"""Of attacks that hand on what honest devices computed."""


def fedavg_account(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    result: TrialResult,
) -> PrivacyAccount | None:
    """The ledger of one trial from its records; None for a trial that ended before anything was sent.

    Raises PrivacyError where nobody knows how many numbers an upload had.
    """
    sent = rounds_sent(config, result)
    if sent is None or not sent.any():
        return None
    num_values = dimension(config) or result.on_air.num_values or int(result.metrics.get("num_parameters", 0))
    if num_values == 0:
        raise PrivacyError("an upload of a model of unknown size was sent; keep its size with the result.")
    form = upload_form(config, privacy=privacy, num_values=num_values)
    account = _account(form, config=config, link=link, privacy=privacy, sent=sent, result=result)
    ledger = replace(account.ledger, sampled=sampled_share(config, link=link, privacy=privacy))
    if config.attack is not None and config.attack.uses_honest_updates:
        ledger = replace(ledger, assumptions=(*ledger.assumptions, TOLD_BY_ATTACKERS))
    return replace(account, ledger=ledger)


def _account(
    form: Form,
    *,
    config: FedAvgConfig,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    sent: NDArray[np.bool_],
    result: TrialResult,
) -> PrivacyAccount:
    if isinstance(privacy, GaussianConfig):
        return _gaussian(form, config=config, privacy=privacy, sent=sent)
    if isinstance(privacy, GaussianBudget):
        found = upload_parameters(config, link=link.resolve_digital(), privacy=privacy)[: len(sent), None]
        return PrivacyAccount(ledger=form.ledger(np.where(sent, found, np.nan), assumptions=one_step(config)))
    noise = channel_noise(link.resolve_digital(), result=result)
    if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
        credited = privacy.channel == "native"
        claims: tuple[Claim, ...] = ()
        if isinstance(privacy, BitFlippingConfig):
            claims = (theorem_1_claim(epsilon=privacy.epsilon, order=privacy.order, credited=credited),)
        return flipped_bits(
            form,
            devices=result.devices,
            sent=sent,
            noise=noise if credited else None,
            confidence=privacy.confidence,
            published=claims,
        )
    scheme = config.aggregation
    if isinstance(scheme, AggregatorConfig) or (isinstance(scheme, CpaScheme | SignScheme) and scheme.epsilon is None):
        return PrivacyAccount(ledger=unprotected("device").ledger(np.where(sent, 0.0, np.nan)))
    if isinstance(scheme, CpaScheme | SignScheme):
        native = scheme.channel == "native"
        source = "Lang et al. 2023" if isinstance(scheme, CpaScheme) else "Warner 1965"
        claim = local_claim(epsilon=scheme.epsilon, per_upload=False, source=source, credited=native)
        return flipped_bits(
            form,
            devices=result.devices,
            sent=sent,
            noise=noise if native else None,
            confidence=scheme.confidence,
            published=(claim,),
        )
    return scheme_account(scheme, form=form, config=config, sent=sent, noise=noise, result=result)


def flipped_bits(
    form: Form,
    *,
    devices: Mapping[str, NDArray[Any]],
    sent: NDArray[np.bool_],
    noise: ChannelNoise | None,
    confidence: float,
    published: tuple[Claim, ...],
) -> PrivacyAccount:
    """Every bit wrong with the device's own `flip_probability`, and `probed_low` of the channel where that may count.

    `noise` None: the scheme credits nothing of the channel.
    """
    own = np.where(sent, np.asarray(devices["flip_probability"], np.float64), np.nan)
    low = devices.get("probed_low")
    if noise is None or low is None or not noise.independent or not np.nansum(np.where(sent, low, 0.0)):
        reason = () if noise is None or noise.independent else noise.reasons
        return PrivacyAccount(ledger=form.ledger(own, assumptions=reason), published=published)
    both = np.where(sent, composed_rate(np.nan_to_num(own), np.nan_to_num(low)), np.nan)
    ledger = form.ledger(both, uncredited=own, credit_failure=1.0 - confidence, credit_assumptions=noise.reasons)
    return PrivacyAccount(ledger=ledger, published=published)


def _gaussian(form: Form, *, config: FedAvgConfig, privacy: GaussianConfig, sent: NDArray[np.bool_]) -> PrivacyAccount:
    multiplier = noise_multiplier(config, privacy)
    assert multiplier is not None
    found = multiplier if math.isfinite(multiplier) else 0.0
    ledger = form.ledger(np.where(sent, found, np.nan), assumptions=one_step(config))
    claim = gaussian_claim(
        epsilon=privacy.epsilon,
        delta=asked_delta(privacy),
        printed=privacy.calibration == "printed",
        assumptions=ledger.assumptions,
    )
    return PrivacyAccount(ledger=ledger, published=(claim,))


def one_step(config: FedAvgConfig) -> tuple[str, ...]:
    """What a sensitivity of local training rests on where it takes several steps."""
    return (ONE_STEP,) if config.local.steps > 1 else ()
