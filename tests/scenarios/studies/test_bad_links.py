"""Links that cannot be: one sentence each, with file, line, key, value, what is allowed and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import sentence_about

LINK = "name: a\nlearning: {scheme: digital-orthogonal}\nlink:\n"

SENTENCES = {
    "a rate that a code has not": (
        LINK + "  coding: {code: convolutional, rate: 2/3}\n",
        "s.yaml:4: link.coding.rate = 0.6666666666666666: convolutional cannot do rate 0.6667; it has the rates "
        "1/2 and 1/3; write rate: 1/2, or rate: 1/3, or code: ldpc5g for any other.",
    ),
    "a rate beyond the standard": (
        LINK + "  coding:\n    code: ldpc5g\n    rate: 0.95\n",
        "s.yaml:6: link.coding.rate = 0.95: ldpc5g cannot do rate 0.95; its largest is 948/1024 (TS 38.212 "
        "5.4.2.1); write rate: 8/9 or less, or coding: none.",
    ),
    "blocks too long for a code": (
        LINK + "  coding:\n    code: polar5g\n    block_length: 2000\n",
        "s.yaml:6: link.coding.block_length = 2000: polar5g at rate 0.5 has blocks from 12 to 1706 bits, "
        "block_length is 2000; write block_length: auto, or one from 12 to 1706.",
    ),
    "blocks too short for a code": (
        LINK + "  coding:\n    code: turbo\n    standard: sionna\n    block_length: 20\n",
        "s.yaml:7: link.coding.block_length = 20: turbo at rate 0.5 has blocks from 40 to 6144 bits, "
        "block_length is 20; write block_length: auto, or one from 40 to 6144.",
    ),
    "a rate above one": (
        LINK + "  coding:\n    code: ldpc5g\n    rate: 3/2\n",
        "s.yaml:6: link.coding.rate = 3/2: must be at most 1; write for example 0.5.",
    ),
    "a rate in words": (
        LINK + "  coding:\n    code: ldpc5g\n    rate: half\n",
        "s.yaml:6: link.coding.rate = half: must be a number; write for example 0.5.",
    ),
    "a list of six": (
        LINK + "  coding:\n    code: polar5g\n    list_size: 6\n",
        "s.yaml:6: link.coding.list_size = 6: list_size 6 must be a power of two up to 32; write list_size: 8.",
    ),
    "a key of another code": (
        LINK + "  coding:\n    code: turbo\n    list_size: 4\n",
        "s.yaml:6: link.coding.list_size = 4: list_size 4 is of polar5g, the code is turbo; leave list_size out, "
        "or write code: polar5g.",
    ),
    "a code as a word": (
        LINK + "  coding: ldpc\n",
        "s.yaml:4: link.coding = ldpc: must be none or a mapping with code; write {code: ldpc5g}.",
    ),
    "a code like no other": (
        LINK + "  coding: {code: ldpc}\n",
        "s.yaml:4: link.coding.code = ldpc: must be repetition, convolutional, turbo, polar5g or ldpc5g; did you "
        "mean ldpc5g.",
    ),
    "a block length in words": (
        LINK + "  coding:\n    code: polar5g\n    block_length: long\n",
        "s.yaml:6: link.coding.block_length = long: must be auto or a whole number of bits from 8 to 8448; write "
        "for example 1024, or auto.",
    ),
    "an MCS beside another modulation": (
        LINK + "  mcs: 20\n  modulation: qpsk\n",
        "s.yaml:4: link.mcs = 20: mcs 20 is 64qam, but modulation is qpsk; leave mcs out.",
    ),
    "an MCS beside another code": (
        LINK + "  mcs: 20\n  coding: {code: turbo}\n",
        "s.yaml:4: link.mcs = 20: mcs 20 means code ldpc5g, the code is turbo; leave mcs out.",
    ),
    "an MCS beside another rate": (
        LINK + "  mcs: 20\n  coding: {code: ldpc5g, rate: 0.7}\n",
        "s.yaml:4: link.mcs = 20: mcs 20 has rate 0.5537, but coding.rate is 0.7; leave mcs out.",
    ),
    "an MCS beyond the table": (
        LINK + "  mcs: 29\n",
        "s.yaml:4: link.mcs = 29: must be below 29; write for example 28, or none.",
    ),
    "more users than antennas tell apart": (
        LINK + "  access: noma\n  noma:\n    detector: lmmse\n",
        "s.yaml:6: link.noma.detector = lmmse: noma.group_size 2 is more NOMA users than the receiver can "
        "separate: detector lmmse separates as many as there are antennas, receiver.num_antennas is 1; write "
        "receiver.num_antennas: 2, or noma.detector: sic.",
    ),
    "more combinations than joint detection tries": (
        LINK + "  access: noma\n  modulation: 256qam\n  noma:\n    detector: ml\n",
        "s.yaml:7: link.noma.detector = ml: joint detection of 2 users of 256qam tries 256^2 = 65536 "
        "combinations per symbol, the limit is 4096; write noma.detector: sic, or a smaller constellation.",
    ),
    "devices that form no whole groups": (
        LINK + "  access: noma\n  noma:\n    group_size: 3\n",
        "s.yaml:6: link.noma.group_size = 3: 20 devices cannot form groups of 3; write learning.num_devices: 21, or "
        "another group_size.",
    ),
    "a ladder of another length": (
        LINK + "  access: noma\n  noma:\n    ladder_db: [0, -3, -6]\n",
        "s.yaml:6: link.noma.ladder_db: ladder_db has length 3, group_size is 2; leave ladder_db out, or write 2 "
        "powers.",
    ),
    "users that arrive alike": (
        LINK + "  access: noma\n  noma:\n    ladder_db: [0, 0]\n",
        "s.yaml:6: link.noma.ladder_db = [0.0, 0.0]: two users of a NOMA group arrive within 0 dB of each other "
        "over a channel that does not fade, at one antenna: at least 0.1 dB is needed to tell them apart; leave "
        "noma.ladder_db out.",
    ),
    "more users than pilot carriers": (
        LINK
        + "  access: noma\n  noma: {group_size: 5}\n  ofdm:\n    num_subcarriers: 4\n    cyclic_prefix_length: 2\n",
        "s.yaml:5: link.noma.group_size = 5: noma.group_size 5 is more than the 4 carriers in use, and every "
        "user needs pilot carriers of its own; write ofdm.num_subcarriers: 5.",
    ),
    "pilots that collide": (
        LINK + "  ofdm:\n    pilot_symbols: [2, 2]\n",
        "s.yaml:5: link.ofdm.pilot_symbols: pilots collide: pilot_symbols [2, 2] names a symbol twice; write "
        "pilot_symbols: [2].",
    ),
    "a pilot outside the slot": (
        LINK + "  ofdm:\n    pilot_symbols: [2, 14]\n",
        "s.yaml:5: link.ofdm.pilot_symbols: pilot_symbols has 14, a slot has symbols 0 to 13; write pilot_symbols: "
        "[2, 13].",
    ),
    "nothing but pilots": (
        LINK + "  ofdm:\n    num_symbols: 2\n    pilot_symbols: [0, 1]\n",
        "s.yaml:6: link.ofdm.pilot_symbols: pilot_symbols names all 2 symbols of a slot, none is left for data; "
        "write pilot_symbols: [0].",
    ),
    "an estimator without pilots": (
        LINK + "  csi: {estimator: ls}\n  ofdm:\n    pilot_symbols: []\n",
        "s.yaml:4: link.csi.estimator = ls: estimator ls needs pilots, ofdm.pilot_symbols is empty; write for "
        "example ofdm.pilot_symbols: [2, 11], or csi: perfect.",
    ),
    "nothing but guards": (
        LINK + "  ofdm:\n    guard_carriers: [36, 36]\n",
        "s.yaml:5: link.ofdm.guard_carriers: num_subcarriers 72 less guard_carriers [36, 36] and DC leave 0 for "
        "data, 2 are needed; leave guard_carriers out, or write a larger num_subcarriers.",
    ),
    "a third guard": (
        LINK + "  ofdm:\n    guard_carriers: [1, 2, 3]\n",
        "s.yaml:5: link.ofdm.guard_carriers = [1, 2, 3]: must be a list of two whole numbers, guards on the left "
        "and on the right; write for example [5, 6].",
    ),
    "a prefix longer than its symbol": (
        LINK + "  ofdm:\n    cyclic_prefix_length: 73\n",
        "s.yaml:5: link.ofdm.cyclic_prefix_length = 73: cyclic_prefix_length 73 is longer than the OFDM symbol of 72 "
        "samples; write cyclic_prefix_length: 72 or less.",
    ),
    "fewer subcarriers than devices": (
        LINK + "  multiplexing: ofdma\n  ofdm:\n    num_subcarriers: 16\n    cyclic_prefix_length: 2\n",
        "s.yaml:4: link.multiplexing = ofdma: 20 devices cannot share 16 carriers under ofdma; write multiplexing: "
        "tdma, or a larger ofdm.num_subcarriers.",
    ),
    "OFDMA without a grid": (
        LINK + "  multiplexing: ofdma\n",
        "s.yaml:4: link.multiplexing = ofdma: ofdma splits the carriers of an OFDM grid, the link has none; write "
        "ofdm: {num_subcarriers: 72}, or multiplexing: tdma.",
    ),
    "OFDMA under NOMA": (
        LINK + "  multiplexing: ofdma\n  access: noma\n  ofdm: {num_subcarriers: 16}\n",
        "s.yaml:4: link.multiplexing = ofdma: ofdma is a way of orthogonal access, the access is noma; leave "
        "multiplexing out, or write access: orthogonal.",
    ),
    "several delays on a single carrier": (
        LINK + "  channel:\n    model: tdl-a\n",
        "s.yaml:5: link.channel.model = tdl-a: tdl-a spreads every symbol over several delays, which a single "
        "carrier without OFDM cannot undo; write ofdm: {num_subcarriers: 72}, or model: flat.",
    ),
    "an estimator without a grid": (
        LINK + "  csi: {estimator: ls}\n",
        "s.yaml:4: link.csi.estimator = ls: estimator ls works on the pilots of an OFDM grid, the link has none; "
        "write ofdm: {num_subcarriers: 72}, or csi: perfect.",
    ),
    "pilots for a channel that is gone by then": (
        LINK
        + "  csi: {estimator: ls}\n  ofdm: {dc_null: true}\n  channel:\n    fading: rayleigh\n    coherence: symbol\n",
        "s.yaml:8: link.channel.coherence = symbol: pilots tell nothing about the symbols around them on a "
        "channel of coherence symbol; write coherence: packet, or coherence: round, or csi: perfect.",
    ),
    "a timing offset without a grid": (
        LINK + "  impairments:\n    timing_offset_s: 1e-7\n",
        "s.yaml:5: link.impairments.timing_offset_s = 1e-07: a timing offset acts on the carriers of an OFDM grid, "
        "the link has none; write ofdm: {num_subcarriers: 72}, or leave timing_offset_s out.",
    ),
    "a speed out of range": (
        LINK + "  ofdm: {num_symbols: 14}\n  channel:\n    model: tdl-a\n    speed_m_s: 151\n",
        "s.yaml:7: link.channel.speed_m_s = 151: must be at most 150 m/s; write for example 0.0.",
    ),
    "a frequency below the range": (
        LINK + "  channel:\n    carrier_frequency_hz: 1e8\n",
        "s.yaml:5: link.channel.carrier_frequency_hz = 100000000.0: must be at least 500000000 Hz; write for "
        "example 3500000000.0.",
    ),
    "a frequency above the range": (
        LINK + "  channel:\n    carrier_frequency_hz: 101e9\n",
        "s.yaml:5: link.channel.carrier_frequency_hz = 101000000000.0: must be at most 100000000000 Hz; write for "
        "example 3500000000.0.",
    ),
    "a speed that would move nothing": (
        LINK + "  channel:\n    speed_m_s: 3\n",
        "s.yaml:5: link.channel.speed_m_s = 3: speed_m_s 3 acts on a flat channel under coherence: doppler only, "
        "the coherence is round; write coherence: doppler, or leave speed_m_s out.",
    ),
    "Doppler without a speed": (
        LINK + "  channel:\n    coherence: doppler\n",
        "s.yaml:5: link.channel.coherence = doppler: coherence doppler needs a speed_m_s above 0; write for example "
        "speed_m_s: 1.",
    ),
    "Doppler under Nakagami fading": (
        LINK + "  channel:\n    coherence: doppler\n    speed_m_s: 3\n    fading: nakagami\n",
        "s.yaml:7: link.channel.fading = nakagami: Nakagami fading has no Doppler process here; write fading: "
        "rayleigh, or fading: rician.",
    ),
    "a 3GPP channel anew for every symbol": (
        LINK + "  ofdm: {num_symbols: 14}\n  channel:\n    model: tdl-a\n    coherence: symbol\n",
        "s.yaml:7: link.channel.coherence = symbol: tdl-a has no coherence symbol; write coherence: packet.",
    ),
    "two kinds of fading": (
        LINK + "  ofdm: {num_symbols: 14}\n  channel:\n    model: tdl-a\n    fading: rayleigh\n",
        "s.yaml:7: link.channel.fading = rayleigh: fading rayleigh belongs to model: flat, the model is tdl-a; "
        "leave fading out: the model has its own.",
    ),
    "a delay spread out of range": (
        LINK + "  channel:\n    delay_spread_s: 1\n",
        "s.yaml:5: link.channel.delay_spread_s = 1: must be at most 0.0001 s; write 1e-06 for 1 us.",
    ),
    "positions of fewer devices": (
        LINK + "  channel:\n    cell:\n      positions_m: [[10, 10], [20, 20]]\n",
        "s.yaml:6: link.channel.cell.positions_m = [[10.0, 10.0], [20.0, 20.0]]: positions_m has length 2, "
        "num_devices is 20; write learning.num_devices: 2, or one position per device.",
    ),
    "a position in space": (
        LINK + "  channel:\n    cell:\n      positions_m: [[10, 10, 3]]\n",
        "s.yaml:6: link.channel.cell.positions_m[0] = [10, 10, 3]: must be a list of [x, y] in metres within 100 "
        "km, one per device; write for example [[40, 30], [-80, 10]].",
    ),
    "a cell beyond its path loss": (
        LINK + "  channel:\n    cell:\n      radius_m: 6000\n",
        "s.yaml:6: link.channel.cell.radius_m = 6000.0: a device at 6000 m is beyond 5000 m, where the path loss "
        "of umi ends; write radius_m: 5000.",
    ),
    "a reference beyond the path loss": (
        LINK + "  channel:\n    cell:\n      reference_distance_m: 6000\n",
        "s.yaml:6: link.channel.cell.reference_distance_m = 6000.0: reference_distance_m at 6000 m is beyond "
        "5000 m, where the path loss of umi ends; write reference_distance_m: 5000.",
    ),
    "a frequency beyond the path loss": (
        LINK + "  channel:\n    carrier_frequency_hz: 40e9\n    cell:\n      scenario: rma\n",
        "s.yaml:5: link.channel.carrier_frequency_hz = 40000000000.0: carrier_frequency_hz 4e+10 is above 3e+10, "
        "where the path loss of rma ends; write carrier_frequency_hz: 30000000000.",
    ),
    "a ring without an area": (
        LINK + "  channel:\n    cell:\n      min_distance_m: 300\n",
        "s.yaml:6: link.channel.cell.min_distance_m = 300: min_distance_m 300 must be below radius_m 250; write "
        "min_distance_m: 25.",
    ),
    "a loop on bits that are thrown away": (
        LINK + "  packets: {policy: drop}\n  power:\n    policy: closed-loop\n",
        "s.yaml:4: link.packets.policy = drop: under packets.policy drop ber is measured on intact packets only; "
        "write power.loop.target: bler, or packets.policy: accept.",
    ),
    "a loop of another policy": (
        LINK + "  power:\n    loop: {target_rate: 0.1}\n",
        "s.yaml:5: link.power.loop: loop belongs to policy closed-loop, the policy is auto; leave loop out.",
    ),
    "a loop that starts above its limit": (
        LINK + "  power:\n    policy: closed-loop\n    loop:\n      initial_snr_db: 30\n",
        "s.yaml:7: link.power.loop.initial_snr_db = 30: loop.initial_snr_db 30 is above snr_max_db 20; write "
        "initial_snr_db: 20 or less.",
    ),
    "debiased gradients of intact packets": (
        "name: a\nlearning:\n  scheme: digital-orthogonal\n  debias: true\nlink:\n  packets: {policy: drop}\n",
        "s.yaml:4: learning.debias = true: debias corrects for errors of all packets, but "
        "packets.policy drop leaves out wrong ones; leave debias out, or write packets.policy: accept.",
    ),
    "dropping without a check sum": (
        LINK + "  packets:\n    policy: drop\n    crc: none\n",
        "s.yaml:5: link.packets.policy = drop: policy drop notices packets in error by their CRC; leave crc out.",
    ),
    "flips that have no soft values": (
        LINK + "  error_model: iid\n  packets:\n    policy: retransmit-combine\n",
        "s.yaml:6: link.packets.policy = retransmit-combine: retransmit-combine adds up soft values, and the flips of "
        "error model iid have none; write packets.policy: retransmit, or error_model: measured.",
    ),
    "a closed form of a closed loop": (
        LINK + "  error_model: analytic\n  power:\n    policy: closed-loop\n",
        "s.yaml:6: link.power.policy = closed-loop: the closed form of error model analytic knows no closed "
        "loop; write error_model: measured, or policy: fixed.",
    ),
    "a closed form of NOMA": (
        LINK + "  error_model: analytic\n  access: noma\n",
        "s.yaml:4: link.error_model = analytic: error model analytic has no closed form for noma; write "
        "error_model: measured, or error_model: iid, or access: orthogonal.",
    ),
    "a code for a sum": (
        "name: a\nlink:\n  coding: {code: ldpc5g}\n",
        "s.yaml:3: link.coding: symbols that add up in the air cannot be decoded, so superposition carries no "
        "code; write coding: none, or access: orthogonal (under flmc "
        "learning.scheme: digital-orthogonal).",
    ),
    "an MCS for a sum": (
        "name: a\nlink:\n  mcs: 3\n",
        "s.yaml:3: link.mcs = 3: symbols that add up in the air cannot be decoded, so superposition carries no "
        "code; leave mcs out, or write access: orthogonal (under flmc "
        "learning.scheme: digital-orthogonal).",
    ),
    "packets of a sum": (
        "name: a\nlink:\n  packets: {policy: drop}\n",
        "s.yaml:3: link.packets.policy = drop: a sum of devices has no packets to check or send again; leave "
        "packets out, or write access: orthogonal.",
    ),
    "antennas for a sum": (
        "name: a\nlink:\n  ofdm: {domain: time}\n  receiver: {num_antennas: 2}\n",
        "s.yaml:3: link.ofdm.domain = time: several antennas are combined carrier by carrier, not in the time domain; "
        "write domain: frequency, or num_antennas: 1 and combining: mrc.",
    ),
    "antennas under a privacy bound": (
        "name: a\nlink:\n  receiver: {num_antennas: 2}\nprivacy: {epsilon: 5}\n",
        "s.yaml:4: privacy: the privacy bound holds for one antenna, and 2 show the server each symbol as many times; "
        "write privacy: none, or num_antennas: 1.",
    ),
    "Langevin noise behind a combiner": (
        "name: a\nlink:\n  channel: {fading: rayleigh}\n  receiver: {combining: blind, num_antennas: 2}\n",
        "s.yaml:4: link.receiver.combining = blind: flmc takes the receiver's noise as that of Langevin sampling, and "
        "combining blind changes its power from round to round; write combining: mrc, or algorithm: fedavg.",
    ),
    "a loop on a sum": (
        "name: a\nlink:\n  power: {policy: closed-loop}\n",
        "s.yaml:3: link.power.policy = closed-loop: closed-loop follows the error rate of each device, which "
        "superposition does not measure; write policy: inversion, or access: orthogonal.",
    ),
    "a device that misses its window": (
        "name: a\nlink:\n  ofdm: {domain: time}\n  impairments: {timing_offset_s: 7.0e-5}\n",
        "s.yaml:4: link.impairments.timing_offset_s = 7e-05: a device may arrive 70 us late, more than an OFDM symbol "
        "without its prefix (66.7 us), whose window it then misses; write "
        "ofdm.subcarrier_spacing_hz: 12900, or a smaller timing_offset_s or delay_spread_s.",
    ),
    "Doppler on a sum over a single carrier": (
        "name: a\nlink:\n  channel: {fading: rayleigh, coherence: doppler, speed_m_s: 3}\n",
        "s.yaml:3: link.channel.coherence = doppler: superposition on a single carrier has block fading only; write "
        "ofdm: {num_subcarriers: 72}, or another coherence.",
    ),
    "a sum over several delays": (
        "name: a\nlink:\n  channel: {model: cdl-c}\n",
        "s.yaml:3: link.channel.model = cdl-c: cdl-c spreads every symbol over several delays, which a single "
        "carrier without OFDM cannot undo; write ofdm: {num_subcarriers: 72}, or model: flat.",
    ),
    "a sum under OFDMA": (
        "name: a\nlink:\n  multiplexing: ofdma\n  ofdm: {num_symbols: 14}\n",
        "s.yaml:3: link.multiplexing = ofdma: ofdma is a way of orthogonal access, the access is superposition; "
        "leave multiplexing out, or write access: orthogonal.",
    ),
    "too many antennas": (
        LINK + "  receiver: {num_antennas: 65}\n",
        "s.yaml:4: link.receiver.num_antennas = 65: must be at most 64; write 64 or less.",
    ),
    "a grid as a word": (
        LINK + "  ofdm: yes\n",
        "s.yaml:4: link.ofdm = yes: must be none or a mapping; write for example {num_subcarriers: 72}, or none.",
    ),
    "NOMA for a sum": (
        "name: a\nlink:\n  access: noma\n",
        "s.yaml:3: link.access = noma: scheme digital needs access superposition, the access is noma; write "
        "access: superposition, or access: auto, or scheme: digital-orthogonal.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case.replace(" ", "_"))
def test_a_link_that_cannot_be_is_told_in_one_sentence(case: str, tmp_path: Path) -> None:
    text, sentence = SENTENCES[case]
    assert sentence_about(text, tmp_path) == sentence


def test_a_swept_value_is_blamed_where_it_is_swept(tmp_path: Path) -> None:
    swept = LINK + "  coding: {code: convolutional}\nsweep:\n  link.coding.rate:\n  - 1/2\n  - 2/3\n"
    assert sentence_about(swept, tmp_path).startswith("s.yaml:8: link.coding.rate = ")
