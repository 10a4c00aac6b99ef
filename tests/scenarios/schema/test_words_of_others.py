"""What users of other programs and papers write, and errors that name what phyloop calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import sentence_about

from fl.attacks.attack import attacks
from fl.models.model import models
from phy.config.conflict import listing
from phy.config.power import power_policies

SENTENCES = {
    "a key of another section by a part of its name": (
        "name: a\nlink: {channel: {snr_db: 15}}\n",
        "s.yaml:2: link.channel.snr_db = 15: unknown key; did you mean link.power.snr_max_db (10 log10(P0 / N0) "
        "[dB], N0 per real dimension: 3 dB above the received SNR).",
    ),
    "another measure of the same ratio": (
        "name: a\nlink: {power: {ebno_db: 6}}\n",
        "s.yaml:2: link.power.ebno_db = 6: unknown key; did you mean link.power.snr_max_db (10 log10(P0 / N0) [dB], N0 "
        "per real dimension: 3 dB above the received SNR).",
    ),
    "a list where one value is wanted, of which one is none of ours": (
        "name: a\nlearning: {algorithm: fedavg, aggregation: [cpa, float32]}\n",
        "s.yaml:2: learning.aggregation = [cpa, float32]: must be one value; move the list into the sweep: "
        "learning.aggregation: [cpa, float32].",
    ),
    "a key of another kind that is near one of this kind": (
        "name: a\nlearning:\n  algorithm: fedavg\n  aggregation: {name: jopeq, bits: 2}\n",
        "s.yaml:4: learning.aggregation.bits = 2: unknown key; did you mean learning.aggregation.rate_bits.",
    ),
    "a key that is near none of its kind": (
        "name: a\nlearning:\n  algorithm: fedavg\n  aggregation: {name: mvu, hops: 2}\n",
        "s.yaml:4: learning.aggregation.hops = 2: unknown key; leave it out: the keys of learning.aggregation are "
        "name, epsilon, clip, input_bits and output_bits.",
    ),
    "a scheme as the mechanism": (
        "name: a\nlearning: {algorithm: fedavg}\nprivacy: {mechanism: laplace, epsilon: 2, delta: 0.1}\n",
        "s.yaml:3: privacy.mechanism = laplace: must be bit-flipping, device-noise, gaussian, receiver-noise or "
        "scheme; write learning.aggregation: {name: laplace, epsilon: 2} in place of privacy.",
    ),
    "a word near two, of which one fits the keys beside it": (
        "name: a\nlearning:\n  algorithm: fedavg\n  partition: {kind: noniid, labels_per_device: 2}\n",
        "s.yaml:4: learning.partition.kind = noniid: must be dirichlet, given, iid or labels; did you mean labels.",
    ),
    "a word that is a part of several": (
        "name: a\nlearning:\n  algorithm: fedavg\n  model: cnn\n",
        f"s.yaml:4: learning.model = cnn: must be {listing(models.words())}; did you mean cnn2, cnn3, emnist-cnn or "
        "mcmahan-cnn.",
    ),
    "keys of learning at the top of the file": (
        "name: a\nlearning: {algorithm: fedavg}\nnum_devices: 9\n",
        "s.yaml:3: num_devices = 9: unknown key; did you mean learning.num_devices.",
    ),
    "linear keys in decibels": (
        "name: a\nlink: {channel: {gain_db: -20, noise_power_dbm: 20}}\n",
        "s.yaml:2: link.channel.gain_db = -20: unknown key; write link.channel.gain: 0.1.\n"
        "s.yaml:2: link.channel.noise_power_dbm = 20: unknown key; write link.channel.noise_power: 0.1.",
    ),
    "a whole number with its unit": (
        "name: a\nlink: {packet_size_bytes: 128 bytes}\n",
        "s.yaml:2: link.packet_size_bytes = 128 bytes: must be a whole number without a unit; write 128.",
    ),
    "one number for a section, which has one key that must be written": (
        "name: a\nlink: {access: superposition, power: {budget: 1.5e-3}}\n",
        "s.yaml:2: link.power.budget = 0.0015: must be a mapping of keys to values; write {energy_j: 0.0015}.",
    ),
    "a word of the key itself for a number of the section inside": (
        "name: a\nlink: {power: {policy: closed_loop, target: 0.1}}\nlearning: {algorithm: fedavg}\n",
        f"s.yaml:2: link.power.policy = closed_loop: must be {listing(power_policies.words())}; did you mean "
        "closed-loop.\n"
        "s.yaml:2: link.power.target = 0.1: unknown key; did you mean link.power.loop.target_rate.",
    ),
    "a share of all, which nobody means": (
        "name: a\nlearning:\n  algorithm: fedavg\n  aggregation: {name: top-k, k: 100}\n",
        "s.yaml:4: learning.aggregation.k = 100: unknown key; did you mean learning.aggregation.share (k / M, share of "
        "the numbers that are sent).\n"
        "s.yaml:4: learning.aggregation.share = 100: must be at most 1; write for example 0.05.",
    ),
    "a name that the description of one key has": (
        "name: a\nlearning:\n  algorithm: fedavg\n  aggregation: {name: type-based, levels: 4}\n",
        "s.yaml:4: learning.aggregation.levels = 4: unknown key; did you mean learning.aggregation.bits (per number: "
        "2^bits levels, and as many symbols in the air).",
    ),
    "a quantity in whose unit the description of a key counts": (
        "name: a\nlink: {channel: {coherence: doppler, doppler_hz: 100}}\n",
        "s.yaml:2: link.channel.doppler_hz = 100: unknown key; did you mean link.channel.speed_m_s (speed of the "
        "devices, Doppler shift times c over carrier frequency [m/s]).",
    ),
    "another word for a key of another section": (
        "name: a\nlink: {channel: {num_rx: 4}}\n",
        "s.yaml:2: link.channel.num_rx = 4: unknown key; did you mean link.receiver.num_antennas.",
    ),
    "zero for none": (
        "name: a\nlearning: {algorithm: fedavg, aggregation: {name: sign, epsilon: 0}}\n",
        "s.yaml:2: learning.aggregation.epsilon = 0: must be above 1e-06; write none.",
    ),
    "words of YAML 1.1 for none, and for a section with defaults alone": (
        "name: a\nlearning: {algorithm: fedavg, personal: true}\nprivacy: no\n",
        "s.yaml:2: learning.personal = true: must be a mapping of keys to values; write {}.\n"
        "s.yaml:3: privacy = no: must be none or a mapping with epsilon; write none.",
    ),
    "words in a list in place of one": (
        "name: a\nlink: {modulation: [qpsk, 16qam]}\nlearning: {algorithm: fedavg, model: [linear, mlp]}\n",
        "s.yaml:2: link.modulation = [qpsk, 16qam]: must be one value; move the list into the sweep: link.modulation: "
        "[qpsk, 16qam].\n"
        "s.yaml:3: learning.model = [linear, mlp]: must be one value; move the list into the sweep: learning.model: "
        "[linear, mlp].",
    ),
    "the algorithm at the top of the file": (
        "name: a\nalgorithm: fedavg\nlearning: {algorithm: fedavg}\n",
        "s.yaml:2: algorithm = fedavg: unknown key; did you mean learning.algorithm.",
    ),
    "text with a colon": (
        "name: a\nlink: {modulation: qpsk}\ndescription: FedAvg: the 'first' try\n",
        "s.yaml:3: not valid YAML: mapping values are not allowed in this context; put the text in quotes: "
        "description: \"FedAvg: the 'first' try\".",
    ),
    "words of papers for other words, keys and axes": (
        "name: a\nlink: {error_model: bsc, ofdm: {scs: 3.0e+4}}\nlearning:\n  algorithm: fedavg\n"
        "  attack: {kind: label-flip, share: 0.2}\n",
        "s.yaml:2: link.ofdm.scs = 30000.0: unknown key; did you mean link.ofdm.subcarrier_spacing_hz (distance of "
        "subcarriers [Hz]).\n"
        "s.yaml:2: link.error_model = bsc: must be measured, iid, iid-mean, analytic or error_free; did you mean iid.\n"
        f"s.yaml:5: learning.attack.kind = label-flip: must be {listing(attacks.words())}; did you mean labels.",
    ),
    "numbers without brackets": (
        "name: a\nmeasure: {values: 0 5 10}\n",
        "s.yaml:2: measure.values = 0 5 10: must be a list or a range; write [0, 5, 10].",
    ),
    "a misspelt key of the base": (
        "name: a\nbase: flmc-snr\nlearning: {nrounds: 400}\n",
        "s.yaml:3: learning.nrounds = 400: unknown key; did you mean learning.rounds.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case.replace(" ", "_"))
def test_an_error_names_the_key_the_word_or_the_value_that_was_meant(case: str, tmp_path: Path) -> None:
    text, sentence = SENTENCES[case]
    assert sentence_about(text, tmp_path) == sentence
