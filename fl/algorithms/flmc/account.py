"""Releases, ledgers and amplitudes of federated Langevin Monte Carlo under the noise of the receiver."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fl.base.arrays import F64
from fl.base.checkpoints import Kept
from fl.base.results import PrivacyAccount
from fl.uplink.channel_credit import sure_noise_power
from phy.config import LinkConfig
from phy.config.levels import listed_gains
from privacy.config import AmplitudeMechanism, BudgetConfig
from privacy.events.claims import Claim
from privacy.events.releases import Release
from privacy.evidence import listener_sentence

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig

NO_NOISE = "without the noise of a real receiver on the air none hides what is sent, and none is credited"
MANY_LOOKS = (
    "codes, repetitions, antennas, unequal carriers and bits that share an axis tell more of a bit than its one noisy "
    "symbol, so that no noise is credited"
)
CLIPPED = "every gradient entry is clipped to [-l, l], whatever the device holds"


def amplitude_caps(config: FlmcConfig, *, budget: BudgetConfig, noise_power: float) -> F64:
    """Return the largest received amplitude A of every round, `[num_rounds]`; math.inf where any keeps the budget."""
    sending = config.sending
    found = budget.parameters(sending.release(config), num_rounds=config.rounds)
    return np.asarray(sending.relative_amplitude(config, found) * math.sqrt(noise_power))


def hides_alone(config: FlmcConfig, *, link: LinkConfig) -> bool:
    """Tell if a budget is kept by the device's own draws: one-bit gradients whose noise of the channel may not count.

    A code removes that noise, and a listener has the bits as they were sent: randomized response.
    """
    if not config.uses_radio or config.superposes or not config.sends_signs or link.error_model == "error_free":
        return False
    return uncreditable(config, link=link) is not None


def slope_within(config: FlmcConfig, *, budget: BudgetConfig) -> float:
    """The largest slope a with which one-bit gradients of all rounds keep a budget by their own draws alone.

    A bit is wrong with probability Phi(-l) = 1 / (1 + e^(a l)) at most. Raises PrivacyError as `calibrated` does.
    """
    release = Release(kind="flipped-bits", unit="device", coordinates=config.num_values())
    flips = float(budget.parameters(release, num_rounds=config.rounds).max())
    return (math.log1p(-flips) - math.log(flips)) / config.gradient_bound


def flmc_account(
    config: FlmcConfig,
    *,
    link: LinkConfig,
    privacy: AmplitudeMechanism | None,
    peak: F64,
    spent: F64 | None = None,
) -> PrivacyAccount:
    """Return the ledger of a trial from the `peak` amplitudes `[num_rounds]` of its strongest device.

    Without the receiver's noise, or where it may not be credited (`uncreditable`), the digital bits still have their
    quantiser's; the analog gradient has nothing. `spent`: delta of every round of a bound on rounds.
    """
    sending = config.sending
    credited = sending.parameter(config, peak, noise_power=sure_noise_power(link, privacy=privacy))
    parameter = np.where(peak > 0.0, credited, np.nan)[:, None]
    uncredited = np.where(peak > 0.0, sending.without_noise(config), np.nan)[:, None]
    reason, release = uncreditable(config, link=link), sending.release(config)
    if reason is not None:
        ledger = release.ledger(uncredited, assumptions=(CLIPPED, reason))
    else:
        listener = listener_sentence() if privacy is None else privacy.listener
        ledger = release.ledger(
            parameter, uncredited=uncredited, assumptions=(CLIPPED,), credit_assumptions=(listener,)
        )
    published: tuple[Claim, ...] = ()
    if privacy is not None and spent is not None and len(spent):
        published = privacy.published(delta=float(np.nanmax(spent)), analog=sending.claimed_as == "analog")
    return PrivacyAccount(ledger=ledger, published=published)


def uncreditable(config: FlmcConfig, *, link: LinkConfig) -> str | None:
    """Return why the receiver's noise may not count on this link, with its modulation named; None if it may.

    It may where whoever listens has one symbol per entry at amplitude A in noise of power N0 on its axis, no more.
    """
    if link.error_model != "measured":
        return NO_NOISE
    if config.superposes:
        return MANY_LOOKS if link.mixes_carriers or link.receiver.num_antennas > 1 else None
    return None if link.plain and link.modulation in ("bpsk", "qpsk") else MANY_LOOKS


class AmplitudeAllowance(Kept):
    """The largest amplitude of each trial of FLMC in a round [W^(1/2)]: as found, any, or 0 where the budget is spent.

    Amplitudes `found` `[num_rounds]` keep a calibrating budget. A budget that only watches must hold one more round at
    the caps, those of the round `caps` `[num_trials]` and that of power: by a number of rounds if the amplitude is
    known, else by the sum of Renyi divergences at the amplitudes so far, which bounds all accountants. Fades choose
    amplitudes, not data. Raises PrivacyError where no amplitude keeps the budget.
    """

    kept = ("rounds_sent", "_lost")

    def __init__(self, config: FlmcConfig, *, link: LinkConfig, privacy: AmplitudeMechanism, caps: F64) -> None:
        assert privacy.budget is not None
        noise_power = sure_noise_power(link, privacy=privacy)
        self._config, self._noise, self._budget = config, float(np.sqrt(noise_power)), privacy.budget
        self.found: F64 | None = None
        self._lost: F64 | None = None
        self.rounds_sent = np.zeros(len(caps), np.int64)
        strongest = power_peak(config, link=link)
        ceilings = caps if strongest is None else np.minimum(caps, strongest)
        if self._budget.calibrate and hides_alone(config, link=link):
            self.found = np.full(config.rounds, np.inf)  # the slope of the quantizer keeps it
        elif self._budget.calibrate:
            self.found = amplitude_caps(config, budget=self._budget, noise_power=noise_power)
        elif strongest is not None and (ceilings == ceilings[0]).all():
            release = config.sending.release(config, relative_amplitude=float(ceilings[0]) / self._noise)
            self._most = self._budget.rounds_within(release, most=config.rounds)
        else:
            from privacy.accounting.composition import ORDERS, renyi_limits

            self._limits = renyi_limits(ORDERS, epsilon=self._budget.epsilon, delta=self._budget.delta)
            self._lost = np.zeros((len(ceilings), ORDERS.size))
            self._worst = self._loss(ceilings)

    def caps(self, round_index: int) -> F64:
        """The largest amplitude of every trial in this round, `[num_trials]`; 0: nothing is left."""
        if self.found is not None:
            return np.full(len(self.rounds_sent), self.found[round_index])
        if self._lost is not None:
            left = np.asarray(((self._lost + self._worst) <= self._limits).any(axis=1))
        else:
            left = np.asarray(self.rounds_sent < self._most)
        return np.where(left, np.inf, 0.0)

    def note(self, peak_amplitude: F64) -> None:
        """What trials really sent with, `[num_trials]`."""
        self.rounds_sent += peak_amplitude > 0.0
        if self._lost is not None:
            self._lost += self._loss(peak_amplitude)

    def _loss(self, amplitude: F64) -> F64:
        """Renyi divergence of one round `[num_trials, num_orders]`, of amplitudes brought up to a grid of 1 %."""
        with np.errstate(divide="ignore"):
            steps = np.ceil(np.log(amplitude / self._noise) * 100.0 - 1e-9)
        return np.stack([_round_loss(self._config, float(one)) for one in steps])


@lru_cache(maxsize=4096)
def _round_loss(config: FlmcConfig, percents: float) -> F64:
    from privacy.accounting.composition import ORDERS

    release = config.sending.release(config, relative_amplitude=float(np.exp(percents / 100.0)))
    return np.asarray(release.coordinates * release.event().renyi(ORDERS))


def power_peak(config: FlmcConfig, *, link: LinkConfig) -> float | None:
    """The amplitude at which the strongest device arrives under the power constraint alone; None where it varies."""
    channel, control = link.channel, link.control
    still = not (channel.fades or channel.selective or channel.cell is not None or link.csi_error_variance > 0.0)
    if not still or link.ofdm != "none" or not (control.constant or control.inverts):
        return None
    gains = listed_gains(link, config.num_devices)
    payload = config.sending.payload_bound(config)
    return float((gains.max() if control.constant else gains.min()) * link.max_power**0.5 / payload)
