"""Words for people: what a path, a metric or a setting is called on an axis, in a legend, in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scenarios.schema_keys import SECTIONS, TAGS, schema_keys

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
    "privacy.epsilon": "privacy bound ε",
    "privacy.delta": "privacy slack δ",
    "privacy.kappa": "expected bit-level distance κ",
    "privacy.order": "Rényi order λ",
    "privacy.confidence": "confidence of the credited channel rate",
    "privacy.mechanism": "privacy mechanism",
    "privacy.channel": "channel errors in privacy",
    "privacy.cipher": "cipher",
    "learning.quantizer_slope": "quantizer slope $a$",
    "learning.step_size": "step size η",
    "learning.gradient_bound": r"gradient bound $\ell$",
    "learning.num_devices": "number of devices",
    "learning.rounds": "number of rounds",
    "learning.burn_in": "burn-in [rounds]",
    "learning.scheme": "scheme",
    "learning.lmc_cap": "LMC cap",
    "learning.task.name": "task",
    "learning.algorithm": "algorithm",
    "learning.data": "data set",
    "learning.data.name": "data set",
    "learning.data.train_samples": "training images",
    "learning.data.validation_samples": "validation images",
    "learning.partition": "partition",
    "learning.partition.kind": "partition",
    "learning.partition.samples_per_device": "samples per device",
    "learning.partition.labels_per_device": "labels per device",
    "learning.partition.alpha": "Dirichlet α",
    "learning.model": "model",
    "learning.model.name": "model",
    "learning.local.steps": "local steps $E$",
    "learning.local.learning_rate": "learning rate η",
    "learning.local.batch_size": "batch size",
    "learning.local.clip": "clipping norm $G$",
    "learning.local.l2": "regularisation μ",
    "learning.local.proximal": "proximal term",
    "learning.codec": "codec",
    "learning.codec.name": "codec",
    "learning.codec.bound": "largest weight of the codec",
    "learning.codec.bits": "bits per number",
    "learning.codec.fraction_bits": "fraction bits",
    "learning.upload": "uploads",
    "learning.participation.devices_per_round": "devices per round",
    "learning.participation.dropout": "probability of dropping out",
    "learning.participation.straggling": "probability of straggling",
    "learning.receiver_limit": "largest number believed",
    "learning.aggregation": "aggregation",
    "learning.aggregation.name": "aggregation",
    "learning.aggregation.epsilon": "privacy bound ε per number and round",
    "learning.aggregation.gamma": "radius γ",
    "learning.aggregation.rate_bits": "rate $R$ [bits]",
    "learning.aggregation.dimension": "dimension $L$ of the lattice",
    "learning.aggregation.stages": "stages",
    "learning.aggregation.b": "bound $b$",
    "learning.aggregation.clip": "clipping threshold per number",
    "learning.aggregation.l1_clip": r"clipping norm $\Delta_1/2$",
    "learning.aggregation.step": "step of the server",
    "learning.aggregation.trim": "share trimmed at each end",
    "learning.aggregation.channel": "channel errors in aggregation",
    "learning.attack.kind": "attack",
    "learning.attack.share": "share of attackers",
    "learning.attack.factor": "factor of the attack",
    "learning.attack.std": "standard deviation of the attack",
    "learning.personal.lam": "pull λ to the global model",
    "learning.flip_probability": "flip probability",
    "learning.dimension": "number of parameters $M$",
    "learning.sensitivity": r"sensitivity $\Delta w$",
    "learning.weights": "weights",
    "link.probe_bits": "probe bits per device",
    "link.error_model": "error model",
    "link.channel.fading": "fading",
    "link.channel.coherence": "coherence",
    "link.power.policy": "power control",
    "privacy": "privacy",
    "link.packets.policy": "packets in error",
    "label": "setting",
    "mse": "MSE to the posterior mean",
    "wasserstein2": "2-Wasserstein distance to the posterior",
    "variance_ratio": "sample variance / posterior variance",
    "amplitude": "receive amplitude $A$",
    "snr_db": "received SNR [dB]",
    "bit_error_rate": "bit error rate",
    "packet_error_rate": "packet error rate",
    "raw_bit_error_rate": "bit error rate before decoding",
    "probed_error_rate": "bit error rate of the probes",
    "end_error_rate": "bit error rate end to end",
    "test_accuracy": "test accuracy",
    "best_accuracy": "best test accuracy",
    "validated_accuracy": "test accuracy at the best validation",
    "validation_accuracy": "validation accuracy",
    "test_loss": "test loss",
    "train_loss": "training loss",
    "clipped_gradients": "share of gradients clipped",
    "num_parameters": "parameters $M$",
    "upload_bits": "bits per upload",
    "target_bit_error_rate": "target bit error rate $p$",
    "target_unclamped": "bit error rate of Theorem 1",
    "kappa": "expected bit-level distance κ",
    "kappa_measured": "κ measured by (26)",
    "kappa_standard_error": "standard error of κ",
    "l1_distance": r"$\ell_1$ distance, the lower bound of κ",
    "sensitivity": r"sensitivity $\Delta w$",
    "sigma": "noise σ",
    "sigma_printed": "noise σ as printed",
    "sigma_calibrated": "noise σ, calibrated",
    "epsilon_accounted": "ε by dp-accounting",
    "delta": "δ",
    "strong_convexity": "strong convexity μ",
    "smoothness": r"smoothness $L$",
    "heterogeneity": "heterogeneity Γ",
    "bound_valid": "assumptions of Theorem 2 hold",
    "bound_contraction": "contraction of Theorem 2",
    "aggregation_snr_db": "aggregation SNR, 10 log [dB]",
    "aggregation_snr_20log_db": "aggregation SNR, 20 log as coded [dB]",
    "aggregation_mse": "squared error of the aggregate, per number",
    "personal_accuracy": "accuracy of the personal models",
    "personal_loss": "loss of the personal models",
    "global_accuracy_at_home": "accuracy of the global model at home",
    "k_anonymity": "$k$-anonymity of a block, least",
    "anonymity": "$k$-anonymity of a block, expected",
    "b": "bound $b$ of PRoBit",
    "num_attackers": "attackers among the senders",
    "distance_sq": r"squared distance to the optimum $\|w - w^*\|^2$",
    "bound": "bound of Theorem 2",
    "model_norm": r"model norm $\|w\|$",
    "value": "number sent",
    "recovered_mean": "mean of the recovered number",
    "recovered_variance": "variance of the recovered number",
    "lemma1_mean": "mean by Lemma 1",
    "lemma1_variance": "variance by Lemma 1",
    "largest_mean_gap": "largest distance of a mean from Lemma 1",
    "largest_variance_gap": "largest distance of a variance from Lemma 1",
    "probed_low": "credited channel rate, lower limit",
    "flip_probability": "flip probability $p_A$",
    "target": "target bit error rate $p$",
    "credited": "bit error rate that is surely there",
    "clipped_values": "numbers clipped per device and round",
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
    "privacy.kappa": ("κ", ""),
    "privacy.order": ("λ", ""),
    "learning.local.steps": ("$E$", ""),
    "learning.local.learning_rate": ("η", ""),
    "learning.local.batch_size": ("batch", ""),
    "learning.local.clip": ("$G$", ""),
    "learning.local.l2": ("μ", ""),
    "learning.partition.alpha": ("α", ""),
    "learning.partition.labels_per_device": ("labels", ""),
    "learning.partition.samples_per_device": ("samples", ""),
    "learning.codec.bits": ("bits", ""),
    "learning.participation.devices_per_round": ("devices per round", ""),
    "learning.flip_probability": ("$p_A$", ""),
    "learning.dimension": ("$M$", ""),
    "learning.sensitivity": (r"$\Delta w$", ""),
    "learning.receiver_limit": ("believed up to", ""),
    "learning.aggregation.epsilon": ("ε", ""),
    "learning.aggregation.gamma": ("γ", ""),
    "learning.aggregation.rate_bits": ("$R$", ""),
    "learning.aggregation.dimension": ("$L$", ""),
    "learning.aggregation.stages": ("stages", ""),
    "learning.aggregation.b": ("$b$", ""),
    "learning.aggregation.l1_clip": (r"$\Delta_1/2$", ""),
    "learning.attack.share": ("attackers", ""),
    "learning.personal.lam": ("λ", ""),
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
    "learning.algorithm": "{}",
    "learning.data.name": "{}",
    "learning.model.name": "{}",
    "learning.model.initial": "weights drawn as by {}",
    "learning.partition.kind": "{}",
    "learning.codec.name": "{}",
    "learning.local.optimizer": "{}",
    "learning.upload": "{} uploaded",
    "learning.aggregation.name": "{}",
    "learning.aggregation.form": "{} form",
    "learning.aggregation.decode": "decoded {}",
    "learning.aggregation.radius": "{} radius",
    "learning.aggregation.codewords": "{} codewords",
    "learning.aggregation.negative_bins": "negative bins {}",
    "learning.aggregation.vote": "{}",
    "learning.aggregation.bound": "{} b",
    "learning.aggregation.channel": "{}",
    "learning.attack.kind": "{}",
    "learning.attack.drawn": "drawn {}",
    "learning.weighting": "weights by {}",
    "learning.weights": "{} weights",
    "learning.downlink": "{} downlink",
    "privacy.mechanism": "{}",
    "privacy.calibration": "{}",
    "privacy.sensitivity": "sensitivity of {}",
    "privacy.cipher": "{} cipher",
    "privacy.kappa": "κ {}",
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
    "learning.algorithm": {"flmc": "Langevin Monte Carlo", "fedavg": "federated averaging"},
    "learning.partition.kind": {"iid": "IID", "labels": "by labels", "dirichlet": "Dirichlet"},
    "learning.data.name": {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
    | {"cifar100": "CIFAR-100", "emnist": "EMNIST"},
    "learning.aggregation.name": {"cpa": "CPA", "probit": "PRoBit", "sign": "signSGD", "jopeq": "JoPEQ", "mvu": "MVU"}
    | {"laplace": "Laplace", "rsa": "RSA", "median": "coordinate median", "trimmed-mean": "trimmed mean"}
    | {"geometric-median": "geometric median"},
    "learning.aggregation.channel": {"native": "channel-native", "agnostic": "channel-agnostic", "debias": "debiased"},
    "learning.aggregation.vote": {"majority": "majority vote", "mean": "mean of signs"},
    "learning.aggregation.decode": {"unbiased": "unbiased decode", "coded": "decode as coded"}
    | {"printed": "decode as printed"},
    "learning.attack.kind": {"ones": "constant ones", "invert": "inverted bits", "random": "random bits"}
    | {"gaussian": "Gaussian noise", "sign-flip": "flipped sign", "zero-gradient": "zero gradient"}
    | {"duplicate": "duplicates", "scale": "scaled updates", "labels": "poisoned labels", "jam": "jamming"},
    "privacy.mechanism": {"bit-flipping": "bit flipping", "gaussian": "Gaussian noise"},
    "privacy.channel": {"native": "channel-native", "agnostic": "channel-agnostic"},
    "privacy.calibration": {"dp-accounting": "calibrated", "printed": "as printed"},
    "privacy.sensitivity": {"all-steps": "sensitivity of all steps", "printed": "sensitivity of one step"},
    "privacy.cipher": {"none": "no cipher", "aes": "AES blocks"},
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


KINDS = ("name", "kind", "code", "policy", "algorithm", "optimizer")
"""Keys that say which one of several things a mapping is: said even where it is the default."""


def axis_label(name: str) -> str:
    """Name and unit of a path or metric, for an axis; an unknown one is called by its own name."""
    return AXES.get(name, _without_mathematics(name))


def plain_label(name: str) -> str:
    """The same as text without matplotlib mathematics, for the report page."""
    return _plain(AXES.get(name, name))


_SIGNS = {r"\ell": "ℓ", r"\Delta ": "Δ", r"\Delta": "Δ", "_0": "₀", "_1": "₁", r"\|": "‖", "^*": "*", "^2": "²"}
_SIGNS["$"] = ""


def _plain(text: str) -> str:
    """Text without matplotlib mathematics."""
    for sign, plain in _SIGNS.items():
        text = text.replace(sign, plain)
    return text


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


def plain_setting(path: str, value: Any) -> str:
    """`setting_label` as text without matplotlib mathematics."""
    return _plain(setting_label(path, value))


def setting_cell(path: str, value: Any) -> str:
    """A setting as plain text in a column of its path: words and mappings as legends say them, numbers without name."""
    if isinstance(value, Mapping):
        return _plain(setting_label(path, value))
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
    kinds = ("epsilon", "mechanism") if path == "privacy" else KINDS
    words = [str(value[key]) for key in TAGS if key in value] or [SECTIONS.get(path, ("", ""))[1]]

    def told(key: str, entry: Any) -> bool:
        if key in kinds or (schema_key := known.get(f"{path}.{key}")) is None:
            return True
        return bool(entry != _default(schema_key.meant(*words)))

    # What is left out has no value: it says nothing, and of privacy it would say that there is none.
    chosen = {key: entry for key, entry in value.items() if entry is not None and told(key, entry)}
    if not chosen:
        return f"default {_without_mathematics(path.rpartition('.')[2].replace('_', ' '))}"
    if path == "learning.aggregation":
        chosen = _with_its_variant(value, chosen)
    if path == "learning.attack" and (share := chosen.pop("share", None)) is not None:
        if share == 0:
            return "no attack"
        chosen["kind"] = f"{100 * share:.4g} % {setting_label(f'{path}.kind', value['kind'])}"
    parts = (
        _name_label(path, str(entry)) if key == "name" else setting_label(f"{path}.{key}", entry)
        for key, entry in chosen.items()
    )
    return ", ".join(filter(None, parts))


def _name_label(path: str, name: str) -> str:
    return SPOKEN.get(f"{path}.name", {}).get(name) or _without_mathematics(name)


def _with_its_variant(value: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to tell of an aggregation, its name that of a variant with a name of its own."""
    told, name = dict(chosen), value.get("name")
    if name == "cpa" and value.get("stages") == 2:
        told["name"] = "nested CPA"
        told.pop("stages", None)
    if name == "sign" and value.get("epsilon") not in (None, "none"):
        told["name"] = "signSGD + RR"
    if name in ("cpa", "sign") and told.get("epsilon") == "none":
        told["name"] = f"{_name_label('learning.aggregation', str(told['name']))} without RR"
        del told["epsilon"]
    return told


def _default(field: FieldInfo) -> Any:
    """The default of a key as plain data."""
    default = field.get_default(call_default_factory=True)
    return default.model_dump(mode="json") if isinstance(default, BaseModel) else default


def format_value(value: Any) -> str:
    """A number in at most four digits, a count in full, anything else as it is."""
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(entry) for entry in value) + "]"
    return _without_mathematics(str(value))


def _without_mathematics(text: str) -> str:
    """User text as matplotlib is to show it: a dollar is a dollar."""
    return text.replace("$", r"\$")
