"""Timing of one round of superposition over OFDM.

    | pilots of device 0 | ... | pilots of device K - 1 | data of all devices, slot by slot |

If the channel is estimated, every device first sends the pilot symbols of a slot of its own. By the reciprocity of
time-division duplex, the channel of that slot is the one that the device inverts. Then all devices fill the data
symbols of whole slots together, carrier by carrier and symbol by symbol. Pilot symbols of these slots stay empty: a
receiver of aligned sums does not equalise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from phy.config import OfdmConfig
from phy.frontends.resource_grid import Grid
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import threefry


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Round in which each of `num_devices` sends `num_symbols` symbols; `pilots`: the channel is estimated."""

    ofdm: OfdmConfig
    num_devices: int
    num_symbols: int
    pilots: bool

    @cached_property
    def grid(self) -> Grid:
        """Grid of one slot of one device."""
        return Grid.of(self.ofdm, num_users=1, num_symbols=self.ofdm.data_symbols_per_slot)

    @property
    def used_ofdm_symbols(self) -> int:
        """OFDM symbols that carry data, the last one perhaps on some carriers only."""
        return -(-self.num_symbols // self.ofdm.num_carriers)

    @property
    def num_slots(self) -> int:
        """Slots of data."""
        return -(-self.num_symbols // self.ofdm.data_symbols_per_slot)

    @property
    def slot_s(self) -> float:
        """Duration of a slot [s]."""
        return self.ofdm.num_symbols * self.ofdm.symbol_s

    @property
    def pilots_s(self) -> float:
        """Duration of all devices' pilot slots [s]."""
        return self.num_devices * self.slot_s if self.pilots else 0.0

    @property
    def airtime_s(self) -> float:
        """Duration of the round [s]."""
        return self.pilots_s + self.num_slots * self.slot_s

    @property
    def pilot_elements(self) -> int:
        """Resource elements on which one device sends pilots in a round."""
        return len(self.grid.pilot_rows) * self.ofdm.num_carriers if self.pilots else 0

    def positions(self, first: Any, count: int) -> tuple[Any, Any]:
        """(place among the data symbols of its slot, number among all symbols since the data began) of `count` OFDM
        symbols with data from number `first` on, each `[count]` int32 (TensorFlow)."""
        rows = self.grid.data_rows
        number = tf.cast(first, tf.int32) + tf.range(count)
        place = number % len(rows)
        return place, number // len(rows) * self.ofdm.num_symbols + tf.gather(tf.constant(rows, tf.int32), place)

    def pilot_instants_s(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Middle of each device's pilot symbols since the round began, `[num_devices, pilot symbols]` [s]."""
        middles = self.grid.middles_s[self.grid.pilot_rows]
        return (np.arange(self.num_devices)[:, None] * self.slot_s + middles).astype(np.float32)


def keys_of_symbols(channel_key: Any, number: Any) -> tuple[Any, Any]:
    """A key `[rows * n, 2]` and one instant for each OFDM symbol of `number` `[n]`, the same in any chunk."""
    key = channel_key[:, None]
    folded = threefry(
        (key[..., 0], key[..., 1]), (tf.cast(number, tf.uint32)[None, :], tf.constant(1, tf.uint32)), tf.bitwise
    )
    count = channel_key.shape[0] * number.shape[0]
    return tf.reshape(tf.stack(folded, axis=-1), [count, 2]), tf.zeros([count, 1])
