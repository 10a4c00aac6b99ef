"""Whether the write-ahead log beside a store is as SQLite wrote it.

SQLite itself takes a log up to its first frame whose checksum differs and forgets the rest: right for a frame that a
kill tore, silent about one that the disk changed later. The two differ in what follows: a torn transaction has no
commit frame. Format: https://www.sqlite.org/walformat.html, section 4.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HEADER, _FRAME = 32, 24
_MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}
"""Which byte order the words of a checksum have."""

Words = NDArray[np.uint32]


def log_damage(path: Path) -> str | None:
    """What is wrong with the log at `path`, or None: it is whole, torn where nothing was committed, or not there."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(content) < _HEADER:
        return None  # no frame was ever written behind it
    header = np.frombuffer(content[:_HEADER], ">u4")
    order = _MAGIC.get(int(header[0]))
    if order is None or not _is_page_size(int(header[2])):
        return "the header of its log differs from what was written"
    start = _advance(np.zeros((1, 2), np.uint32), np.frombuffer(content[:24], order)[None])[0]
    if not np.array_equal(start, header[6:8]):
        return "the header of its log differs from what was written"
    size = _FRAME + int(header[2])
    count = (len(content) - _HEADER) // size
    if not count:
        return None
    frames = np.frombuffer(content, np.uint8, count * size, _HEADER).reshape(count, size)
    heads = np.ascontiguousarray(frames[:, :_FRAME]).view(">u4")
    ours = (heads[:, 2:4] == header[4:6]).all(axis=1)
    # Frames of an earlier turn of the log lie behind the last of this one.
    wrong = _wrong_checksums(frames, heads, start=start, order=order) | ~ours
    valid = int(np.argmax(wrong)) if wrong.any() else count
    if (ours[valid:] & (heads[valid:, 1] != 0)).any():
        return f"frame {valid} of its log differs from what was written"
    return None


def _is_page_size(value: int) -> bool:
    return 512 <= value <= 65536 and value & (value - 1) == 0


def _wrong_checksums(
    frames: NDArray[np.uint8], heads: NDArray[np.uint32], *, start: Words, order: str
) -> NDArray[np.bool_]:
    """Which frames do not carry the checksum that continues from the one before: none up to the first damaged."""
    # Checksums run over the first 8 bytes of a frame's head and its page.
    covered = np.concatenate([frames[:, :8], frames[:, _FRAME:]], axis=1)
    words = np.ascontiguousarray(covered).view(order).astype(np.uint32)
    before = np.concatenate([start[None], heads[:-1, 4:6]]).astype(np.uint32)
    wrong: NDArray[np.bool_] = (_advance(before, words) != heads[:, 4:6]).any(axis=1)
    return wrong


def _advance(before: Words, words: Words) -> Words:
    """Checksums `[n, 2]` after `words` `[n, 2 * pairs]`: s0 += x0 + s1, s1 += x1 + s0 for each pair, modulo 2^32.

    That is s -> M s + (x0, x0 + x1) with M = [[1, 1], [1, 2]], whose powers weigh all pairs at once.
    """
    pairs = words.astype(np.uint32).reshape(len(words), -1, 2)
    powers = np.empty((pairs.shape[1] + 1, 2, 2), np.uint32)
    powers[0] = np.eye(2, dtype=np.uint32)
    step = np.array([[1, 1], [1, 2]], np.uint32)
    for n in range(1, len(powers)):
        powers[n] = step @ powers[n - 1]
    fed = np.stack([pairs[..., 0], pairs[..., 0] + pairs[..., 1]], axis=-1)
    weights = powers[-2::-1]
    after: Words = before.astype(np.uint32) @ powers[-1].T
    for i in range(2):
        for j in range(2):
            after[:, i] += (fed[..., j] * weights[:, i, j]).sum(axis=1, dtype=np.uint32)
    return after
