"""Measured numbers of one transmission of a Flower app."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class RoundOfClients:
    """What one transmission of updates measured.

    - `index` of the transmission, from 0; `nodes`: ids of the S clients that sent;
    - `columns` `[S]` by name: sender index, `lost`, counts of the link, and what the protection reports;
    - `numbers` of the transmission: `num_values` of each client, latency `airtime_s` [s] and energy of all `energy_j`
      [J], neither without a radio, and those of the privacy mechanism or of the scheme.
    """

    index: int
    nodes: tuple[int, ...]
    columns: Mapping[str, NDArray[Any]]
    numbers: Mapping[str, float]

    @property
    def lost(self) -> list[int]:
        """The nodes of which a packet was lost."""
        return [node for node, lost in zip(self.nodes, self.columns["lost"], strict=True) if lost]

    def beside(self, others: Mapping[int, Mapping[str, Any]], *, prefix: str) -> RoundOfClients:
        """Return the round with further numbers of each node, their names behind `prefix`."""
        names = dict.fromkeys(name for node in self.nodes for name in others.get(node, {}))
        more = {prefix + name: np.array([others[node][name] for node in self.nodes]) for name in names}
        return replace(self, columns={**self.columns, **more})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the numbers of each client."""
        for row, node in enumerate(self.nodes):
            yield {"round": self.index + 1, "node_id": node, **{name: one[row] for name, one in self.columns.items()}}
