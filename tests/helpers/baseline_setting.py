"""What the tests of baselines share: a model of two tensors, rounds, and a trip through bits."""

from __future__ import annotations

import numpy as np

from fl.models.federated import Piece
from fl.schemes.coders.value_coder import ValueCoder
from fl.schemes.coders.value_scheme import ValueScheme
from phy.fading.block_taps import UplinkContext

PIECES = (Piece(name="kernel", shape=(31, 3), offset=0), Piece(name="bias", shape=(8,), offset=93))
NUM_VALUES = 101


def round_of(index: int = 0, *, seed: int = 3) -> UplinkContext:
    return UplinkContext(seed=seed, trials=(0,), round_index=index)


def updates(num_devices: int, *, seed: int = 1, num_values: int = NUM_VALUES) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sizes = rng.uniform(0.01, 0.1, (num_devices, 1))
    return (sizes * (0.3 + rng.normal(size=(num_devices, num_values)))).astype(np.float32)


def there_and_back(code: ValueScheme, values: np.ndarray, *, context: UplinkContext | None = None) -> np.ndarray:
    """What the server reads of values `[K, M]`, without scaling and with every bit right."""
    scheme = ValueCoder(code, num_values=values.shape[1])
    devices, where = np.arange(len(values)), context or round_of()
    payload = scheme.encode(values.astype(np.float32), devices=devices, context=where)
    return scheme.decode(payload, devices=devices, context=where)
