"""Known coded words of a channel code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from fl.base.words import plural
from scenarios.schema.loader import LoadedScenario
from scenarios.studies.verify.cards import EXPECTED, CardCheck, Expected, exact
from scenarios.studies.verify.code_words import read_words


@EXPECTED.register
class CodeWords(Expected):
    """Words of `words/<table>.csv`, by a program of others: no bit may differ."""

    kind: Literal["code-words"]
    table: Literal["convolutional", "ldpc", "polar", "turbo"]

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
        words = read_words(self.table)
        differing = sum(word.differing_bits for word in words)
        what = f"bits that differ in {plural(len(words), 'word')} of {sum(len(word.word) for word in words)} bits"
        yield exact(what, float(differing), 0.0, tolerance=0.0)
