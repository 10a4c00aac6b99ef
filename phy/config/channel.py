"""Propagation from the antenna of a device to those of the server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from phy.config.base import SPEED_OF_LIGHT_M_S, AmplitudeGain, Frozen, Watts
from phy.config.by_word import ByWord
from phy.config.channel_source import ChannelSource, channel_sources
from phy.config.conflict import ConflictError, LeaveOut, Say, Write, rounded
from phy.config.fading import FadingLaw, NakagamiShape, RicianK, fading_laws
from phy.config.files import FilePath, Sha256, pin_file

ChannelModel = Literal[
    "awgn", "flat", "tdl-a", "tdl-b", "tdl-c", "tdl-d", "tdl-e", "cdl-a", "cdl-b", "cdl-c", "cdl-d", "cdl-e", "trace"
]
Coherence = Literal["symbol", "packet", "round", "run", "doppler"]

_LAW = ByWord(fading_laws, beside=("rician_k_db", "nakagami_m"))

Metres = Annotated[float, Field(ge=-1e5, le=1e5, allow_inf_nan=False)]


class CellConfig(Frozen):
    """Large-scale gains of 3GPP TR 38.901 7.4 from the positions of the devices, with the server at the origin.

    The path loss (and shadowing) of each device is taken relative to that at `reference_distance_m`
    without shadowing, so that `channel.gain` stays the amplitude gain at the reference distance.
    """

    scenario: Literal["umi", "uma", "rma"] = Field(
        default="umi",
        description="urban micro, urban macro or rural macro cell, 3GPP TR 38.901 7.4; umi: the smallest cells of "
        "the three",
    )
    line_of_sight: Literal["never", "always", "by-chance"] = Field(
        default="by-chance", description="by-chance: with the probability of TR 38.901 Table 7.4.2-1"
    )
    positions_m: tuple[tuple[Metres, Metres], ...] | None = Field(
        default=None, description="x and y of each device [m]; left out: uniform in the ring below, per trial"
    )
    min_distance_m: Annotated[float, Field(ge=1, le=2e4)] = Field(
        default=35.0, description="inner radius [m]; 35: least distance of urban and rural macro cells in TR 38.901 7.2"
    )
    radius_m: Annotated[float, Field(ge=1, le=2e4)] = Field(
        default=250.0,
        description="outer radius [m]; 250: half the 500 m between sites of urban macro cells, TR 38.901 Table 7.2-1",
    )
    reference_distance_m: Annotated[float, Field(ge=1, le=2e4)] = Field(
        default=100.0,
        description="distance at which channel.gain holds [m]; 100 is a convention, inside the default ring",
    )
    shadowing: bool = Field(
        default=True, description="log-normal shadowing of TR 38.901 Table 7.4.1-1; true as in the model"
    )

    @model_validator(mode="after")
    def _ring_has_an_area(self) -> CellConfig:
        if self.min_distance_m >= self.radius_m:
            raise ConflictError(
                "min_distance_m radius_m",
                f"min_distance_m {self.min_distance_m:g} must be below radius_m {self.radius_m:g}",
                Write({"min_distance_m": rounded(0.1 * self.radius_m, 6)}),
            )
        return self


class ChannelConfig(Frozen):
    """Propagation from each device to the server.

    - `awgn` is one tap that never fades; `flat` one tap that fades as `fading` says, with unit mean power
      around `gain`, and holds one value for `coherence`: a symbol (an OFDM symbol where there is OFDM), a
      packet, a round, the whole run, or `doppler`: it moves on with `speed_m_s` through the whole run;
    - `trace` is a recorded channel in `file`, see `phy.traces.container`, or one that `source` computes: a snapshot
      per packet, round or run, or under `doppler` the time of the trace; without OFDM the sum of taps, a narrow band;
    - `tdl-a` to `tdl-e` and `cdl-a` to `cdl-e` are those of 3GPP TR 38.901 7.7 with RMS `delay_spread_s`. A new
      realisation is drawn per packet, round or run, and moves on inside it by `speed_m_s`.
    """

    model: ChannelModel = Field(
        default="flat",
        description="one tap without (awgn) or with fading (flat), or delay profiles of 3GPP TR 38.901 7.7",
    )
    fading: Annotated[str | FadingLaw, _LAW] = Field(default="constant", description="fading law of model flat")
    rician_k_db: RicianK = 6.0
    nakagami_m: NakagamiShape = 2.0
    coherence: Coherence = Field(
        default="round",
        description="how long one realisation of the channel holds; tdl and cdl models draw one per packet, round or "
        "run and move on inside it by speed_m_s; a round as in Li et al. 2025, independent from round to round",
    )
    delay_spread_s: Annotated[float, Field(ge=0, le=1e-4, allow_inf_nan=False)] = Field(
        default=100e-9,
        description="RMS delay spread of a tdl or cdl model [s]; 1e-7: nominal delay spread of TR 38.901 Table 7.7.3-1",
    )
    carrier_frequency_hz: Annotated[float, Field(ge=0.5e9, le=100e9, allow_inf_nan=False)] = Field(
        default=3.5e9,
        description="carrier frequency, TR 38.901 holds from 0.5 to 100 GHz [Hz]; 3.5e9: in band n78 of 5G",
    )
    speed_m_s: Annotated[float, Field(ge=0, le=150, allow_inf_nan=False)] = Field(
        default=0.0,
        description="speed of the devices, Doppler shift times c over carrier frequency [m/s]; at most 540 km/h",
    )
    movement: Literal["horizontal", "space"] = Field(
        default="horizontal",
        description="direction of the velocity in a cdl model, drawn with the channel: horizontal: azimuth uniform in "
        "the plane, as TR 38.901 evaluates; space: zenith uniform too, as Sionna draws it, with slower fading",
    )
    gain: AmplitudeGain | Annotated[tuple[AmplitudeGain, ...], Field(min_length=1)] = Field(
        default=1.0,
        description="amplitude gain h, one for all devices or one per device; 1: power is received as it is sent",
    )
    cell: CellConfig | None = Field(
        default=None, description="positions and large-scale gains of the devices; left out: every device has gain"
    )
    file: FilePath | None = Field(
        default=None,
        description="recorded channel of model trace, .npz or .h5: a path beside the scenario, in the folder of "
        "PHYLOOP_DATA or in the working directory; phyloop channel check looks at it",
        examples=["site.npz"],
    )
    sha256: Sha256 | None = Field(default=None, description="SHA-256 of file; written by phyloop run")
    source: Annotated[ChannelSource, channel_sources] | None = Field(
        default=None,
        description="channel of model trace that a class computes, in place of a file; phyloop show channel names them",
        examples=["two-path"],
    )
    order: Literal["sequential", "random"] = Field(
        default="sequential",
        description="next snapshot of a trace at the next packet or round, by coherence: the next one, from a random "
        "one on and around, or any; sequential: what is close in time stays close",
    )
    at_end: Literal["loop", "error"] = Field(
        default="loop",
        description="what follows the last snapshot of a trace: the first one again (loop), or nothing (error): every "
        "trial then begins at the first snapshot, and a study that needs more is refused; loop: any number of rounds",
    )
    users: Literal["identity", "random"] = Field(
        default="identity",
        description="user of the trace that each device is: the one of its number, or drawn for every trial; identity: "
        "numbers in results are those of the file",
    )
    normalize: Literal["none", "per-link", "per-site"] = Field(
        default="per-site",
        description="mean power of a trace that stands for gain: as recorded (none), 1 on every link, or 1 over all "
        "links of the file, which keeps their differences; per-site: snr_max_db stays the mean SNR",
    )
    noise_power: Watts = Field(
        default=1.0,
        description="N0, noise variance per real dimension [W]; 1 as in Zhang et al. 2022. snr_max_db is P0/N0, so "
        "that more noise comes with more transmit power: lower snr_max_db or gain for a worse link",
    )

    @model_validator(mode="after")
    def _awgn_does_not_fade(self) -> ChannelConfig:
        if self.model != "flat" and self.law.fades:
            raise ConflictError(
                "fading model",
                f"fading {self.law.name} belongs to model: flat, the model is {self.model}",
                Write({"model": "flat"})
                if self.model == "awgn"
                else LeaveOut("fading", note=": the model has its own"),
            )
        return self

    @model_validator(mode="after")
    def _a_trace_has_a_file(self) -> ChannelConfig:
        of_trace = [
            key
            for key in ("file", "sha256", "source", "order", "at_end", "users", "normalize")
            if key in self.model_fields_set
        ]
        written = [key for key in of_trace if getattr(self, key) != ChannelConfig.model_fields[key].default]
        if self.model != "trace":
            if written:
                problem = f"{written[0]} belongs to model: trace, the model is {self.model}"
                remedies = [Write({"model": "trace"})] if self.file or self.source else []
                raise ConflictError(f"{written[0]} model", problem, *remedies, LeaveOut(*written))
            return self
        if self.file is not None and self.source is not None:
            problem = "model trace has one channel, that of its file or that of its source"
            raise ConflictError("source file", problem, LeaveOut("source"), LeaveOut("file"))
        if self.file is None and self.source is None:
            problem = "model trace is a recorded channel, and no file is named"
            raise ConflictError("model file", problem, Write({"model": "flat"}), Say("name its file"))
        for key, unset in (("cell", None), ("speed_m_s", 0.0), ("movement", "horizontal")):
            if getattr(self, key) != unset:
                raise ConflictError(f"{key} model", f"model trace has no {key}, its file tells", LeaveOut(key))
        if self.coherence == "symbol":
            raise ConflictError("coherence", "model trace has no coherence symbol", Write({"coherence": "packet"}))
        if self.at_end == "error" and self.order == "random":
            problem = "order random draws any snapshot of the trace, which then has no end"
            raise ConflictError("at_end order", problem, LeaveOut("at_end"), Write({"order": "sequential"}))
        pin_file(self)
        return self

    @model_validator(mode="after")
    def _time_passes_where_it_acts(self) -> ChannelConfig:
        selective = self.model.startswith(("tdl", "cdl"))
        if self.traced:
            return self
        if self.coherence == "doppler" and self.model != "awgn" and self.speed_m_s == 0:
            raise ConflictError(
                "coherence speed_m_s",
                "coherence doppler needs a speed_m_s above 0",
                Write({"speed_m_s": 1}, example=True),
            )
        if self.speed_m_s > 0 and not selective and self.coherence != "doppler":
            raise ConflictError(
                "speed_m_s coherence",
                f"speed_m_s {self.speed_m_s:g} acts on a flat channel under coherence: doppler only, "
                f"the coherence is {self.coherence}",
                Write({"coherence": "doppler"}),
                LeaveOut("speed_m_s"),
            )
        if self.movement != "horizontal" and not self.model.startswith("cdl"):
            raise ConflictError(
                "movement model",
                f"movement {self.movement} belongs to the rays of a cdl model, the model is {self.model}",
                LeaveOut("movement"),
                Write({"model": "cdl-c"}),
            )
        if self.coherence == "symbol" and selective:
            raise ConflictError("coherence", f"{self.model} has no coherence symbol", Write({"coherence": "packet"}))
        if self.coherence == "doppler" and self.law.rician_k is None:
            raise ConflictError(
                "fading coherence",
                f"{self.law.label} has no Doppler process here",
                Write({"fading": "rayleigh"}),
                Write({"fading": "rician"}),
            )
        return self

    @property
    def law(self) -> FadingLaw:
        """The fading law of a flat channel with its parameters; constant for other models."""
        return _LAW.thing(self, self.fading)

    @property
    def small_scale(self) -> ChannelConfig:
        """The channel without what only scales it: gain, cell and noise power at their defaults."""
        return self.model_copy(update={"gain": 1.0, "cell": None, "noise_power": 1.0})

    @property
    def selective(self) -> bool:
        """True if the channel has several delays."""
        return self.model.startswith(("tdl", "cdl"))

    @property
    def max_doppler_hz(self) -> float:
        """Largest Doppler shift v f / c of a channel that moves, else 0 [Hz]."""
        return self.speed_m_s * self.carrier_frequency_hz / SPEED_OF_LIGHT_M_S

    @property
    def fades(self) -> bool:
        """True if two draws of the tap can differ."""
        return self.law.fades or self.selective or self.traced

    @property
    def traced(self) -> bool:
        """True for a recorded channel."""
        return self.model == "trace"

    def gains(self, num_devices: int) -> tuple[float, ...]:
        """Amplitude gain of each device, `[num_devices]`; ValueError if the list has another length."""
        if isinstance(self.gain, tuple):
            if len(self.gain) != num_devices:
                raise ValueError(f"gain has length {len(self.gain)}, num_devices is {num_devices}")
            return self.gain
        return (self.gain,) * num_devices
