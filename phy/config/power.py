"""Transmit power control, under the average power P0 of each device per block.

P0 is written relative to the noise (`snr_max_db`) or in dBm (`transmit_power_dbm`), one for all devices or one per
device. `PowerConfig.limits_db` returns either as P0 / N0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from phy.config.base import Access, Decibels, Frozen
from phy.config.by_word import ByWord
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write, rounded
from phy.config.registry import Registry

if TYPE_CHECKING:
    from phy.config.link import LinkConfig

Kernel = Literal["constant", "inverse"]
"""Forms of |w| that engine `fused` has compiled: 1, and 1 / |h^|."""
PowerDbm = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


def _form(value: object) -> str:
    return "list" if isinstance(value, list | tuple) else "number"


# The form is chosen before it is read, so that an error in a number is not reported as one of a list.
Snr = Annotated[
    Annotated[Decibels, Tag("number")] | Annotated[tuple[Decibels, ...], Field(min_length=1), Tag("list")],
    Discriminator(_form),
]
Dbm = Annotated[
    Annotated[PowerDbm, Tag("number")] | Annotated[tuple[PowerDbm, ...], Field(min_length=1), Tag("list")],
    Discriminator(_form),
]

BOLTZMANN_J_K = 1.380649e-23
NOISE_TEMPERATURE_K = 290.0
"""Standard noise temperature, to which a noise figure refers (IEEE Std 161; ITU-R P.372)."""

Cutoff = Annotated[
    float,
    Field(
        ge=-100,
        le=30,
        allow_inf_nan=False,
        description="truncation threshold on |h^|^2 relative to gain^2 [dB]; -10: 9.5 % of Rayleigh fading lies below",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Terms of the mean square error of a sum over the air.

    - `payload_power` `[num_trials, num_devices]`: mean power of a payload symbol of each device before weighting;
    - `noise_power`: power of the receiver's noise on a payload symbol, on the axes that it uses.
    """

    payload_power: NDArray[np.float64]
    noise_power: float


class PowerPolicy(Frozen):
    """Shape of the transmit amplitude over the channel that a device knows.

    A device multiplies its symbols by level * w, w = |w| conj(h^) / |h^|, with h^ its estimate of the channel. A policy
    is a frozen class with its word as `name`, its parameters as fields, and |w| as `amplitude`; `phy.links.power` then
    chooses the level of a trial, the largest that the power of every device and all caps admit.
    """

    kernel: ClassVar[Kernel | None] = None
    """Form of |w| in engine `fused`; None for others, of which flat links without packets are computed by `sionna`."""
    silences: ClassVar[bool] = False
    """True if |w| can be 0."""
    closed_loop: ClassVar[bool] = False
    """True if a device's power follows the errors that the last round measured on it."""
    clips: ClassVar[bool] = False
    """True if `level` weighs payloads against noise, and may be above what some devices reach."""

    if TYPE_CHECKING:  # a field of every subclass, with the word as its type
        name: str

    @property
    def constant(self) -> bool:
        """True if |w| is 1 in any round."""
        return self.kernel == "constant" and not self.closed_loop

    @property
    def inverts(self) -> bool:
        """True if all devices arrive with one amplitude."""
        return self.kernel == "inverse" and not self.silences and not self.clips

    @property
    def compiled(self) -> PowerPolicy:
        """The policy without parameters that compiled code is fed: the same code serves all cutoffs."""
        return self if self.kernel is None else type(self).model_validate({})

    @abstractmethod
    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """|w| for amplitude gains |h^|, real, of the same shape; root mean squares `mean_gain` broadcast against them.

        `xp` is `numpy` or `tensorflow`: use operators, and of functions `where`, `maximum`, `minimum`, `sqrt`, `exp`,
        `ones_like` and `zeros_like`, which both have.
        """

    def level(self, reach: NDArray[np.float64], sums: Sums | None) -> NDArray[np.float64]:
        """Level of a trial `[num_trials]` from the levels that its devices reach at full power; here the smallest.

        `reach` `[num_trials, num_devices]` is infinite for devices that do not send. One that does not reach the level
        sends at full power, on a channel that holds for the round.
        """
        del sums
        return np.asarray(reach.min(axis=1))

    def conflicts(self, link: LinkConfig) -> Iterator[Conflict]:
        """Conflicts of the policy with the rest of `link`, keys relative to it: here with error models."""
        packets = link.access != "superposition" and not link.plain
        if self.silences and packets and link.flips_independently:
            yield Conflict(
                "power.policy error_model",
                f"{self.name} leaves out packets, which error model {link.error_model} does not know",
                Write({"error_model": "measured"}),
                Say("policy: inversion or fixed"),
            )
        if link.error_model == "analytic" and self.kernel is None:
            yield Conflict(
                "power.policy error_model",
                f"error model analytic has no closed form for policy {self.name}",
                Write({"error_model": "measured"}),
                Write({"error_model": "iid"}),
                Write({"policy": "fixed"}),
            )


