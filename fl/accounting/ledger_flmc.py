"""Releases, ledgers and amplitudes of federated Langevin Monte Carlo under the noise of the receiver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.results import PrivacyAccount
from fl.uplink.channel_credit import sure_noise_power
from phy.config import LinkConfig
from privacy.config import AmplitudeMechanism, BudgetConfig
from privacy.events.claims import Claim
from privacy.events.releases import Release
from privacy.events.superposed import analog_noise_multiplier
from privacy.evidence import listener_sentence

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig

Floats = NDArray[np.float64]

NO_NOISE = "without the noise of a real receiver on the air none hides what is sent, and none is credited"
MANY_LOOKS = (
    "codes, repetitions, antennas, unequal carriers and bits that share an axis tell more of a bit than its one noisy "
    "symbol, so that no noise is credited"
)
CLIPPED = "every gradient entry is clipped to [-l, l], whatever the device holds"


def flmc_release(config: FlmcConfig, *, relative_amplitude: float | None) -> Release:
    """Return the release of a device in a round, at a received amplitude A in units of sqrt(N0); None: not known.

    Digital: +-1 per entry, log odds at most a l, amplitude A. Analog: the whole gradient at l2 distance 2 l sqrt(m), a
    Gaussian release of noise multiplier 1 / (2 A l sqrt(m)).
    """
    found = None if relative_amplitude is None else float(_parameter(config, relative_amplitude, noise_power=1.0))
    if config.scheme == "analog":
        return Release(kind="gaussian", unit="device", parameter=found)
    odds = {"entry_bound": config.quantizer_slope * config.gradient_bound}
    return Release(kind="superposed-bits", unit="device", coordinates=config.num_values(), facts=odds, parameter=found)


def _parameter(config: FlmcConfig, amplitude: ArrayLike, *, noise_power: float) -> Floats:
    if config.scheme != "analog":
        return np.asarray(amplitude, np.float64) / math.sqrt(noise_power)
    return analog_noise_multiplier(
        amplitude=amplitude,
        dimension=config.num_values(),
        gradient_bound=config.gradient_bound,
        noise_power=noise_power,
    )


def amplitude_caps(config: FlmcConfig, *, budget: BudgetConfig, noise_power: float) -> Floats:
    """Return the largest received amplitude A of every round, `[num_rounds]`; math.inf where any keeps the budget.

    Raises PrivacyError for a budget that holds nothing.
    """
    found = budget.parameters(flmc_release(config, relative_amplitude=None), num_rounds=config.rounds)
    if config.scheme == "analog":  # the multiplier at amplitude 1 over that at A
        found = float(_parameter(config, 1.0, noise_power=1.0)) / found
    return np.asarray(found * math.sqrt(noise_power))


def flmc_account(
    config: FlmcConfig,
    *,
    link: LinkConfig,
    privacy: AmplitudeMechanism | None,
    rounds: Mapping[str, Floats],
    spent: Mapping[str, Floats],
) -> PrivacyAccount | None:
    """Return the ledger of a trial from its `rounds` (`peak_amplitude` `[num_rounds]`), of the strongest device.

    Without the receiver's noise, or where it may not be credited (`uncreditable`), the digital bits still have their
    quantiser's; the analog gradient has nothing. None for schemes without a radio, which never send.
    """
    if not config.uses_radio or "peak_amplitude" not in rounds:
        return None
    peak = np.asarray(rounds["peak_amplitude"], np.float64)
    analog = config.scheme == "analog"
    credited = _parameter(config, peak, noise_power=sure_noise_power(link, privacy=privacy))
    parameter = np.where(peak > 0.0, credited, np.nan)[:, None]
    uncredited = np.where(peak > 0.0, 0.0 if analog else np.inf, np.nan)[:, None]
    reason, release = uncreditable(config, link=link), flmc_release(config, relative_amplitude=None)
    if reason is not None:
        ledger = release.ledger(uncredited, assumptions=(CLIPPED, reason))
    else:
        listener = listener_sentence() if privacy is None else privacy.listener
        ledger = release.ledger(
            parameter, uncredited=uncredited, assumptions=(CLIPPED,), credit_assumptions=(listener,)
        )
    published: tuple[Claim, ...] = ()
    if privacy is not None and len(spent.get("delta_spent", ())):
        published = privacy.published(delta=float(np.nanmax(spent["delta_spent"])), analog=analog)
    return PrivacyAccount(ledger=ledger, published=published)


def uncreditable(config: FlmcConfig, *, link: LinkConfig) -> str | None:
    """Return why the receiver's noise may not count on this link, with its modulation named; None if it may.

    It may where whoever listens has one symbol per entry at amplitude A in noise of power N0 on its axis, no more.
    """
    if link.error_model != "measured":
        return NO_NOISE
    if config.superposes:
        spills = link.ofdm != "none" and (link.impairments.cfo_hz or link.impairments.clipping_db)
        return MANY_LOOKS if spills or link.receiver.num_antennas > 1 else None
    return None if link.plain and link.modulation in ("bpsk", "qpsk") else MANY_LOOKS
