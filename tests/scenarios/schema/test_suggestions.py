"""Errors name the key, the word or the unit that a user most likely meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import sentence_about

SENTENCES = {
    "the initials of a key": (
        "name: a\nlearning:\n  algorithm: fedavg\n  local: {lr: 0.1}\n",
        "s.yaml:4: learning.local.lr = 0.1: unknown key; did you mean learning.local.learning_rate.",
    ),
    "a part of a key, and a key of another section": (
        "name: a\nlearning: {devices: 9}\n",
        "s.yaml:2: learning.devices = 9: unknown key; did you mean learning.num_devices.",
    ),
    "another word of the field": (
        "name: a\nlearning: {num_clients: 9}\n",
        "s.yaml:2: learning.num_clients = 9: unknown key; did you mean learning.num_devices.",
    ),
    "a key of another algorithm, and of another section": (
        "name: a\nlearning: {algorithm: flmc, dimension: 3}\n",
        "s.yaml:2: learning.dimension = 3: unknown key; did you mean learning.task.dimension.",
    ),
    "a part of a key in another section": (
        "name: a\nlink: {channel: {rician_factor: 1}}\n",
        "s.yaml:2: link.channel.rician_factor = 1: unknown key; leave it out: the keys of link.channel are model, "
        "fading, rician_k_db, nakagami_m, coherence, delay_spread_s, carrier_frequency_hz, speed_m_s, gain, cell and "
        "noise_power.",
    ),
    "a part of the section's own name": (
        "name: a\nlink: {power: {max_power: 1}}\n",
        "s.yaml:2: link.power.max_power = 1: unknown key; leave it out: the keys of link.power are policy, "
        "snr_max_db, cutoff_db and loop.",
    ),
    "a section within another": (
        "name: a\nlearning:\n  algorithm: fedavg\n  privacy: {mechanism: gaussian}\n",
        "s.yaml:4: learning.privacy: unknown key; did you mean privacy.",
    ),
    "a key of another form": (
        "name: a\nlink:\n  csi: {error_variance: 0.1, estimator: ls}\n",
        "s.yaml:3: link.csi.estimator = ls: unknown key; it belongs to another form of link.csi: leave it out, or "
        "leave the keys beside it out.",
    ),
    "a misspelt key that is missing": (
        "name: a\nprivacy: {eps: 5}\n",
        "s.yaml:2: privacy.eps = 5: unknown key; did you mean privacy.epsilon.",
    ),
    "no name of the code": (
        "name: a\nlink: {coding: {rate: 1/2}}\n",
        "s.yaml:2: link.coding.code: the key is missing; add code: repetition, convolutional, turbo, polar5g or "
        "ldpc5g under link.coding.",
    ),
    "a key in another unit": (
        "name: a\nlink: {channel: {speed_kmh: 36, delay_spread_ns: 30}}\n",
        "s.yaml:2: link.channel.speed_kmh = 36: unknown key; write link.channel.speed_m_s: 10.\n"
        "s.yaml:2: link.channel.delay_spread_ns = 30: unknown key; write link.channel.delay_spread_s: 3e-08.",
    ),
    "values with units": (
        "name: a\nlink:\n  channel: {carrier_frequency_hz: 3.5 GHz}\n  power: {snr: 20dB}\n",
        "s.yaml:3: link.channel.carrier_frequency_hz = 3.5 GHz: must be a number without a unit; write 3.5e9.\n"
        "s.yaml:4: link.power.snr = 20dB: unknown key; write link.power.snr_max_db: 20.",
    ),
    "a unit of another quantity": (
        "name: a\nlink: {channel: {carrier_frequency_hz: 3 m}}\n",
        "s.yaml:2: link.channel.carrier_frequency_hz = 3 m: must be a number; write for example 3500000000.0.",
    ),
    "a percentage": (
        "name: a\nlearning: {attack: {kind: jam, share: 20%}}\n",
        "s.yaml:2: learning.attack.share = 20%: must be a number without a unit; write 0.2.",
    ),
    "a sweep in another unit": (
        "name: a\nsweep:\n  link.channel.speed_kmh: [36, 72]\n",
        "s.yaml:3: link.channel.speed_kmh: the sweep names a path that does not exist; write link.channel.speed_m_s: "
        "[10, 20].",
    ),
    "a list in place of a number": (
        "name: a\nlearning: {num_devices: [10, 20]}\n",
        "s.yaml:2: learning.num_devices = [10, 20]: must be a whole number; write one value, or move the list into "
        "the sweep: learning.num_devices: [10, 20].",
    ),
    "capitals and hyphens": (
        "name: a\nlink: {modulation: 16-QAM}\nmeasure: {over: EbN0, values: [0]}\n",
        "s.yaml:2: link.modulation = 16-QAM: must be auto, bpsk, qpsk, 16qam, 64qam, 256qam or analog; did you mean "
        "16qam.\n"
        "s.yaml:3: measure.over = EbN0: must be ebno_db, esno_db or snr_db; did you mean ebno_db.",
    ),
    "the opposite of a word": (
        "name: a\nlearning:\n  algorithm: fedavg\n  partition: {kind: non-iid}\n",
        "s.yaml:4: learning.partition.kind = non-iid: must be iid, labels or dirichlet; did you mean dirichlet.",
    ),
    "a range as text": (
        "name: a\nmeasure: {values: 0:2:20}\n",
        "s.yaml:2: measure.values = 0:2:20: must be a list or a range; write for example {start: 0, "
        "stop: 20, step: 2}.",
    ),
    "a tab": (
        "name: a\nlink:\n\taccess: auto\n",
        "s.yaml:3: not valid YAML: found character that cannot start any token; indent with spaces in place of the "
        "tab.",
    ),
    "a space too many": (
        "name: a\n trials: 3\n",
        "s.yaml:2: not valid YAML: mapping values are not allowed in this context; check indentation (1 spaces, the "
        "line above has 0), colons and quotes.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case.replace(" ", "_"))
def test_a_mistake_suggests_what_was_meant(case: str, tmp_path: Path) -> None:
    text, sentence = SENTENCES[case]
    assert sentence_about(text, tmp_path) == sentence
