"""Blobs whose SHA-256 holds, whatever they say: damage on purpose."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any


def forged(header: Any, *, parts: bytes = b"", length: int | None = None) -> bytes:
    """The blob with this header (JSON, or bytes to deflate as they are) and these parts."""
    if isinstance(header, dict):
        header = {"sha256": hashlib.sha256(parts).hexdigest(), **header}
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    deflated = zlib.compress(text)
    size = len(deflated) if length is None else length
    rest = size.to_bytes(4, "little") + deflated
    return b"phyblob3" + hashlib.sha256((rest + parts)[: 4 + size]).digest() + rest + parts


def forged_array(*entry: object, parts: bytes = b"", **about: object) -> bytes:
    """The blob of one array that has this entry: name, dtype, dtype written, shape, rows, bytes."""
    return forged({"about": about, "arrays": [list(entry)]}, parts=parts)


def resealed(content: bytes) -> bytes:
    """The same bytes with the SHA-256 that their header and their parts have, if there is a header."""
    end = 44 + int.from_bytes(content[40:44], "little")
    try:
        header = json.loads(zlib.decompress(content[44:end]))
        deflated = zlib.compress(json.dumps(header | {"sha256": hashlib.sha256(content[end:]).hexdigest()}).encode())
    except (zlib.error, ValueError, RecursionError, TypeError):
        return content[:8] + hashlib.sha256(content[40:end]).digest() + content[40:]
    rest = len(deflated).to_bytes(4, "little") + deflated
    return content[:8] + hashlib.sha256(rest).digest() + rest + content[end:]
