"""Contract of every Receiver, for each detector, number of users and number of antennas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from phy.coding.modulation import modulator
from phy.config import BITS_PER_SYMBOL, ChannelConfig, CodingConfig, LinkConfig, NomaConfig, ReceiverConfig
from phy.receivers.build import build_receiver
from phy.stages import Decoded, Observation

ROWS, NUM_SYMBOLS, REPEATS = 5, 32, 2
STEP_DB = 18.0
"""Each user this far below the one before: 16-QAM of the weaker ones fits between points of the stronger ones."""

CASES = [
    *((detector, users, 1) for detector in ("sic", "sic-codeword", "ml") for users in (2, 3)),
    *((detector, users, users) for detector in ("sic", "sic-codeword", "ml", "lmmse") for users in (2, 3)),
    ("sic", 1, 1),
    ("sic", 1, 3),
]


class Copies:
    """Every bit twice; accepted where the copies agree and say anything at all."""

    def __init__(self, coded_bits: int) -> None:
        self.coded_bits = coded_bits
        self.payload_bits = coded_bits // REPEATS

    def encode(self, bits: Any) -> Any:
        return tf.repeat(bits, REPEATS, axis=1)

    def decode(self, llrs: Any) -> tuple[Any, Any]:
        split = tf.reshape(llrs, [-1, self.payload_bits, REPEATS])
        bits = tf.cast(tf.reduce_sum(split, axis=2) > 0.0, tf.int32)
        agree = tf.reduce_all(tf.cast(split > 0.0, tf.int32) == bits[..., None], axis=(1, 2))
        return bits, agree & tf.reduce_any(llrs != 0.0, axis=1)


@dataclass(frozen=True)
class Setting:
    modulation: str
    detector: str
    users: int
    antennas: int
    equalizer: str

    @property
    def coded_bits(self) -> int:
        return NUM_SYMBOLS * BITS_PER_SYMBOL[self.modulation]

    def build(self) -> Any:
        config = LinkConfig(
            access="noma" if self.users > 1 else "orthogonal",
            modulation=self.modulation,
            coding=CodingConfig(code="repetition", demapper="app" if self.modulation == "bpsk" else "maxlog"),
            channel=ChannelConfig(fading="rayleigh"),
            receiver=ReceiverConfig(num_antennas=self.antennas, equalizer=self.equalizer),
            noma=NomaConfig(group_size=max(self.users, 2), detector=self.detector),
        )
        receiver, codec = build_receiver(config, num_users=self.users), Copies(self.coded_bits)

        @tf.function(autograph=False)
        def call(observation: Observation, earlier: Any) -> Decoded:
            return receiver.receive(observation, codec=codec, earlier_llrs=earlier)

        return call

    def bits(self, *, seed: int = 1) -> NDArray[np.int32]:
        shape = (ROWS, self.users, self.coded_bits // REPEATS)
        return np.random.default_rng(seed).integers(0, 2, shape).astype(np.int32)

    def channel(self) -> NDArray[np.complex128]:
        """Constant over a packet, of random phases, orthogonal between users where there are antennas for it."""
        phases = np.exp(2j * np.pi * np.random.default_rng(2).random((ROWS, self.users, self.antennas, 1)))
        if self.antennas > 1:
            turns = np.outer(np.arange(self.users), np.arange(self.antennas)) / self.antennas
            phases = phases[:, :, :1] * np.exp(2j * np.pi * turns)[..., None]
        amplitude = 10.0 ** (-STEP_DB * np.arange(self.users) / 20.0)
        return np.repeat(phases * amplitude[:, None, None], NUM_SYMBOLS, axis=3)

    def observe(self, bits: NDArray[np.int32], channel: NDArray[Any], *, noise_power: float = 1e-8) -> Observation:
        coded = tf.constant(np.repeat(bits, REPEATS, axis=2))
        symbols = modulator(self.modulation).modulate_bits(coded).numpy()
        rng = np.random.default_rng(3)
        shape = (ROWS, self.antennas, NUM_SYMBOLS)
        noise = np.sqrt(noise_power / 2.0) * (rng.normal(size=shape) + 1j * rng.normal(size=shape))
        received = (channel * symbols[:, :, None]).sum(axis=1) + noise
        return Observation(
            received=tf.constant(received.astype(np.complex64)),
            channel=tf.constant(channel.astype(np.complex64)),
            channel_error=tf.zeros([ROWS, self.users, NUM_SYMBOLS]),
            noise_power=tf.constant(np.float32(noise_power)),
            transmit_energy=tf.zeros([ROWS, self.users]),
            signal_energy=tf.zeros([ROWS, self.users]),
            noise_energy=tf.zeros([ROWS]),
        )


SETTINGS = [
    Setting(modulation, detector, users, antennas, equalizer)
    for detector, users, antennas in CASES
    for modulation, equalizer in (("bpsk", "lmmse"), ("16qam", "lmmse"), ("qpsk", "zf"))
    if not (detector == "lmmse" and equalizer == "zf")
]


def in_turn(setting: Setting) -> Any:
    """Every detector meets every constellation with two users; the others are for the slow tests.

    Those are all but 16-QAM with three users, and BPSK over two antennas where the detector has met it over one.
    """
    again = setting.modulation == "bpsk" and setting.users == setting.antennas == 2 and setting.detector != "lmmse"
    quick = (setting.users < 3 or setting.modulation == "16qam") and not again
    return setting if quick else pytest.param(setting, marks=pytest.mark.slow)


@pytest.fixture(
    scope="module",
    params=[in_turn(setting) for setting in SETTINGS],
    ids=lambda s: f"{s.modulation}-{s.detector}-{s.users}x{s.antennas}-{s.equalizer}",
)
def setting(request: pytest.FixtureRequest) -> Setting:
    return request.param


@pytest.fixture(scope="module")
def receive(setting: Setting) -> Any:
    call = setting.build()
    no_earlier = np.zeros((ROWS, setting.users, setting.coded_bits), np.float32)

    def run(observation: Observation, earlier: NDArray[np.float32] = no_earlier) -> Decoded:
        return Decoded(*(part.numpy() for part in call(observation, tf.constant(earlier))))

    run.call = call
    return run


def test_shapes_and_types_are_those_of_the_interface(setting: Setting, receive: Any) -> None:
    decoded = receive(setting.observe(setting.bits(), setting.channel()))
    shape = (ROWS, setting.users)
    assert decoded.bits.shape == (*shape, setting.coded_bits // REPEATS)
    assert decoded.accepted.shape == shape
    assert decoded.llrs.shape == (*shape, setting.coded_bits)
    assert (decoded.bits.dtype, decoded.accepted.dtype, decoded.llrs.dtype) == (np.int32, np.bool_, np.float32)


def test_every_bit_of_every_user_is_right_at_high_snr(setting: Setting, receive: Any) -> None:
    decoded = receive(setting.observe(setting.bits(), setting.channel()))
    assert np.array_equal(decoded.bits, setting.bits())
    assert decoded.accepted.all()
    assert np.isfinite(decoded.llrs).all()


def test_the_order_of_the_users_is_kept(setting: Setting, receive: Any) -> None:
    turned = setting.channel()[:, ::-1]
    assert np.array_equal(receive(setting.observe(setting.bits(), turned)).bits, setting.bits())


def test_a_silent_user_has_zero_llrs_and_disturbs_nobody(setting: Setting, receive: Any) -> None:
    everyone = setting.channel()
    for user in range(setting.users):
        channel = everyone.copy()
        channel[:, user] = 0.0
        observation = setting.observe(setting.bits(), channel)
        decoded = receive(observation)
        others = np.arange(setting.users) != user
        assert (decoded.llrs[:, user] == 0.0).all()
        assert not decoded.accepted[:, user].any()
        assert np.array_equal(decoded.bits[:, others], setting.bits()[:, others])
        # A large error of the estimate of a channel that nobody uses is no noise.
        error = np.zeros((ROWS, setting.users, NUM_SYMBOLS), np.float32)
        error[:, user] = 1.0
        assert np.array_equal(receive(observation._replace(channel_error=tf.constant(error))).llrs, decoded.llrs)


def test_silence_of_single_symbols_is_silence(setting: Setting, receive: Any) -> None:
    channel = setting.channel()
    channel[..., ::3] = 0.0
    llrs = receive(setting.observe(setting.bits(), channel)).llrs
    by_symbol = llrs.reshape(ROWS, setting.users, NUM_SYMBOLS, -1)
    assert (by_symbol[:, :, ::3] == 0.0).all()
    assert (by_symbol[:, :, 1::3] != 0.0).all()


@pytest.mark.parametrize(("scale", "noise_power"), [(1e-6, 1e-30), (1e-15, 1.0), (1e6, 1e-3), (1.0, 1e12)])
def test_nothing_is_ever_not_a_number(setting: Setting, receive: Any, scale: float, noise_power: float) -> None:
    observation = setting.observe(setting.bits(), scale * setting.channel(), noise_power=noise_power)
    assert np.isfinite(receive(observation).llrs).all()


def test_earlier_llrs_enter_the_decoder_and_nothing_else(setting: Setting, receive: Any) -> None:
    observation = setting.observe(setting.bits(), setting.channel(), noise_power=1e-2)
    wanted = setting.bits(seed=9)
    certain = (np.repeat(wanted, REPEATS, axis=2) * 2.0 - 1.0).astype(np.float32) * 1e9
    decoded = receive(observation, certain)
    assert np.array_equal(decoded.bits, wanted)
    assert np.abs(decoded.llrs).max() < 1e8
    if setting.detector != "sic-codeword":
        assert np.array_equal(decoded.llrs, receive(observation).llrs)


def test_a_row_does_not_depend_on_the_others(setting: Setting, receive: Any) -> None:
    observation = setting.observe(setting.bits(), setting.channel(), noise_power=0.05)
    order = np.array([3, 0, 4, 1, 2])
    turned = Observation(*(tf.gather(part, order) if part.shape.rank else part for part in observation))
    plain, moved = receive(observation), receive(turned)
    # Bit for bit, since 32 symbols leave no ragged end, where compiled code may round differently.
    for before, after in zip(plain, moved, strict=True):
        assert np.array_equal(after, before[order])


def test_noise_powers_and_channels_share_one_trace(setting: Setting, receive: Any) -> None:
    for noise_power in (1e-3, 1e-2):
        receive(setting.observe(setting.bits(), setting.channel(), noise_power=noise_power))
    assert receive.call.experimental_get_tracing_count() == 1
