"""Theorem 1 of bit flipping beside what flipped bits prove, line by line with what each line is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fl.learning.fedavg import FedAvgConfig
from privacy.config import BitFlippingConfig
from privacy.events.merging import side_by_side
from privacy.mechanisms.bit_flipping import AES_BLOCK_BITS
from privacy.mechanisms.sound_bit_flipping import AccountRow, StatedSensitivity, bit_flipping_rows
from scenarios.report.claims.gather import scenario_delta

if TYPE_CHECKING:
    from scenarios.plan.points import Plan, Point
    from scenarios.store.store import Store


@dataclass(frozen=True, kw_only=True)
class FlippingTable:
    """The lines of one point, and the rate of wrong bits that they count on."""

    point: Point
    flip_probability: float
    rows: tuple[AccountRow, ...]


def flipping_tables(
    store: Store, plan: Plan, *, task_ids: Sequence[Sequence[str]], delta: float | None = None
) -> Iterator[FlippingTable]:
    """One for every point of bit flipping on fixed-point numbers with a whole trial; `delta` None: the scenario's.

    All rounds count at the rate of the least protected device and round, with the channel where the evidence for it
    costs less than delta, else by the devices' own flips. Points where that rate is 0 have none: nothing is proved.
    """
    for point, ids in zip(plan.points, task_ids, strict=True):
        learning, privacy = point.scenario.learning, point.scenario.privacy
        if not (isinstance(privacy, BitFlippingConfig) and isinstance(learning, FedAvgConfig)):
            continue
        accounts, metrics = store.read_accounts(ids), store.read_metrics(ids)
        known = [one for one in metrics.values() if {"sensitivity", "kappa"} <= one.keys()]
        size, codec = learning.num_values(), learning.codec.as_fractions()
        if not (accounts and known and codec is not None and size is not None):
            continue
        wanted = delta if delta is not None else scenario_delta(point)
        ledger = side_by_side([account.ledger for account in accounts.values()])
        rounds = int((~np.isnan(ledger.parameter)).sum(axis=0).max())
        evidence = rounds * ledger.credit_failure
        credited = ledger.uncredited is not None and evidence < wanted
        rate = float(np.nanmin(ledger.parameter if credited or ledger.uncredited is None else ledger.uncredited))
        if rate <= 0.0:
            continue
        bits, value_range = codec.fraction_bits, codec.value_range
        yield FlippingTable(
            point=point,
            flip_probability=rate,
            rows=bit_flipping_rows(
                flip_probability=rate,
                order=privacy.order,
                num_rounds=rounds,
                kappa=max(one["kappa"] for one in known),
                num_numbers=size,
                bits=bits,
                sensitivity=StatedSensitivity.of(
                    max(one["sensitivity"] for one in known),
                    value_range=value_range,
                    bits=bits,
                    norm="l2",
                    on_grid=False,
                ),
                delta=wanted,
                delta_evidence=evidence if credited else 0.0,
                channel_credited=credited,
                block_bits=AES_BLOCK_BITS if privacy.cipher == "aes" else 1,
            ),
        )
