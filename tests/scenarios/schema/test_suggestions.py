"""Errors name the key, the word or the unit that a user most likely meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import sentence_about

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.data.data_set import data_sets
from fl.models.model import models
from fl.schemes.probit.scheme import ProbitScheme
from fl.schemes.scheme import schemes
from phy.config import LinkConfig
from phy.config.conflict import listing
from privacy.config import SchemeBudget
from scenarios.plan.plan import expand
from scenarios.report.settings import setting_in_words
from scenarios.schema.loader import load_scenario
from scenarios.studies.check import check

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
        "s.yaml:2: link.channel.rician_factor = 1: unknown key; did you mean link.channel.rician_k_db (Rician "
        "K-factor: power of the fixed path over that of the scattered ones [dB]).",
    ),
    "a power in a link that knows ratios alone": (
        "name: a\nlink: {power: {max_power: 1}}\n",
        "s.yaml:2: link.power.max_power = 1: unknown key; did you mean link.power.snr_max_db (10 log10(P0 / N0) "
        "[dB], N0 per real dimension: 3 dB above the received SNR).",
    ),
    "shares of devices in the words of other programs": (
        "name: a\nlearning:\n  algorithm: fedavg\n  participation: {fraction_fit: 0.3}\n"
        "  attack: {kind: sign-flip, fraction: 0.2}\n",
        "s.yaml:4: learning.participation.fraction_fit = 0.3: unknown key; did you mean "
        "learning.participation.devices_per_round (number of devices chosen for each round).\n"
        "s.yaml:4: learning.participation.devices_per_round = 0.3: must be a whole number of devices; write 6 for 30 "
        "% of 20 devices.\n"
        "s.yaml:5: learning.attack.fraction = 0.2: unknown key; did you mean learning.attack.share (share of "
        "the devices).",
    ),
    "attackers counted, and the epsilon of the whole run": (
        "name: a\nlearning: {algorithm: fedavg, attackers: 0.2}\nprivacy: {mechanism: gaussian, eps_total: 5}\n",
        "s.yaml:2: learning.attackers = 0.2: unknown key; did you mean learning.attack.share (share of the devices).\n"
        "s.yaml:2: learning.attack = {share: 0.2}: the key kind is missing; add kind: boost, duplicate, gaussian, "
        "invert, jam, labels, ones, random, scale, sign-flip or zero-gradient.\n"
        "s.yaml:3: privacy.eps_total = 5: unknown key; did you mean privacy.budget.epsilon (epsilon of the whole run "
        "[nats]).",
    ),
    "names of schemes, data sets and models in papers": (
        "name: a\nlearning:\n  algorithm: fedavg\n  aggregation: fedavg\n  data: fmnist\n  model: softmax\n",
        f"s.yaml:4: learning.aggregation = fedavg: must be {listing(schemes.words())}; did you mean mean.\n"
        f"s.yaml:5: learning.data = fmnist: must be {listing(data_sets.words())}; did you mean fashion-mnist.\n"
        f"s.yaml:6: learning.model = softmax: must be {listing(models.words())}; did you mean linear.",
    ),
    "a constellation between two of ours": (
        "name: a\nlink: {modulation: 32qam}\n",
        "s.yaml:2: link.modulation = 32qam: must be auto, bpsk, qpsk, 16qam, 64qam, 256qam or analog; write for "
        "example auto.",
    ),
    "the access in the name of the scheme": (
        "name: a\nlearning: {scheme: digital-ofdma}\n",
        "s.yaml:2: learning.scheme = digital-ofdma: must be analog, digital, digital-orthogonal, exact or noiseless; "
        "did you mean digital-orthogonal.",
    ),
    "the kind of a section under another key, and the keys beside it": (
        "name: a\nlearning:\n  algorithm: fedavg\n  codec: {kind: uniform, bits: 0}\n"
        "  attack: {type: signflip, fraction: 0.2}\n",
        "s.yaml:4: learning.codec.bits = 0: must be at least 1; write 1 or more.\n"
        "s.yaml:4: learning.codec.kind = uniform: unknown key; write name: uniform in place of kind: uniform.\n"
        "s.yaml:5: learning.attack = {type: signflip, fraction: 0.2}: the key kind is missing; write kind: sign-flip "
        "in place of type: signflip.\n"
        "s.yaml:5: learning.attack.fraction = 0.2: unknown key; did you mean learning.attack.share (share of "
        "the devices).",
    ),
    "the kind of a section, and the keys beside it": (
        "name: a\nlearning: {algorithm: fedavg}\nprivacy: {mechanism: bitflip, eps: 10, kappa: auto}\n",
        "s.yaml:3: privacy.mechanism = bitflip: must be bit-flipping, device-noise, gaussian, receiver-noise or "
        "scheme; did you mean bit-flipping.\n"
        "s.yaml:3: privacy.kappa = auto: must be a number above 0, or measured; write for example 0.02, or measured.\n"
        "s.yaml:3: privacy.eps = 10: unknown key; did you mean privacy.epsilon (epsilon of Renyi DP of this order for "
        "the whole run [nats]).",
    ),
    "ranges in a sweep": (
        "name: a\nsweep:\n  link.power.snr_max_db: {start: 0, stop: 20, step: 5}\n  learning.num_devices: 2..4\n"
        "  link.channel.gain: 1:0.5:2\n",
        "s.yaml:3: link.power.snr_max_db = {start: 0, stop: 20, step: 5}: must be a list of at least one value; write "
        "link.power.snr_max_db: [0, 5, 10, 15, 20].\n"
        "s.yaml:4: learning.num_devices = 2..4: must be a list of at least one value; write learning.num_devices: "
        "[2, 3, 4].\n"
        "s.yaml:5: link.channel.gain = 1:0.5:2: must be a list of at least one value; write link.channel.gain: "
        "[1, 1.5, 2].",
    ),
    "keys one inside the other in a sweep": (
        "name: a\nsweep: {link: {power: {snr_max_db: [0, 10]}}}\n",
        "s.yaml:2: link = {power: {snr_max_db: [0, 10]}}: must be a list of at least one value; write "
        "link.power.snr_max_db: [0, 10] in place of link in the sweep.",
    ),
    "no space after a colon": (
        "name: a\nlink: {power: {snr_max_db:15}}\n",
        "s.yaml:2: link.power: {snr_max_db:15} is a key without a value; write snr_max_db: 15.",
    ),
    "a code in a sum": (
        "name: a\nlearning: {scheme: digital}\nlink: {coding: {code: ldpc5g}}\n",
        "s.yaml:3: link.coding: symbols that add up in the air cannot be decoded, so superposition carries no code; "
        "write coding: none, or access: orthogonal (under flmc learning.scheme: digital-orthogonal).",
    ),
    "privacy of uploads without a mechanism": (
        "name: a\nlearning: {algorithm: fedavg}\nprivacy: {epsilon: 2}\n",
        "s.yaml:3: privacy: privacy without a mechanism bounds the amplitudes of flmc, the algorithm is fedavg; write "
        "for example privacy: {mechanism: gaussian, epsilon: 2, delta: 1e-05} and learning.local: {optimizer: gd, "
        "clip: 1}.",
    ),
    "values in another unit without its name": (
        "name: a\nlink:\n  channel: {model: tdl-a, delay_spread_s: 100}\n  ofdm: {subcarrier_spacing_hz: 15}\n"
        "learning: {attack: {kind: jam, share: 20}}\nmeasure: {values: [0], confidence: 95}\n",
        "s.yaml:3: link.channel.delay_spread_s = 100: must be at most 0.0001 s; write 1e-07 for 100 ns.\n"
        "s.yaml:4: link.ofdm.subcarrier_spacing_hz = 15: must be at least 100 Hz; write 15000 for 15 kHz.\n"
        "s.yaml:5: learning.attack.share = 20: must be at most 1; write 0.2 for 20 %.\n"
        "s.yaml:6: measure.confidence = 95: must be at most 0.9999; write 0.95 for 95 %.",
    ),
    "values beyond a limit in every unit": (
        "name: a\nlink: {coding: {code: ldpc5g, rate: 1.2}}\nlearning: {num_devices: 10000000}\n"
        "privacy: {budget: {epsilon: 1, delta: 2}}\n",
        "s.yaml:2: link.coding.rate = 1.2: must be at most 1; write for example 0.5.\n"
        "s.yaml:3: learning.num_devices = 10000000: must be at most 100000; write 100000 or less.\n"
        "s.yaml:4: privacy.budget.delta = 2: must be below 1; write for example 1e-5.",
    ),
    "a scheme that nobody wrote yet": (
        "name: a\nlearning: {algorithm: fedavg, aggregation: krum}\n",
        f"s.yaml:2: learning.aggregation = krum: must be {listing(schemes.words())}; write for example "
        "cpa, or a plug-in of your own (docs/plugins.md).",
    ),
    "a share of the devices": (
        "name: a\nlearning:\n  algorithm: fedavg\n  num_devices: 30\n  participation: {devices_per_round: 50%}\n",
        "s.yaml:5: learning.participation.devices_per_round = 50%: must be a whole number of devices; write 15 for "
        "50 % of 30 devices.",
    ),
    "all devices": (
        "name: a\nlearning: {algorithm: fedavg, participation: {devices_per_round: all}}\n",
        "s.yaml:2: learning.participation.devices_per_round = all: must be a whole number of devices; leave it out: "
        "all devices take part.",
    ),
    "a section within another": (
        "name: a\nlearning:\n  algorithm: fedavg\n  privacy: {mechanism: gaussian}\n",
        "s.yaml:4: learning.privacy: unknown key; write privacy at the top of the file, outside learning.\n"
        "s.yaml:4: privacy.epsilon: the key is missing; add epsilon under privacy: write for example epsilon: 5.",
    ),
    "a key of another form": (
        "name: a\nlink:\n  csi: {error_variance: 0.1, estimator: ls}\n",
        "s.yaml:3: link.csi.estimator = ls: unknown key; it belongs to another form of link.csi: leave it out, or "
        "leave the keys beside it out.",
    ),
    "a misspelt key that is missing": (
        "name: a\nprivacy: {eps: 5}\n",
        "s.yaml:2: privacy.eps = 5: unknown key; did you mean privacy.epsilon (epsilon of each round of each device "
        "[nats]).",
    ),
    "no name of the code": (
        "name: a\nlink: {coding: {rate: 1/2}}\n",
        "s.yaml:2: link.coding.code: the key is missing; add code: repetition, convolutional, turbo, polar5g or "
        "ldpc5g under link.coding.",
    ),
    "a key in another unit": (
        "name: a\nlink: {channel: {speed_kmh: 36, delay_spread_ns: 30}}\n",
        "s.yaml:2: link.channel.speed_kmh = 36: unknown key; write link.channel.speed_m_s: 10.\n"
        "s.yaml:2: link.channel.delay_spread_ns = 30: unknown key; write link.channel.delay_spread_s: 3e-08.\n"
        "s.yaml:2: link.channel.speed_m_s = 10: speed_m_s 10 acts on a flat channel under coherence: doppler only, "
        "the coherence is round; write coherence: doppler, or leave speed_m_s out.",
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
        "s.yaml:2: learning.num_devices = [10, 20]: must be one value; move the list into the sweep: "
        "learning.num_devices: [10, 20].",
    ),
    "capitals and hyphens": (
        "name: a\nlink: {modulation: 16-QAM}\nmeasure: {over: EbN0, values: [0]}\n",
        "s.yaml:2: link.modulation = 16-QAM: must be auto, bpsk, qpsk, 16qam, 64qam, 256qam or analog; did you mean "
        "16qam.\n"
        "s.yaml:3: measure.over = EbN0: must be ebno_db, esno_db or snr_db; did you mean ebno_db.",
    ),
    "the opposite of a word": (
        "name: a\nlearning:\n  algorithm: fedavg\n  partition: {kind: non-iid}\n",
        "s.yaml:4: learning.partition.kind = non-iid: must be dirichlet, given, iid or labels; did you mean dirichlet "
        "or labels.\n"
        "s.yaml:4: learning.partition.kind = dirichlet: kind dirichlet needs alpha; write for example partition: "
        "{kind: dirichlet, alpha: 0.5}.",
    ),
    "another key for the name of a kind": (
        "name: a\nlink: {channel: {kind: tdl-a}}\nlearning:\n  algorithm: fedavg\n  partition: {name: iid}\n"
        "  attack: {name: sign-flip, share: 0.2}\n",
        "s.yaml:2: link.channel.kind = tdl-a: unknown key; write model: tdl-a in place of kind: tdl-a.\n"
        "s.yaml:5: learning.partition.name = iid: unknown key; write kind: iid in place of name: iid.\n"
        "s.yaml:6: learning.attack = {name: sign-flip, share: 0.2}: the key kind is missing; write kind: sign-flip in "
        "place of name: sign-flip.",
    ),
    "a nearly right word under another key, and a key of that kind": (
        "name: a\nlearning:\n  algorithm: fedavg\n  attack: {type: signflip, share: 0.2}\n"
        "  codec: {kind: fixed-point, bound: 2}\n",
        "s.yaml:4: learning.attack = {type: signflip, share: 0.2}: the key kind is missing; write kind: sign-flip in "
        "place of type: signflip.\n"
        "s.yaml:5: learning.codec.kind = fixed-point: unknown key; write name: fixed-point in place of kind: "
        "fixed-point.",
    ),
    "a nearly right code under another key, which alone is missing": (
        "name: a\nlink: {coding: {scheme: ldpc, rate: 1/2}}\n",
        "s.yaml:2: link.coding.scheme = ldpc: unknown key; write code: ldpc5g in place of scheme: ldpc.",
    ),
    "a nearly right code beside the one that is written": (
        "name: a\nlink: {coding: {code: turbo, scheme: ldpc}}\n",
        "s.yaml:2: link.coding.scheme = ldpc: unknown key; leave it out: the keys of link.coding are code, rate, "
        "block_length, iterations, check_update, list_size, constraint_length, standard, redundancy_version, "
        "transport_block, tbs_lbrm_bits, scrambling, interleaver and demapper.",
    ),
    "a word of the key beside": (
        "name: a\nlink: {channel: {model: rayleigh}}\n",
        "s.yaml:2: link.channel.model = rayleigh: must be awgn, flat, tdl-a, tdl-b, tdl-c, tdl-d, tdl-e, cdl-a, cdl-b, "
        "cdl-c, cdl-d, cdl-e or trace; write fading: rayleigh in place of model: rayleigh.",
    ),
    "a word of the field that names another section's key as well": (
        "name: a\nlink: {noma: {users: 3}}\nlearning: {algorithm: fedavg, participation: {share: 0.5}}\n",
        "s.yaml:2: link.noma.users = 3: unknown key; did you mean link.noma.group_size (devices on the same "
        "resources).\n"
        "s.yaml:3: learning.participation.share = 0.5: unknown key; did you mean "
        "learning.participation.devices_per_round (number of devices chosen for each round).\n"
        "s.yaml:3: learning.participation.devices_per_round = 0.5: must be a whole number of devices; write 10 for "
        "50 % of 20 devices.",
    ),
    "a missing key with an example": (
        "name: a\nprivacy: {mechanism: bit-flipping, epsilon: 5}\n",
        "s.yaml:2: privacy.kappa: the key is missing; add kappa under privacy: write for example kappa: 0.02, "
        "or kappa: measured.",
    ),
    "kinds with other keys in one sweep": (
        "name: a\nlearning: {algorithm: fedavg, local: {clip: 1}}\nprivacy: {mechanism: bit-flipping, epsilon: 5, "
        "kappa: 1}\nsweep: {privacy.mechanism: [bit-flipping, gaussian]}\n",
        "s.yaml:3: privacy.kappa = 1: unknown key (at the sweep point privacy.mechanism = gaussian); write privacy: "
        "[{mechanism: bit-flipping, epsilon: 5, kappa: 1}, {mechanism: gaussian, epsilon: 5}] in place of "
        "privacy.mechanism in the sweep.",
    ),
    "a budget for a scheme with an epsilon of its own": (
        "name: a\nlearning: {algorithm: fedavg, aggregation: probit}\nprivacy: {budget: {epsilon: 9}}\n",
        "s.yaml:3: privacy: aggregation probit makes its own bits, and privacy is for mechanisms on plain numbers; "
        "leave privacy out, or write privacy.mechanism: scheme, so that the budget sets its epsilon.",
    ),
    "a budget for PRoBit without a limit of updates": (
        "name: a\nlearning: {algorithm: fedavg, aggregation: probit}\n"
        "privacy: {mechanism: scheme, budget: {epsilon: 9}}\n",
        "s.yaml:2: learning.aggregation: aggregation probit without a limit of the l1 norm protects nothing, and no "
        "budget holds that; write aggregation: {name: probit, l1_clip: 1.0}.",
    ),
    "PRoBit with a limit and no epsilon": (
        "name: a\nlearning: {algorithm: fedavg, aggregation: {name: probit, l1_clip: 1}}\n",
        "s.yaml:2: learning.aggregation.l1_clip = 1.0: l1_clip limits updates for an epsilon, and there is neither an "
        "epsilon nor a budget that sets it; leave l1_clip out, or write an epsilon.",
    ),
    "a range as text": (
        "name: a\nmeasure: {values: 0:2:20}\n",
        "s.yaml:2: measure.values = 0:2:20: must be a list or a range; write {start: 0, stop: 20, step: 2}.",
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


def test_none_is_written_for_every_key_that_may_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: a\nlink: {channel: {cell: none}}\nlearning: {algorithm: fedavg, local: {clip: none}, personal: none}\n"
        "sweep: {learning.attack: [none, {kind: ones, share: 0.1}]}\n"
    )
    plan = expand(load_scenario(file))
    honest, attacked = (point.scenario for point in plan.points)
    assert (honest.learning.attack, honest.learning.local.clip, honest.link.channel.cell) == (None, None, None)
    assert attacked.learning.attack.share == 0.1
    assert [setting_in_words(plan, point) for point in plan.points] == ["no attack", "10 % constant ones"]


def test_a_budget_sets_the_epsilon_of_probit_whatever_is_written() -> None:
    def settled(**epsilon: float) -> ProbitScheme:
        scheme = {"name": "probit", "l1_clip": 1.0, "confidence": 0.99999999, **epsilon}
        config = FedAvgConfig(aggregation=scheme, rounds=10)
        privacy = SchemeBudget(mechanism="scheme", budget={"epsilon": 10.0})
        return config.settled(
            link=LinkConfig().resolve(access="orthogonal", modulation="qpsk"), privacy=privacy
        ).aggregation

    assert settled() == settled(epsilon=1.0)
    assert settled().epsilon == pytest.approx(1.0, rel=0.1)


def test_a_check_names_wrong_values_of_the_sweep_beside_wrong_keys_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: a\nlearning: {algorithm: fedavg, epochs: 3}\nsweep:\n  learning.aggregation: [probit, average]\n"
        "  link.coding: [none, {code: ldpc}]\n"
    )
    assert [(error.line, error.key) for error in check(file).errors] == [
        (2, "learning.epochs"),
        (4, "learning.aggregation"),
        (5, "link.coding.code"),
    ]
