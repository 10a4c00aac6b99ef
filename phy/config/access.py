"""Channel knowledge, receiver, NOMA and transmitter impairments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from phy.config.base import Frozen
from phy.config.conflict import ConflictError, LeaveOut, Say


class CsiError(Frozen):
    """Imperfect channel knowledge: h^ = h + gain e, e ~ CN(0, `error_variance`) per coherence block."""

    error_variance: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = Field(
        description="variance of the estimation error relative to gain^2", examples=[0.01]
    )


class CsiEstimation(Frozen):
    """Channel knowledge from the pilots of the OFDM grid."""

    estimator: Literal["ls", "lmmse"] = Field(
        default="ls",
        description="ls: least squares with linear interpolation; lmmse: linear MMSE with the channel's covariance; "
        "ls needs no statistics of the channel",
    )


MAX_ANTENNAS = 64

Combining = Literal["mrc", "zf", "mmse", "blind"]
"""Combiners towards the sum of all devices, see `phy.receivers.towards_sum`."""


class ReceiverConfig(Frozen):
    """The server's antennas and how it combines them.

    With one device per resource both equalisers are maximum-ratio combining. They weight soft bits differently if
    channel knowledge is imperfect: `lmmse` counts the variance of the estimate as noise, `zf` treats the estimate as
    exact. Under NOMA, `sic` combines by the matched filter (`zf`) or against the remaining users (`lmmse`). Under
    superposition the antennas are combined towards the sum of all devices, by `combining`.
    """

    num_antennas: Annotated[int, Field(ge=1, le=MAX_ANTENNAS, strict=True)] = Field(
        default=1, description="antennas of the server"
    )
    equalizer: Literal["zf", "lmmse"] = Field(
        default="lmmse", description="lmmse counts errors of the channel estimate as noise, zf does not"
    )
    combining: Combining = Field(
        default="mrc",
        description="access superposition: combiner matched to the sum of the channels (mrc), or one that aligns "
        "devices which know no channel (zf, mmse, blind); mrc: the only one that is the usual link at one antenna",
    )
    scaling: Literal["auto", "unbiased", "mmse"] = Field(
        default="auto",
        description="divisor of a sum over the air: unbiased, the mean amplitude at which devices arrive, or mmse, the "
        "one with the smallest mean square error; auto: mmse for power policy mse-optimal, else unbiased",
    )


class NomaConfig(Frozen):
    """Power-domain NOMA: `group_size` devices on the same resources, separated by power and antennas.

    Devices are grouped in the order of their numbers. `ladder_db` are their powers relative to each other, strongest
    first, normalised so that a group together has the power that one device has under orthogonal access.

    - `sic`: the strongest is detected symbol by symbol, its symbols are subtracted as decided, then the next; strongest
      by its power over the whole packet;
    - `sic-codeword`: the same with decoding and re-encoding of whole packets before subtraction;
    - `ml`: joint maximum likelihood over all devices' constellations, at most 4096 combinations;
    - `lmmse`: linear detection, with at least as many antennas as devices in a group.
    """

    group_size: Annotated[int, Field(ge=2, le=8, strict=True)] = Field(
        default=2, description="devices on the same resources; 2: the smallest group"
    )
    ladder_db: tuple[Annotated[float, Field(ge=-60, le=60, allow_inf_nan=False)], ...] | None = Field(
        default=None, description="relative powers [dB]; left out: steps of 6 dB downwards"
    )
    detector: Literal["sic", "sic-codeword", "ml", "lmmse"] = Field(
        default="sic",
        description="sic, sic-codeword (with decoding), joint ml, or linear lmmse; sic is usual in power-domain NOMA",
    )

    @model_validator(mode="after")
    def _one_power_each(self) -> NomaConfig:
        if self.ladder_db is not None and len(self.ladder_db) != self.group_size:
            raise ConflictError(
                "ladder_db group_size",
                f"ladder_db has length {len(self.ladder_db)}, group_size is {self.group_size}",
                LeaveOut("ladder_db"),
                Say(f"write {self.group_size} powers"),
            )
        return self

    @property
    def power_shares(self) -> tuple[float, ...]:
        """Share of the group's power of each of its devices, `[group_size]`, sum 1."""
        ladder = self.ladder_db or tuple(-6.0 * rank for rank in range(self.group_size))
        linear = [10.0 ** (level / 10.0) for level in ladder]
        return tuple(value / sum(linear) for value in linear)


class ImpairmentsConfig(Frozen):
    """Transmitter impairments, drawn per device and round.

    For superposition on a single carrier the phase is drawn per coherence block, if that is shorter than a round.
    """

    phase_error_deg: Annotated[float, Field(ge=0, le=180, allow_inf_nan=False)] = Field(
        default=0.0,
        description="standard deviation of the phase that is left after compensation, per device and round [°]; 0: "
        "perfect",
    )
    timing_offset_s: Annotated[float, Field(ge=0, le=1e-3, allow_inf_nan=False)] = Field(
        default=0.0,
        description="largest arrival offset of a device, uniform from 0; needs OFDM; beyond the cyclic prefix it "
        "interferes under access superposition and domain time, elsewhere it turns phases alone [s]",
    )
    estimated: bool = Field(
        default=False,
        description="superposition over OFDM: phase and timing offset last from the pilots on, are part of the channel "
        "that a device knows, and are undone with it; false: they are what is left after synchronisation",
    )
    cfo_hz: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = Field(
        default=0.0, description="largest carrier-frequency offset of a device, uniform on both sides of 0 [Hz]"
    )
    clipping_db: Annotated[float, Field(ge=-10, le=60, allow_inf_nan=False)] | None = Field(
        default=None,
        description="limit of the power amplifier on the envelope, over its RMS [dB]; left out: none",
    )

    @property
    def none(self) -> bool:
        """True if every transmitter is ideal."""
        return self == ImpairmentsConfig()
