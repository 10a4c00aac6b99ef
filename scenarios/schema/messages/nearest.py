"""The known key or word that a user most likely meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import product

_TABLE = """
carrier_frequency: fc; packet_errors: max_errors block_errors frame_errors; printed: paper published; agnostic: ignore
devices: clients users workers; devices_per_round: fraction share fraction_fit participants; group_size: users
participation: sampling; trials: repetitions runs; burn_in: warmup burnin; sweep values: grid; std: sigma
attack: byzantine; attack_share: attackers; share: fraction ratio percent; invert: flip_bits bit_flip
steps: epochs iterations; batch_size: minibatch; learning_rate: step_size; step_size: learning_rate lr
step: learning_rate
optimizer: optimiser; l2: weight_decay; proximal: mu; clip: max_grad_norm; gradient_bound: clip
data: dataset; fashion-mnist: fmnist; emnist: femnist; hidden: layers; linear: softmax logistic
flmc: langevin sgld; gaussian_linear: linear_regression; dimension: dim; alpha: beta
dirichlet: non_iid noniid; labels: classes non_iid noniid label_flip label_flipping
train_samples samples_per_device: samples; binary32: float32 float
uniform codec: quantizer quantization; uniform digital quantization: quantized
aggregation: scheme aggregator; mean: fedavg average; sign: signsgd; fedavg: fedprox fedsgd federated_averaging fl
epsilon: eps; budget: total; dp-accounting: analytic; renyi: rdp
superposition: aircomp air ota; fedavg: aircomp; orthogonal: ofdma tdma; num_antennas: antennas num_rx rx_antennas
snr_max_db: max_power snr_max_dbm snr_dbm ebno_db esno_db
transmit_power_dbm: tx_power tx_power_dbm transmit_power power_dbm; noise_figure_db: noise_figure nf nf_db
rician_k: k_factor; ebno: ebn0; esno: esn0
constant: awgn; fixed: constant; rayleigh: jakes; speed: velocity; nakagami_m: m; 16qam crc16: 16; qpsk: 4qam
num_subcarriers: fft_size n_fft nfft fft; subcarrier_spacing_hz: scs; cyclic_prefix: cp
iterations: iter; rate: code_rate; crc24a: 24; iid: bsc
retransmissions: retries; retransmit: arq; drop: discard; retransmit_combine: harq; packet packet_errors: block
packet_error_rate: bler fer; bit_error_rate: ber; max_seconds: time_limit timeout; seconds: minutes time
start: begin from min; stop: end to max; name: title kind type; kind: name type; code model: type
update: gradient gradients delta; model: weights parameters; report: plots
y: metric; y_scale: logy log_y; x_scale: logx log_x; round: iteration epoch; series: hue curves
"""
"""Our names or parts of names, and the words of the field that mean the same."""

_OURS = [entry.split(":") for line in _TABLE.split("\n") for entry in line.split(";") if entry]
_SYNONYMS = {
    word: [name for names, words in _OURS if word in words.split() for name in names.split()]
    for word in " ".join(words for _, words in _OURS).split()
}

_UNITS = {"db", "s", "hz", "m"}
_COMMON = {"num", "max", "min", "per", "device", "rate", "error", "power", *_UNITS}
"""Parts that many names share."""


def nearness(written: str, known: str) -> float:
    """Return the similarity of two names from 0 to 1.

    Case and hyphens do not count. A part of a name, as `devices` of `num_devices`, and the initials of its parts, as
    `lr` of `learning_rate`, are near. Names without its numbers, as 256qam or qpsk for 32qam, are not.
    """
    return max(_alike(written, parts, _split(known)) for parts in _meanings(written))


def is_other_word(written: str, known: str) -> bool:
    """Return True if a known name is near as another word of the field, and shares no part but a unit with it."""
    own, other = _split(written), _split(known)
    plural = [f"{part}s" for part in own]
    return nearness(written, known) > _alike(written, own, other) and not {*own, *plural} & {*other} - _UNITS


def shares(written: str, known: str) -> bool:
    """Return True if one name has all parts of the other, of which one is rare."""
    own, other = set(_split(written)), set(_split(known))
    return (own <= other or other <= own) and bool((own & other) - _COMMON)


def _alike(written: str, one: list[str], other: list[str]) -> float:
    alike = SequenceMatcher(None, written.lower(), "_".join(other)).ratio()
    if sorted(one) == sorted(other) or "".join(one) == "".join(other):
        return 1.0
    numbers = [sorted(re.findall(r"\d+", "_".join(parts))) for parts in (one, other)]
    if numbers[0] and numbers[0] != numbers[1]:
        return 0.0
    initials = "".join(part[0] for part in other) if len(other) > 1 else None
    if "".join(one) == initials:
        return 0.95
    if set(one) <= set(other) or set(other) <= set(one):
        return 0.8 + 0.1 * alike
    common = (set(one) & set(other)) - _COMMON  # noise_variance, noise_power
    return max(alike, 0.7) if common or "".join(other).startswith("".join(one)) else alike


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"[^a-z0-9]+", name.lower()) if part]


def _meanings(name: str) -> list[list[str]]:
    """The parts of a name as written, with the last in the plural, and with synonyms of the whole name or of parts."""
    own = _split(name)
    whole = _SYNONYMS.get("_".join(own), [])
    parts = product(*([part, *_SYNONYMS.get(part, [])] for part in own))
    plural = [(*own[:-1], f"{own[-1]}s")] if own else []
    return [_split("_".join(words)) for words in (*((one,) for one in whole), *parts, *plural)]


def nearest_words(written: object, known: Iterable[str], *, least: float = 0.6) -> list[str]:
    """Return the most similar known words, the first first; empty if the similarity of all is below `least`.

    Several if the word is a part of each, as `cnn` of cnn2 and cnn3.
    """
    alike = {other: nearness(str(written), other) for other in known}
    best = max(alike.values(), default=0.0)
    enough = 0.8 if 0.8 <= best < 1.0 else best
    return [other for other in sorted(alike, key=lambda one: -alike[one]) if alike[other] >= max(enough, least)]


def nearest(written: object, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the most similar known word, or None if the similarity of all is below `least`."""
    return next(iter(nearest_words(written, known, least=least)), None)
