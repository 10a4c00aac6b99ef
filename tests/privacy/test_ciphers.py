"""Ciphers: what comes back, and what one wrong bit on the air does to it."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy import ciphers
from privacy.ciphers import Cipher, build_cipher, device_key
from privacy.errors import PrivacyError
from privacy.mechanisms.bit_flipping import aes_ciphertext_rate, aes_plaintext_rate

NAMES = ("none", "stream", "aes")
KEYS = np.array([[1, 2], [3, 4]], np.uint32)


def random_payload(*shape: int, seed: int = 1) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def wrong_bits(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.unpackbits(one ^ other, axis=-1)


def after_one_flip(cipher: Cipher, *, num_bytes: int, bit: int, seed: int = 1) -> NDArray[np.uint8]:
    """Wrong plaintext bits of one device when one ciphertext bit is flipped."""
    sent = random_payload(1, 1, num_bytes, seed=seed)
    heard = cipher.encrypt(sent, keys=KEYS[:1]).copy()
    heard[0, 0, bit // 8] ^= np.uint8(0x80 >> bit % 8)
    return wrong_bits(cipher.decrypt(heard, keys=KEYS[:1])[..., :num_bytes], sent)[0, 0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("num_bytes", [1, 15, 16, 17, 4097])
def test_decryption_returns_the_plaintext(name: str, num_bytes: int) -> None:
    cipher, sent = build_cipher(name), random_payload(2, 3, num_bytes)
    kept = sent.copy()
    covered = cipher.encrypt(sent, keys=KEYS)
    assert covered.dtype == np.uint8
    assert covered.shape == (2, 3, cipher.payload_bytes(num_bytes))
    np.testing.assert_array_equal(cipher.decrypt(covered, keys=KEYS)[..., :num_bytes], sent)
    np.testing.assert_array_equal(sent, kept)
    if name != "none" and num_bytes > 16:
        assert np.mean(covered[..., :num_bytes] == sent) < 0.1


def test_a_payload_of_many_data_units_comes_back_and_differs_in_each() -> None:
    # XTS refuses more than 16 MiB under one tweak; ResNet-18 is 33.6 MB.
    cipher, sent = build_cipher("aes"), np.zeros((1, 1, (17 << 20) + 5), np.uint8)
    covered = cipher.encrypt(sent, keys=KEYS[:1])
    blocks = covered.reshape(-1, 16)
    assert len(np.unique(blocks[:: 1 << 12], axis=0)) == len(blocks[:: 1 << 12])
    assert not cipher.decrypt(covered, keys=KEYS[:1]).any()


@pytest.mark.parametrize("name", ["stream", "aes"])
def test_equal_bits_of_other_devices_trials_and_rounds_look_different(name: str) -> None:
    cipher = build_cipher(name)
    sent = np.zeros((2, 2, 64), np.uint8)
    texts = [cipher.encrypt(sent, keys=keys) for keys in (KEYS, KEYS + np.uint32(1))]
    rows = np.concatenate([text.reshape(4, 64) for text in texts])
    for first in range(8):
        for second in range(first):
            share = wrong_bits(rows[first], rows[second]).mean()
            assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(512)


@pytest.mark.parametrize("name", ["stream", "aes"])
def test_the_ciphertext_of_a_device_depends_on_no_other_device(name: str) -> None:
    cipher, sent = build_cipher(name), random_payload(2, 3, 40)
    together = cipher.encrypt(sent, keys=KEYS)
    np.testing.assert_array_equal(cipher.encrypt(sent[1:, :2], keys=KEYS[1:]), together[1:, :2])


def test_the_ciphertext_is_that_of_the_standards() -> None:
    """AES-CTR by one block of raw AES; XTS by its definition: C = E1(P xor T) xor T, T = E2(unit) * alpha^block."""
    from cryptography.hazmat.primitives import ciphers as primitives

    def raw(key: bytes, block: bytes) -> bytes:
        engine = primitives.Cipher(primitives.algorithms.AES(key), primitives.modes.ECB())
        return engine.encryptor().update(block)

    sent, key = random_payload(1, 1, 48), device_key(KEYS[0], 0)
    plain = sent[0, 0]
    stream = build_cipher("stream").encrypt(sent, keys=KEYS[:1])[0, 0]
    pad = b"".join(raw(key[:16], counter.to_bytes(16, "big")) for counter in range(3))
    np.testing.assert_array_equal(stream, plain ^ np.frombuffer(pad, np.uint8))
    block = build_cipher("aes").encrypt(sent, keys=KEYS[:1])[0, 0]
    tweak = int.from_bytes(raw(key[16:], bytes(16)), "little")
    for number in range(3):
        part = int.from_bytes(plain[16 * number : 16 * number + 16].tobytes(), "little") ^ tweak
        inner = int.from_bytes(raw(key[:16], part.to_bytes(16, "little")), "little") ^ tweak
        assert block[16 * number : 16 * number + 16].tobytes() == inner.to_bytes(16, "little")
        tweak <<= 1
        if tweak >> 128:
            tweak ^= (1 << 128) ^ 0x87


def test_a_wrong_bit_of_a_stream_is_the_same_wrong_bit_of_the_plaintext() -> None:
    sent = random_payload(2, 3, 1000)
    flips = np.packbits(np.random.default_rng(3).random((2, 3, 8000)) < 0.02, axis=-1)
    cipher = build_cipher("stream")
    heard = cipher.decrypt(cipher.encrypt(sent, keys=KEYS) ^ flips, keys=KEYS)
    np.testing.assert_array_equal(heard ^ sent, flips)


@pytest.mark.parametrize("bit", [0, 127, 128, 1000, 2047])
def test_a_wrong_bit_of_a_block_garbles_half_of_its_block_and_no_other(bit: int) -> None:
    cipher = build_cipher("aes")
    wrong = np.stack([after_one_flip(cipher, num_bytes=256, bit=bit, seed=seed) for seed in range(50)])
    blocks = wrong.reshape(50, -1, 128)
    garbled = blocks[:, bit // 128]
    assert blocks.sum() == garbled.sum()
    assert garbled.mean() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(garbled.size))


def assert_errors_are_those_of_equation_17(cipher: Cipher, rate: float) -> None:
    blocks = 20_000
    sent = random_payload(1, 2, 8 * blocks)
    rng = np.random.default_rng(5)
    flips = np.packbits(rng.random((1, 2, 64 * blocks), dtype=np.float32) < rate, axis=-1)
    heard = cipher.decrypt(cipher.encrypt(sent, keys=KEYS[:1]) ^ flips, keys=KEYS[:1])
    per_block = wrong_bits(heard, sent).reshape(blocks, 128).mean(axis=-1)
    # A block is garbled or not, whence the bits in it stand or fall together.
    error = per_block.std(ddof=1) / math.sqrt(blocks)
    assert per_block.mean() == pytest.approx(float(aes_plaintext_rate(rate)), abs=4 * error)
    hit = flips.reshape(blocks, 16).any(axis=-1)
    np.testing.assert_array_equal(per_block > 0, hit)


@pytest.mark.parametrize("rate", [1e-4, 1.6e-3, 0.02])
def test_errors_after_decryption_are_those_of_equation_17(rate: float) -> None:
    assert_errors_are_those_of_equation_17(build_cipher("aes"), rate)


def test_equation_17_catches_a_mode_whose_error_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from cryptography.hazmat.primitives import ciphers as primitives

    def cbc(row: NDArray[np.uint8], key: bytes, *, decrypt: bool) -> None:
        engine = primitives.Cipher(primitives.algorithms.AES(key), primitives.modes.CBC(bytes(16)))
        ciphers._apply(engine.decryptor() if decrypt else engine.encryptor(), row)

    monkeypatch.setattr(ciphers, "_xts", cbc)
    with pytest.raises(AssertionError):
        assert_errors_are_those_of_equation_17(build_cipher("aes"), 1.6e-3)


@pytest.mark.parametrize("name", ["stream", "aes"])
def test_a_round_of_twenty_models_is_encrypted_and_decrypted_within_two_seconds(name: str) -> None:
    cipher, sent = build_cipher(name), random_payload(1, 20, 3_468_947)
    start = time.process_time()
    cipher.decrypt(cipher.encrypt(sent, keys=KEYS[:1]), keys=KEYS[:1])
    assert time.process_time() - start < 2.0


def test_impossible_payloads_are_refused() -> None:
    with pytest.raises(PrivacyError, match="'none', 'stream' or 'aes'"):
        build_cipher("des")
    for name in NAMES:
        cipher = build_cipher(name)
        with pytest.raises(PrivacyError, match="a payload is float64"):
            cipher.encrypt(np.zeros((2, 1, 8)), keys=KEYS)
        with pytest.raises(PrivacyError, match="keys are uint32 of shape"):
            cipher.encrypt(np.zeros((1, 1, 8), np.uint8), keys=KEYS)
        with pytest.raises(PrivacyError, match="num_bytes is 0"):
            cipher.payload_bytes(0)
    with pytest.raises(PrivacyError, match="not of whole blocks"):
        build_cipher("aes").decrypt(np.zeros((2, 1, 8), np.uint8), keys=KEYS)


def renyi_2(rate: float) -> float:
    """Divergence of order 2 between a bit and its opposite, each wrong with this rate [nats]."""
    return math.log((1.0 - rate) ** 2 / rate + rate**2 / (1.0 - rate))


def test_equal_error_rates_behind_aes_are_not_equal_divergence() -> None:
    """Remark 3 of Li et al. 2025, p = 1/11: a changed plaintext bit changes 64 of 128 bits of the ciphertext."""
    cipher, changed = build_cipher("aes"), []
    for seed in range(200):
        one = random_payload(1, 1, 32, seed=seed)
        other = one.copy()
        other[0, 0, seed % 16] ^= np.uint8(0x80 >> seed % 8)
        changed.append(wrong_bits(*(cipher.encrypt(each, keys=KEYS[:1]) for each in (one, other))).sum())
    # Binomial with 128 fair coins: 4 standard errors of a mean of 200.
    assert np.mean(changed) == pytest.approx(64.0, abs=4 * math.sqrt(32 / 200))
    rate = float(aes_ciphertext_rate(1 / 11))
    assert float(aes_plaintext_rate(rate)) == pytest.approx(1 / 11)
    assert renyi_2(1 / 11) == pytest.approx(2.21, abs=5e-3)
    assert 64 * renyi_2(rate) == pytest.approx(413.2, abs=0.05)
    assert 64 * renyi_2(rate) / renyi_2(1 / 11) == pytest.approx(187, abs=0.5)
