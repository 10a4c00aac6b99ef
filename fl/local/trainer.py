"""E local steps of every device of a round, many devices in each compiled call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config.local import LocalConfig
from fl.data.arrays import ImageData
from fl.local.gradients import Gradient, compile_gradient
from fl.local.linear import linear_steps
from fl.local.optimizers import compile_update, state_names
from fl.local.samples import Batches, Slices, folded_keys, slices
from fl.models.federated import FederatedModel
from fl.partition.split import Partition
from fl.tasks.base import LearningError
from phy.numerics.random import Purpose, round_keys
from phy.numerics.workers import available_threads

_MEMORY_BYTES = 192 << 20
_MOST_DEVICES = 64
_MOST_ROWS = 512
_MOST_CREWS = 4
"""Crews at work at once, each on a thread of its own: a device's numbers hang on none of the others."""
_CREW_BYTES = 16 << 20
"""What a crew works on at least: below, a call costs more than what is in it."""


@dataclass(frozen=True, kw_only=True)
class LocalOutcome:
    """What K' devices come back with.

    - `weights` float32 `[K', M]`; not finite where training diverged;
    - `loss` `[K']`: mean loss of the first step's samples at the weights received, with mu/2 ||w||^2 where there is l2;
    - `clipped_share` `[K']`: share of the per-sample gradients that were longer than G, over all steps; 0 without G.
    """

    weights: NDArray[np.float32]
    loss: NDArray[np.float64]
    clipped_share: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Crew:
    """Devices that share a call: `rows` where they stand in the round's list, padded by repeats after `count`."""

    rows: NDArray[np.int64]
    count: int
    slices: Slices