power_policies: Registry[PowerPolicy] = Registry("power policy", PowerPolicy, package="phy.links.policies")
_POLICY = ByWord(power_policies, beside=("cutoff_db", "loop"), auto=True)


class LoopConfig(Frozen):
    """Closed loop on the error rate measured in the last round.

    With r the rate measured and r0 the target, a device's power moves by

        clip(db_per_decade * log10(r / r0), -max_step_db, +max_step_db)

    and stays between `min_snr_db` and `snr_max_db`. Without errors, r is (0 + 1/2) / (n + 1).
    """

    target: Literal["ber", "bler"] = Field(
        default="ber", description="rate that the loop follows; ber: measured under packets.policy accept, the default"
    )
    target_rate: Annotated[float, Field(gt=0, lt=0.5, allow_inf_nan=False)] = Field(
        default=1e-2, description="r0; 0.01: mean of the bit error rates in Li et al. 2025, uniform in [0, 0.02]"
    )
    db_per_decade: Annotated[float, Field(gt=0, le=30, allow_inf_nan=False)] = Field(
        default=3.0,
        description="change of power per decade of r / r0 [dB]; 3: a third of the 10 dB that a decade takes over "
        "Rayleigh fading",
    )
    max_step_db: Annotated[float, Field(gt=0, le=30, allow_inf_nan=False)] = Field(
        default=3.0, description="largest change in one round [dB]; 3: a factor of 2"
    )
    initial_snr_db: Decibels | None = Field(default=None, description="start; left out: at snr_max_db [dB]")
    min_snr_db: Decibels = Field(
        default=-30.0,
        description="lowest transmit power over N0 [dB]; -30: at gain 1 nearly half of all qpsk bits are wrong there",
    )


class EnergyBudget(Frozen):
    """Transmit energy E that each device has for all rounds, and how it spends it; pilots count.

    With n rounds left and energy E_l, a round takes (1 - q) / (1 - q^n) E_l at most, and power P0 at most:

    - `even`: q = 1, E / R in each of R rounds;
    - `greedy`: q = 0, power P0 until nothing is left;
    - `convergence`: p_t proportional to rho^((R - t) / 2) g_t, which minimises sum_t rho^(R - t) g_t^2 / p_t under
      sum_t p_t = E. That is how the noise of rounds enters bounds on the loss of analog federated averaging (Cao, Zhu,
      Xu and Cui 2022): g_t, the norm of the largest update, scales it, and each later round leaves a share rho of it.
      Norms to come are taken to follow the trend so far; of signs and histograms all are 1.
    """

    energy_j: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = Field(
        description="transmit energy of each device for all rounds [J]", examples=[1e-3]
    )
    spread: Literal["even", "greedy", "convergence"] = Field(
        default="even",
        description="over rounds: evenly, at full power until spent, or so that a bound on convergence is smallest; "
        "even assumes nothing about learning",
    )
    contraction: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.98,
        description="rho of spread convergence: share of the squared error that one round of training leaves; 0.98: "
        "half of it after 34 rounds",
    )


