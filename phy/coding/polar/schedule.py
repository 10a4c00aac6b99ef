"""Steps of a successive cancellation list decoder, the same for all code words of a code.

A node of the tree is a polar code of 2^level bits from position `start` on. Its LLRs lead to those of its two halves,
and the words of the halves to its own word. Four kinds of nodes are decided at once, exactly: frozen ones, those with
no free bit but the last one, which repeat it, those whose last bit is a parity check of earlier bits, and, in
successive cancellation beyond all parity checks, those without a frozen bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

CHECK, VARIABLE, COMBINE, FROZEN, FORK, SUM, HARD, PARITY = range(8)
"""Kinds of steps: LLRs of the first half, of the second half, word of both; decisions about a node."""
NONE = -1
"""In place of an origin: every path is where it was."""


@dataclass
class _Walk:
    list_size: int
    parity: NDArray[np.int64]
    steps: list[tuple[int, ...]] = field(default_factory=list)

    def visit(self, free: NDArray[np.bool_], start: int, paths: int, slot: int) -> tuple[int, bool]:
        """Append the steps of a node that `paths` enter; (paths that leave it, True if they moved)."""
        level, num_free = free.size.bit_length() - 1, int(free.sum())
        last = start + free.size - 1
        if num_free == 0:
            # A single path has no other whose metric it is compared with.
            if paths > 1:
                self._say(FROZEN, level, start, paths)
            return paths, False
        # Shortening may freeze the last bit, and a bit before it is not repeated everywhere.
        repeats = num_free == 1 and bool(free[-1])
        if repeats and last in self.parity:
            self._say(PARITY, level, start, paths)
            return paths, False
        # What a later parity check adds up are bits one by one.
        later = self.parity[self.parity > last]
        summed = np.isin(later % 5, np.arange(start, last + 1) % 5).any()
        at_once = num_free == free.size and (level == 0 or not summed)
        if self.list_size == 1 and (repeats or at_once):
            self._say(SUM if repeats else HARD, level, start, paths)
            return 1, False
        if repeats:
            after = min(2 * paths, self.list_size)
            self._say(FORK, level, start, paths, paths, after, out=slot)
            return after, True
        half = free.size // 2
        left_slot = 2 * (level - 1)
        if free[:half].any() or paths > 1:
            self._say(CHECK, level, start, paths)
        middle, left = self.visit(free[:half], start, paths, left_slot)
        left_slot = left_slot if left else NONE
        self._say(VARIABLE, level, start, paths, middle, left=left_slot)
        after, right = self.visit(free[half:], start + half, middle, 2 * level - 1)
        right_slot = 2 * level - 1 if right else NONE
        self._say(COMBINE, level, start, middle, middle, after, left=left_slot, right=right_slot, out=slot)
        return after, left or right

    def _say(
        self,
        kind: int,
        level: int,
        start: int,
        before: int,
        middle: int = 0,
        after: int = 0,
        *,
        left: int = NONE,
        right: int = NONE,
        out: int = NONE,
    ) -> None:
        self.steps.append((kind, level, start, before, middle, after, left, right, out))


def decoding_steps(
    information: NDArray[np.int64], parity: NDArray[np.int64], length: int, *, list_size: int
) -> NDArray[np.int64]:
    """Steps `[n, 9]`.

    Columns: kind, level, position of the node, numbers of paths when its LLRs were computed, after its first half and
    after it, places of the origins of the paths after its first half, of those after its second and after it. At a node
    of level l these places are 2 l - 2, 2 l - 1, and 2 l or 2 l + 1 if it is a first or a second half itself.
    """
    free = np.zeros(length, bool)
    free[information] = free[parity] = True
    walk = _Walk(list_size, parity)
    walk.visit(free, 0, 1, 2 * (length.bit_length() - 1))
    return np.array(walk.steps, np.int64)


def selecting_pairs(list_size: int) -> NDArray[np.int64]:
    """Places whose contents are compared, the smaller to the first, until the smaller half of 2 L is first, `[n, 2]`.

    Batcher's sorting network on both halves, on the second one the other way round, then place by place.
    """
    pairs = []
    step = 1
    while step < list_size:
        span = step
        while span >= 1:
            for first in range(span % step, list_size - span, 2 * span):
                for place in range(first, min(first + span, list_size - span)):
                    if place // (2 * step) == (place + span) // (2 * step):
                        pairs += [(place, place + span), (list_size + place + span, list_size + place)]
            span //= 2
        step *= 2
    return np.array([*pairs, *((place, list_size + place) for place in range(list_size))], np.int64)