class LocalTrainer:
    """Local training of one trial, Li et al. 2025 (3); momentum and Adam's moments live here, per device.

    What a device computes depends on (seed, trial, round, device), its samples and weights alone: samples that fill up
    a slice and devices that fill up a call add nothing, and shapes follow from the device's own number of samples.
    The same call gives the same bits in the same process setting on a CPU; another `memory_bytes` cuts sums elsewhere
    and so may round differently. On a GPU, equal bits take `tf.config.experimental.enable_op_determinism()`.
    """

    def __init__(
        self,
        model: FederatedModel,
        *,
        config: LocalConfig,
        data: ImageData,
        partition: Partition,
        seed: int,
        trial: int,
        memory_bytes: int = _MEMORY_BYTES,
    ) -> None:
        """Raises LearningError where the network does not fit the images or the labels."""
        _check_fit(model, data)
        self._model, self._config, self._data = model, config, data
        self._seed, self._trial, self._memory = seed, trial, memory_bytes
        self._linear = linear_steps(model, config=config, data=data)
        self._sizes = np.asarray(partition.sizes, np.int64)
        self._samples = np.concatenate(partition.devices)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._labels = np.asarray(data.y_train, np.int32)
        self._taken = np.zeros(len(self._sizes), np.int64)
        shape = (len(self._sizes), model.num_parameters)
        self._state = {name: np.zeros(shape, np.float32) for name in state_names(config)}

    @cached_property
    def _gradient(self) -> Gradient:
        """Not where the kernel trains: the dry run that counts its cost takes longer than a round there."""
        config, data = self._config, self._data
        return compile_gradient(self._model, scale=data.scale, shift=data.shift, clip=config.clip, l2=config.l2)

    @cached_property
    def _update(self) -> Any:
        return compile_update(self._config)

    def train(
        self,
        weights: NDArray[np.float32],
        *,
        devices: NDArray[np.int64],
        round_index: int,
        steps: NDArray[np.int64] | None = None,
    ) -> LocalOutcome:
        """Train `devices` `[K']` from `weights`, `[M]` for all or `[K', M]`, for E or `steps` `[K']` steps each.

        FedProx pulls to the weights given. Raises LearningError for shapes that do not fit, for devices that are not
        there or come twice, and for steps below 1.
        """
        devices = np.asarray(devices, np.int64)
        steps = np.full(len(devices), self._config.steps) if steps is None else np.asarray(steps, np.int64)
        self._check_call(weights, devices, steps)
        if not self._config.keep_state:
            self._forget(devices)
        out = np.empty((len(devices), self._model.num_parameters), np.float32)
        if self._linear is not None:
            loss, clipped = self._train_linear(weights, devices=devices, round_index=round_index, steps=steps, out=out)
            return LocalOutcome(weights=out, loss=loss, clipped_share=clipped)
        loss, clipped = np.empty(len(devices)), np.empty(len(devices))

        def train(crew: _Crew) -> None:
            start = np.broadcast_to(weights, (len(devices), weights.shape[-1]))[crew.rows].astype(np.float32)
            ends, first_loss, share = self._train_crew(crew, start, devices[crew.rows], steps[crew.rows], round_index)
            place = crew.rows[: crew.count]
            out[place], loss[place], clipped[place] = (part[: crew.count] for part in (ends, first_loss, share))

        crews = list(self._crews(devices))
        for crew in crews[:1]:
            train(crew)  # alone, because it compiles
        with ThreadPoolExecutor(min(available_threads(), _MOST_CREWS)) as pool:
            for done in pool.map(train, crews[1:]):
                assert done is None
        return LocalOutcome(weights=out, loss=loss, clipped_share=clipped)

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of what devices keep from round to round: steps taken `[K]`, and `[K, M]` per optimiser state."""
        return {"taken": self._taken.copy(), **{name: rows.copy() for name, rows in self._state.items()}}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to what `state` gave. Raises LearningError for the state of another trainer."""
        here: dict[str, NDArray[Any]] = {"taken": self._taken, **self._state}
        if {name: rows.shape for name, rows in state.items()} != {name: rows.shape for name, rows in here.items()}:
            raise LearningError(
                f"the state holds {sorted(state)} of another trainer, this one keeps {sorted(here)} of "
                f"{len(self._sizes)} devices and {self._model.num_parameters} parameters; restore the state of this run"
            )
        for name, rows in here.items():
            rows[:] = state[name]

    def _train_linear(
        self,
        weights: NDArray[np.float32],
        *,
        devices: NDArray[np.int64],
        round_index: int,
        steps: NDArray[np.int64],
        out: NDArray[np.float32],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        assert self._linear is not None
        found = self._linear.train(
            weights.astype(np.float32, copy=False),
            devices=devices,
            sizes=self._sizes[devices],
            steps=steps,
            key=round_keys(self._seed, (self._trial,), Purpose.LOCAL_TRAINING, round_index)[0],
            samples=self._samples,
            starts=self._starts[devices],
            velocity=self._state.get("momentum"),
            out=out,
        )
        self._taken[devices] += steps
        return found

    def _train_crew(
        self,
        crew: _Crew,
        start: NDArray[np.float32],
        devices: NDArray[np.int64],
        steps: NDArray[np.int64],
        round_index: int,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        import tensorflow as tf

        order_key, dropout_key = (
            round_keys(self._seed, (self._trial,), purpose, round_index)[0]
            for purpose in (Purpose.LOCAL_TRAINING, Purpose.DROPOUT)
        )
        batches = Batches(
            key=order_key, devices=devices, sizes=self._sizes[devices], batch_size=self._config.batch_size
        )
        width = crew.slices.rows * crew.slices.count
        anchor = weights = tf.constant(start)
        state = tuple(tf.constant(rows[devices]) for rows in self._state.values())
        first_loss = np.zeros(len(devices))
        longer, seen = np.zeros(len(devices)), np.zeros(len(devices))
        for step in range(int(steps.max())):
            position, counts = batches.at(step, width=width)
            keys = tf.constant(folded_keys(dropout_key, np.full(len(devices), step), devices))
            total, loss, over = self._sum_over_slices(crew.slices, weights, devices, position, counts, keys)
            active = step < steps
            weights, state = self._update(
                weights,
                total,
                tf.constant(counts, tf.float32),
                anchor,
                state,
                tf.constant(self._taken[devices] + step, tf.float32),
                tf.constant(active),
            )
            if step == 0:
                first_loss = loss / counts
            longer, seen = longer + active * over, seen + active * counts
        mine = devices[: crew.count]
        self._taken[mine] += steps[: crew.count]
        for rows, moved in zip(self._state.values(), state, strict=True):
            rows[mine] = moved.numpy()[: crew.count]
        return weights.numpy(), first_loss, longer / seen

    def _sum_over_slices(
        self,
        cut: Slices,
        weights: Any,
        devices: NDArray[np.int64],
        position: NDArray[np.int64],
        counts: NDArray[np.int64],
        keys: Any,
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
        """Sum of gradients `[D, M]`, of losses `[D]`, and number clipped `[D]`, over all samples of a step."""
        import tensorflow as tf

        samples = self._samples[self._starts[devices][:, None] + position]
        mask = (np.arange(position.shape[1]) < counts[:, None]).astype(np.float32)
        total, loss, over = None, np.zeros(len(devices)), np.zeros(len(devices))
        for first in range(0, position.shape[1], cut.rows):
            part = samples[:, first : first + cut.rows]
            gradient, losses, longer = self._gradient.call(
                weights,
                tf.constant(self._data.x_train[part]),
                tf.constant(self._labels[part]),
                tf.constant(mask[:, first : first + cut.rows]),
                tf.constant(first, tf.uint32),
                keys,
            )
            total = gradient if total is None else total + gradient
            loss, over = loss + losses.numpy(), over + longer.numpy()
        return total, loss, over

    def _crews(self, devices: NDArray[np.int64]) -> Iterator[_Crew]:
        """Devices whose slices have one shape, as many at a time as memory allows; calls have always the same shape."""
        cost = self._gradient.cost
        batch = self._config.batch_size
        rows_at_once = min(_MOST_ROWS, max(1, self._memory // cost.sample_bytes))
        taken = self._sizes if batch is None else np.minimum(self._sizes, batch)
        alike: Counter[Slices] = Counter()
        for size, how_many in zip(*np.unique(taken, return_counts=True), strict=True):
            alike[slices(int(size), rows_at_once=rows_at_once)] += int(how_many)
        kinds: dict[Slices, list[int]] = {}
        for row, size in enumerate(taken[devices]):
            kinds.setdefault(slices(int(size), rows_at_once=rows_at_once), []).append(row)
        for cut, rows in kinds.items():
            width = 1
            if cost.devices:
                each = cost.device_bytes + cut.rows * cost.sample_bytes
                shared_out = max(-(-alike[cut] // _MOST_CREWS), -(-_CREW_BYTES // each))
                width = int(min(max(1, self._memory // each), _MOST_DEVICES, alike[cut], shared_out))
            for first in range(0, len(rows), width):
                part = rows[first : first + width]
                yield _Crew(rows=np.array(part + part[:1] * (width - len(part)), np.int64), count=len(part), slices=cut)

    def _forget(self, devices: NDArray[np.int64]) -> None:
        self._taken[devices] = 0
        for rows in self._state.values():
            rows[devices] = 0.0

    def _check_call(self, weights: NDArray[np.float32], devices: NDArray[np.int64], steps: NDArray[np.int64]) -> None:
        size, known = self._model.num_parameters, len(self._sizes)
        if weights.shape not in ((size,), (len(devices), size)):
            raise LearningError(
                f"weights have shape {weights.shape}; {len(devices)} devices take ({size},) or ({len(devices)}, {size})"
            )
        if devices.ndim != 1 or len(np.unique(devices)) != len(devices):
            raise LearningError("a device comes twice in one round; name every device once")
        strange = devices[(devices < 0) | (devices >= known)]
        if len(strange):
            raise LearningError(f"device {strange[0]} does not exist, the partition has {known}; name 0 to {known - 1}")
        if steps.shape != devices.shape or (len(steps) and steps.min() < 1):
            raise LearningError(f"local steps {steps.tolist()} for {len(devices)} devices; give each at least 1")


def _check_fit(model: FederatedModel, data: ImageData) -> None:
    takes, gives = tuple(model.network.input_shape[1:]), int(model.network.output_shape[-1])
    if takes != data.image_shape:
        raise LearningError(
            f"the network takes images of shape {takes}, the data has {data.image_shape}; build it for these"
        )
    if gives < data.num_classes:
        raise LearningError(
            f"the network gives {gives} logits for {data.num_classes} classes; widen its last layer to as many"
        )
