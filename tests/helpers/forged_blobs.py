"""Blobs whose SHA-256 holds, whatever they say: damage on purpose."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any


def forged(header: Any, *, parts: bytes = b"", length: int | None = None) -> bytes:
    """The blob with this header (JSON, or bytes to deflate as they are) and these parts."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    deflated = zlib.compress(text)
    size = len(deflated) if length is None else length
    return resealed(b"phyblob1" + bytes(32) + size.to_bytes(4, "little") + deflated + parts)


def forged_array(*entry: object, parts: bytes = b"", **about: object) -> bytes:
    """The blob of one array that has this entry: name, dtype, shape, rows, lengths of planes."""
    return forged({"about": about, "arrays": [list(entry)]}, parts=parts)


def resealed(content: bytes) -> bytes:
    """The same bytes with the SHA-256 that they have."""
    return content[:8] + hashlib.sha256(content[40:]).digest() + content[40:]