class PowerConfig(Frozen):
    """Power control: a policy of `phy.links.policies` under the limit P0. `flmc` is another name for `inversion`."""

    policy: Annotated[str | PowerPolicy, _POLICY] = Field(
        default="auto",
        description="power control policy; auto: inversion for access superposition, where amplitudes must arrive "
        "equal, else fixed, because inversion brings every device down to the weakest one",
    )
    snr_max_db: Snr | None = Field(
        default=20.0,
        description="10 log10(P0 / N0) [dB], N0 per real dimension: 3 dB above the received SNR; 20: about 1 bit in "
        "100 is wrong over Rayleigh fading with qpsk, none without fading",
    )
    transmit_power_dbm: Dbm | None = Field(
        default=None,
        description="P0 in place of snr_max_db [dBm], one for all devices or one per device; noise is k T B at 290 K "
        "over bandwidth_hz, or over the OFDM carriers in use; left out: snr_max_db",
        examples=[10],
    )
    noise_figure_db: Annotated[float, Field(ge=0, le=50, allow_inf_nan=False)] = Field(
        default=5.0,
        description="noise figure of the server under transmit_power_dbm [dB]; 5: base stations below 6 GHz in "
        "ITU-R M.2412",
    )
    cutoff_db: Cutoff = -10.0
    loop: LoopConfig = Field(
        default=LoopConfig(), description="closed loop on the measured error rate (policy closed-loop)"
    )

    budget: EnergyBudget | None = Field(
        default=None, description="transmit energy of each device for all rounds (access superposition); left out: none"
    )

    @field_validator("policy", mode="before")
    @classmethod
    def _read_flmc_as_inversion(cls, value: object) -> object:
        return "inversion" if value == "flmc" else value

    @model_validator(mode="after")
    def _power_is_written_once(self) -> PowerConfig:
        written = self.model_fields_set
        if self.transmit_power_dbm is None:
            if self.snr_max_db is None:
                raise ConflictError("snr_max_db", "snr_max_db has no value", Write({"snr_max_db": 20}, example=True))
            if (
                "noise_figure_db" in written
                and self.noise_figure_db != PowerConfig.model_fields["noise_figure_db"].default
            ):
                raise ConflictError(
                    "noise_figure_db",
                    "noise_figure_db belongs to transmit_power_dbm, and snr_max_db already is relative to the noise",
                    LeaveOut("noise_figure_db"),
                    Write({"transmit_power_dbm": 10}, over=("snr_max_db",), example=True),
                )
            return self
        if "snr_max_db" in written and self.snr_max_db is not None:
            raise ConflictError(
                "snr_max_db transmit_power_dbm",
                "snr_max_db and transmit_power_dbm both set the largest transmit power",
                LeaveOut("snr_max_db"),
                LeaveOut("transmit_power_dbm"),
            )
        self.__dict__["snr_max_db"] = None  # as in `pin_file`: nobody else has seen the section yet
        return self

    @model_validator(mode="after")
    def _loop_has_room(self) -> PowerConfig:
        loop = self.loop
        if not self.control_of("auto").closed_loop:
            if loop != LoopConfig():
                name = self.policy if isinstance(self.policy, str) else self.policy.name
                raise ConflictError(
                    "loop policy", f"loop belongs to policy closed-loop, the policy is {name}", LeaveOut("loop")
                )
            return self
        if self.snr_max_db is None:
            raise ConflictError(
                "policy transmit_power_dbm",
                "the powers of policy closed-loop are relative to the noise, and transmit_power_dbm is not",
                Write({"snr_max_db": 20}, over=("transmit_power_dbm",), example=True),
                Write({"policy": "fixed"}),
            )
        lowest = min(_listed(self.snr_max_db))
        for name in ("min_snr_db", "initial_snr_db"):
            value = getattr(loop, name)
            if value is not None and value > lowest:
                raise ConflictError(
                    f"loop.{name} snr_max_db",
                    f"loop.{name} {value:g} is above snr_max_db {lowest:g}",
                    Write({name: rounded(lowest, 6)}, note="or less"),
                )
        return self

    def control_of(self, access: Access) -> PowerPolicy:
        """Return the policy with its parameters, for devices under `access`."""
        return _POLICY.thing(self, self.policy_of(access))

    def policy_of(self, access: Access) -> str | PowerPolicy:
        """Return the policy with `auto` resolved for `access`."""
        if self.policy != "auto":
            return self.policy
        return "inversion" if access == "superposition" else "fixed"

    def limits_db(self, bandwidth_hz: float) -> tuple[float, ...]:
        """10 log10(P0 / N0) as written: of every device, or one for all [dB].

        P0 in dBm stands against the noise of `bandwidth_hz`, whose power in both real dimensions is 2 N0.
        """
        key, written = self.written
        if key == "snr_max_db":
            return _listed(written)
        noise_dbm = thermal_noise_dbm(bandwidth_hz, noise_figure_db=self.noise_figure_db)
        return tuple(power + 10.0 * math.log10(2.0) - noise_dbm for power in _listed(written))

    @property
    def written(self) -> tuple[str, float | tuple[float, ...]]:
        """Key and value of P0: `snr_max_db` or `transmit_power_dbm`, for all devices or of each."""
        if self.transmit_power_dbm is not None:
            return "transmit_power_dbm", self.transmit_power_dbm
        assert self.snr_max_db is not None  # of the validator
        return "snr_max_db", self.snr_max_db


def thermal_noise_dbm(bandwidth_hz: float, *, noise_figure_db: float) -> float:
    """Noise power of a receiver, k T B F with T = 290 K [dBm]."""
    return 10.0 * math.log10(BOLTZMANN_J_K * NOISE_TEMPERATURE_K * bandwidth_hz * 1e3) + noise_figure_db


def _listed(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)
