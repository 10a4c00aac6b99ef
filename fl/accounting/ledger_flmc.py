"""What FLMC released: one bit, or one number, per gradient entry and round, under the noise of the receiver."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_forms import flmc_form
from fl.config import FlmcConfig
from fl.footprint.flmc import dimension
from fl.results import PrivacyAccount
from fl.uplink.noise_floor import listener_of, sure_noise_power
from phy.config import LinkConfig
from privacy.config import AmplitudeBudget, PrivacyConfig
from privacy.events.claims import Claim
from privacy.events.published import flmc_claim
from privacy.events.superposed import analog_noise_multiplier

NO_NOISE = "without the noise of a real receiver on the air none hides what is sent, and none is credited"
MANY_LOOKS = (
    "codes, repetitions, antennas, unequal carriers and bits that share an axis tell more of a bit than its one noisy "
    "symbol, so that no noise is credited"
)
CLIPPED = "every gradient entry is clipped to [-l, l], whatever the device holds"


def flmc_account(
    config: FlmcConfig,
    *,
    link: LinkConfig,
    privacy: PrivacyConfig | AmplitudeBudget | None,
    rounds: Mapping[str, NDArray[np.float64]],
    spent: Mapping[str, NDArray[np.float64]],
) -> PrivacyAccount | None:
    """The ledger of one trial from its `rounds` (`peak_amplitude` `[num_rounds]`), one column: the strongest device.

    Digital: +-1 per entry, log odds at most a l, amplitude A / sqrt(N0). Analog: the whole gradient at l2 distance
    2 l sqrt(m), a Gaussian release of noise multiplier sqrt(N0) / (2 A l sqrt(m)). Without the receiver's noise, or
    where it may not be credited (`uncreditable`), the digital bits still have their quantiser's; the analog gradient
    has nothing. Schemes without a radio never send.
    """
    if not config.uses_radio or "peak_amplitude" not in rounds:
        return None
    peak = np.asarray(rounds["peak_amplitude"], np.float64)
    noise_power = sure_noise_power(link, privacy=privacy)
    analog = config.scheme == "analog"
    if analog:
        credited = analog_noise_multiplier(
            amplitude=peak, dimension=dimension(config), gradient_bound=config.gradient_bound, noise_power=noise_power
        )
    else:
        credited = peak / math.sqrt(noise_power)
    parameter = np.where(peak > 0.0, credited, np.nan)[:, None]
    uncredited = np.where(peak > 0.0, 0.0 if analog else np.inf, np.nan)[:, None]
    reason, form = uncreditable(config, link=link), flmc_form(config)
    if reason is not None:
        ledger = form.ledger(uncredited, assumptions=(CLIPPED, reason))
    else:
        ledger = form.ledger(
            parameter, uncredited=uncredited, assumptions=(CLIPPED,), credit_assumptions=(listener_of(privacy),)
        )
    published: tuple[Claim, ...] = ()
    if isinstance(privacy, PrivacyConfig) and "delta_spent" in spent and len(spent["delta_spent"]):
        worst = float(np.nanmax(spent["delta_spent"]))
        published = (flmc_claim(epsilon=privacy.epsilon, delta=worst, analog=analog),)
    return PrivacyAccount(ledger=ledger, published=published)


def uncreditable(config: FlmcConfig, *, link: LinkConfig) -> str | None:
    """Why the receiver's noise may not count on this link, with its modulation named; None where it may.

    It may where whoever listens has one symbol per entry at amplitude A in noise of power N0 on its axis, no more.
    """
    if link.error_model != "measured":
        return NO_NOISE
    if config.superposes:
        spills = link.ofdm != "none" and (link.impairments.cfo_hz or link.impairments.clipping_db)
        return MANY_LOOKS if spills or link.receiver.num_antennas > 1 else None
    return None if link.plain and link.modulation in ("bpsk", "qpsk") else MANY_LOOKS
