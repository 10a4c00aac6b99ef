"""Where the games of an upload lie: rows of devices, numbers in each, spaced so that no two share an error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.models.federated import FederatedModel, Piece
from fl.uplink.channel_credit import errors_together
from fl.uplink.senders import exchangeable
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

_ROWS = 1024
_BITS_AT_ONCE = 1 << 22
_LEAST_BITS = 64


@dataclass(frozen=True, kw_only=True)
class Places:
    """K rows (devices of the link) of `num_values` numbers, of which `places` are games in the rows `audited`.

    Given its fades, the noise of a link is independent from bit to bit, unless something joins bits together: a code,
    a channel estimate, a fade of a packet, a cipher's block (`channel_credit.errors_together`). Then each row holds
    one game. Devices that share their resources (NOMA) err together: one of each group is a game.
    """

    num_rows: int
    num_values: int
    places: NDArray[np.int64]
    audited: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Games in one batch."""
        return len(self.audited) * len(self.places)

    def spread(
        self, worlds: NDArray[np.bool_], *, null: float | NDArray[np.float32], alternative: float | NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Numbers `[K, num_values]` of worlds `[len(audited), len(places)]`; zeros elsewhere."""
        out = np.zeros((self.num_rows, self.num_values), np.float32)
        out[np.ix_(self.audited, self.places)] = np.where(worlds, alternative, null)
        return out

    def gather(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """The games' part `[len(audited), len(places), ...]` of `[K, num_values, ...]`."""
        return values[self.audited][:, self.places]


def lay_out(
    link: LinkConfig,
    *,
    num_devices: int,
    bits_per_value: int,
    num_games: int,
    block_bits: int = 1,
    spacing: int = 1,
    whole_upload: int | None = None,
) -> Places:
    """As many games as fit a batch, up to `num_games`.

    `spacing`: numbers from one game to the next; `whole_upload`: a game is a row of so many numbers. Where all devices'
    channels have one law, there are as many rows as are worth their time, else the K devices of the link.
    """
    together = max(errors_together(link), block_bits)
    rows = min(_ROWS, num_games) if exchangeable(link) else num_devices
    users = link.noma.group_size if link.access == "noma" else 1
    audited = np.arange(0, rows, users)
    if whole_upload is not None:
        return Places(num_rows=rows, num_values=whole_upload, places=np.arange(1), audited=audited)
    if together > 1:
        num_values = max(spacing, -(-_LEAST_BITS // bits_per_value))
        return Places(num_rows=rows, num_values=num_values, places=np.arange(1), audited=audited)
    fit = max(_BITS_AT_ONCE // (rows * bits_per_value * spacing), 1)
    each = min(-(-num_games // len(audited)), fit)
    return Places(
        num_rows=rows, num_values=each * spacing, places=np.arange(0, each * spacing, spacing), audited=audited
    )


def empty_model(num_values: int) -> FederatedModel:
    """One tensor of so many numbers, and no network."""
    return FederatedModel(
        network=None,
        pieces=(Piece(name="audited", shape=(num_values,), offset=0),),
        initial=np.zeros(num_values, np.float32),
    )


def batch_context(seed: int, *, number: int, round_index: int) -> UplinkContext:
    """Round `round_index` of batch `number`, which is a trial of its own."""
    return UplinkContext(seed=seed, trials=(number,), round_index=round_index)
