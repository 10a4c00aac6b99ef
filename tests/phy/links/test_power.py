"""Power control: the constraint holds for everybody, exactly for the weakest, and caps bind as handed in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from radio import context, link_config, random_payload

from phy.compile import compile_digital
from phy.fading.gains import BlockGains
from phy.links.link import Reception
from phy.links.power import decide_amplitude

NUM_DEVICES, NUM_TRIALS, NUM_BITS = 5, 40, 512
GAINS = (0.3, 0.7, 1.0, 1.6, 2.5)
P0 = 10.0 ** (12.0 / 10.0)  # N0 = 1


def block(weight_power: list[float], *, gain: float = 1.0, silent: tuple[int, ...] = ()) -> BlockGains:
    """One trial of ten symbols in which every device that speaks arrives with |h^ w| = `gain`."""
    speaks = np.array([[k not in silent for k in range(len(weight_power))]], float)
    return BlockGains(
        weight_power=np.array([weight_power]) * speaks,
        gain_sum=10.0 * gain * speaks,
        gain_peak=gain * speaks,
        arrival_peak=1.1 * gain * speaks,
        active_symbols=10.0 * speaks,
    )


def transmission(policy: str, fading: str, coherence: str, **link: object) -> Reception:
    config = link_config(
        "qpsk",
        snr_max_db=12.0,
        policy=policy,
        fading=fading,
        coherence=coherence,
        channel={"gain": GAINS},
        packet_size_bytes=16,
        **link,
    )
    uplink = compile_digital(config, num_devices=NUM_DEVICES, num_bits=NUM_BITS)
    payload = random_payload(NUM_TRIALS, NUM_DEVICES, NUM_BITS)
    return uplink.send(payload, context=context(NUM_TRIALS), caps={})


@pytest.mark.parametrize(
    ("policy", "fading", "coherence", "csi_error"),
    [
        ("fixed", "rician", "round", 0.1),
        ("fixed", "rayleigh", "symbol", 0.1),
        ("inversion", "constant", "round", 0.0),
        ("inversion", "rayleigh", "packet", 0.0),
        ("inversion", "rayleigh", "symbol", 0.1),
        ("truncated-inversion", "rayleigh", "packet", 0.1),
        ("truncated-inversion", "rician", "symbol", 0.0),
    ],
)
def test_no_device_exceeds_its_power_and_the_weakest_uses_all_of_it(
    policy: str, fading: str, coherence: str, csi_error: float
) -> None:
    counts = transmission(policy, fading, coherence, csi_error=csi_error).counts
    # QPSK symbols all have the energy 1, so a block's transmit power is exactly level^2 mean |w|^2.
    power = np.where(counts.symbols > 0, counts.transmit_energy / np.maximum(counts.symbols, 1), 0.0)
    # Float32 sums over at most 256 symbols of positive terms: within 1e-5 relative.
    assert (power <= P0 * (1.0 + 1e-5)).all()
    on_air = (counts.symbols > 0).any(axis=1)
    assert on_air.any()
    np.testing.assert_allclose(power.max(axis=1)[on_air], P0, rtol=1e-5)


def test_fixed_power_uses_all_of_every_device() -> None:
    counts = transmission("fixed", "rayleigh", "packet").counts
    np.testing.assert_allclose(counts.transmit_energy / counts.symbols, P0, rtol=1e-5)  # float32 sums


def test_inversion_makes_everybody_arrive_at_the_amplitude_decided() -> None:
    reception = transmission("inversion", "rayleigh", "packet")
    arriving = np.sqrt(reception.counts.signal_energy / reception.counts.symbols)
    amplitude = np.broadcast_to(reception.decision.amplitude[:, None], arriving.shape)
    np.testing.assert_allclose(arriving, amplitude, rtol=1e-5)  # float32 sums


def test_qam_holds_the_power_on_average() -> None:
    """Random 16-QAM symbols have energies of mean 1 and variance 0.32, so a block varies around P0."""
    uplink = compile_digital(link_config("16qam", snr_max_db=12.0), num_devices=NUM_DEVICES, num_bits=NUM_BITS)
    counts = uplink.send(random_payload(NUM_TRIALS, NUM_DEVICES, NUM_BITS), context=context(NUM_TRIALS), caps={}).counts
    error = np.sqrt(0.32 / counts.symbols.sum())
    assert abs(counts.transmit_energy.sum() / counts.symbols.sum() / P0 - 1.0) < 4.0 * error  # k = 4


def test_the_weakest_device_sets_the_common_amplitude() -> None:
    """1/h^ with h = 2, 1/2, 1: power 1/4, 4, 1 per unit of A^2, so A = sqrt(P0 / 4)."""
    decision = decide_amplitude(block([0.25, 4.0, 1.0]), max_power=9.0, payload_power=1.0, caps={})
    assert decision.level == pytest.approx(1.5, rel=1e-15)
    assert decision.amplitude == pytest.approx(1.5, rel=1e-15)
    assert [decision.limit_names[i] for i in decision.limit] == ["power"]


def test_the_strongest_arrival_is_told_apart_from_the_amplitude_aimed_at() -> None:
    decision = decide_amplitude(block([1.0, 0.5], gain=2.0), max_power=9.0, payload_power=1.0, caps={})
    assert decision.amplitude == pytest.approx(6.0, rel=1e-15)
    assert decision.peak_amplitude == pytest.approx(6.6, rel=1e-15)


@pytest.mark.parametrize("csi_error", [0.0, 0.1])
def test_nobody_arrives_above_the_peak_amplitude(csi_error: float) -> None:
    """Under one tap a round the strongest device arrives exactly at it, and with perfect knowledge at A."""
    reception = transmission("inversion", "rayleigh", "round", csi_error=csi_error)
    decision = reception.decision
    arriving = np.sqrt(reception.counts.signal_energy / reception.counts.symbols)
    np.testing.assert_allclose(arriving.max(axis=1), decision.peak_amplitude, rtol=1e-5)  # float32 sums
    if csi_error:
        assert (decision.peak_amplitude > 1.01 * decision.amplitude).mean() > 0.5
    else:
        np.testing.assert_allclose(decision.peak_amplitude, decision.amplitude, rtol=1e-6)  # float32 taps


def test_a_silent_device_does_not_hold_the_others_down() -> None:
    decision = decide_amplitude(block([0.25, 4.0, 1.0], silent=(1,)), max_power=9.0, payload_power=1.0, caps={})
    assert decision.level == pytest.approx(3.0, rel=1e-15)
    assert decision.active.tolist() == [[True, False, True]]


def test_a_larger_payload_leaves_less_amplitude() -> None:
    decision = decide_amplitude(block([1.0]), max_power=9.0, payload_power=4.0, caps={})
    assert decision.level == pytest.approx(1.5, rel=1e-15)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["privacy", "lmc", "other"]), st.just(0.0) | st.floats(1e-9, 1e9), max_size=3),
    st.floats(0.01, 100.0),
    st.floats(0.1, 3.0),
)
def test_the_smallest_limit_binds_exactly_and_gives_its_name(
    caps: dict[str, float], max_power: float, gain: float
) -> None:
    decision = decide_amplitude(block([1.0, 0.5], gain=gain), max_power=max_power, payload_power=1.0, caps=caps)
    limits = {"power": np.sqrt(max_power) * gain, **caps}
    name = decision.limit_names[int(decision.limit[0])]
    # A division and a product of doubles: a few 2^-53.
    assert decision.amplitude[0] == pytest.approx(min(limits.values()), rel=1e-14, abs=0.0)
    assert limits[name] == pytest.approx(min(limits.values()), rel=1e-14)


def test_caps_may_differ_from_trial_to_trial() -> None:
    config = link_config("bpsk", snr_max_db=20.0, policy="inversion")
    uplink = compile_digital(config, num_devices=2, num_bits=64)
    decision = uplink.send(
        random_payload(3, 2, 64), context=context(3), caps={"privacy": [0.5, np.inf, 2.0], "lmc": 1.0}
    ).decision
    assert decision.amplitude == pytest.approx([0.5, 1.0, 1.0], rel=1e-6)  # gains are float32
    assert [decision.limit_names[i] for i in decision.limit] == ["privacy", "lmc", "lmc"]


def test_a_cap_holds_for_the_strongest_device_under_fixed_power() -> None:
    config = link_config("bpsk", snr_max_db=20.0, channel={"gain": (0.5, 2.0)})
    uplink = compile_digital(config, num_devices=2, num_bits=64)
    counts = uplink.send(random_payload(1, 2, 64), context=context(), caps={"privacy": 1.0}).counts
    arriving = np.sqrt(counts.signal_energy / counts.symbols)
    assert arriving[0] == pytest.approx([0.25, 1.0], rel=1e-5)  # float32 sums


@pytest.mark.parametrize("cap", [-1.0, float("nan"), [1.0, -0.1]])
def test_a_negative_cap_is_refused(cap: object) -> None:
    uplink = compile_digital(link_config("bpsk"), num_devices=1, num_bits=8)
    with pytest.raises(ValueError, match=r"cap privacy on the receive amplitude is .* from 0 to infinity"):
        uplink.send(random_payload(2, 1, 8), context=context(2), caps={"privacy": cap})


def test_truncated_inversion_silences_as_many_devices_as_theory_says() -> None:
    """|h|^2 is exponential of mean gain^2: it reaches the cutoff c gain^2 with probability exp(-c)."""
    cutoff_db, num_trials, num_devices = -3.0, 2000, 5
    config = link_config(
        "bpsk", policy="truncated-inversion", fading="rayleigh", cutoff_db=cutoff_db, channel={"gain": GAINS}
    )
    uplink = compile_digital(config, num_devices=num_devices, num_bits=8)
    decision = uplink.send(random_payload(num_trials, num_devices, 8), context=context(num_trials), caps={}).decision
    p = np.exp(-(10.0 ** (cutoff_db / 10.0)))
    error = np.sqrt(p * (1.0 - p) / num_trials)
    assert (np.abs(decision.active.mean(axis=0) - p) < 4.0 * error).all()  # k = 4, for each device


def test_the_cutoff_limits_the_loss_of_amplitude() -> None:
    """Every device on the air has |h|^2 >= c gain^2, so A >= sqrt(P0 c) min(gain)."""
    config = link_config("bpsk", policy="truncated-inversion", fading="rayleigh", cutoff_db=-10.0)
    uplink = compile_digital(config, num_devices=8, num_bits=8)
    decision = uplink.send(random_payload(500, 8, 8), context=context(500), caps={}).decision
    assert (decision.amplitude >= np.sqrt(10.0 * 0.1) * (1.0 - 1e-5)).all()  # float32 taps


@pytest.mark.parametrize(("policy", "num_bits"), [("inversion", 3), ("truncated-inversion", 30)])
def test_a_block_of_few_symbols_compiles_at_all(policy: str, num_bits: int) -> None:
    """Once the compiler took minutes to copy the fades into each term of a sum of up to 32 symbols."""
    config = link_config("bpsk", policy=policy, fading="rayleigh", coherence="symbol")
    uplink = compile_digital(config, num_devices=2, num_bits=num_bits)
    counts = uplink.send(random_payload(2, 2, num_bits), context=context(2), caps={}).counts
    assert (counts.transmit_energy <= P0 * counts.symbols).all()


def test_nothing_is_sent_if_all_devices_are_silent() -> None:
    """Ten times the mean power: each of the 12 devices reaches it with probability e^-10."""
    config = link_config("bpsk", policy="truncated-inversion", fading="rayleigh", cutoff_db=10.0)
    uplink = compile_digital(config, num_devices=3, num_bits=64)
    reception = uplink.send(random_payload(4, 3, 64), context=context(4), caps={"privacy": 1.0})
    decision = reception.decision
    assert (decision.level == 0.0).all()
    assert (decision.amplitude == 0.0).all()
    assert (decision.peak_amplitude == 0.0).all()
    assert (decision.limit == -1).all()
    assert not decision.active.any()
    assert not reception.payload.any()
    assert not reception.counts.bits.any()
