"""E local steps of every device of a round, many devices in each compiled call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U32
from fl.base.checkpoints import Kept
from fl.data.arrays import ImageData
from fl.data.partition.split import Partition
from fl.local.config import LocalConfig
from fl.local.gradients import Gradient, compile_gradient
from fl.local.samples import Batches, Slices, folded_keys, slices
from fl.models.federated import FederatedModel
from fl.models.layer_stack import LayerStack
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import Purpose, round_keys
from phy.numerics.workers import available_threads

_ADAM_EPSILON = 1e-7
"""As in Keras."""


@lru_cache(maxsize=4)
def compile_update(config: LocalConfig) -> Any:
    """A compiled step of D devices: `update(weights, total, counts, anchor, state, taken, active)`.

    With g = total / count + rho (w - w_global) (FedProx), eta = `learning_rate`, times phi / (`taken` + phi) where
    phi = `decay_steps` is given:

    - gd: w <- w - eta g;
    - sgd: v <- momentum v + g, w <- w - eta v;
    - adam: m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2,
      w <- w - eta sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + 1e-7), t = `taken` + 1 (Kingma and Ba 2015).

    `weights`, `total` (sum over the batch), `anchor` (w_global) and each of `state` are float32 `[D, M]`, `counts`
    (samples in the batch) float32 `[D]`, `taken` (steps before) float32 `[D]`, `active` bool `[D]`: the others keep
    weights and state.
    """
    eta, rho, phi = config.learning_rate, config.proximal, config.decay_steps

    @tf.function(autograph=False)
    def update(
        weights: Any, total: Any, counts: Any, anchor: Any, state: tuple[Any, ...], taken: Any, active: Any
    ) -> Any:
        gradient = total / counts[:, None]
        if rho > 0.0:
            gradient += rho * (weights - anchor)
        moved: tuple[Any, ...] = ()
        if config.optimizer == "adam":
            first, second = state
            first = config.beta1 * first + (1.0 - config.beta1) * gradient
            second = config.beta2 * second + (1.0 - config.beta2) * tf.square(gradient)
            times = taken + 1.0
            rate = eta * tf.sqrt(1.0 - config.beta2**times) / (1.0 - config.beta1**times)
            step = rate[:, None] * first / (tf.sqrt(second) + _ADAM_EPSILON)
            moved = (first, second)
        elif state:
            velocity = config.momentum * state[0] + gradient
            step, moved = eta * velocity, (velocity,)
        else:
            step = eta * gradient
        if phi is not None:
            step *= (phi / (taken + phi))[:, None]
        keep = active[:, None]
        kept = tuple(tf.where(keep, new, old) for new, old in zip(moved, state, strict=True))
        return tf.where(keep, weights - step, weights), kept

    return update


_MEMORY_BYTES = 192 << 20
_MOST_DEVICES = 64
_MOST_ROWS = 512
_MOST_CREWS = 4
"""Crews at work at once, each on a thread of its own: a device's numbers hang on none of the others."""
_PLACES_AT_ONCE = 1 << 21
"""Positions of samples that a kernel is given at once."""
_CREW_BYTES = 16 << 20
"""Least memory for several workers [B]: below, a call costs more than its work."""


@dataclass(frozen=True, kw_only=True)
class LocalOutcome:
    """What K' devices come back with.

    - `weights` float32 `[K', M]`; not finite where training diverged;
    - `loss` `[K']`: mean loss of the first step's samples at the weights received, with mu/2 ||w||^2 where there is l2;
    - `clipped_share` `[K']`: share of the per-sample gradients that were longer than G, over all steps; 0 without G.
    """

    weights: F32
    loss: F64
    clipped_share: F64


@dataclass(frozen=True, kw_only=True)
class _Crew:
    """Devices that share a call: `rows` where they stand in the round's list, padded by repeats after `count`."""

    rows: I64
    count: int
    slices: Slices


