"""What federated averaging released, whatever made numbers of updates: flips, noise, one-bit schemes, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.budgets.found import upload_parameters
from fl.config import FedAvgConfig
from fl.config.scheme import AggregatorConfig, CpaScheme, SignScheme
from fl.exchange import digital_link
from fl.footprint import payload_bits
from fl.ledgers.schemes import scheme_account
from fl.ledgers.sent import ChannelNoise, channel_noise, rounds_sent
from fl.results import PrivacyAccount, TrialResult
from phy.config import LinkConfig
from privacy.bit_flipping import composed_rate
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig, UploadPrivacy
from privacy.gaussian_mechanism import calibrated_sigma, delta_from_renyi, printed_sigma
from privacy.ledger.claims import Claim
from privacy.ledger.events import Ledger, Unit
from privacy.ledger.published import ONE_STEP, gaussian_claim, local_claim, theorem_1_claim

Floats = NDArray[np.float64]


def fedavg_account(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    privacy: UploadPrivacy | None,
    result: TrialResult,
) -> PrivacyAccount | None:
    """The ledger of one trial from its records; None for a trial that ended before anything was sent."""
    sent = rounds_sent(config, result)
    if sent is None or not sent.any():
        return None
    if isinstance(privacy, GaussianConfig):
        return _gaussian(config, privacy=privacy, sent=sent)
    if isinstance(privacy, GaussianBudget):
        found = upload_parameters(config, link=digital_link(link), privacy=privacy)[: len(sent), None]
        return PrivacyAccount(ledger=_noisy(config, multiplier=found, sent=sent))
    bits = payload_bits(config) or int(result.metrics.get("upload_bits", 0))
    noise = channel_noise(digital_link(link), result=result)
    if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
        credited = privacy.channel == "native"
        claims: tuple[Claim, ...] = ()
        if isinstance(privacy, BitFlippingConfig):
            claims = (theorem_1_claim(epsilon=privacy.epsilon, order=privacy.order, credited=credited),)
        return flipped_bits(
            result.devices,
            sent=sent,
            bits=_on_air(bits, privacy),
            unit="sample",
            noise=noise if credited else None,
            confidence=privacy.confidence,
            published=claims,
        )
    scheme = config.aggregation
    if isinstance(scheme, AggregatorConfig):
        return PrivacyAccount(ledger=unprotected(sent, unit="device"))
    if isinstance(scheme, CpaScheme | SignScheme):
        if scheme.epsilon is None:
            return PrivacyAccount(ledger=unprotected(sent, unit="device"))
        source = "Lang et al. 2023" if isinstance(scheme, CpaScheme) else "Warner 1965"
        return flipped_bits(
            result.devices,
            sent=sent,
            bits=bits,
            unit="device",
            noise=noise if scheme.channel == "native" else None,
            confidence=scheme.confidence,
            published=(
                local_claim(
                    epsilon=scheme.epsilon,
                    per_upload=False,
                    source=source,
                    credited=scheme.channel == "native",
                ),
            ),
        )
    return scheme_account(scheme, config=config, sent=sent, noise=noise, result=result)


def _on_air(bits: int, privacy: BitFlippingConfig | BitFlippingBudget) -> int:
    """Flipped bits of an upload: a block cipher pads to whole blocks, and all of them depend on the data."""
    from privacy.ciphers import build_cipher

    return 8 * build_cipher(privacy.cipher).payload_bytes(-(-bits // 8)) if privacy.cipher != "none" else bits


def unprotected(sent: NDArray[np.bool_], *, unit: Unit) -> Ledger:
    """Uploads as they are: no epsilon holds."""
    return Ledger(kind="unprotected", parameter=np.where(sent, 0.0, np.nan), coordinates=1, unit=unit)


def flipped_bits(
    devices: Mapping[str, NDArray[Any]],
    *,
    sent: NDArray[np.bool_],
    bits: int,
    unit: Unit,
    noise: ChannelNoise | None,
    confidence: float,
    published: tuple[Claim, ...],
) -> PrivacyAccount:
    """Every bit wrong with the device's own `flip_probability`, and `probed_low` of the channel where that may count.

    `noise` None: the scheme credits nothing of the channel. Neighbours may differ in every bit of an upload: any number
    near a rounding threshold changes all bits of its code.
    """
    own = np.where(sent, np.asarray(devices["flip_probability"], np.float64), np.nan)
    low = devices.get("probed_low")
    if noise is None or low is None or not noise.independent or not np.nansum(np.where(sent, low, 0.0)):
        reason = () if noise is None or noise.independent else noise.reasons
        ledger = Ledger(kind="flipped-bits", parameter=own, coordinates=bits, unit=unit, assumptions=reason)
        return PrivacyAccount(ledger=ledger, published=published)
    ledger = Ledger(
        kind="flipped-bits",
        parameter=np.where(sent, composed_rate(np.nan_to_num(own), np.nan_to_num(low)), np.nan),
        uncredited=own,
        coordinates=bits,
        unit=unit,
        credit_failure=1.0 - confidence,
        credit_assumptions=noise.reasons,
    )
    return PrivacyAccount(ledger=ledger, published=published)


def _gaussian(config: FedAvgConfig, *, privacy: GaussianConfig, sent: NDArray[np.bool_]) -> PrivacyAccount:
    """sigma over the sensitivity is the same on every device: both printed and calibrated sigma are multiples of it."""
    delta = privacy.delta
    if delta is None:
        delta = delta_from_renyi(order=privacy.order, epsilon=privacy.epsilon, epsilon_prime=privacy.epsilon)
    make = printed_sigma if privacy.calibration == "printed" else calibrated_sigma
    multiplier = float(make(sensitivity=1.0, num_rounds=config.rounds, epsilon=privacy.epsilon, delta=delta))
    found = np.full((len(sent), 1), multiplier if math.isfinite(multiplier) else 0.0)
    ledger = _noisy(config, multiplier=found, sent=sent)
    claim = gaussian_claim(
        epsilon=privacy.epsilon,
        delta=delta,
        printed=privacy.calibration == "printed",
        assumptions=ledger.assumptions,
    )
    return PrivacyAccount(ledger=ledger, published=(claim,))


def _noisy(config: FedAvgConfig, *, multiplier: Floats, sent: NDArray[np.bool_]) -> Ledger:
    """Gaussian noise on whole uploads, sigma over the sensitivity `[num_rounds, 1]`."""
    return Ledger(
        kind="gaussian",
        parameter=np.where(sent, multiplier, np.nan),
        coordinates=1,
        unit="sample",
        assumptions=(ONE_STEP,) if config.local.steps > 1 else (),
    )
