"""What a link is: the `link:` part of a scenario, checked once, immutable, free of TensorFlow.

Units and conventions, one place:

- `noise_power` N0 is the variance of the receiver noise in **each real dimension** (in-phase and
  quadrature alike), z ~ N(0, N0) of Zhang et al. 2022 below (9). The complex noise power that
  Sionna calls `no` is therefore 2 N0.
- `snr_max_db` = 10 log10(P0 / N0) with P0 the largest average transmit power of a device over one
  block (Zhang et al. 2022, (10) and the line below it).
- `gain` is the amplitude gain h of a device (not the power gain), the root mean square over fading.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Access = Literal["auto", "orthogonal", "superposition"]
Modulation = Literal["auto", "bpsk", "qpsk", "16qam", "64qam", "256qam", "analog"]
ErrorModel = Literal["measured", "iid", "analytic", "error_free"]
Coherence = Literal["symbol", "packet", "round", "run"]
Fading = Literal["constant", "rayleigh", "rician"]
PowerPolicy = Literal["fixed", "inversion", "truncated-inversion"]

# The limits are far beyond any radio and keep squares and ratios inside single precision.
AmplitudeGain = Annotated[float, Field(gt=1e-9, le=1e9, allow_inf_nan=False)]
Watts = Annotated[float, Field(gt=1e-30, le=1e12, allow_inf_nan=False)]
Decibels = Annotated[float, Field(ge=-300, le=300, allow_inf_nan=False)]

BITS_PER_SYMBOL: dict[str, int] = {"bpsk": 1, "qpsk": 2, "16qam": 4, "64qam": 6, "256qam": 8}


class Frozen(BaseModel):
    """Base of every part of a scenario: unknown keys are errors, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChannelConfig(Frozen):
    """Propagation from each device to the server: y = h x + z, one complex tap per device.

    `awgn` is a tap that never fades; `flat` fades as `fading` says, with unit mean power around
    `gain`, and holds one value for `coherence`: a symbol, a packet, a round or the whole run.
    """

    model: Literal["awgn", "flat"] = "flat"
    fading: Fading = "constant"
    rician_k_db: Decibels = Field(
        default=6.0,
        description="Rician K-factor: power of the fixed path over that of the scattered ones [dB]",
    )
    coherence: Coherence = "round"
    gain: AmplitudeGain | Annotated[tuple[AmplitudeGain, ...], Field(min_length=1)] = Field(
        default=1.0, description="amplitude gain h, one for all devices or one per device"
    )
    noise_power: Watts = Field(default=1.0, description="N0, noise variance per real dimension [W]")

    @model_validator(mode="after")
    def _awgn_does_not_fade(self) -> ChannelConfig:
        if self.model == "awgn" and self.fading != "constant":
            raise ValueError(f"model: awgn does not fade, but fading is {self.fading}; write model: flat")
        return self

    @property
    def fades(self) -> bool:
        """Whether two draws of the tap can differ."""
        return self.fading != "constant"

    def gains(self, num_devices: int) -> tuple[float, ...]:
        """Amplitude gain of each device, `[num_devices]`; ValueError if the list has another length."""
        if isinstance(self.gain, tuple):
            if len(self.gain) != num_devices:
                raise ValueError(f"gain lists {len(self.gain)} devices, the scenario has {num_devices}")
            return self.gain
        return (self.gain,) * num_devices


class CsiError(Frozen):
    """Imperfect channel knowledge: h^ = h + gain e, e ~ CN(0, `error_variance`) per coherence block."""

    error_variance: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = Field(
        description="variance of the estimation error relative to gain^2"
    )


class PowerConfig(Frozen):
    """Transmit power control, always under the average power P0 per block of each device.

    - `fixed`: every device at full power, phase compensated;
    - `inversion`: every device arrives with one common amplitude A, the largest that the weakest
      device and the caps handed in allow (`flmc` is read as this: it is the paper's policy);
    - `truncated-inversion`: the same, but a device whose estimated power gain is more than
      `cutoff_db` below its mean stays silent for that coherence block.
    """

    policy: PowerPolicy = "inversion"
    snr_max_db: Decibels = Field(default=20.0, description="10 log10(P0 / N0) [dB]")
    cutoff_db: Annotated[float, Field(ge=-100, le=30, allow_inf_nan=False)] = Field(
        default=-10.0, description="truncation threshold on |h^|^2 relative to gain^2 [dB]"
    )

    @field_validator("policy", mode="before")
    @classmethod
    def _read_flmc_as_inversion(cls, value: object) -> object:
        return "inversion" if value == "flmc" else value

    @property
    def snr_max(self) -> float:
        """P0 / N0, linear."""
        return float(10.0 ** (self.snr_max_db / 10.0))


class LinkConfig(Frozen):
    """The whole `link:` part. `auto` stands for what the learning scheme sends."""

    access: Access = "auto"
    modulation: Modulation = "auto"
    coding: Literal["none"] = "none"
    channel: ChannelConfig = ChannelConfig()
    csi: Literal["perfect"] | CsiError = "perfect"
    power: PowerConfig = PowerConfig()
    error_model: ErrorModel = "measured"
    packet_size_bytes: Annotated[int, Field(ge=1, le=1 << 20, strict=True)] = 2312
    probe_bits: Annotated[int, Field(ge=8, le=1 << 24, strict=True)] = Field(
        default=4096, description="known bits per device in one probe of the channel"
    )

    @property
    def max_power(self) -> float:
        """P0 [W], the largest average transmit power over a block."""
        return self.power.snr_max * self.channel.noise_power

    @property
    def csi_error_variance(self) -> float:
        """Variance of the channel estimation error relative to gain^2; 0 when CSI is perfect."""
        return 0.0 if isinstance(self.csi, str) else self.csi.error_variance
