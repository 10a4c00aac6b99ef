"""Scenarios with one conflict each, by its description; the name of the scenario is left out."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

_DIGITS = "learning: {algorithm: fedavg, data: digits, num_devices: 4"
_DP = "mechanism: gaussian, epsilon: 5, delta: 1e-5"
_NOISE = "privacy: {mechanism: receiver-noise, clip: 1, epsilon: 5, delta: 1e-5}"
_FLIPS = "privacy: {mechanism: bit-flipping, epsilon: 10, kappa: 0.02}"
_SPENT = "budget: {epsilon: 100, delta: 1e-5}"


def _link(text: str, learning: str = "") -> str:
    return f"link: {{{text}}}\n{_DIGITS}{learning}}}"


def _air(text: str, learning: str = "") -> str:
    return _link(f"access: superposition{', ' * bool(text)}{text}", learning)


def _fedavg(text: str) -> str:
    return f"{_DIGITS}, {text}}}"


def _flmc(text: str, link: str = "") -> str:
    return f"link: {{{link}}}\nlearning: {{algorithm: flmc, {text}}}"


def _measured(text: str, values: str = "values: [0]") -> str:
    return f"link: {{{text}}}\nmeasure: {{{values}}}"


_GRID = "ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4}"
_SLOW = "channel: {fading: rayleigh, coherence: packet}"

_FILES = Path(tempfile.mkdtemp(prefix="phyloop-conflicts-"))
"""Files of the user, which scenarios name by their whole path."""
(_FILES / "rows.csv").write_text("age,dose,ill,site\n" + "".join(f"{n},{n % 7},{n % 2},s{n % 3}\n" for n in range(60)))
(_FILES / "numbers.csv").write_text("age,dose,size\n" + "".join(f"{n},{n % 7},{n}.5\n" for n in range(60)))
(_FILES / "users.json").write_text('{"user_data": {"a": {"x": [[0.5], [1.5], [2.5], [3.5]], "y": [0, 1, 0, 1]}}}')
np.savez(_FILES / "pictures.npz", x=np.zeros((40, 28, 28), np.uint8), y=np.arange(40) + 0.5)


_PATHS = {"a": np.ones((3, 4, 1, 2), complex), "tau_s": np.zeros((3, 4, 2))}
np.savez(_FILES / "site.npz", **_PATHS)
np.savez(_FILES / "timed.npz", **_PATHS, snapshot_s=0.1)
np.savez(_FILES / "dead.npz", **{**_PATHS, "a": np.zeros((3, 4, 1, 2), complex)})
np.savez(_FILES / "taps.npz", h=np.ones((3, 4, 1, 2), complex), sample_rate_hz=1e6)
np.savez(_FILES / "real.npz", h=np.ones((3, 4, 1, 2)), sample_rate_hz=1e6)


def _site(text: str = "", channel: str = "", file: str = "site") -> str:
    return _link(f"channel: {{model: trace, file: {_FILES}/{file}.npz{', ' * bool(channel)}{channel}}}{text}")


def _rows(text: str, data: str = "label: ill, features: [age, dose], owner: site") -> str:
    data = f"{{file: {_FILES}/rows.csv, {data}}}"
    return f"learning: {{algorithm: fedavg, data: {data}, num_devices: 3{', ' * bool(text)}{text}}}"


def _numbers(text: str, data: str = "numbers.csv, label: size") -> str:
    return f"learning: {{algorithm: fedavg, data: {{file: {_FILES}/{data}}}, num_devices: 3, {text}}}"


CONFLICTS = {
    # Links
    "gains of other devices": _link("channel: {gain: [1, 2]}"),
    "powers of other devices": _link("power: {snr_max_db: [3, 6, 9]}"),
    "powers in dBm of other devices": _link("channel: {gain: 1e-5}, power: {transmit_power_dbm: [3]}"),
    "two powers": _link("channel: {gain: 1e-5}, power: {snr_max_db: 6, transmit_power_dbm: 10}"),
    "a noise figure without a power": _link("power: {noise_figure_db: 7}"),
    "a power in dBm without a path loss": _link("power: {transmit_power_dbm: 10}"),
    "a power in dBm over a relative trace": _site(", power: {transmit_power_dbm: 10}"),
    "two powers of the noise": _link("channel: {gain: 1e-5, noise_power: 2}, power: {transmit_power_dbm: 10}"),
    "a power in dBm under OFDMA": _link(
        f"channel: {{gain: 1e-5}}, power: {{transmit_power_dbm: 10}}, multiplexing: ofdma, {_GRID}"
    ),
    "a power in dBm in a loop": _link("channel: {gain: 1e-5}, power: {transmit_power_dbm: 10, policy: closed-loop}"),
    "a study at one power": _measured("modulation: qpsk, channel: {gain: 1e-5}, power: {transmit_power_dbm: 10}"),
    "flips of bits that add up": _air("error_model: iid"),
    "a closed form of an estimate": _link("error_model: analytic, csi: {error_variance: 0.1}"),
    "a closed form in fading": _link(
        "error_model: analytic, channel: {fading: rayleigh}, power: {policy: truncated-inversion}"
    ),
    "a cutoff above all": _link("power: {policy: truncated-inversion, cutoff_db: 1}"),
    "silence within a transmission": _link(f"power: {{policy: truncated-inversion}}, {_SLOW}"),
    "an engine that lacks the link": _link(
        "access: orthogonal, modulation: qpsk, engine: fused, "
        "coding: {code: ldpc5g, check_update: minsum, standard: sionna}"
    ),
    "an engine that lacks the standard": _link(
        "access: orthogonal, modulation: qpsk, engine: sionna, coding: {code: ldpc5g, standard: 3gpp}"
    ),
    "a GPU that lacks the link": _link(
        "access: orthogonal, modulation: qpsk, engine: cuda, ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4}"
    ),
    "positions of other devices": _link("channel: {cell: {positions_m: [[1, 2]]}}"),
    "a ring beyond the path loss": _link("channel: {cell: {radius_m: 6000}}"),
    "a reference beyond the path loss": _link("channel: {cell: {reference_distance_m: 6000}}"),
    "a position beyond the path loss": _link("channel: {cell: {positions_m: [[6000, 0], [1, 2], [3, 4], [5, 6]]}}"),
    "a frequency beyond the path loss": _link("channel: {cell: {scenario: rma}, carrier_frequency_hz: 31e9}"),
    "pilots for a channel that is gone": _link(
        f"channel: {{fading: rayleigh, coherence: symbol}}, csi: {{estimator: ls}}, {_GRID}"
    ),
    "an estimator without pilots": _link(
        "csi: {estimator: lmmse}, ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4, pilot_symbols: []}"
    ),
    "delays without a grid": _link("channel: {model: tdl-a}"),
    "an estimator without a grid": _link("csi: {estimator: ls}"),
    "a timing offset without a grid": _link("impairments: {timing_offset_s: 1e-6}"),
    "OFDMA without a grid": _link("multiplexing: ofdma"),
    "offsets estimated with no channel to undo": _link(f"impairments: {{estimated: true}}, {_GRID}"),
    "a bandwidth beside that of OFDM": _link(f"bandwidth_hz: 2e6, {_GRID}"),
    "carriers that run away": _link(
        "ofdm: {num_subcarriers: 72, subcarrier_spacing_hz: 1000}, "
        "channel: {model: tdl-a, speed_m_s: 150, carrier_frequency_hz: 28e9, delay_spread_s: 1e-8}"
    ),
    "a filter of too many samples": _link(
        "channel: {model: tdl-e, delay_spread_s: 1e-5}, "
        "ofdm: {num_subcarriers: 4096, subcarrier_spacing_hz: 60e3, cyclic_prefix_length: 4096, domain: time}"
    ),
    "OFDMA under NOMA": _link(f"access: noma, modulation: qpsk, multiplexing: ofdma, {_GRID}"),
    "shared slots of NOMA": _link(f"access: noma, modulation: qpsk, {_GRID[:-1]}, packing: shared}}"),
    "shared slots under OFDMA": _link(f"multiplexing: ofdma, {_GRID[:-1]}, packing: shared}}"),
    "more devices than carriers": _link(
        "multiplexing: ofdma, ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4, guard_carriers: [6, 7]}"
    ),
    "a code for a sum": _air("coding: {code: turbo}"),
    "an MCS for a sum": _air("mcs: 3"),
    "packets of a sum": _air("packets: {policy: drop}"),
    "a window that a device misses": _air(
        "ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4, domain: time}, impairments: {timing_offset_s: 7e-5}"
    ),
    "Doppler on a sum without a grid": _air("channel: {fading: rayleigh, coherence: doppler, speed_m_s: 1}"),
    "one scale for several gains": _air(f"{_SLOW}, receiver: {{scaling: mmse}}"),
    "one budget for several gains": _air(
        f"{_SLOW}, power: {{policy: truncated-inversion, budget: {{energy_j: 0.01}}}}"
    ),
    "one optimum for several gains": _air(f"{_SLOW}, power: {{policy: mse-optimal}}"),
    "the scale of a sum that is none": _link("access: orthogonal, receiver: {scaling: unbiased}"),
    "an energy budget of single devices": _link("access: orthogonal, power: {budget: {energy_j: 0.01}}"),
    "groups that do not come out even": _link("access: noma, modulation: qpsk, noma: {group_size: 3}"),
    "users of one power": _link("access: noma, modulation: qpsk, noma: {ladder_db: [0, 0]}"),
    "users that gains make alike": _link(
        "access: noma, modulation: bpsk, noma: {ladder_db: [0, -20]}, power: {policy: fixed}, "
        "channel: {gain: [1, 10, 1, 10]}"
    ),
    "more users than antennas": _link("access: noma, modulation: qpsk, noma: {detector: lmmse}"),
    "an equaliser beside lmmse": _link(
        "access: noma, modulation: qpsk, noma: {detector: lmmse}, receiver: {num_antennas: 2, equalizer: zf}"
    ),
    "too many combinations": _link("access: noma, modulation: 256qam, noma: {group_size: 4, detector: ml}"),
    "more users than carriers": _link(
        "access: noma, modulation: qpsk, noma: {group_size: 4}, "
        "ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4, guard_carriers: [6, 7]}"
    ),
    "a rate that a code lacks": _link("coding: {code: convolutional, rate: 0.6}"),
    "a rate beyond polar codes": _link("coding: {code: polar5g, rate: 0.95}"),
    "a rate beyond turbo codes": _link("coding: {code: turbo, rate: 0.95}"),
    "a rate beyond LDPC": _link("coding: {code: ldpc5g, rate: 0.95}"),
    "a block that is too short": _link("mcs: 28, coding: {code: ldpc5g, block_length: 11, standard: sionna}"),
    "soft values of independent flips": _link("error_model: iid, packets: {policy: retransmit-combine}"),
    "redundancy of the conventions of Sionna": _link(
        "coding: {code: ldpc5g, standard: sionna}, packets: {policy: retransmit-combine, "
        "combining: incremental-redundancy}"
    ),
    "redundancy of NOMA": _link(
        "access: noma, modulation: qpsk, coding: {code: ldpc5g}, packets: {policy: retransmit-combine, "
        "combining: incremental-redundancy}"
    ),
    "a closed form of NOMA": _link("access: noma, modulation: qpsk, error_model: analytic"),
    "antennas in the time domain": _air(
        "receiver: {num_antennas: 2}, ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4, domain: time}"
    ),
    "fewer antennas than devices": _air(
        "receiver: {num_antennas: 2, combining: zf}, channel: {fading: rayleigh}, power: {policy: fixed}"
    ),
    "alike antennas": _air("receiver: {num_antennas: 4, combining: zf}, power: {policy: fixed}"),
    "blind combining of a mean": _air("receiver: {num_antennas: 4, combining: blind}, power: {policy: fixed}"),
    "a policy that follows no channel": _air(
        "receiver: {num_antennas: 4, combining: mmse}, channel: {fading: rayleigh}, power: {policy: mse-optimal}"
    ),
    "an optimum of single devices": _link("access: orthogonal, power: {policy: mse-optimal}"),
    "a loop on a sum": _air("power: {policy: closed-loop}"),
    "a loop on flips": _link("error_model: iid, power: {policy: closed-loop}"),
    "a loop on intact packets": _link("power: {policy: closed-loop}, packets: {policy: drop}"),
    "flips of packets that stay silent": _link(
        "error_model: iid, coding: {code: convolutional}, power: {policy: truncated-inversion}"
    ),
    "a closed form of a loop": _link("error_model: analytic, power: {policy: closed-loop}"),
    # Link studies
    "a study without a modulation": _measured("access: orthogonal"),
    "a study of a sum": _measured("access: superposition, modulation: analog"),
    "a study of flips": _measured("modulation: qpsk, error_model: iid"),
    "a study of a loop": _measured("modulation: qpsk, power: {policy: closed-loop}"),
    "throughput of devices at once": _measured("modulation: qpsk, access: noma", "values: [0], num_devices: 2")
    + "\nreport: {figures: [{x: esno_db, y: throughput}]}",
    "a batch of less than a packet": _measured(
        "modulation: qpsk, packet_size_bytes: 64", "values: [0], bits_per_batch: 100"
    ),
    "a level that no power reaches": _measured("modulation: qpsk, channel: {gain: 1e-8}", "values: [150]"),
    # Federated averaging
    "codec studies of sums": "link: {access: superposition}\nlearning: {algorithm: flip-moments}",
    "amplitudes for bits": "link: {modulation: analog}\nlearning: {algorithm: flip-moments}",
    "privacy of a codec": "learning: {algorithm: flip-moments}\nprivacy: {epsilon: 5, delta: 0.01}",
    "values beyond a codec": "learning: {algorithm: flip-moments, largest: 30, codec: {name: uniform, bound: 1}}",
    "more images than there are": _fedavg("data: {name: digits, train_samples: 5000}").replace("data: digits, ", ""),
    "more images held out than there are": _fedavg("data: {name: digits, validation_samples: 1437}").replace(
        "data: digits, ", ""
    ),
    "more devices than samples": _fedavg("num_devices: 2000").replace("num_devices: 4, ", ""),
    "more samples than there are": _fedavg("partition: {samples_per_device: 600}"),
    "more labels than there are": _fedavg("partition: {kind: labels, labels_per_device: 12}"),
    "more samples for one device than there are": _fedavg("partition: {samples_per_device: 2000, disjoint: false}"),
    "fewer samples than labels": _fedavg("partition: {kind: labels, labels_per_device: 3, samples_per_device: 2}"),
    "more labels than samples": (
        "learning: {algorithm: fedavg, data: digits, num_devices: 700, partition: {kind: labels, labels_per_device: 3}}"
    ),
    "labels that nobody holds": _fedavg("partition: {kind: labels, labels_per_device: 2}"),
    "a model that is too deep for its images": _fedavg("model: cnn3"),
    "fewer outputs than classes": _fedavg("model: {name: linear, outputs: 4}"),
    "a codec of an ideal downlink": _fedavg("downlink_codec: binary32"),
    "a parameter of another aggregation": _fedavg("aggregation: {name: median, trim: 0.2}"),
    "a decoder of a majority": _fedavg("aggregation: {name: sign, vote: majority, decode: unbiased}"),
    "a decay of a fixed radius": _fedavg("aggregation: {name: cpa, gamma_decay: 0.9}"),
    "a radius below single precision": _fedavg("aggregation: {name: cpa, radius: decaying, gamma_decay: 0.01}"),
    "a scale that one level does not show": _fedavg("aggregation: {name: cpa, form: printed, radius: scaled}"),
    "rates of other stages": _fedavg("aggregation: {name: cpa, rate_bits: [2, 1]}"),
    "too many lattice points": _fedavg("aggregation: {name: cpa, dimension: 2, rate_bits: 6}"),
    "a quantiser that errs by more than the noise": _fedavg("aggregation: {name: jopeq, epsilon: 50}"),
    "a table without privacy": _fedavg("aggregation: {name: mvu, epsilon: 50}"),
    "a limit without an epsilon": _fedavg("aggregation: {name: probit, l1_clip: 1}"),
    "a bound below what epsilon asks for": _fedavg("aggregation: {name: probit, epsilon: 1, l1_clip: 1}"),
    "a bound beside the clip": _fedavg("aggregation: {name: probit, bound: clip, clip: 0.1, b: 0.1}"),
    "a form without an epsilon": _fedavg("aggregation: {name: probit, form: exact}"),
    "a codec that a scheme never uses": _fedavg("aggregation: sign, codec: {name: uniform, bits: 4}"),
    "privacy beside a scheme": _fedavg("local: {clip: 1}, aggregation: cpa") + f"\nprivacy: {{{_DP}}}",
    "privacy beside a scheme that cannot take it": _fedavg("local: {clip: 1}, aggregation: probit")
    + f"\nprivacy: {{{_DP}}}",
    "a budget of noise beside a scheme": _fedavg("local: {clip: 1}, aggregation: cpa")
    + f"\nprivacy: {{mechanism: gaussian, {_SPENT}}}",
    "errors that packets hide": _link("packets: {policy: drop}", ", aggregation: cpa"),
    "one sample for two sets": _fedavg("personal: {}, partition: {samples_per_device: 1}"),
    "a bound for personal models": _fedavg(
        "personal: {}, convergence_bound: true, model: linear, local: {optimizer: gd, l2: 0.01, clip: 1}"
    ),
    "a median of a sum": _air("", ", aggregation: median"),
    "symbols that a scheme does not add": _air("modulation: qpsk"),
    "errors that nobody sees": _air("", ", aggregation: cpa"),
    "flips in a sum": _air("", ", local: {clip: 1, steps: 1}, codec: fixed-point") + f"\n{_FLIPS}",
    "limits of single numbers in a sum": _air("", ", receiver_limit: 2.0"),
    "an attack on bits that are none": _air("", ", attack: {kind: random, share: 0.5}"),
    "an attack on the air without power": _air("error_model: error_free", ", attack: {kind: jam, share: 0.5}"),
    "an attack on the air of single devices": _fedavg("attack: {kind: jam, share: 0.5}"),
    "an attacker that is not there": _fedavg("attack: {kind: sign-flip, devices: [1, 7]}"),
    "a parameter of another attack": _fedavg("attack: {kind: sign-flip, share: 0.5, std: 3}"),
    "a draw of named attackers": _fedavg("attack: {kind: sign-flip, devices: [1], drawn: with-replacement}"),
    "honest devices that are none": _fedavg("attack: {kind: zero-gradient, share: 1.0}"),
    "a sign that nobody flips": _fedavg("attack: {kind: sign-flip, share: 0.5, factor: 2}"),
    "privacy of amplitudes": _fedavg("local: {steps: 1}") + "\nprivacy: {epsilon: 100, delta: 0.25}",
    "noise without a clip": _fedavg("local: {steps: 1}") + f"\nprivacy: {{{_DP}}}",
    "noise of mini-batches": _fedavg("local: {optimizer: sgd, batch_size: 8, clip: 1}") + f"\nprivacy: {{{_DP}}}",
    "flips of exponents": _fedavg("local: {clip: 1}, codec: binary32") + f"\n{_FLIPS}",
    "the noise of a receiver that sees all": _fedavg("rounds: 5") + f"\n{_NOISE}",
    "the noise of no receiver": _air("error_model: error_free") + f"\n{_NOISE}",
    "the noise of many antennas": _air("receiver: {num_antennas: 4}") + f"\n{_NOISE}",
    "the noise beside impairments": _air(f"impairments: {{cfo_hz: 10}}, {_GRID}") + f"\n{_NOISE}",
    "the noise of waveforms that interfere": _air(
        "channel: {fading: rayleigh, coherence: doppler, speed_m_s: 3}, "
        "ofdm: {num_subcarriers: 16, cyclic_prefix_length: 4, domain: time}"
    )
    + f"\n{_NOISE}",
    "the noise beside payload power": _air("power: {policy: mse-optimal}") + f"\n{_NOISE}",
    "the noise beside a budget of energy": _air("power: {budget: {energy_j: 1}}") + f"\n{_NOISE}",
    "the noise beside an estimate": _air("csi: {error_variance: 0.1}")
    + f"\nprivacy: {{mechanism: receiver-noise, clip: 1, {_SPENT}}}",
    "the noise beside a private scheme": _air("", ", aggregation: {name: cpa, channel: agnostic}")
    + "\nprivacy: {mechanism: receiver-noise, epsilon: 5, delta: 1e-5}",
    "the noise without a clip": _air("") + "\nprivacy: {mechanism: receiver-noise, epsilon: 5, delta: 1e-5}",
    "the noise beside symbols of one power": _air("", ", aggregation: {name: sign, epsilon: none, channel: agnostic}")
    + f"\n{_NOISE}",
    "the noise without a clip of what a scheme sends": _air(
        "", ", aggregation: {name: cpa, epsilon: none, channel: agnostic}"
    )
    + "\nprivacy: {mechanism: receiver-noise, epsilon: 5, delta: 1e-5}",
    "the noise of models": _air("", ", upload: model") + f"\n{_NOISE}",
    # Budgets
    "a delta of none for noise": _fedavg("local: {clip: 1, steps: 1}")
    + "\nprivacy: {mechanism: gaussian, budget: {epsilon: 10, delta: 0}}",
    "a delta of none for an accountant": _fedavg("aggregation: cpa")
    + "\nprivacy: {mechanism: scheme, budget: {epsilon: 10000, delta: 0}}",
    "an accountant of pure epsilons": _fedavg("local: {clip: 1, steps: 1}")
    + "\nprivacy: {mechanism: gaussian, budget: {epsilon: 10, delta: 1e-5, accountant: basic}}",
    "a budget of less than a round": _fedavg("local: {clip: 1, steps: 1}")
    + f"\nprivacy: {{{_DP}, budget: {{epsilon: 0.01, delta: 1e-5, calibrate: false}}}}",
    "a budget of a scheme without an epsilon": _fedavg("aggregation: {name: cpa, epsilon: none}")
    + f"\nprivacy: {{mechanism: scheme, {_SPENT}}}",
    "a budget of a scheme that has no epsilon": _fedavg("aggregation: top-k")
    + f"\nprivacy: {{mechanism: scheme, {_SPENT}}}",
    "a budget of plain numbers": _fedavg("local: {steps: 1}") + f"\nprivacy: {{mechanism: scheme, {_SPENT}}}",
    "a budget that leaves too little": _fedavg("aggregation: cpa")
    + "\nprivacy: {mechanism: scheme, budget: {epsilon: 1e-6, delta: 1e-5}}",
    "a schedule of one epsilon": _fedavg("aggregation: cpa")
    + "\nprivacy: {mechanism: scheme, budget: {epsilon: 100, delta: 1e-5, schedule: increasing}}",
    "evidence that costs more than delta": _fedavg("aggregation: {name: cpa, confidence: 0.99}")
    + f"\nprivacy: {{mechanism: scheme, {_SPENT}}}",
    "a budget of a coder that nothing bounds": _fedavg("aggregation: {name: jopeq, as_coded: true}")
    + "\nprivacy: {mechanism: scheme, budget: {epsilon: 1e5, delta: 1e-5, calibrate: false}}",
    "a budget that sets no epsilon": _fedavg("aggregation: jopeq")
    + "\nprivacy: {mechanism: scheme, budget: {epsilon: 1e5, delta: 1e-5}}",
    # Federated Langevin Monte Carlo
    "a chain that forgets slowly": _flmc("scheme: analog, task: {name: logistic, preconditioned: false}"),
    "a cap for one bit": _flmc("scheme: digital, quantizer_bits: 2")
    + "\nprivacy: {epsilon: 5, delta: 0.01, digital_cap: printed}",
    "a range of amplitudes": _flmc("scheme: analog, quantizer_range: 40"),
    "a range below the gradients": _flmc("scheme: digital, quantizer_bits: 2, quantizer_range: 20"),
    "more devices than samples of a posterior": _flmc("num_devices: 2000, scheme: analog"),
    "errors that a sum does not show": _flmc("scheme: analog, debias: true"),
    "errors that dropped packets hide": _flmc("scheme: digital-orthogonal, debias: true", "packets: {policy: drop}"),
    "jammers without power": _flmc("scheme: analog, attack: {kind: jam, share: 0.2}", "error_model: error_free"),
    "an attack on labels of no images": _flmc("scheme: analog, attack: {kind: labels, share: 0.2}"),
    "an optimum for a mean": _flmc("scheme: analog", "power: {policy: mse-optimal}"),
    "an access that cannot add": _flmc("scheme: analog", "access: orthogonal"),
    "a modulation of several bits in a sum": _flmc("scheme: digital", "modulation: 16qam"),
    "noise whose power changes": _flmc(
        "scheme: analog",
        "receiver: {num_antennas: 20, combining: mmse}, channel: {fading: rayleigh}, power: {policy: fixed}",
    ),
    "a bound on coded symbols": _flmc("scheme: digital-orthogonal", "coding: {code: ldpc5g}")
    + "\nprivacy: {epsilon: 5, delta: 0.01}",
    "a bound at several antennas": _flmc("scheme: analog", "receiver: {num_antennas: 2}")
    + "\nprivacy: {epsilon: 5, delta: 0.01}",
    "a bound on carriers that mix": _flmc("scheme: analog", f"impairments: {{cfo_hz: 10}}, {_GRID}")
    + "\nprivacy: {epsilon: 5, delta: 0.01}",
    "noise on numbers that are none": _flmc("scheme: analog") + f"\nprivacy: {{{_DP}}}",
    "a budget of what is not sent": _flmc("scheme: exact") + f"\nprivacy: {{{_SPENT}}}",
    "a budget of sums of flips": _flmc("scheme: digital-orthogonal, quantizer_bits: 2", "error_model: iid")
    + f"\nprivacy: {{{_SPENT}}}",
    "a schedule of what the quantizer hides": _flmc("scheme: digital-orthogonal", "error_model: iid")
    + "\nprivacy: {budget: {epsilon: 100, delta: 1e-5, schedule: increasing}}",
    "a budget of an estimate": _flmc("scheme: analog", "csi: {error_variance: 0.1}") + f"\nprivacy: {{{_SPENT}}}",
    # Reconstruction
    "more images than a set has": "learning: {algorithm: reconstruction, data: digits, num_devices: 1000}",
    "a budget of one upload": "learning: {algorithm: reconstruction, data: digits, local: {clip: 1}}"
    f"\nprivacy: {{mechanism: gaussian, {_SPENT}}}",
    "a watched budget of one upload": "learning: {algorithm: reconstruction, data: digits, local: {clip: 1}}"
    f"\nprivacy: {{{_DP}, budget: {{epsilon: 10, delta: 1e-5, calibrate: false}}}}",
    # Conflicts within a section
    "an mcs of another modulation": _link("mcs: 20, modulation: qpsk"),
    "an mcs of another code": _link("mcs: 20, coding: {code: turbo}"),
    "an mcs of another rate": _link("mcs: 20, coding: {code: ldpc5g, rate: 0.7}"),
    "an mcs for other devices": _link("mcs: [3, 4, 5]"),
    "an mcs for each device of a group": _link("mcs: [3, 4, 5, 6], access: noma"),
    "an mcs for each device without errors": _link("mcs: [3, 4, 5, 6], error_model: iid"),
    "an mcs for each device that inverts": _link("mcs: [3, 4, 5, 6], power: {policy: inversion}"),
    "an mcs for each device beside a rate": _link("mcs: [3, 4, 5, 6], coding: {code: ldpc5g, rate: 0.7}"),
    "an mcs for each device of a sum": _flmc("scheme: digital-orthogonal, num_devices: 2", "mcs: [3, 4]"),
    "an mcs for each device of a curve": _measured("mcs: [3, 4]"),
    "an mcs for each device whose errors count": _link("mcs: {adapt: snr}", ", local: {clip: 1}") + f"\n{_FLIPS}",
    "a candidate of another table": _link("mcs: {adapt: snr, table: 2, candidates: [3, 28]}"),
    "a step of no loop": _link("mcs: {adapt: snr, step_db: 2}"),
    "an adaptation to a channel that changes": _link("mcs: {adapt: snr}, " + _SLOW),
    "an adaptation without kernels": _link(
        "mcs: {adapt: snr}, engine: sionna, coding: {code: ldpc5g, standard: sionna}"
    ),
    "an outer loop that sees no error": _link("mcs: {adapt: outer-loop}"),
    "an outer loop of several attempts": _link("mcs: {adapt: outer-loop}, packets: {policy: retransmit}"),
    "a list of three": _link("coding: {code: polar5g, list_size: 3}"),
    "a key of another code": _link("coding: {code: turbo, list_size: 4}"),
    "a check that is left out": _link("packets: {policy: drop, crc: none}"),
    "powers of other users": _link("access: noma, modulation: qpsk, noma: {ladder_db: [0, -3, -6]}"),
    "a ring without an area": _link("channel: {cell: {radius_m: 50, min_distance_m: 60}}"),
    "a fading beside a model": _link(f"channel: {{model: tdl-a, fading: rayleigh}}, {_GRID}"),
    "Doppler without a speed": _link("channel: {fading: rayleigh, coherence: doppler}"),
    "a speed without Doppler": _link("channel: {fading: rayleigh, speed_m_s: 3}"),
    "symbols of a model": _link(f"channel: {{model: tdl-a, coherence: symbol}}, {_GRID}"),
    "a law without Doppler": _link("channel: {fading: nakagami, coherence: doppler, speed_m_s: 3}"),
    "a pilot outside the slot": _link("ofdm: {num_subcarriers: 72, pilot_symbols: [2, 14]}"),
    "a pilot twice": _link("ofdm: {num_subcarriers: 72, pilot_symbols: [2, 2]}"),
    "pilots alone": _link("ofdm: {num_subcarriers: 72, num_symbols: 2, pilot_symbols: [0, 1]}"),
    "guards alone": _link("ofdm: {num_subcarriers: 16, guard_carriers: [8, 8], cyclic_prefix_length: 4}"),
    "a prefix of more than a symbol": _link("ofdm: {num_subcarriers: 16, cyclic_prefix_length: 20}"),
    "a loop of another policy": _link("power: {policy: fixed, loop: {target_rate: 0.1}}"),
    "a loop without room": _link("power: {policy: closed-loop, snr_max_db: 5, loop: {min_snr_db: 10}}"),
    "batches of gradient descent": _fedavg("local: {batch_size: 8, momentum: 0.5}"),
    "gradient descent in no batches": _fedavg("local: {optimizer: sgd}, participation: {straggling: 0.3}"),
    "one step of stragglers": _fedavg("local: {steps: 1}, participation: {straggling: 0.3}"),
    "momentum of Adam": _fedavg("local: {optimizer: adam, batch_size: 8, momentum: 0.5}"),
    "a number of another kind": _fedavg("partition: {kind: iid, alpha: 0.3}"),
    "a number of another kind without its own": _fedavg("partition: {kind: dirichlet, labels_per_device: 2}"),
    "a kind without its number": _fedavg("partition: labels"),
    "shares of the whole set": _fedavg("partition: {disjoint: false}"),
    "attackers that nobody names": _fedavg("attack: {kind: sign-flip}"),
    "more devices than there are": _fedavg("participation: {devices_per_round: 9}"),
    "models of a scheme": _fedavg("upload: model, aggregation: probit"),
    "a choice among all": _fedavg("participation: {selection: by-age}"),
    "a choice by channels in a sum": _air("", ", participation: {devices_per_round: 2, selection: best-channel}"),
    "a choice by channels without a radio": _link(
        "error_model: error_free", ", participation: {devices_per_round: 2, selection: proportional-fair}"
    ),
    "a choice by data under privacy": (
        f"privacy: {{{_DP}}}\n{_DIGITS}, codec: fixed-point, local: {{clip: 1}}, "
        "participation: {devices_per_round: 2, selection: by-loss}}"
    ),
    "times of other devices": _fedavg("timing: {compute: {shift_s_per_sample: [0.1, 0.2]}}"),
    "more arrivals than devices": _fedavg("timing: {arrivals: 5}"),
    "late uploads that nobody awaits": _fedavg("timing: {late: keep}"),
    "a weight of no age": _fedavg("timing: {deadline_s: 10, staleness_exponent: 1}"),
    "an endless wait": _fedavg("participation: {dropout: 0.1}, timing: {arrivals: 2}"),
    "an airtime beyond the deadline": _link("modulation: bpsk", ", timing: {deadline_s: 0.001}"),
    "turns of NOMA": _link("access: noma", ", timing: {deadline_s: 10}"),
    "airtimes of each device": _link("mcs: [4, 10, 15, 4]", ", timing: {deadline_s: 10}"),
    "a power budget of late devices": _air("power: {budget: {energy_j: 1}}", ", timing: {deadline_s: 10}"),
    "a watching budget of late devices": _fedavg("local: {clip: 1, steps: 1}, timing: {deadline_s: 10}")
    + f"\nprivacy: {{{_DP}, budget: {{epsilon: 100, delta: 1e-5, calibrate: false}}}}",
    "late models": _fedavg("upload: model, timing: {arrivals: 2, late: keep}"),
    "late personal models": _fedavg("personal: {lam: 0.1}, timing: {arrivals: 2, late: keep}"),
    "a late choice": _fedavg(
        "participation: {devices_per_round: 2, selection: by-loss}, timing: {arrivals: 1, late: keep}"
    ),
    "late noise of the receiver": _air("", ", timing: {arrivals: 2, late: keep}") + f"\n{_NOISE}",
    "late votes": _air("", ", aggregation: sign, timing: {arrivals: 2, late: keep}"),
    "a bound of late devices": _fedavg(
        "local: {optimizer: gd, l2: 0.01, clip: 1}, convergence_bound: true, timing: {deadline_s: 10}"
    ),
    "a bound of no convex loss": _fedavg("convergence_bound: true"),
    "a clip without its bound": _fedavg("aggregation: {name: probit, clip: 0.1}"),
    "a bound without its clip": _fedavg("aggregation: {name: probit, bound: clip}"),
    "an epsilon without its clip": _fedavg("aggregation: {name: probit, epsilon: 1}"),
    "a burn-in of all rounds": _flmc("scheme: analog, rounds: 100"),
    "a distance of no fractions": "learning: {algorithm: bit-distance, codec: binary32}",
    "a reconstruction of momentum": "learning: {algorithm: reconstruction, data: digits, "
    "local: {optimizer: sgd, batch_size: 8, l2: 0.1}}",
    "a reconstruction of a median": "learning: {algorithm: reconstruction, data: digits, aggregation: median}",
    "a reconstruction of a past": "learning: {algorithm: reconstruction, data: digits, "
    "aggregation: {name: cpa, radius: decaying, gamma_decay: 0.9}}",
    "an epsilon beside a budget": _fedavg("local: {clip: 1, steps: 1}") + f"\nprivacy: {{{_DP}, {_SPENT}}}",
    "a schedule without calibration": _fedavg("local: {clip: 1, steps: 1}")
    + f"\nprivacy: {{{_DP}, budget: {{epsilon: 100, delta: 1e-5, calibrate: false, schedule: increasing}}}}",
    "a range that goes down": _measured("modulation: qpsk", "values: {start: 10, stop: 0}"),
    "a range of too many values": _measured("modulation: qpsk", "values: {start: 0, stop: 20, step: 0.001}"),
    "a value twice": _measured("modulation: qpsk", "values: [0, 5, 5]"),
    # Recorded channels
    "a file of another model": _link(f"channel: {{model: tdl-a, file: {_FILES}/site.npz}}, {_GRID}"),
    "an order of no trace": _link("channel: {order: random}"),
    "a trace without a file": _link("channel: {model: trace}"),
    "a speed of a trace": _site("", "speed_m_s: 3"),
    "symbols of a trace": _site("", "coherence: symbol"),
    "more devices than in a trace": _site().replace("num_devices: 4", "num_devices: 5"),
    "more antennas than in a trace": _site(", receiver: {num_antennas: 2}"),
    "a closed form of a trace": _site(", error_model: analytic"),
    "instants without times": _site(f", {_GRID}", "coherence: doppler"),
    "instants without a grid": _site("", "coherence: doppler", "timed"),
    "OFDMA over a trace": _site(f", {_GRID}, multiplexing: ofdma"),
    "a trace without a grid that adds up": _site(", access: superposition"),
    "a trace in the time domain": _site(f", access: noma, {_GRID[:-1]}, domain: time}}"),
    "a random trace with an end": _site("", "order: random, at_end: error"),
    "an end of no trace": _link("channel: {at_end: error}"),
    "a trace that ends": _site("", "at_end: error"),
    "a trace of too narrow a band": _site(", ofdm: {num_subcarriers: 128, subcarrier_spacing_hz: 15000}", "", "taps"),
    "a trace in Sionna": _site(", engine: sionna"),
    # Data of the user
    "owners that nobody names": _rows("partition: given", "label: ill, features: [age, dose]"),
    "more devices than owners": _rows("partition: given").replace("num_devices: 3", "num_devices: 4"),
    "a part of what an owner has": _rows("partition: {kind: given, samples_per_device: 5}"),
    "rows for convolutions": _rows("model: cnn2"),
    "a label that nobody names": _rows("", "features: [age, dose]"),
    "a file that has changed": _rows("", f"label: ill, features: [age, dose], sha256: {'a' * 64}"),
    "a share beside a file": _rows("", f"label: ill, owner: site, test_file: {_FILES}/rows.csv, test_share: 0.3"),
    "a label beside those of LEAF": _numbers("local: {steps: 1}", "users.json, label: y").replace(
        "num_devices: 3", "num_devices: 1"
    ),
    "pixels of a table": _rows("", "label: ill, owner: site, pixels: symmetric"),
    "a number by convolutions": _numbers("model: cnn2", "pictures.npz"),
    "a number of several outputs": _numbers("model: {name: linear, outputs: 3}"),
    "a number in bfloat16": _numbers("local: {precision: bfloat16}"),
    "a number at home": _numbers("personal: {lam: 0.1}"),
    "a number of attackers": _numbers("attack: {kind: labels, share: 0.3}"),
    "a number dealt by class": _numbers("partition: {kind: labels, labels_per_device: 1}"),
    "a reconstruction of rows": _rows("").replace("fedavg", "reconstruction"),
}

UNREACHED = {
    "phy/config/power.py": 1,
    "phy/coding/plan.py": 2,
    "fl/data/partition/split.py": 1,
    "fl/data/sets/own.py": 1,
    "phy/links/recorded.py": 4,
    "phy/links/conflicts.py": 1,
    "fl/algorithms/fedavg/timing.py": 1,
    "scenarios/schema/consistency/link_studies.py": 1,
}
"""Conflicts by file that no scenario above has: of Flower apps, of policies of plug-ins, of arguments that no scenario
gives, and of files, which no line of a scenario puts into their place."""
