"""Real ciphers for packed bits: they show the effect of channel errors on the plaintext.

Li et al. 2025, Remark 3, names two kinds. A stream cipher adds a key stream: one wrong ciphertext bit is one wrong
plaintext bit. A block cipher spreads a wrong bit over its own block of 128 bits, (17). This rules out CBC, where the
error reaches the next block. We use AES in XTS mode (IEEE 1619, NIST SP 800-38E), which also encrypts equal plaintext
blocks differently.

Keys follow from the seed of the scenario. Runs are therefore repeatable, and the keys are not secret: this module
simulates encrypted links and protects no data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError, require_count

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

AES_BLOCK_BYTES = 16

# XTS allows 2^20 blocks (16 MiB) under one tweak, and OpenSSL refuses more.
_UNIT_BYTES = 1 << 20

Payload = NDArray[np.uint8]
Keys = NDArray[np.uint32]


class Cipher(Protocol):
    """Encrypts and decrypts the packed bits of all devices."""

    def payload_bytes(self, num_bytes: int) -> int:
        """Bytes of the ciphertext of `num_bytes`."""
        ...

    def encrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        """Ciphertext `[T, K, payload_bytes(B)]` of `payload` `[T, K, B]`, uint8; `keys` `[T, 2]` uint32 of the round.

        Zeros fill the last block. Raises PrivacyError for other shapes or types.
        """
        ...

    def decrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        """Plaintext `[T, K, payload_bytes(B)]` of a ciphertext of that shape; the first B bytes are the payload."""
        ...


class NoCipher(Cipher):
    """No encryption."""

    def payload_bytes(self, num_bytes: int) -> int:
        require_count(num_bytes=num_bytes)
        return num_bytes

    def encrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        _check(payload, keys)
        return payload

    def decrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        _check(payload, keys)
        return payload


class StreamCipher(Cipher):
    """AES-128 in counter mode (NIST SP 800-38A): the ciphertext is the plaintext XOR a key stream."""

    def payload_bytes(self, num_bytes: int) -> int:
        require_count(num_bytes=num_bytes)
        return num_bytes

    def encrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        _check(payload, keys)
        return _each_device(payload.copy(), keys, _count)

    def decrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        return self.encrypt(payload, keys=keys)


class BlockCipher(Cipher):
    """AES-128 in XTS mode: one wrong ciphertext bit garbles its own 16 bytes only."""

    def payload_bytes(self, num_bytes: int) -> int:
        """See `Cipher.payload_bytes`: whole blocks."""
        require_count(num_bytes=num_bytes)
        return -(-num_bytes // AES_BLOCK_BYTES) * AES_BLOCK_BYTES

    def encrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        _check(payload, keys)
        trials, devices, num_bytes = payload.shape
        out = np.zeros((trials, devices, self.payload_bytes(num_bytes)), np.uint8)
        out[..., :num_bytes] = payload
        return _each_device(out, keys, partial(_xts, decrypt=False))

    def decrypt(self, payload: Payload, *, keys: Keys) -> Payload:
        """See `Cipher.decrypt`. Raises PrivacyError for a ciphertext that is not of whole blocks."""
        _check(payload, keys)
        if payload.shape[-1] % AES_BLOCK_BYTES:
            raise PrivacyError(
                f"a ciphertext of {payload.shape[-1]} bytes is not of whole blocks of {AES_BLOCK_BYTES}",
                "hand in all bytes that encrypt gave",
            )
        return _each_device(payload.copy(), keys, partial(_xts, decrypt=True))


def build_cipher(name: str) -> Cipher:
    """The cipher of this name: `none`, `stream` or `aes`. Raises PrivacyError for any other."""
    if name == "none":
        return NoCipher()
    if name == "stream":
        return StreamCipher()
    if name == "aes":
        return BlockCipher()
    raise PrivacyError(f"cipher is {name!r}, but it must be 'none', 'stream' or 'aes'", "choose one")


def device_key(keys: Keys, device: int) -> bytes:
    """32 bytes for one device of one round: SHA-256 of its trial's two key words `[2]` and its number."""
    return hashlib.sha256(keys.astype("<u4").tobytes() + device.to_bytes(8, "little")).digest()


def _count(row: Payload, key: bytes) -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # The key serves one device in one round, so that the counter may start at 0.
    context = Cipher(algorithms.AES(key[:16]), modes.CTR(bytes(16))).encryptor()
    for start in range(0, len(row), _UNIT_BYTES):
        _apply(context, row[start : start + _UNIT_BYTES])


def _xts(row: Payload, key: bytes, *, decrypt: bool) -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    for number, start in enumerate(range(0, len(row), _UNIT_BYTES)):
        cipher = Cipher(algorithms.AES(key), modes.XTS(number.to_bytes(16, "little")))
        _apply(cipher.decryptor() if decrypt else cipher.encryptor(), row[start : start + _UNIT_BYTES])


def _apply(context: CipherContext, row: Payload) -> None:
    row[:] = np.frombuffer(context.update(row.data), np.uint8)


def _each_device(rows: Payload, keys: Keys, in_place: Callable[[Payload, bytes], None]) -> Payload:
    for trial, device in np.ndindex(*rows.shape[:2]):
        in_place(rows[trial, device], device_key(keys[trial], device))
    return rows


def _check(payload: Payload, keys: Keys) -> None:
    if payload.dtype != np.uint8 or payload.ndim != 3 or payload.shape[-1] == 0:
        raise PrivacyError(
            f"a payload is {payload.dtype} of shape {payload.shape}, but it must be uint8 [T, K, B], B >= 1",
            "pack bits",
        )
    if keys.dtype != np.uint32 or keys.shape != (len(payload), 2):
        raise PrivacyError(
            f"keys are {keys.dtype} of shape {keys.shape}, but they must be uint32 [{len(payload)}, 2]",
            "give two words per trial",
        )
