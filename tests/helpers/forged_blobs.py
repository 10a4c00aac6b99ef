"""Blobs whose SHA-256 holds, whatever they say: damage on purpose."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

LENGTHS = struct.Struct("<QQ")
ARRAY = "\0array"


def forged(about: Any, content: Any = None, *, parts: bytes = b"", lengths: tuple[int, int] | None = None) -> bytes:
    """The blob with these two (JSON, or bytes as they are) and these parts."""
    both = about, {} if content is None else content
    front = b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in both)
    rest = LENGTHS.pack(*(lengths or (len(front), len(parts)))) + front
    return b"phyblob5" + hashlib.sha256(rest).digest() + rest + parts


def forged_array(*entry: object, parts: bytes = b"", about: object = None, name: str = "a") -> bytes:
    """The blob of one array that has this entry: dtype, dtype written, shape, rows, start, bytes."""
    content: dict[str, Any] = {ARRAY: [*entry, digest(parts)]}
    for one in reversed(name.split("/")):
        content = {one: content}
    return forged(about, content, parts=parts)


def digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()[:16]


def resealed(content: bytes) -> bytes:
    """The same bytes with the SHA-256 that their front and their parts have, as far as there are any."""
    rest = content[40:]
    try:
        length, parts = LENGTHS.unpack(rest[:16])
        about, _, text = rest[16 : 16 + length].partition(b"\n")
        found = rest[16 + length :]

        def sealed(plain: dict[str, Any]) -> Any:
            if ARRAY in plain:
                start, size = plain[ARRAY][4:6]
                plain[ARRAY][6] = digest(found[start : start + size])
            return plain

        front = about + b"\n" + json.dumps(json.loads(text, object_hook=sealed)).encode()
        front, rest = LENGTHS.pack(len(front), parts) + front, found
    except (ValueError, RecursionError, TypeError, LookupError, struct.error):
        front, rest = rest, b""
    return content[:8] + hashlib.sha256(front).digest() + front + rest
