"""From a point to its batches: the one place of a link study that runs the radio."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scenarios.engine.batch import start_tensorflow
from scenarios.schema.errors import ScenarioError
from scenarios.studies.link.batches import Measured

if TYPE_CHECKING:
    from scenarios.studies.link.plan import BatchShape, Curve, LinkPoint


class PointRadio:
    """A compiled link at one level; batch b is a pure function of (seed, b).

    Transmission t of batch b is trial b T + t of the seed, T transmissions a batch, in its round 0: with its own
    fades, positions, noise and random payload whatever the coherence. All points of a study meet the same of these, so
    that curves are compared on common random numbers.
    """

    def __init__(self, curve: Curve, point: LinkPoint, *, seed: int) -> None:
        start_tensorflow()
        from phy.compile import compile_digital
        from phy.links.link import LinkError

        self._shape, self._seed, self._num_devices = curve.shape, seed, curve.num_devices
        try:
            self._uplink = compile_digital(point.link, num_devices=curve.num_devices, num_bits=curve.shape.num_bits)
        except LinkError as error:
            problem, _, remedy = str(error).partition("; ")
            raise ScenarioError(
                problem=f"{problem} (on the curve {curve.label})", remedy=remedy or "choose another link", key="link"
            ) from error

    def batch(self, number: int) -> Measured:
        """Send batch `number` and count."""
        from phy.fading.block_taps import UplinkContext

        started = time.perf_counter()
        first = number * self._shape.transmissions
        trials = tuple(range(first, first + self._shape.transmissions))
        context = UplinkContext(seed=self._seed, trials=trials, round_index=0)
        payload = random_payload(self._seed, trials, num_devices=self._num_devices, shape=self._shape)
        reception = self._uplink.send(payload, context=context, caps={})
        seconds = time.perf_counter() - started
        return Measured.of(reception.counts, bursts=reception.bursts, num_bits=self._shape.num_bits, seconds=seconds)


def random_payload(seed: int, trials: tuple[int, ...], *, num_devices: int, shape: BatchShape) -> NDArray[np.uint8]:
    """Packed random bits `[transmissions, num_devices, num_bits / 8]`; packets are whole bytes."""
    from phy.numerics.random import Purpose, round_keys, uniform_words

    num_bytes = shape.num_bits // 8
    keys = round_keys(seed, trials, Purpose.PROBE_BITS, 0)
    words = uniform_words(keys, num_devices=num_devices, num_words=-(-num_bytes // 4))
    return np.ascontiguousarray(np.ascontiguousarray(words).view(np.uint8)[..., :num_bytes])
