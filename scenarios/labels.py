"""Words for people: what a path, a metric or a setting is called on an axis, in a legend, in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scenarios.errors import schema_keys

AXES: dict[str, str] = {
    "link.power.snr_max_db": "maximum SNR $P_0/N_0$ [dB]",
    "link.channel.noise_power": "noise power $N_0$ per real dimension [W]",
    "link.channel.gain": "amplitude gain $h$",
    "link.channel.rician_k_db": "Rician K-factor [dB]",
    "link.csi.error_variance": "channel estimation error variance, relative to gain²",
    "link.power.cutoff_db": "truncation threshold [dB]",
    "link.packet_size_bytes": "packet size [bytes]",
    "link.mcs": "MCS index",
    "link.coding.rate": "code rate",
    "link.coding.iterations": "decoder iterations",
    "link.channel.delay_spread_s": "RMS delay spread [s]",
    "link.channel.speed_m_s": "speed [m/s]",
    "link.channel.carrier_frequency_hz": "carrier frequency [Hz]",
    "link.channel.nakagami_m": "Nakagami m",
    "link.ofdm.cyclic_prefix_length": "cyclic prefix [samples]",
    "link.receiver.num_antennas": "receive antennas",
    "link.impairments.phase_error_deg": "residual phase error, standard deviation [°]",
    "link.impairments.timing_offset_s": "largest timing offset [s]",
    "link.impairments.cfo_hz": "largest carrier-frequency offset [Hz]",
    "link.impairments.clipping_db": "clipping level over RMS [dB]",
    "link.packets.max_retransmissions": "retransmissions at most",
    "link.power.loop.target_rate": "target error rate",
    "privacy.epsilon": "privacy bound per round ε",
    "privacy.delta": "privacy slack per round δ",
    "learning.quantizer_slope": "quantizer slope $a$",
    "learning.step_size": "step size η",
    "learning.gradient_bound": r"gradient bound $\ell$",
    "learning.num_devices": "number of devices",
    "learning.rounds": "number of rounds",
    "learning.burn_in": "burn-in [rounds]",
    "learning.scheme": "scheme",
    "learning.lmc_cap": "LMC cap",
    "learning.task.name": "task",
    "link.error_model": "error model",
    "link.channel.fading": "fading",
    "link.channel.coherence": "coherence",
    "link.power.policy": "power control",
    "privacy": "privacy bound per round",
    "label": "setting",
    "mse": "MSE to the posterior mean",
    "wasserstein2": "2-Wasserstein distance to the posterior",
    "variance_ratio": "sample variance / posterior variance",
    "amplitude": "receive amplitude $A$",
    "snr_db": "received SNR [dB]",
    "bit_error_rate": "bit error rate",
    "packet_error_rate": "packet error rate",
    "raw_bit_error_rate": "bit error rate before decoding",
    "round": "rounds",
    "elapsed_s": "time on the air [s]",
    "spent_j": "transmit energy of all devices [J]",
    "airtime_s": "airtime of a round [s]",
    "energy_j": "transmit energy of a round, all devices [J]",
    "total_airtime_s": "airtime of a run [s]",
    "total_energy_j": "transmit energy of a run, all devices [J]",
    "squared_error": "squared distance to the posterior mean",
    "peak_amplitude": "receive amplitude of the strongest device",
    "num_active": "devices on the air",
    "power_db": "transmit power over $N_0$ [dB]",
    "dropped": "packets dropped per device and round",
    "retransmissions": "retransmissions per device and round",
}
"""Axis labels with units, of swept paths and metrics; matplotlib mathematics between dollars."""

SYMBOLS: dict[str, tuple[str, str]] = {
    "link.power.snr_max_db": ("$P_0/N_0$", " dB"),
    "link.channel.noise_power": ("$N_0$", " W"),
    "link.channel.gain": ("$h$", ""),
    "link.channel.rician_k_db": ("K", " dB"),
    "link.csi.error_variance": ("CSI error", ""),
    "link.power.cutoff_db": ("cutoff", " dB"),
    "link.packet_size_bytes": ("packets of", " bytes"),
    "link.mcs": ("MCS", ""),
    "link.channel.delay_spread_s": ("delay spread", " s"),
    "link.channel.speed_m_s": ("speed", " m/s"),
    "link.channel.carrier_frequency_hz": ("carrier", " Hz"),
    "link.channel.nakagami_m": ("m", ""),
    "link.ofdm.cyclic_prefix_length": ("prefix", " samples"),
    "link.receiver.num_antennas": ("antennas", ""),
    "link.impairments.phase_error_deg": ("phase error", "°"),
    "link.impairments.timing_offset_s": ("timing offset", " s"),
    "link.impairments.cfo_hz": ("CFO", " Hz"),
    "link.impairments.clipping_db": ("clipping", " dB"),
    "link.packets.max_retransmissions": ("retransmissions", ""),
    "link.power.loop.target_rate": ("target", ""),
    "link.power.loop.db_per_decade": ("slope", " dB/decade"),
    "link.power.loop.max_step_db": ("largest step", " dB"),
    "link.power.loop.initial_snr_db": ("start", " dB"),
    "link.power.loop.min_snr_db": ("lowest", " dB"),
    "privacy.epsilon": ("ε", ""),
    "privacy.delta": ("δ", ""),
    "learning.quantizer_slope": ("$a$", ""),
    "learning.step_size": ("η", ""),
    "learning.gradient_bound": (r"$\ell$", ""),
    "learning.num_devices": ("devices", ""),
    "learning.rounds": ("rounds", ""),
    "learning.burn_in": ("burn-in", ""),
}
"""Symbol and unit of a setting: ε = 5."""

WORDS: dict[str, str] = {
    "learning.scheme": "{}",
    "learning.lmc_cap": "LMC cap {}",
    "learning.task.name": "{}",
    "link.error_model": "errors {}",
    "link.channel.fading": "{} fading",
    "link.channel.coherence": "coherence: {}",
    "link.power.policy": "{} power",
    "link.access": "{}",
    "link.modulation": "{}",
    "link.csi": "{} CSI",
    "link.coding.code": "{}",
    "link.channel.model": "{}",
    "privacy.analog_tail": "tail {}",
    "label": "{}",
}
"""How a setting that is a word is said."""

SPOKEN: dict[str, dict[str, str]] = {
    "learning.scheme": {"exact": "exact posterior", "digital-orthogonal": "digital, orthogonal"},
    "link.channel.fading": {"constant": "no fading", "rayleigh": "Rayleigh fading", "rician": "Rician fading"}
    | {"nakagami": "Nakagami fading"},
    "link.access": {"noma": "NOMA"},
    "link.coding": {"none": "uncoded"},
    "link.coding.code": {"ldpc5g": "LDPC", "polar5g": "polar"},
    "link.csi.estimator": {"ls": "LS estimate", "lmmse": "LMMSE estimate"},
    "link.power.loop.target": {"ber": "target on bits", "bler": "target on packets"},
    "link.packets.policy": {"accept": "accept all", "drop": "drop", "retransmit": "retransmit"}
    | {"retransmit-combine": "retransmit and combine"},
    "link.noma.detector": {"sic": "SIC", "sic-codeword": "code-word SIC", "ml": "joint ML", "lmmse": "LMMSE"},
    "link.modulation": {"bpsk": "BPSK", "qpsk": "QPSK"} | {f"{m}qam": f"{m}-QAM" for m in (16, 64, 256)},
}
"""Settings whose YAML word is not yet what one would say."""


KINDS = ("name", "code", "policy")
"""Keys that say which one of several things a mapping is: said even where it is the default."""


def axis_label(name: str) -> str:
    """Name and unit of a path or metric, for an axis; an unknown one is called by its own name."""
    return AXES.get(name, _without_mathematics(name))


def plain_label(name: str) -> str:
    """The same as text without matplotlib mathematics, for the report page."""
    return AXES.get(name, name).replace(r"\ell", "ℓ").replace("_0", "₀").replace("$", "")


def setting_label(path: str, value: Any) -> str:
    """A setting as one says it: `digital`, `ε = 5`, `no privacy`; empty if it is not there."""
    if path == "privacy" or path.startswith("privacy."):
        if value is None or value == "none":
            return "no privacy"
    elif value is None:
        return "LMC cap by default" if path == "learning.lmc_cap" else ""
    if isinstance(value, Mapping):
        return _mapping_label(path, value)
    if spoken := SPOKEN.get(path, {}).get(str(value)):
        return spoken
    if path in WORDS and isinstance(value, str):
        return WORDS[path].format(_without_mathematics(value))
    name = _without_mathematics(path.rpartition(".")[2].replace("_", " "))
    if isinstance(value, bool):
        return name if value else f"no {name}"
    symbol, unit = SYMBOLS.get(path, (name, ""))
    return f"{symbol} = {format_value(value)}{unit}"


def setting_cell(path: str, value: Any) -> str:
    """A setting as plain text in a column of its path: words and mappings as legends say them, numbers without name."""
    if isinstance(value, Mapping):
        return setting_label(path, value).replace("_0", "₀").replace(r"\ell", "ℓ").replace("$", "")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(setting_cell(path, entry) for entry in value) + "]"
    if isinstance(value, str):
        return SPOKEN.get(path, {}).get(value, value)
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _mapping_label(path: str, value: Mapping[str, Any]) -> str:
    """What kind of thing it is and what is not the default; of a privacy bound its ε is the kind."""
    known = schema_keys()
    kinds = ("epsilon",) if path == "privacy" else KINDS
    chosen = {
        key: entry
        for key, entry in value.items()
        if key in kinds or f"{path}.{key}" not in known or entry != _default(known[f"{path}.{key}"].field)
    }
    if not chosen:
        return f"default {_without_mathematics(path.rpartition('.')[2].replace('_', ' '))}"
    parts = (
        _without_mathematics(str(entry)) if key == "name" else setting_label(f"{path}.{key}", entry)
        for key, entry in chosen.items()
    )
    return ", ".join(filter(None, parts))


def _default(field: FieldInfo) -> Any:
    """The default of a key as plain data."""
    default = field.get_default(call_default_factory=True)
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else default


def format_value(value: Any) -> str:
    """A number in at most four digits, anything else as it is."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(entry) for entry in value) + "]"
    return _without_mathematics(str(value))


def _without_mathematics(text: str) -> str:
    """User text as matplotlib is to show it: a dollar is a dollar."""
    return text.replace("$", r"\$")
