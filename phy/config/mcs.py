"""Modulation and coding schemes (MCS): the tables of TS 38.214, one index for each device, and link adaptation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from pydantic import Discriminator, Field, Tag, model_validator

from phy.config.base import BITS_PER_SYMBOL, Frozen, Modulation
from phy.config.conflict import ConflictError, LeaveOut, Write

Table = Literal[1, 2, 3]


class McsEntry(NamedTuple):
    """One row of a table: its index as `number`, the modulation and the code rate."""

    number: int
    modulation: Modulation
    rate: float

    @property
    def efficiency(self) -> float:
        """Information bits per symbol."""
        return BITS_PER_SYMBOL[self.modulation] * self.rate


def _table(**rates: tuple[float, ...]) -> tuple[McsEntry, ...]:
    """Rows of a table from 1024 times the code rate, in the order of the constellations."""
    names: dict[str, Modulation] = {"qpsk": "qpsk", "qam16": "16qam", "qam64": "64qam", "qam256": "256qam"}
    rows = [(names[word], rate / 1024) for word, listed in rates.items() for rate in listed]
    return tuple(McsEntry(index, modulation, rate) for index, (modulation, rate) in enumerate(rows))


TABLES: dict[Table, tuple[McsEntry, ...]] = {
    1: _table(
        qpsk=(120, 157, 193, 251, 308, 379, 449, 526, 602, 679),
        qam16=(340, 378, 434, 490, 553, 616, 658),
        qam64=(438, 466, 517, 567, 616, 666, 719, 772, 822, 873, 910, 948),
    ),
    2: _table(
        qpsk=(120, 193, 308, 449, 602),
        qam16=(378, 434, 490, 553, 616, 658),
        qam64=(466, 517, 567, 616, 666, 719, 772, 822, 873),
        qam256=(682.5, 711, 754, 797, 841, 885, 916.5, 948),
    ),
    3: _table(
        qpsk=(30, 40, 50, 64, 78, 99, 120, 157, 193, 251, 308, 379, 449, 526, 602),
        qam16=(340, 378, 434, 490, 553, 616),
        qam64=(438, 466, 517, 567, 616, 666, 719, 772),
    ),
}
"""TS 38.214 Tables 5.1.3.1-1 to 5.1.3.1-3."""
NUM_MCS = len(TABLES[1])


def mcs_entry(index: int) -> tuple[Modulation, float]:
    """(modulation, code rate) of an MCS index 0..28, TS 38.214 Table 5.1.3.1-1."""
    return TABLES[1][index][1:]


def by_efficiency(entries: Iterable[McsEntry]) -> tuple[McsEntry, ...]:
    """Return the distinct rows, fewest bits per symbol first: the tables are not in this order throughout."""
    return tuple(sorted(set(entries), key=lambda entry: (entry.efficiency, entry.number)))


class McsAdaptation(Frozen):
    """Link adaptation: an MCS for each device and round, chosen by the server.

    - `snr`: the fastest candidate whose block error rate is at most `target_bler` at the effective SNR of the device's
      channel, by error rates that the link itself has over AWGN; the most robust one where none is;
    - `outer-loop`: the same with an offset on the SNR of each device, which moves with every packet by -`step_db` if it
      was lost and by +`step_db` target / (1 - target) if it arrived (Sampath, Kumar and Holtzman 1997), over the
      packets of the round. Offsets stay within `OFFSET_LIMIT_DB`;
    - `genie`: the candidate with which most packets of the round arrive, of those alike the fastest: a bound, as if the
      server knew the noise. Every candidate is sent to find out.
    """

    adapt: Literal["snr", "outer-loop", "genie"] = Field(description="how the server chooses")
    table: Table = Field(
        default=1, description="table 5.1.3.1-1, -2 (up to 256-QAM) or -3 (low spectral efficiency) of TS 38.214"
    )
    target_bler: Annotated[float, Field(ge=1e-4, le=0.5)] = Field(
        default=0.1, description="block error rate of a packet at its first attempt; 0.1 as in TS 38.214 5.2.2.1"
    )
    candidates: tuple[Annotated[int, Field(ge=0, strict=True)], ...] | None = Field(
        default=None, description="indices that may be chosen; left out: all of the table", min_length=1
    )
    outdated_rounds: Annotated[int, Field(ge=0, le=1000, strict=True)] = Field(
        default=0,
        description="rounds since the probe that the server knows; 0: of this round; until then the most robust MCS",
    )
    step_db: Annotated[float, Field(gt=0, le=10)] = Field(
        default=1.0, description="offset of a lost packet, outer-loop [dB]; 1 is usual: one index of table 1"
    )

    @model_validator(mode="after")
    def _candidates_are_in_the_table(self) -> McsAdaptation:
        size = len(TABLES[self.table])
        wrong = [index for index in self.candidates or () if index >= size]
        if wrong:
            raise ConflictError(
                "candidates table",
                f"candidate {wrong[0]} is not in table {self.table}, whose indices are 0 to {size - 1}",
                Write({"candidates": [index for index in self.candidates or () if index < size] or [0]}),
                LeaveOut("candidates"),
            )
        if self.adapt != "outer-loop" and self.step_db != McsAdaptation.model_fields["step_db"].default:
            raise ConflictError(
                "step_db adapt",
                f"step_db is of adapt outer-loop, and adapt is {self.adapt}",
                LeaveOut("step_db"),
                Write({"adapt": "outer-loop"}),
            )
        return self

    @property
    def entries(self) -> tuple[McsEntry, ...]:
        """The candidates, fewest bits per symbol first."""
        table = TABLES[self.table]
        return by_efficiency(table if self.candidates is None else [table[index] for index in self.candidates])


OFFSET_LIMIT_DB = 20.0
"""Largest offset of the outer loop either way [dB]: where no candidate reaches the target, it moves without end."""


def _form(value: object) -> str:
    if isinstance(value, dict | McsAdaptation):
        return "adaptation"
    return "list" if isinstance(value, list | tuple) else "index"


_Index = Annotated[int, Field(ge=0, lt=NUM_MCS, strict=True)]
# The form is chosen before it is read, so that an error in one form is not reported as another.
Mcs = Annotated[
    Annotated[_Index | None, Tag("index")]
    | Annotated[tuple[_Index, ...], Field(min_length=1), Tag("list")]
    | Annotated[McsAdaptation, Tag("adaptation")],
    Discriminator(_form),
]


def entries_of(mcs: int | tuple[int, ...] | McsAdaptation | None) -> tuple[McsEntry, ...]:
    """Return every MCS that a device may send with, fewest bits per symbol first; none without `mcs`."""
    if mcs is None:
        return ()
    if isinstance(mcs, McsAdaptation):
        return mcs.entries
    return by_efficiency(TABLES[1][index] for index in (mcs if isinstance(mcs, tuple) else (mcs,)))


def is_by_device(mcs: int | tuple[int, ...] | McsAdaptation | None) -> bool:
    """Return True for an `mcs` of each device, or of each device and round."""
    return isinstance(mcs, tuple | McsAdaptation)
