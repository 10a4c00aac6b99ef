"""The small arrays of a batch of tasks as they are stored: see `scenarios.store.packs`.

Trials of a batch mostly have their account and most of their arrays in common: these are compressed, checked and
written once.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from fl.results import TrialResult
from scenarios.store.accounts import account_arrays, account_text
from scenarios.store.array_bytes import is_random, kind_of
from scenarios.store.integrity import ARRAY_TABLES, ArrayTable
from scenarios.store.packs import ACCOUNT, LARGEST_PACKED, MOST_TEXT, TEXT

Heading = tuple[str, str, str, tuple[int, ...]]
"""Table, name, type and shape."""
Content = NDArray[Any] | bytes
Tables = Mapping[ArrayTable, Mapping[str, NDArray[Any]]]
_OF_RESULT = tuple(table for table in ARRAY_TABLES if table != "ledger")


@dataclass(frozen=True, kw_only=True)
class Pack:
    """What some tasks share; and by task the rest: heads, metrics, and bytes of arrays."""

    heads: str
    data: bytes
    tasks: Mapping[str, tuple[str, bytes, bytes]]


class _Member(NamedTuple):
    """A task: tables in the order of `ARRAY_TABLES`, the text of its account if it has one."""

    metrics: Mapping[str, float]
    tables: tuple[Mapping[str, NDArray[Any]], ...]
    texts: tuple[bytes, ...]


def pack_tasks(results: Mapping[str, TrialResult]) -> tuple[list[Pack], dict[str, Tables]]:
    """Packs of tasks whose arrays have the same names and shapes, and by task what tables are too large for them.

    ValueError for an array that is neither int64 nor float64, or a metric that is no number.
    """
    accounts: dict[int, tuple[Mapping[str, NDArray[Any]], tuple[bytes, ...]]] = {id(None): ({}, ())}
    alike: dict[object, dict[str, _Member]] = {}
    for task_id, result in results.items():
        account = result.account
        if account is not None and id(account) not in accounts:
            text = account_text(account).encode()
            if len(text) > MOST_TEXT:
                raise ValueError(f"the text of a privacy account has {len(text)} bytes; {MOST_TEXT} can be stored")
            accounts[id(account)] = (account_arrays(account), (text,))
        ledger, texts = accounts[id(account)]
        tables = (*[getattr(result, name) for name in _OF_RESULT], ledger)
        member = _Member(metrics=result.metrics, tables=tables, texts=texts)
        alike.setdefault(_shape_of(member), {})[task_id] = member
    packs: list[Pack] = []
    large: dict[str, Tables] = {}
    for some in alike.values():
        first = next(iter(some.values())).tables
        packed = [all(array.nbytes <= LARGEST_PACKED for array in arrays.values()) for arrays in first]
        packs.append(_pack(some, packed))
        if not all(packed):
            for task_id, member in some.items():
                arrays = zip(ARRAY_TABLES, member.tables, packed, strict=True)
                large[task_id] = {name: one for name, one, is_packed in arrays if not is_packed}
    return packs, large


def _shape_of(member: _Member) -> object:
    """What tasks of one pack have in common: names and shapes."""
    tables = tuple([tuple([(name, one.dtype, one.shape) for name, one in arrays.items()]) for arrays in member.tables])
    return tuple(member.metrics), tables, len(member.texts)


def _pack(members: Mapping[str, _Member], packed: Sequence[bool]) -> Pack:
    """The pack of tasks alike; `packed` says which of their tables go into it."""
    first = next(iter(members.values()))
    some = [place for place, is_packed in enumerate(packed) if is_packed]
    headings: list[Heading] = [
        (ARRAY_TABLES[place], name, kind_of(name, one), one.shape)
        for place in some
        for name, one in first.tables[place].items()
    ]
    headings += [(ACCOUNT, "", TEXT, ())] * len(first.texts)
    contents = ([one for place in some for one in m.tables[place].values()] + [*m.texts] for m in members.values())
    heads: list[object] = []
    shared: list[bytes] = []
    own: list[tuple[list[str], list[bytes]]] = []
    for heading, column in zip(headings, zip(*contents, strict=True), strict=True):
        raw = _common(column, kind=heading[2])
        if raw is None:
            heads.append(heading)
            own.append(_own(column, kind=heading[2]))
        else:
            # Floats may deflate to three quarters: worth its time for all tasks at once, not for one.
            as_it_is = len(column) == 1 and heading[2] == "<f8" and is_random(raw)
            data = _as_stored(raw, kind=heading[2], as_it_is=as_it_is)
            heads.append((*heading, zlib.crc32(raw), _total(column[0]), len(data)))
            shared.append(data)
    texts = ["[" + ",".join(of_task) + "]" for of_task in zip(*(texts for texts, _ in own), strict=True)]
    blobs = [b"".join(of_task) for of_task in zip(*(blobs for _, blobs in own), strict=True)]
    pack_metrics = struct.Struct(f"<{len(first.metrics)}d").pack
    rows = zip(members.items(), texts or ["[]"] * len(members), blobs or [b""] * len(members), strict=True)
    return Pack(
        heads=json.dumps({"metrics": [*first.metrics], "arrays": heads}, separators=(",", ":")),
        data=b"".join(shared),
        tasks={
            # Without minus zero, as SQLite keeps numbers: tables of before had none.
            task_id: (text, pack_metrics(*[float(value) + 0.0 for value in member.metrics.values()]), blob)
            for (task_id, member), text, blob in rows
        },
    )


def _common(column: Sequence[Content], *, kind: str) -> bytes | None:
    """The bytes that all of a column are; None if they differ."""
    first = column[0]
    raw = _raw(first, kind=kind)
    return raw if all(one is first or _raw(one, kind=kind) == raw for one in column) else None


def _own(column: Sequence[Content], *, kind: str) -> tuple[list[str], list[bytes]]:
    """Head and bytes of each of a column. Whether to deflate is asked of the first: others are of its kind."""
    raws = [_raw(one, kind=kind) for one in column]
    as_it_is = kind == "<f8" and is_random(raws[0])
    data = [_as_stored(raw, kind=kind, as_it_is=as_it_is) for raw in raws]
    checksums = map(zlib.crc32, raws)
    totals = ["null" if (total := _total(one)) is None else total for one in column]
    heads = [f"[{crc32},{total},{len(one)}]" for crc32, total, one in zip(checksums, totals, data, strict=True)]
    return heads, data


def _raw(content: Content, *, kind: str) -> bytes:
    return content if isinstance(content, bytes) else content.astype(kind, copy=False).tobytes()


def _total(content: Content) -> int | None:
    """The sum of an array of counts."""
    return None if isinstance(content, bytes) or content.dtype.kind != "i" else int(content.sum())


def _as_stored(raw: bytes, *, kind: str, as_it_is: bool) -> bytes:
    if as_it_is:
        return raw
    # Level 1: counts shrink about as well as at 6, several times faster.
    deflated = zlib.compress(raw, 1)
    return deflated if kind == TEXT or len(deflated) < len(raw) else raw
