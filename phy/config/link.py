"""The `link:` section of a scenario, checked once, immutable, free of TensorFlow.

Units and conventions:

- `noise_power` N0 is the variance of the receiver noise in **each real dimension** (in-phase and
  quadrature alike), z ~ N(0, N0) of Zhang et al. 2022 below (9). The complex noise power that
  Sionna calls `no` is therefore 2 N0.
- `snr_max_db` = 10 log10(P0 / N0) with P0 the largest average transmit power of a device over one
  block (Zhang et al. 2022, (10) and the line below it). Devices of unequal P0: `phy.config.levels`.
- `gain` is the amplitude gain h of a device (not the power gain), the root mean square over fading.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from phy.config.access import CsiError, CsiEstimation, ImpairmentsConfig, NomaConfig, ReceiverConfig
from phy.config.base import BITS_PER_SYMBOL, Access, ErrorModel, Frozen, Modulation, word_or_mapping
from phy.config.channel import ChannelConfig
from phy.config.coding import CodingConfig, PacketConfig
from phy.config.conflict import ConflictError, LeaveOut
from phy.config.delays import delay_tables
from phy.config.mcs import Mcs, McsAdaptation, McsEntry, entries_of
from phy.config.ofdm import ON_GRID, OfdmConfig
from phy.config.power import PowerConfig, PowerPolicy


def _kind_of_csi(value: object) -> str:
    if isinstance(value, str):
        return "word"
    given = isinstance(value, CsiError) or (isinstance(value, dict) and "error_variance" in value)
    return "error" if given else "estimation"


# The form is chosen before it is read, so that an error in one form is not reported as the other.
Coding = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[CodingConfig, Tag("mapping")], Discriminator(word_or_mapping)
]
Ofdm = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[OfdmConfig, Tag("mapping")], Discriminator(word_or_mapping)
]
Csi = Annotated[
    Annotated[Literal["perfect"], Tag("word")]
    | Annotated[CsiError, Tag("error")]
    | Annotated[CsiEstimation, Tag("estimation")],
    Discriminator(_kind_of_csi),
]


class LinkConfig(Frozen):
    """The `link:` section. `auto` takes what the learning scheme sends."""

    access: Access = Field(
        default="auto", description="orthogonal, superposition or noma; auto: as the learning scheme sends"
    )
    modulation: Modulation = Field(default="auto", description="constellation; auto: as the learning scheme sends")
    mcs: Mcs = Field(
        default=None,
        description="index of TS 38.214 Table 5.1.3.1-1 in place of modulation and code rate, or a list of one for "
        "each device, or {adapt: ...}: chosen for every device and round; left out: modulation and coding hold",
    )
    coding: Coding = Field(default="none", description="none, or a channel code")
    packets: PacketConfig = Field(default=PacketConfig(), description="CRC of packets, and use of packets in error")
    channel: ChannelConfig = Field(default=ChannelConfig(), description="propagation from devices to the server")
    ofdm: Ofdm = Field(default="none", description="none: a single carrier; or the OFDM grid")
    csi: Csi = Field(
        default="perfect",
        description="perfect, {error_variance: ...} or {estimator: ...}: the receiver's channel knowledge",
    )
    receiver: ReceiverConfig = Field(default=ReceiverConfig(), description="antennas and equaliser of the server")
    noma: NomaConfig = Field(default=NomaConfig(), description="groups of devices under access noma")
    multiplexing: Literal["tdma", "ofdma"] = Field(
        default="tdma",
        description="orthogonal access: devices one after another, or side by side on blocks of subcarriers; tdma "
        "needs no OFDM",
    )
    impairments: ImpairmentsConfig = Field(default=ImpairmentsConfig(), description="imperfect transmitters")
    power: PowerConfig = Field(default=PowerConfig(), description="transmit power control")
    error_model: ErrorModel = Field(
        default="measured",
        description="measured on the simulated link; independent errors at each device's measured rate (iid), at the "
        "mean rate of all devices (iid-mean) or at a closed-form rate (analytic); or error_free; measured assumes "
        "nothing about the errors",
    )
    engine: Literal["auto", "sionna", "fused", "cuda"] = Field(
        default="auto",
        description="Sionna under XLA, fused kernels on a CPU, or cuda: kernels on a GPU for a few links; auto: fused "
        "where it supports the link",
    )
    bandwidth_hz: Annotated[float, Field(ge=1, le=1e10, allow_inf_nan=False)] = Field(
        default=1e6,
        description="symbols per second of a single carrier; OFDM has its own [Hz]; 1e6 is a convention: a symbol "
        "takes 1 µs",
    )
    packet_size_bytes: Annotated[int, Field(ge=1, le=1 << 20, strict=True)] = Field(
        default=2312,
        description="payload of one packet [bytes]; 2312: largest frame body of IEEE 802.11, and the packet of "
        "Li et al. 2025",
    )
    probe_bits: Annotated[int, Field(ge=8, le=1 << 24, strict=True)] = Field(
        default=4096,
        description="known bits per device in one probe of the channel; 4096: standard error 0.0016 at a bit error "
        "rate of 0.01 with independent errors",
    )

    @model_validator(mode="after")
    def _mcs_names_modulation_and_rate(self) -> LinkConfig:
        if self.mcs is None:
            return self
        lowest = entries_of(self.mcs)[0]
        what = f"mcs {self.mcs}" if isinstance(self.mcs, int) else "mcs"
        if self.modulation not in ("auto", lowest.modulation):
            stands: str = lowest.modulation if isinstance(self.mcs, int) else "for each device or round"
            raise ConflictError(
                "mcs modulation", f"{what} is {stands}, but modulation is {self.modulation}", LeaveOut("mcs")
            )
        coding, usual = self.coding, CodingConfig.model_fields["rate"].default
        if isinstance(coding, CodingConfig) and coding.code != "ldpc5g":
            raise ConflictError("mcs", f"{what} means code ldpc5g, the code is {coding.code}", LeaveOut("mcs"))
        # A run's own file has every default written out: no code, or the default rate.
        if isinstance(coding, CodingConfig) and coding.rate not in (lowest.rate, usual):
            stands = f"rate {lowest.rate:.4f}" if isinstance(self.mcs, int) else "rates of its own"
            raise ConflictError(
                "mcs coding.rate", f"{what} has {stands}, but coding.rate is {coding.rate:g}", LeaveOut("mcs")
            )
        return self

    def resolve_digital(self) -> LinkConfig:
        """Return the link with access and modulation named, orthogonal QPSK where they are `auto`."""
        return self.resolve(access="orthogonal", modulation="qpsk")

    def resolve(self, *, access: Access, modulation: Modulation) -> LinkConfig:
        """Return the link with the modulation of `mcs`, and access, modulation and power policy in place of `auto`."""
        resolved = self.resolve_mcs()
        access = access if self.access == "auto" else self.access
        update = {
            "access": access,
            "modulation": modulation if resolved.modulation == "auto" else resolved.modulation,
            "power": self.power.model_copy(update={"policy": self.power.policy_of(access)}),
        }
        return resolved.model_copy(update=update)

    def resolve_mcs(self) -> LinkConfig:
        """Return the link with the modulation and code rate of `mcs` written out.

        Of several they are those of the MCS with the fewest bits per symbol, and `mcs` stays.
        """
        if self.mcs is None:
            return self
        lowest = with_mcs(self, entries_of(self.mcs)[0])
        return lowest if isinstance(self.mcs, int) else lowest.model_copy(update={"mcs": self.mcs})

    @property
    def control(self) -> PowerPolicy:
        """The power policy with its parameters; under access `auto` that of detected devices stands for `auto`."""
        return self.power.control_of(self.access)

    @property
    def plain(self) -> bool:
        """True if the link needs no packet link: uncoded, flat fading, one antenna."""
        return (
            self.access == "orthogonal"
            and self.coding == "none"
            and self.mcs is None
            and self.packets.policy == "accept"
            and self.packets.crc in ("auto", "none")
            and not self.channel.selective
            and not self.channel.traced
            and self.channel.coherence != "doppler"
            and self.ofdm == "none"
            and not isinstance(self.csi, CsiEstimation)
            and self.receiver.num_antennas == 1
            and self.impairments.none
            and not self.control.closed_loop
        )

    @property
    def flips_independently(self) -> bool:
        """True if the error model flips bits independently of each other, in place of the radio's own errors."""
        return self.error_model in ("iid", "iid-mean", "analytic")

    @property
    def combines(self) -> bool:
        """True if the server combines its antennas towards the sum of all devices."""
        return self.access == "superposition" and (self.receiver.num_antennas > 1 or self.receiver.combining != "mrc")

    @property
    def lasting(self) -> bool:
        """True if what is drawn of a device's channel, its power, or its MCS, follows from earlier rounds."""
        channel = self.channel
        drawn = channel.fades or channel.selective or self.csi_error_variance > 0.0
        fades_on = drawn and channel.coherence in ("run", "doppler")
        steered = self.control.closed_loop or (isinstance(self.mcs, McsAdaptation) and self.mcs.adapt == "outer-loop")
        return fades_on or channel.traced or channel.cell is not None or steered

    @property
    def steady(self) -> bool:
        """True if every device knows its channel as one number that holds for the round."""
        channel = self.channel
        varies = channel.fades or self.csi_error_variance > 0.0
        changing = ("symbol", "packet") if self.ofdm == "none" else ("symbol", "doppler")
        aligned = self.combines and self.receiver.combining != "mrc"  # by the server: devices know no channel
        one_number = not (channel.selective or channel.traced or isinstance(self.csi, CsiEstimation) or aligned)
        return one_number and not (varies and channel.coherence in changing)

    @property
    def mmse_scaling(self) -> bool:
        """True if the server divides the sum by what minimises the mean square error."""
        scaling = self.receiver.scaling
        return scaling == "mmse" or (scaling == "auto" and self.control.clips)

    @property
    def mixes_carriers(self) -> bool:
        """True if a symbol reaches other resource elements of an OFDM grid than its own."""
        impaired = self.impairments.cfo_hz > 0.0 or self.impairments.clipping_db is not None
        return self.ofdm != "none" and (impaired or self.interferes)

    @property
    def interferes(self) -> bool:
        """True if the waveforms of `domain: time` interfere: paths beyond the prefix, or motion within a symbol."""
        channel, ofdm = self.channel, self.ofdm
        if ofdm == "none" or ofdm.domain != "time":
            return False
        if channel.traced:  # its file alone tells
            return True
        last_s = delay_tables()[channel.model].delays.max() * channel.delay_spread_s if channel.selective else 0.0
        late = last_s / ofdm.sample_s - ofdm.cyclic_prefix_length > ON_GRID
        return late or (channel.fades and channel.max_doppler_hz > 0.0)

    @property
    def fusible(self) -> bool:
        """True if engine `fused` has kernels for this link: for its symbols, or for its code alone."""
        if self.error_model == "error_free" or (
            self.control.kernel is None and (self.plain or self.access == "superposition")
        ):
            return False
        if self.access == "superposition":
            flat = self.ofdm == "none" and not self.channel.traced
            return self.impairments.none and (flat or self._fusible_over_carriers)
        link = self.resolve_mcs()
        coded = isinstance(link.coding, CodingConfig) and link.coding.fusible
        has_any = self.plain or coded or self.fusible_packets
        return has_any and link.modulation in BITS_PER_SYMBOL

    @property
    def only_in_kernels(self) -> bool:
        """True if Sionna's blocks do not have the code of this link, or its recorded channel."""
        coding = self.resolve_mcs().coding
        coded = isinstance(coding, CodingConfig) and coding.only_in_kernels and self.access != "superposition"
        return (coded or self.channel.traced) and self.error_model != "error_free"

    @property
    def on_gpu(self) -> bool:
        """True if engine `cuda` has kernels for this link."""
        channel, coding = self.channel, self.resolve_mcs().coding
        still = not (channel.selective or channel.traced) and channel.coherence not in ("symbol", "doppler")
        known = self.ofdm == "none" and self.csi == "perfect" and self.receiver.num_antennas == 1
        coded = isinstance(coding, CodingConfig) and coding.code == "ldpc5g" and self.access == "orthogonal"
        coded &= still and known and self.impairments.none and self.packets.policy != "retransmit-combine"
        coded &= channel.law.rician_k is not None
        return self.fusible and (self.plain or (coded and self.fusible_packets))

    @property
    def _fusible_over_carriers(self) -> bool:
        """True if engine `fused` adds up devices over the OFDM grid of this link."""
        channel = self.channel
        return (
            self.ofdm != "none"
            and (self.ofdm.domain == "frequency" or channel.traced)
            and not isinstance(self.csi, CsiEstimation)
            and not channel.model.startswith("cdl")
            and channel.coherence != "symbol"
            and not self.combines
        )

    @property
    def fusible_packets(self) -> bool:
        """True if engine `fused` has the whole packet chain: code, symbols, channel, estimation and soft bits."""
        link = self.resolve_mcs()
        coding = link.coding
        return (
            (link.access == "orthogonal" or link._fusible_noma)
            and link.modulation in BITS_PER_SYMBOL
            and (coding == "none" or coding.fusible)
            and (link.access == "orthogonal" or not link.mixes_carriers)
        )

    @property
    def _fusible_noma(self) -> bool:
        """True if engine `fused` separates the users of this link: without filters over antennas and pilots."""
        matched = self.receiver.num_antennas == 1 or self.receiver.equalizer == "zf"
        detects = self.noma.detector == "ml" or (self.noma.detector != "lmmse" and matched)
        known = not isinstance(self.csi, CsiEstimation)
        return self.access == "noma" and detects and known and self.impairments.none

    @property
    def max_power(self) -> float:
        """P0 [W], the largest average transmit power over a block, of the strongest device: see `phy.config.levels`."""
        return float(10.0 ** (max(self.power.limits_db(noise_bandwidth_hz(self))) / 10.0)) * self.channel.noise_power

    @property
    def csi_error_variance(self) -> float:
        """Variance of the channel estimation error relative to gain^2; 0 unless it was given."""
        return self.csi.error_variance if isinstance(self.csi, CsiError) else 0.0

    @property
    def bits_per_symbol(self) -> int:
        """Bits per symbol; raises KeyError for modulation `auto` and `analog`."""
        return BITS_PER_SYMBOL[self.modulation]

    @property
    def symbol_s(self) -> float:
        """Duration of one channel use in time: a symbol of the single carrier, or an OFDM symbol [s]."""
        return 1.0 / self.bandwidth_hz if self.ofdm == "none" else self.ofdm.symbol_s

    @property
    def channel_use_s(self) -> float:
        """Duration of one complex number on the air: a symbol of the single carrier, or an OFDM sample [s]."""
        return self.symbol_s if self.ofdm == "none" else self.ofdm.sample_s


def noise_bandwidth_hz(link: LinkConfig) -> float:
    """Bandwidth that a device's power is spread over: symbol rate, or carriers in use times their spacing [Hz]."""
    ofdm = link.ofdm
    return link.bandwidth_hz if ofdm == "none" else ofdm.num_carriers * ofdm.subcarrier_spacing_hz


def with_mcs(link: LinkConfig, entry: McsEntry) -> LinkConfig:
    """Return the link whose packets all have this MCS."""
    coding = link.coding if isinstance(link.coding, CodingConfig) else CodingConfig(code="ldpc5g")
    rated = coding.model_copy(update={"rate": entry.rate})
    return link.model_copy(update={"mcs": None, "modulation": entry.modulation, "coding": rated})
