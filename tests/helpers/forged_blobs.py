"""Blobs whose SHA-256 holds, whatever they say: damage on purpose."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import Any

LENGTHS = struct.Struct("<IIQ")


def forged(about: Any, index: Any = (None, ()), *, parts: bytes = b"", lengths: tuple[int, ...] | None = None) -> bytes:
    """The blob with these two (JSON, or bytes as they are) and these parts."""
    texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in (about, index)]
    texts[1] = zlib.compress(texts[1])
    rest = LENGTHS.pack(*(lengths or (*map(len, texts), len(parts)))) + b"".join(texts)
    return b"phyblob4" + hashlib.sha256(rest).digest() + rest + parts


def forged_array(*entry: object, parts: bytes = b"", about: object = None, detail: object = None) -> bytes:
    """The blob of one array that has this entry: name, dtype, dtype written, shape, rows, bytes."""
    return forged(about, (detail, [[*entry, digest(parts)]]), parts=parts)


def digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()[:16]


def resealed(content: bytes) -> bytes:
    """The same bytes with the SHA-256 that their front and their parts have, as far as there are any."""
    rest = content[40:]
    try:
        about, index, _ = LENGTHS.unpack(rest[:16])
        end = 16 + about + index
        detail, entries = json.loads(zlib.decompress(rest[16 + about : end]))
        place = end
        for entry in entries:
            entry[6] = digest(rest[place : place + entry[5]])
            place += entry[5]
        deflated = zlib.compress(json.dumps([detail, entries]).encode())
        lengths = LENGTHS.pack(about, len(deflated), len(rest) - end)
        rest, end = lengths + rest[16 : 16 + about] + deflated + rest[end:], 16 + about + len(deflated)
    except (zlib.error, ValueError, RecursionError, TypeError, LookupError, struct.error):
        end = len(rest)
    return content[:8] + hashlib.sha256(rest[:end]).digest() + rest
