"""All local steps of convolutions and dense layers in one kernel: matrix products by BLAS, all else in its own loops.

What `fl.local.gradients` and `fl.local.trainer` compute in TensorFlow: the same sums and the same random numbers, with
roundings of their own. A device is trained alone, in slices whose size depends on its number of samples, so that its
numbers depend on its samples, their order and its weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U8, U32, Bools
from fl.local.config import LocalConfig
from fl.local.conv_front import front_of, front_scratch
from fl.local.conv_passes import (
    add_sums,
    clear_sums,
    front_backward,
    front_forward,
    load_block,
    norms_of_block,
    pack_weights,
    put_backs,
    take_features,
)
from fl.local.dense_passes import MOST_ROWS, backward, clip_gradients, forward, net_of, scratch_of, sum_gradients
from fl.models.layer_stack import LayerStack
from phy.numerics.blas import product_with_transposed
from phy.numerics.compiled import inlined, lean_kernel, read_only
from phy.numerics.lanes import LANES
from phy.numerics.vectors import copy, dot, load_line, softmax_residual, square_residual
from phy.numerics.workers import of_thread, run_tasks

Labels = NDArray[np.int32] | NDArray[np.float32]
"""Classes, or numbers to predict, of all samples."""

_PLAIN, _MOMENTUM, _ADAM = 0, 1, 2
"""Ways to step."""
_ADAM_EPSILON = np.float32(1e-7)
"""As in Keras."""


class LayerRule(NamedTuple):
    """One step, see `fl.local.trainer.compile_update`; no clipping: `clip` inf; no decay: `decay_steps` 0.

    Pixels are `scale` u + `shift`; `way` is `_PLAIN`, `_MOMENTUM` or `_ADAM`.
    """

    rate: np.float32
    decay_steps: np.float32
    momentum: np.float32
    beta1: np.float32
    rest1: np.float32
    beta2: np.float32
    rest2: np.float32
    l2: np.float32
    proximal: np.float32
    clip: np.float32
    scale: np.float32
    shift: np.float32
    way: int


def rule_of(config: LocalConfig, *, scale: float, shift: float) -> LayerRule:
    """The steps of `config` on pixels `scale` u + `shift`."""
    way = _ADAM if config.optimizer == "adam" else _MOMENTUM if config.states else _PLAIN
    return LayerRule(
        rate=np.float32(config.learning_rate),
        decay_steps=np.float32(config.decay_steps or 0.0),
        momentum=np.float32(config.momentum),
        beta1=np.float32(config.beta1),
        rest1=np.float32(1.0 - config.beta1),
        beta2=np.float32(config.beta2),
        rest2=np.float32(1.0 - config.beta2),
        l2=np.float32(config.l2),
        proximal=np.float32(config.proximal),
        clip=np.float32(np.inf if config.clip is None else config.clip),
        scale=np.float32(scale),
        shift=np.float32(shift),
        way=way,
    )


class LayerTask(NamedTuple):
    """Who trains on what: `images` `[N, P]` uint8 or float32, and per device

    - `start` `[1 or D, M]`: the same weights for all, or each its own;
    - `samples` `[1 or steps, D, width]`, of which the first `counts` `[1 or steps, D]` are a batch: the same in every
      step, or each its own; `steps` `[D]` taken, `taken` `[D]` before;
    - `keys` `[steps, D, 2]` of dropout, `[0, D, 2]` without;
    - `rows` `[D]` of the device in arrays of moments.
    """

    images: U8 | F32
    start: F32
    samples: I64
    counts: I64
    steps: I64
    taken: I64
    keys: U32
    rows: I64


_of_training, _of_scoring = of_thread(scratch_of), of_thread(scratch_of)


@of_thread
def _front_of_training(stack: LayerStack, rows: int, clips: bool) -> Any:
    blocks = -(-rows // LANES)
    return front_scratch(stack, blocks=blocks, kept_sums=blocks if clips else 1)


@of_thread
def _front_of_scoring(stack: LayerStack) -> Any:
    return front_scratch(stack, blocks=1, kept_sums=0)


@inlined
def _mean_gradient(rule: Any, per_sample: Any, pull: Any, anchor: Any, weights: Any, gradient: Any) -> None:
    for p in range(len(weights)):
        mean = (gradient[p] + pull * weights[p]) * per_sample
        gradient[p] = mean + rule.proximal * (weights[p] - anchor[p])


@inlined
def _move(rate: Any, gradient: Any, weights: Any) -> None:
    for p in range(len(weights)):
        weights[p] -= rate * gradient[p]


@inlined
def _move_on(rate: Any, momentum: Any, gradient: Any, velocity: Any, weights: Any) -> None:
    for p in range(len(weights)):
        velocity[p] = momentum * velocity[p] + gradient[p]
        weights[p] -= rate * velocity[p]


@inlined
def _move_by_moments(rate: Any, rule: Any, gradient: Any, first: Any, second: Any, weights: Any) -> None:
    for p in range(len(weights)):
        first[p] = rule.beta1 * first[p] + rule.rest1 * gradient[p]
        second[p] = rule.beta2 * second[p] + rule.rest2 * (gradient[p] * gradient[p])
        weights[p] -= rate * first[p] / (np.sqrt(second[p]) + _ADAM_EPSILON)


@lean_kernel
def _train(
    rule: Any, task: Any, labels: Any, targets: Any, net: Any, moments: Any, out: Any, losses: Any, clipped: Any,
    first: Any, last: Any, scratch: Any, front: Any, front_scratch: Any,
) -> None:  # fmt: skip
    """Devices `first` to `last`: `out` `[D, M]`, `losses`, `clipped` `[D]`; two `moments` `[K or 0, M]` move.

    One of `labels` `[N]` int32 and `targets` `[N]` float32 is None: numba removes code behind what is None, which
    `front` is where there are no convolutions.
    """
    clips, drops = rule.clip < np.float32(np.inf), len(task.keys) > 0
    pixels = task.images.shape[1]
    for device in range(first, last):
        weights, anchor = out[device], task.start[0 if len(task.start) == 1 else device]
        copy(anchor, weights)
        longer, seen = 0, 0
        for step in range(task.steps[device]):
            place = min(step, len(task.samples) - 1)
            count = task.counts[place, device]
            key0, key1 = np.uint32(0), np.uint32(0)
            if drops:
                key0, key1 = task.keys[step, device, 0], task.keys[step, device, 1]
            loss, share, square = 0.0, np.float32(0.0), 0.0
            if rule.l2 > np.float32(0.0):
                square = np.float64(dot(weights, weights))
            slices = max((count + MOST_ROWS - 1) // MOST_ROWS, 1)
            height = (count + slices - 1) // slices
            if front is not None:
                height = (height + LANES - 1) // LANES * LANES  # no lane is empty but in the last block
                pack_weights(front, weights, True, front_scratch)
                clear_sums(front_scratch)
            for begin in range(0, count, height):
                rows = min(height, count - begin)
                blocks = (rows + LANES - 1) // LANES
                # The pixels of a batch that never changes stay where they are, unless dropout left some out.
                if step == 0 or slices > 1 or len(task.samples) > 1 or (drops and net.limits[0] > np.uint32(0)):
                    if front is None:
                        for row in range(rows):
                            image = task.images[task.samples[place, device, begin + row]]
                            load_line(image, rule.scale, rule.shift, scratch.pixels[row * pixels : (row + 1) * pixels])
                    if front is not None:
                        for row in range(blocks * LANES):
                            image = task.images[task.samples[place, device, begin + min(row, rows - 1)]]
                            load_block(front, image, rule.scale, rule.shift, row, row < rows, front_scratch)
                if front is not None:
                    for block in range(blocks):
                        there = min(LANES, rows - block * LANES)
                        front_forward(front, block, there, key0, key1, begin + block * LANES, drops, front_scratch)
                        take_features(front, block, there, net.inputs[0], front_scratch, scratch.pixels)
                forward(net, weights, rows, key0, key1, begin, drops, scratch)
                units = net.units[-1]
                at = rows * net.units_at[-1]
                copy(scratch.outputs[at : at + rows * units], scratch.backs[at : at + rows * units])
                for row in range(rows):
                    sample = task.samples[place, device, begin + row]
                    if labels is not None:
                        loss += softmax_residual(
                            scratch.backs[at + row * units : at + (row + 1) * units], labels[sample]
                        )
                    if targets is not None:
                        loss += square_residual(
                            scratch.backs[at + row * units : at + (row + 1) * units], targets[sample]
                        )
                backward(net, weights, rows, scratch)
                if front is not None:
                    product_with_transposed(
                        net.address, scratch.backs, 0, weights, net.weights_at[0], front_scratch.features, 0,
                        (rows, net.units[0], net.inputs[0]),
                    )  # fmt: skip
                    if clips:
                        clear_sums(front_scratch)
                    for block in range(blocks):
                        put_backs(block, min(LANES, rows - block * LANES), net.inputs[0], front_scratch)
                        front_backward(front, block, block * front.sums_at[-1] if clips else 0, front_scratch)
                        if clips:
                            norms_of_block(
                                front, block, weights, rule.l2, scratch.squares, scratch.inners, front_scratch
                            )
                if clips:
                    factors, beyond = clip_gradients(net, rule, rows, square, scratch)
                    share += factors
                    longer += beyond
                sum_gradients(net, rows, begin == 0, scratch)
                if front is not None:
                    if clips:
                        for row in range(rows, blocks * LANES):
                            scratch.factors[row] = np.float32(0.0)
                        for block in range(blocks):
                            add_sums(
                                front, block, True, scratch.factors, begin + block == 0, scratch.gradient, front_scratch
                            )
                    elif begin + rows == count:
                        add_sums(front, 0, False, scratch.factors, True, scratch.gradient, front_scratch)
            if step == 0:
                losses[device] = loss / count + 0.5 * rule.l2 * square
            seen += count
            samples, before = np.float32(count), np.float32(task.taken[device] + step)
            pull = rule.l2 * (share if clips else samples)
            _mean_gradient(rule, np.float32(1.0) / samples, pull, anchor, weights, scratch.gradient)
            rate, kept = rule.rate, task.rows[device]
            if rule.decay_steps > np.float32(0.0):
                rate *= rule.decay_steps / (before + rule.decay_steps)
            if rule.way == _ADAM:
                times = before + np.float32(1.0)
                rate *= np.sqrt(np.float32(1.0) - rule.beta2**times) / (np.float32(1.0) - rule.beta1**times)
                _move_by_moments(rate, rule, scratch.gradient, moments[0][kept], moments[1][kept], weights)
            elif rule.way == _MOMENTUM:
                _move_on(rate, rule.momentum, scratch.gradient, moments[0][kept], weights)
            else:
                _move(rate, scratch.gradient, weights)
        clipped[device] = longer / seen


def _answers(labels: Labels) -> tuple[Labels | None, Labels | None]:
    """Classes and None, or None and numbers to predict."""
    given = read_only(labels)
    return (None, given) if labels.dtype.kind == "f" else (given, None)


def train_layers(
    rule: LayerRule, task: LayerTask, labels: Labels, *, stack: LayerStack, moments: Sequence[F32], out: F32
) -> tuple[F64, F64]:
    """Mean losses `[D]` of the first batch, and the share `[D]` of gradients longer than G, over all steps.

    The loss is cross-entropy for classes, `labels` `[N]` int32, and half the squared error of the first output for
    numbers, float32.

    Weights after all steps go into `out` `[D, M]`; `moments` are the velocity, or both of Adam, `[K, M]`
    each, and move at the `rows` of these devices.
    """
    devices = task.samples.shape[1]
    losses, clipped = np.zeros(devices), np.zeros(devices)
    given, net, front = LayerTask(*(read_only(part) for part in task)), net_of(stack), front_of(stack)
    none = np.zeros((0, stack.num_parameters), np.float32)
    moving = (*moments, none, none)[:2]
    rows = min(MOST_ROWS, int(task.counts.max()))
    clips = bool(rule.clip < np.inf)
    run_tasks(
        lambda first, last: _train(
            rule, given, *_answers(labels), net, moving, out, losses, clipped, first, last,
            _of_training(stack, rows, stack.num_parameters), front, _front_of_training(stack, rows, clips),
        ),
        num_tasks=devices,
    )  # fmt: skip
    return losses, clipped


@lean_kernel
def _score(
    data: Any, labels: Any, targets: Any, weights: Any, net: Any, samples: Any, bounds: Any, owners: Any, losses: Any,
    hits: Any, first: Any, last: Any, scratch: Any, front: Any, front_scratch: Any,
) -> None:  # fmt: skip
    images, scale, shift = data
    pixels, units = images.shape[1], net.units[-1]
    for part in range(first, last):
        begin, rows = bounds[part], bounds[part + 1] - bounds[part]
        given = weights[0 if len(weights) == 1 else owners[part]]
        if front is None:
            for row in range(rows):
                own = scratch.pixels[row * pixels : (row + 1) * pixels]
                load_line(images[samples[begin + row]], scale, shift, own)
        if front is not None:
            if part == first or (len(weights) > 1 and owners[part] != owners[part - 1]):
                pack_weights(front, given, False, front_scratch)
            for block in range((rows + LANES - 1) // LANES):
                there, start = min(LANES, rows - block * LANES), begin + block * LANES
                for lane in range(LANES):
                    image = images[samples[start + min(lane, there - 1)]]
                    load_block(front, image, scale, shift, lane, lane < there, front_scratch)
                front_forward(front, 0, there, np.uint32(0), np.uint32(0), 0, False, front_scratch)
                place = block * LANES * net.inputs[0]
                take_features(
                    front, 0, there, net.inputs[0], front_scratch,
                    scratch.pixels[place : place + there * net.inputs[0]],
                )  # fmt: skip
        forward(net, given, rows, np.uint32(0), np.uint32(0), 0, False, scratch)
        for row in range(rows):
            at = rows * net.units_at[-1] + row * units
            logits, sample = scratch.outputs[at : at + units], samples[begin + row]
            if labels is not None:
                best = 0
                for c in range(units):
                    if logits[c] > logits[best]:
                        best = c
                hits[begin + row] = best == labels[sample]
                losses[begin + row] = softmax_residual(logits, labels[sample])
            if targets is not None:
                hits[begin + row] = False
                losses[begin + row] = square_residual(logits, targets[sample])


def score_layers(
    stack: LayerStack,
    weights: F32,
    images: U8 | F32,
    labels: Labels,
    *,
    samples: I64,
    sizes: I64,
    line: tuple[float, float],
) -> tuple[F32, Bools]:
    """Cross-entropy of each sample, and True where its label has the highest logit, the first of equals.

    Of numbers to predict, float32 `labels`, half the squared error, and never True.

    `weights` `[D, M]`, or `[1, M]` for all, score `samples` in turn, `sizes` `[D]` each; `line` is scale and shift of
    pixels scale u + shift.
    """
    parts = -(-sizes // MOST_ROWS)
    owners = np.repeat(np.arange(len(sizes)), parts)
    order = np.arange(len(owners)) - np.repeat(np.cumsum(parts) - parts, parts)
    height = -(-sizes // np.maximum(parts, 1))
    ends = np.minimum((order + 1) * height[owners], sizes[owners]) + (np.cumsum(sizes) - sizes)[owners]
    bounds = np.concatenate([[0], ends])
    losses, hits = np.empty(len(samples), np.float32), np.empty(len(samples), np.bool_)
    net, front = net_of(stack), front_of(stack)
    data = read_only(images), *(np.float32(one) for one in line)
    given = tuple(read_only(part) for part in (samples, bounds, owners))
    run_tasks(
        lambda first, last: _score(
            data, *_answers(labels), read_only(weights), net, *given, losses, hits, first, last,
            _of_scoring(stack, MOST_ROWS, 0), front, _front_of_scoring(stack),
        ),
        num_tasks=len(owners),
        cost_us=5e-5 * len(samples) * stack.num_parameters,
    )  # fmt: skip
    return losses, hits
