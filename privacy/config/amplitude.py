"""Bounds on the received amplitude of federated Langevin Monte Carlo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from privacy.config.base import Calibrated, Decibels, Epsilon, Mechanism

if TYPE_CHECKING:
    from privacy.events.claims import Claim

DigitalCap = Literal["exact", "cancelled", "printed"]
AnalogCap = Literal["exact", "corrected", "printed"]


class ReceiverMechanism(Mechanism):
    """Base of mechanisms that rely on the noise of the receiver."""

    gaussian_noise = "noise of the receiver"

    noise_tolerance_db: Decibels = Field(
        default=0.0,
        description="the receiver's noise may be this much below its nominal power [dB]; 0: it has its nominal power",
    )
    listener_advantage_db: Decibels = Field(
        default=0.0,
        description="a listener may receive the devices this much better than the server [dB]; 0: no better than "
        "the server",
    )

    def sure_noise_power(self, noise_power: float) -> float:
        """N0 10^(-(tolerance + advantage) / 10) [W]: so many dB more of signal are as much as less noise."""
        from privacy.evidence import credited_noise_power

        less_db = self.noise_tolerance_db + self.listener_advantage_db
        return float(credited_noise_power(noise_power, tolerance_db=less_db))

    @property
    def listener(self) -> str:
        """The assumption about a listener that a claim with the receiver's noise must name."""
        from privacy.evidence import listener_sentence

        return listener_sentence(advantage_db=self.listener_advantage_db, tolerance_db=self.noise_tolerance_db)


class AmplitudeMechanism(ReceiverMechanism):
    """A bound on the received amplitude, which relies on the noise of the receiver."""

    protects = "amplitude"

    @property
    def for_amplitudes(self) -> AmplitudeMechanism:
        """See `Mechanism.for_amplitudes`."""
        return self

    @property
    def of_rounds(self) -> PrivacyConfig | None:
        """The bound on each round; None where a budget for the run sets it."""
        return None

    def published(self, *, delta: float, analog: bool) -> tuple[Claim, ...]:
        """Return what the paper claims of the worst round, which spent `delta`."""
        return ()


class PrivacyConfig(AmplitudeMechanism):
    """An (epsilon, delta) bound on the privacy loss of each round of each device."""

    epsilon: Epsilon = Field(description="epsilon of each round of each device [nats]; Zhang et al. 2022 (14)")
    delta: Annotated[float, Field(ge=1e-12, lt=1, allow_inf_nan=False)] = Field(
        default=0.01, description="delta of each round of each device; 0.01 as in Zhang et al. 2022"
    )
    digital_cap: DigitalCap = Field(
        default="exact",
        description="what delta bounds of a round of bits: the hockey-stick divergence, which is (epsilon, delta)-DP "
        "(exact), or the probability of a larger loss, with the others' symbols cancelled (cancelled) or as in "
        "Zhang et al. 2022 (16) (printed); exact: the most that the bound allows",
    )
    analog_cap: AnalogCap = Field(
        default="exact",
        description="the same for amplitudes: the hockey-stick divergence of the Gaussian mechanism (exact), or T(x) "
        "of Zhang et al. 2022 (21), with the factor 1/2 that the print lacks (corrected) or without (printed); exact: "
        "the most that the bound allows",
    )

    def form(self, *, analog: bool) -> DigitalCap | AnalogCap:
        """Return the form of the cap in force, for amplitudes or for bits."""
        return self.analog_cap if analog else self.digital_cap

    @property
    def stated_delta(self) -> float:
        """See `Mechanism.stated_delta`."""
        return self.delta

    @property
    def of_rounds(self) -> PrivacyConfig:
        """See `AmplitudeMechanism.of_rounds`."""
        return self

    def published(self, *, delta: float, analog: bool) -> tuple[Claim, ...]:
        """See `AmplitudeMechanism.published`; none of the exact forms, whose rounds the accountants prove."""
        from privacy.events.published import flmc_claim

        form = self.form(analog=analog)
        return () if form == "exact" else (flmc_claim(epsilon=self.epsilon, delta=delta, analog=analog, form=form),)


class AmplitudeBudget(Calibrated, AmplitudeMechanism):
    """The received amplitude of every round of FLMC, from a budget for the whole run; see `PrivacyConfig`."""
