"""Coded words by programs of others, kept in `words/*.csv`, and what phyloop sends in their place."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS = Path(__file__).parent / "words"


@dataclass(frozen=True, kw_only=True)
class CodedWord:
    """A message and its coded word, bits `[n]` in {0, 1}; `settings` are the other columns of its row."""

    table: str
    settings: Mapping[str, int]
    message: NDArray[np.uint8]
    word: NDArray[np.uint8]

    @property
    def differing_bits(self) -> int:
        """Bits in which phyloop's word is another; all of them if its length is."""
        sent = ENCODERS[self.table](self)
        return int((sent != self.word).sum()) if sent.shape == self.word.shape else len(self.word)


def read_words(table: str) -> tuple[CodedWord, ...]:
    """Return the coded words of `words/<table>.csv`."""
    lines = [line for line in (WORDS / f"{table}.csv").read_text().splitlines() if not line.startswith("#")]
    return tuple(_word_of(table, row) for row in csv.DictReader(lines))


def _word_of(table: str, row: dict[str, str]) -> CodedWord:
    message, word = (np.frombuffer(bytes.fromhex(row.pop(name)), np.uint8) for name in ("message", "word"))
    settings = {name: int(value) for name, value in row.items() if value}
    return CodedWord(
        table=table,
        settings=settings,
        message=np.unpackbits(message, count=settings["message_bits"]),
        word=np.unpackbits(word, count=settings["coded_bits"]),
    )


def _convolutional(word: CodedWord) -> NDArray[np.uint8]:
    from phy.coding.convolutional import ConvolutionalCode

    code = ConvolutionalCode(len(word.message), word.settings["outputs"], word.settings["constraint_length"])
    return code.encode(word.message[None]).ravel()


def _ldpc(word: CodedWord) -> NDArray[np.uint8]:
    from phy.coding.ldpc.buffer import circular_buffer
    from phy.coding.ldpc.transport import MatchedBlocks

    settings = word.settings
    buffer = circular_buffer(len(word.message), 1 if settings["base_graph"] == 1 else 2)
    block = MatchedBlocks(buffer, settings["redundancy_version"], len(word.word), settings["bits_per_symbol"], 1)
    return block.encode(word.message[None]).ravel()


def _polar(word: CodedWord) -> NDArray[np.uint8]:
    from phy.coding.polar.code import PolarCode
    from phy.coding.polar.sizes import parity_check_bits

    protected = len(word.message)
    code = PolarCode(protected - (6 if parity_check_bits(protected) else 11), len(word.word), 1)
    return code.encode_protected(word.message[None]).ravel()


def _turbo(word: CodedWord) -> NDArray[np.uint8]:
    from phy.coding.turbo.code import TurboCode, interleaver
    from phy.coding.turbo.transport import TurboTransport

    if "redundancy_version" not in word.settings:
        code = TurboCode(1, interleaver(len(word.message)), np.arange(len(word.word)))
        return code.encode(word.message[None]).ravel()
    settings = word.settings
    transport = TurboTransport(
        len(word.message), len(word.word), settings["bits_per_symbol"], 1, settings["redundancy_version"]
    )
    return transport.encode(word.message[None]).ravel()


ENCODERS: dict[str, Callable[[CodedWord], NDArray[np.uint8]]] = {
    "convolutional": _convolutional,
    "ldpc": _ldpc,
    "polar": _polar,
    "turbo": _turbo,
}
"""Encoders by table."""