@dataclass(frozen=True, kw_only=True)
class _KernelBatch:
    """What a kernel is given of the devices `rows` of a round's list: fields that `Task` and `LayerTask` share."""

    rows: slice
    task: dict[str, Any]


class LocalTrainer(Kept):
    """Local training of one trial, Li et al. 2025 (3); momentum and Adam's moments live here, per device.

    What a device computes depends on (seed, trial, round, device), its samples and weights alone: samples that fill up
    a slice and devices that fill up a call add nothing. The same call gives the same bits on a CPU.
    """

    kept = ("_taken", "_moments")

    def __init__(
        self,
        model: FederatedModel,
        *,
        config: LocalConfig,
        data: ImageData,
        partition: Partition,
        seed: int,
        trial: int,
    ) -> None:
        self._model, self._config, self._data = model, config, data
        self._seed, self._trial = seed, trial
        self._classes = model.linear_classes if config.in_kernels else None
        self._stack = model.layer_stack if config.in_layer_kernel else None
        self._sizes = np.asarray(partition.sizes, np.int64)
        self._samples = np.concatenate(partition.devices)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._labels: NDArray[Any] = data.y_train.astype(np.int32 if data.unit is None else np.float32)
        self._taken = np.zeros(len(self._sizes), np.int64)
        shape = (len(self._sizes), model.num_parameters)
        self._moments = {name: np.zeros(shape, np.float32) for name in config.states}

    @cached_property
    def _gradient(self) -> Gradient:
        """Not where a kernel trains: the dry run that counts its cost takes longer than a round there."""
        return compile_gradient(self._model, local=self._config, scale=self._data.scale, shift=self._data.shift)

    def train(self, weights: F32, *, devices: I64, round_index: int, steps: I64 | None = None) -> LocalOutcome:
        """Train `devices` `[K']`, all different, from `weights`, `[M]` for all or `[K', M]`, for E or `steps` `[K']`.

        FedProx pulls to the weights given.
        """
        devices = np.asarray(devices, np.int64)
        steps = np.full(len(devices), self._config.steps) if steps is None else np.asarray(steps, np.int64)
        if not self._config.keep_state:
            self._taken[devices] = 0
            for rows in self._moments.values():
                rows[devices] = 0.0
        out = LocalOutcome(
            weights=np.empty((len(devices), self._model.num_parameters), np.float32),
            loss=np.empty(len(devices)),
            clipped_share=np.empty(len(devices)),
        )
        if self._classes is not None:
            self._train_linear(self._classes, weights, devices, steps, round_index, out)
            return out
        if self._stack is not None:
            self._train_layers(self._stack, weights, devices, steps, round_index, out)
            return out

        # After one step all have weights of their own.
        together = weights.ndim == 1 and self._gradient.shared is not None and not (steps > 1).any()

        def train(crew: _Crew) -> None:
            start = weights[None] if together else np.broadcast_to(weights, out.weights.shape)[crew.rows]
            ends, first_loss, share = self._train_crew(crew, start, devices[crew.rows], steps[crew.rows], round_index)
            place = crew.rows[: crew.count]
            out.weights[place], out.loss[place] = ends[: crew.count], first_loss[: crew.count]
            out.clipped_share[place] = share[: crew.count]

        crews = list(self._crews(devices, together=together))
        for crew in crews[:1]:
            train(crew)  # alone, because it compiles
        with ThreadPoolExecutor(min(available_threads(), _MOST_CREWS)) as pool:
            list(pool.map(train, crews[1:]))
        return out

    def _round_key(self, purpose: Purpose, round_index: int) -> U32:
        return np.asarray(round_keys(self._seed, (self._trial,), purpose, round_index)[0])

    def _train_linear(
        self, classes: int, weights: F32, devices: I64, steps: I64, round_index: int, out: LocalOutcome
    ) -> None:
        """Train softmax regression in `fl.local.linear_kernel`, some devices at once."""
        from fl.local.linear_kernel import Rule, Task, train_linear

        config, data = self._config, self._data
        clip = np.inf if config.clip is None else config.clip
        rates = config.learning_rate, config.momentum, config.l2, config.proximal
        rule = Rule(*(np.float32(one) for one in (*rates, clip, data.scale, data.shift)))
        velocity = self._moments.get("momentum")
        for batch in self._kernel_batches(weights, devices, steps, round_index):
            rows, mine = batch.rows, devices[batch.rows]
            moving = None if velocity is None else velocity[mine]
            out.loss[rows], out.clipped_share[rows] = train_linear(
                rule, Task(**batch.task, labels=self._labels), classes=classes, velocity=moving, out=out.weights[rows]
            )
            if velocity is not None:
                velocity[mine] = moving
        self._taken[devices] += steps

    def _train_layers(
        self, stack: LayerStack, weights: F32, devices: I64, steps: I64, round_index: int, out: LocalOutcome
    ) -> None:
        """Train a stack of layers in `fl.local.layer_kernel`, some devices at once."""
        from fl.local.layer_kernel import LayerTask, rule_of, train_layers

        moments = tuple(self._moments.values())
        rule = rule_of(self._config, scale=self._data.scale, shift=self._data.shift)
        dropout_key = self._round_key(Purpose.DROPOUT, round_index)
        for batch in self._kernel_batches(weights, devices, steps, round_index):
            rows, mine = batch.rows, devices[batch.rows]
            count = int(steps[rows].max()) if stack.has_dropout else 0
            keys = folded_keys(dropout_key, np.repeat(np.arange(count), len(mine)), np.tile(mine, count))
            task = LayerTask(**batch.task, taken=self._taken[mine], keys=keys.reshape(count, len(mine), 2), rows=mine)
            out.loss[rows], out.clipped_share[rows] = train_layers(
                rule, task, self._labels, stack=stack, moments=moments, out=out.weights[rows]
            )
        self._taken[devices] += steps

    def _kernel_batches(self, weights: F32, devices: I64, steps: I64, round_index: int) -> Iterator[_KernelBatch]:
        """Yield what kernels are given, for as many devices at once as the places of their samples fit in memory."""
        config, data, sizes = self._config, self._data, self._sizes[devices]
        weights = weights.astype(np.float32, copy=False)
        if not len(devices):
            return
        key = self._round_key(Purpose.LOCAL_TRAINING, round_index)
        full = config.batch_size is None  # the same batch in every step
        widths = sizes if config.batch_size is None else np.minimum(sizes, config.batch_size)
        height = max(_PLACES_AT_ONCE // int(widths.max() * (1 if full else steps.max())), 1)
        for first in range(0, len(devices), height):
            rows = slice(first, first + height)
            mine, width = devices[rows], int(widths[rows].max())
            batches = Batches(key=key, devices=mine, sizes=sizes[rows], batch_size=config.batch_size)
            places, counts = zip(
                *(batches.at(step, width=width) for step in range(1 if full else int(steps[rows].max()))), strict=True
            )
            task = {
                "images": data.x_train.reshape(len(data.x_train), -1),
                "start": weights[None] if weights.ndim == 1 else weights[rows],
                "samples": self._samples[self._starts[mine][:, None] + np.stack(places)],
                "counts": np.stack(counts),
                "steps": steps[rows],
            }
            yield _KernelBatch(rows=rows, task=task)

    def _train_crew(self, crew: _Crew, start: F32, devices: I64, steps: I64, round_index: int) -> tuple[F32, F64, F64]:
        """Weights, losses and shares of what is clipped; `start` `[1, M]` for all takes one step."""
        key, dropout_key = (self._round_key(of, round_index) for of in (Purpose.LOCAL_TRAINING, Purpose.DROPOUT))
        batches = Batches(key=key, devices=devices, sizes=self._sizes[devices], batch_size=self._config.batch_size)
        width = crew.slices.rows * crew.slices.count
        update, anchor = compile_update(self._config), tf.constant(start, tf.float32)
        weights = anchor
        state = tuple(tf.constant(rows[devices]) for rows in self._moments.values())
        first_loss = np.zeros(len(devices))
        longer, seen = np.zeros(len(devices)), np.zeros(len(devices))
        for step in range(int(steps.max())):
            position, counts = batches.at(step, width=width)
            keys = tf.constant(folded_keys(dropout_key, np.full(len(devices), step), devices))
            total, loss, over = self._sum_over_slices(crew.slices, weights, devices, position, counts, keys)
            active, samples = step < steps, tf.constant(counts, tf.float32)
            taken = tf.constant(self._taken[devices] + step, tf.float32)
            weights, state = update(weights, total, samples, anchor, state, taken, tf.constant(active))
            if step == 0:
                first_loss = loss / counts
            longer, seen = longer + active * over, seen + active * counts
        mine = devices[: crew.count]
        self._taken[mine] += steps[: crew.count]
        for rows, moved in zip(self._moments.values(), state, strict=True):
            rows[mine] = moved.numpy()[: crew.count]
        return weights.numpy(), first_loss, longer / seen

    def _sum_over_slices(
        self, cut: Slices, weights: Any, devices: I64, position: I64, counts: I64, keys: Any
    ) -> tuple[Any, F64, F64]:
        """Sum of gradients `[D, M]`, of losses `[D]`, and number clipped `[D]`, over all samples of a step."""
        samples = self._samples[self._starts[devices][:, None] + position]
        mask = (np.arange(position.shape[1]) < counts[:, None]).astype(np.float32)
        total, loss, over = None, np.zeros(len(devices)), np.zeros(len(devices))
        shared = self._gradient.shared if weights.shape[0] < len(devices) else None
        call = self._gradient.call if shared is None else shared
        for first in range(0, position.shape[1], cut.rows):
            part = samples[:, first : first + cut.rows]
            images, labels = tf.constant(self._data.x_train[part]), tf.constant(self._labels[part])
            counted, number = tf.constant(mask[:, first : first + cut.rows]), tf.constant(first, tf.uint32)
            gradient, losses, longer = call(weights, images, labels, counted, number, keys)
            total = gradient if total is None else total + gradient
            loss, over = loss + losses.numpy(), over + longer.numpy()
        return total, loss, over

    def _crews(self, devices: I64, *, together: bool) -> Iterator[_Crew]:
        """Devices whose slices have one shape, as many at a time as memory allows; calls have always the same shape.

        `together`: networks with convolutions, too, take several at a time.
        """
        cost, batch = self._gradient, self._config.batch_size
        rows_at_once = min(_MOST_ROWS, max(1, _MEMORY_BYTES // cost.sample_bytes))
        taken = self._sizes if batch is None else np.minimum(self._sizes, batch)
        alike: Counter[Slices] = Counter()
        for size, how_many in zip(*np.unique(taken, return_counts=True), strict=True):
            alike[slices(int(size), rows_at_once=rows_at_once)] += int(how_many)
        kinds: dict[Slices, list[int]] = {}
        for row, size in enumerate(taken[devices]):
            kinds.setdefault(slices(int(size), rows_at_once=rows_at_once), []).append(row)
        for cut, rows in kinds.items():
            width = 1
            if cost.devices or (together and cut.rows > 1):  # a product with one row is another operation
                each = cost.device_bytes + cut.rows * cost.sample_bytes
                shared_out = max(-(-alike[cut] // _MOST_CREWS), -(-_CREW_BYTES // each))
                width = int(min(max(1, _MEMORY_BYTES // each), _MOST_DEVICES, alike[cut], shared_out))
            for first in range(0, len(rows), width):
                part = rows[first : first + width]
                yield _Crew(rows=np.array(part + part[:1] * (width - len(part)), np.int64), count=len(part), slices=cut)
