"""The OFDM grid: subcarriers, prefix, pilots, and the domain in which the channel acts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from phy.config.base import Frozen
from phy.config.conflict import ConflictError, LeaveOut, Say, Write

ON_GRID = 1e-6
"""Part of a sample by which rounding may move a delay that lies on a sample."""


class OfdmConfig(Frozen):
    """One slot of `num_symbols` OFDM symbols of `num_subcarriers`, filled by packets as `packing` says.

    A pilot symbol carries known QPSK symbols on every carrier in use; with several devices on one grid (NOMA) their
    pilots lie on interleaved carriers (orthogonal in frequency). `domain: frequency` multiplies every carrier by the
    channel at that carrier, as if the prefix were always long enough; `domain: time` delays the waveform behind a real
    prefix, so that inter-symbol and inter-carrier interference show. Where all paths lie within the prefix and the
    channel holds for a symbol there is none, and both domains give the same numbers.
    """

    num_subcarriers: Annotated[int, Field(ge=4, le=4096, strict=True)] = Field(
        default=72, description="size of the Fourier transform; 72: 6 resource blocks of 12"
    )
    subcarrier_spacing_hz: Annotated[float, Field(ge=100, le=1e7, allow_inf_nan=False)] = Field(
        default=15e3, description="distance of subcarriers [Hz]; 15e3: numerology 0 of TS 38.211"
    )
    cyclic_prefix_length: Annotated[int, Field(ge=0, le=4096, strict=True)] = Field(
        default=6,
        description="length of the prefix [samples]; 6: 5.6 µs of the default grid, above the 4.7 µs of TS 38.211",
    )
    num_symbols: Annotated[int, Field(ge=2, le=112, strict=True)] = Field(
        default=14, description="OFDM symbols in one slot; 14 as in TS 38.211 with normal prefix"
    )
    guard_carriers: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] = Field(
        default=(0, 0), description="unused carriers on the left and on the right; (0, 0): every carrier has data"
    )
    dc_null: bool = Field(
        default=False,
        description="leave the carrier at zero frequency empty; false: no offset of the receiver's DC is modelled",
    )
    pilot_symbols: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(2, 11),
        description="OFDM symbols of a slot that carry pilots, counted from 0; 2 and 11 as in TS 38.211, mapping "
        "type A with one additional position",
    )
    domain: Literal["frequency", "time"] = Field(
        default="frequency",
        description="frequency: the channel multiplies each carrier; time: samples, with real interference; "
        "frequency suffices while delays stay within the prefix and the channel holds for a symbol",
    )
    packing: Literal["whole-slots", "shared"] = Field(
        default="whole-slots",
        description="slots of detected devices: every packet has whole slots for itself, or packets of a device follow "
        "each other over shared slots, whose channel and pilots they share; whole-slots: what hits a packet hits no "
        "other",
    )

    @model_validator(mode="after")
    def _fits_the_slot(self) -> OfdmConfig:
        outside = [index for index in self.pilot_symbols if index >= self.num_symbols]
        if outside:
            raise ConflictError(
                "pilot_symbols",
                f"pilot_symbols has {outside[0]}, a slot has symbols 0 to {self.num_symbols - 1}",
                Write({"pilot_symbols": [min(index, self.num_symbols - 1) for index in self.pilot_symbols]}),
            )
        if len(set(self.pilot_symbols)) < len(self.pilot_symbols):
            raise ConflictError(
                "pilot_symbols",
                f"pilots collide: pilot_symbols {list(self.pilot_symbols)} names a symbol twice",
                Write({"pilot_symbols": sorted(set(self.pilot_symbols))}),
            )
        if len(self.pilot_symbols) >= self.num_symbols:
            raise ConflictError(
                "pilot_symbols",
                f"pilot_symbols names all {self.num_symbols} symbols of a slot, none is left for data",
                Write({"pilot_symbols": list(self.pilot_symbols[:-1])}),
            )
        if self.num_carriers < 2:
            raise ConflictError(
                "num_subcarriers guard_carriers",
                f"num_subcarriers {self.num_subcarriers} less guard_carriers "
                f"{list(self.guard_carriers)} and DC leave {max(self.num_carriers, 0)} for data, 2 "
                "are needed",
                LeaveOut("guard_carriers"),
                Say("write a larger num_subcarriers"),
            )
        if self.cyclic_prefix_length > self.num_subcarriers:
            raise ConflictError(
                "cyclic_prefix_length",
                f"cyclic_prefix_length {self.cyclic_prefix_length} is longer than the OFDM symbol of "
                f"{self.num_subcarriers} samples",
                Write({"cyclic_prefix_length": self.num_subcarriers}, note="or less"),
            )
        return self

    @property
    def num_carriers(self) -> int:
        """Carriers in use: all but guards and DC."""
        low, high = self.guard_carriers
        dc_in_use = low <= self.num_subcarriers // 2 < self.num_subcarriers - high
        return self.num_subcarriers - low - high - int(self.dc_null and dc_in_use)

    @property
    def sample_s(self) -> float:
        """Duration of a sample [s]: by Parseval, that of a resource element's energy."""
        return 1.0 / (self.num_subcarriers * self.subcarrier_spacing_hz)

    @property
    def prefix_share(self) -> float:
        """Energy of an OFDM symbol with its prefix over that without."""
        return 1.0 + self.cyclic_prefix_length / self.num_subcarriers

    @property
    def symbol_s(self) -> float:
        """Duration of one OFDM symbol with its prefix [s]."""
        samples = self.num_subcarriers + self.cyclic_prefix_length
        return samples / (self.num_subcarriers * self.subcarrier_spacing_hz)

    @property
    def prefix_s(self) -> float:
        """Duration of the cyclic prefix [s]."""
        return self.cyclic_prefix_length / (self.num_subcarriers * self.subcarrier_spacing_hz)

    @property
    def data_symbols_per_slot(self) -> int:
        """Resource elements of a slot that carry data."""
        return self.num_carriers * (self.num_symbols - len(self.pilot_symbols))
