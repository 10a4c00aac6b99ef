"""Positions of data, pilots and filler on the OFDM grid.

A packet is a whole number of slots. Data symbols fill carrier by carrier, then OFDM symbol by OFDM symbol; what is left
of the last slot carries a known filler of QPSK symbols that travel and cost energy, but are not counted. A pilot
symbol carries known QPSK symbols: carrier c of those in use belongs to user c mod U, sends nothing for the others, and
is scaled so that every user spends the same energy on a pilot symbol as on a symbol full of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import OfdmConfig
from phy.numerics.lazy_tensorflow import tf

_KNOWN_SEED = 0x0FD3


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Packet of `num_symbols` data symbols per user on the carriers `carriers` of an OFDM grid.

    `carriers` `[num_carriers]` are positions in the Fourier transform with DC in the middle (at
    `num_subcarriers // 2`), as in Sionna's `ResourceGrid`.
    """

    ofdm: OfdmConfig
    num_users: int
    num_symbols: int
    carriers: NDArray[np.int64]
    num_slots: int

    @classmethod
    def of(cls, ofdm: OfdmConfig, *, num_users: int, num_symbols: int, num_blocks: int = 1) -> Grid:
        """Grid of one of `num_blocks` devices that share the carriers in contiguous blocks of equal size.

        The channel is stationary in frequency, so every block has the same statistics, and the first block represents
        all. Carriers left over by an uneven split stay empty. Raises ValueError for more devices than carriers.
        """
        left, right = ofdm.guard_carriers
        usable = np.arange(left, ofdm.num_subcarriers - right)
        if ofdm.dc_null:
            usable = usable[usable != ofdm.num_subcarriers // 2]
        each = len(usable) // num_blocks
        for count, what in ((num_blocks, "devices cannot share"), (num_users * num_blocks, "pilots collide on")):
            if count > len(usable):
                raise ValueError(
                    f"{count} {what} {len(usable)} carriers; raise num_subcarriers, or put fewer devices on the grid"
                )
        per_slot = each * (ofdm.num_symbols - len(ofdm.pilot_symbols))
        return cls(
            ofdm=ofdm,
            num_users=num_users,
            num_symbols=num_symbols,
            carriers=usable[:each],
            num_slots=-(-num_symbols // per_slot),
        )

    @property
    def num_carriers(self) -> int:
        """Carriers of one device."""
        return len(self.carriers)

    @property
    def frequencies_hz(self) -> NDArray[np.float64]:
        """Baseband frequency of each carrier, `[num_carriers]`."""
        return np.asarray((self.carriers - self.ofdm.num_subcarriers // 2) * self.ofdm.subcarrier_spacing_hz, float)

    @property
    def num_ofdm_symbols(self) -> int:
        """OFDM symbols of one packet, pilots included."""
        return self.num_slots * self.ofdm.num_symbols

    @property
    def middles_s(self) -> NDArray[np.float64]:
        """Time of the middle of the useful part of each OFDM symbol, `[num_ofdm_symbols]`, from the packet's start."""
        first = self.ofdm.prefix_s + 0.5 / self.ofdm.subcarrier_spacing_hz
        return np.asarray(first + np.arange(self.num_ofdm_symbols) * self.ofdm.symbol_s, float)

    @property
    def pilot_rows(self) -> list[int]:
        """OFDM symbols of a slot with pilots, ascending."""
        return sorted(self.ofdm.pilot_symbols)

    @property
    def data_rows(self) -> list[int]:
        """OFDM symbols of a slot with data, ascending."""
        return [row for row in range(self.ofdm.num_symbols) if row not in self.ofdm.pilot_symbols]

    @property
    def pilots(self) -> NDArray[np.complex64]:
        """Pilots of each user in a slot, `[users, pilot symbols, num_carriers]`."""
        sequence = _qpsk((len(self.pilot_rows), self.num_carriers), stream=0)
        owner = np.arange(self.num_carriers) % self.num_users
        mine = owner == np.arange(self.num_users)[:, None]
        scale = np.sqrt(self.num_carriers / mine.sum(axis=1))
        return np.asarray(mine[:, None] * scale[:, None, None] * sequence, np.complex64)

    @property
    def filler(self) -> NDArray[np.complex64]:
        """Known symbols behind the data."""
        elements = self.num_slots * len(self.data_rows) * self.num_carriers
        return _qpsk((elements - self.num_symbols,), stream=1)

    @property
    def counted(self) -> NDArray[np.float32]:
        """1 at data symbols of the packet, 0 elsewhere, `[num_ofdm_symbols, num_carriers]`."""
        is_data = np.zeros((self.num_slots, self.ofdm.num_symbols, self.num_carriers), bool)
        is_data[:, self.data_rows] = True
        marks = np.zeros(is_data.shape, np.float32)
        marks[is_data] = np.arange(is_data.sum()) < self.num_symbols
        return marks.reshape(self.num_ofdm_symbols, self.num_carriers)

    def place(self, symbols: Any) -> Any:
        """`[rows, users, num_symbols]` and pilots and filler, to `[rows, users, num_ofdm_symbols, num_carriers]`."""
        rows, slots, data, pilots = symbols.shape[0], self.num_slots, self.data_rows, self.pilot_rows
        beyond = self.filler
        filler = tf.broadcast_to(tf.constant(beyond), [rows, self.num_users, len(beyond)])
        shape = [rows, self.num_users, slots, len(data), self.num_carriers]
        planes = tf.reshape(tf.concat([symbols, filler], axis=-1), shape)
        if pilots:
            shape[3] = len(pilots)
            known = tf.broadcast_to(tf.constant(self.pilots)[None, :, None], shape)
            order = np.argsort([*data, *pilots])
            planes = tf.gather(tf.concat([planes, known], axis=3), order, axis=3)
        return tf.reshape(planes, [rows, self.num_users, self.num_ofdm_symbols, self.num_carriers])

    def spread(self, grid: Any) -> Any:
        """Carriers in use among all: `[..., num_carriers]` to `[..., num_subcarriers]`, zero elsewhere.

        A grid of all carriers is returned unchanged.
        """
        size = self.ofdm.num_subcarriers
        if grid.shape[-1] == size:
            return grid
        source = np.full(size, self.num_carriers)
        source[self.carriers] = np.arange(self.num_carriers)
        return tf.gather(tf.concat([grid, tf.zeros([*grid.shape[:-1], 1], grid.dtype)], axis=-1), source, axis=-1)

    def select(self, grid: Any) -> Any:
        """Inverse of `spread`."""
        return grid if grid.shape[-1] == self.num_carriers else tf.gather(grid, self.carriers, axis=-1)

    def take(self, values: Any, slot_rows: list[int]) -> Any:
        """Select OFDM symbols of every slot: `[..., num_ofdm_symbols, n]` to `[..., num_slots, rows, n]`."""
        lead, width = values.shape[:-2], values.shape[-1]
        slots = tf.reshape(values, [*lead, self.num_slots, self.ofdm.num_symbols, width])
        return tf.gather(slots, slot_rows, axis=-2)

    def unpack(self, planes: Any) -> Any:
        """Data symbols in the packet's order: `[..., num_slots, data symbols, num_carriers]` to `[..., num_symbols]`.

        An axis of the planes may have length 1 where all its values are the same.
        """
        full = [self.num_slots, len(self.data_rows), self.num_carriers]
        lead = planes.shape[:-3]
        spread = tf.broadcast_to(planes, [*lead, *full])
        return tf.reshape(spread, [*lead, int(np.prod(full))])[..., : self.num_symbols]


def _qpsk(shape: tuple[int, ...], *, stream: int) -> NDArray[np.complex64]:
    """Known QPSK symbols of unit energy, the same in every simulation."""
    bits = np.random.Generator(np.random.Philox(key=[_KNOWN_SEED, stream])).integers(0, 2, (*shape, 2))
    return np.asarray(((1 - 2 * bits[..., 0]) + 1j * (1 - 2 * bits[..., 1])) / np.sqrt(2.0), np.complex64)
