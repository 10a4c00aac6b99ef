"""All local steps of a stack of dense layers in one kernel: matrix products by BLAS, all else in loops of its own.

What `fl.local.gradients` and `fl.local.trainer` compute in TensorFlow: the same sums and the same random numbers, with
roundings of their own. A device is trained alone, in slices whose size depends on its number of samples, so that its
numbers depend on its samples, their order and its weights alone.

Layer l has x_l `[m, n_l]` going in, z_l = x_l W_l + b_l, and g_l `[m, n_(l+1)]` coming back, the gradient of each
sample's loss by z_l. The gradient of sample i is x_il g_il^T for W_l and g_il for b_l. With mu/2 ||w||^2 in its loss it
is v = (x_il g_il^T, g_il)_l + mu w, of length

    ||v||^2 = sum_l ||g_l||^2 (||x_l||^2 + 1) + 2 mu sum_l <z_l, g_l> + mu^2 ||w||^2,

Goodfellow 2015, Efficient per-example gradient computations. It is clipped to G, Li et al. 2025 (3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fl.arrays import F32, F64, I64, U8, U32, Bools
from fl.config.local import LocalConfig
from fl.models.dense_stack import DenseStack
from phy.numerics.blas import product, product_of_transposed, product_with_transposed, sgemm_address
from phy.numerics.compiled import aligned_zeros, inlined, lean_kernel, read_only, spliced
from phy.numerics.threefry import threefry
from phy.numerics.vectors import add, clear, copy, dot, load_line, multiply, scale_by, softmax_residual
from phy.numerics.workers import of_thread, run_tasks

_MOST_ROWS = 96
"""Samples that go through the network at once, at most."""
_RANDOM_LAYERS = np.uint32(4096)
"""As in `fl.local.forward`: counters of dropout."""
_CODES = {None: 0, "relu": 1, "tanh": 2, "sigmoid": 3, "gelu": 4}
_PLAIN, _MOMENTUM, _ADAM = 0, 1, 2
"""Ways to step."""
_ADAM_EPSILON = np.float32(1e-7)
"""As in Keras."""
_NOTHING = np.float32(0.0)
_ROOT_HALF, _DENSITY = np.float32(math.sqrt(0.5)), np.float32(1.0 / math.sqrt(2.0 * math.pi))


class Rule(NamedTuple):
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


def rule_of(config: LocalConfig, *, scale: float, shift: float) -> Rule:
    """The steps of `config` on pixels `scale` u + `shift`."""
    way = _ADAM if config.optimizer == "adam" else _MOMENTUM if config.states else _PLAIN
    return Rule(
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


class Task(NamedTuple):
    """Who trains on what: `images` `[N, P]` uint8, `labels` `[N]` int32, and per device

    - `start` `[1 or D, M]`: the same weights for all, or each its own;
    - `samples` `[1 or steps, D, width]`, of which the first `counts` `[1 or steps, D]` are a batch: the same in every
      step, or each its own; `steps` `[D]` taken, `taken` `[D]` before;
    - `keys` `[steps, D, 2]` of dropout, `[0, D, 2]` without;
    - `rows` `[D]` of the device in arrays of moments.
    """

    images: U8
    labels: NDArray[np.int32]
    start: F32
    samples: I64
    counts: I64
    steps: I64
    taken: I64
    keys: U32
    rows: I64


class _Net(NamedTuple):
    """A stack as numbers: per layer its sizes, where its weights and its units lie, and its dropout.

    Entries of a layer's input are kept where a word is not below `limits`, times `factors`.
    """

    address: int
    inputs: I64
    units: I64
    biases: I64
    activations: I64
    weights_at: I64
    units_at: I64
    limits: U32
    factors: F32
    random_layers: U32


class _Scratch(NamedTuple):
    """Arrays of a thread for some samples: pixels, and of all units z, f(z), the slope f'(z), and what comes back.

    One layer of all samples lies behind the other. `words` are those of one sample, `gradient` is that of a device.
    """

    pixels: F32
    linear: F32
    outputs: F32
    slopes: F32
    backs: F32
    gradient: F32
    words: U32


def _net(stack: DenseStack) -> _Net:
    layers = stack.layers
    units = np.array([layer.units for layer in layers], np.int64)
    sizes = np.array([layer.num_parameters for layer in layers], np.int64)
    numbers = (
        np.array([layer.inputs for layer in layers], np.int64),
        units,
        np.array([layer.bias for layer in layers], np.int64),
        np.array([_CODES[layer.activation] for layer in layers], np.int64),
        np.cumsum(sizes) - sizes,
        np.cumsum(units) - units,
        np.array([round(layer.dropout * 2.0**32) for layer in layers], np.uint32),
        np.array([1.0 / (1.0 - layer.dropout) for layer in layers], np.float32),
        np.array([layer.random_layer for layer in layers], np.uint32),
    )
    return _Net(sgemm_address(), *(read_only(part) for part in numbers))


def _scratch(stack: DenseStack, rows: int, size: int) -> _Scratch:
    """Of `rows` samples, with a gradient of `size` numbers."""
    units = rows * sum(layer.units for layer in stack.layers)
    linear, outputs, slopes, backs = (aligned_zeros(units, np.float32) for _ in range(4))
    return _Scratch(
        pixels=aligned_zeros(stack.layers[0].inputs * rows, np.float32),
        linear=linear,
        outputs=outputs,
        slopes=slopes,
        backs=backs,
        gradient=aligned_zeros(size, np.float32),
        words=aligned_zeros(max(layer.inputs for layer in stack.layers) + 1, np.uint32),
    )


_of_training, _of_scoring = of_thread(_scratch), of_thread(_scratch)


@inlined
def _identity(linear: Any, outputs: Any, slopes: Any) -> None:
    for c in range(len(linear)):
        outputs[c], slopes[c] = linear[c], np.float32(1.0)


@inlined
def _relu(linear: Any, outputs: Any, slopes: Any) -> None:
    for c in range(len(linear)):
        z = linear[c]
        outputs[c] = np.float32(0.0) if z <= np.float32(0.0) else z  # what is not a number stays
        slopes[c] = np.float32(0.0) if z <= np.float32(0.0) else np.float32(1.0)


@inlined
def _tanh(linear: Any, outputs: Any, slopes: Any) -> None:
    for c in range(len(linear)):
        outputs[c] = np.tanh(linear[c])
        slopes[c] = np.float32(1.0) - outputs[c] * outputs[c]


@inlined
def _sigmoid(linear: Any, outputs: Any, slopes: Any) -> None:
    for c in range(len(linear)):
        outputs[c] = np.float32(1.0) / (np.float32(1.0) + np.exp(-linear[c]))
        slopes[c] = outputs[c] * (np.float32(1.0) - outputs[c])


@inlined
def _gelu(linear: Any, outputs: Any, slopes: Any) -> None:
    for c in range(len(linear)):
        z = linear[c]
        below = np.float32(0.5) * (np.float32(1.0) + np.float32(math.erf(z * _ROOT_HALF)))
        outputs[c] = z * below
        slopes[c] = below + z * _DENSITY * np.exp(np.float32(-0.5) * z * z)


@inlined
def _fill(key0: Any, key1: Any, index: Any, first: Any, second: Any) -> None:
    for p in range(len(first)):
        first[p], second[p] = threefry(key0, key1, np.uint32(p), index)


@spliced
def _draw(key0: Any, key1: Any, index: Any, words: Any, count: Any) -> None:
    """Words of `count` entries: all first words of the pairs, and then all second ones."""
    pairs = (count + 1) // 2
    _fill(key0, key1, index, words[:pairs], words[pairs : 2 * pairs])


@inlined
def _drop(words: Any, limit: Any, factor: Any, values: Any) -> None:
    for p in range(len(values)):
        values[p] = values[p] * factor if words[p] >= limit else np.float32(0.0)


@spliced
def _forward(net: Any, weights: Any, rows: Any, key0: Any, key1: Any, first: Any, drops: Any, scratch: Any) -> None:
    """z, f(z) and slopes of all layers for `rows` samples, `first` the number of the first one in its step.

    What dropout leaves out has no slope; without `drops` there is no dropout.
    """
    last = len(net.units) - 1
    for layer in range(last + 1):
        width, units = net.inputs[layer], net.units[layer]
        values, at = scratch.pixels, 0
        if layer > 0:
            values, at = scratch.outputs, rows * net.units_at[layer - 1]
        if drops and net.limits[layer] > np.uint32(0):
            limit, factor, words = net.limits[layer], net.factors[layer], scratch.words
            for row in range(rows):
                index = np.uint32(np.uint32(first + row) * _RANDOM_LAYERS + net.random_layers[layer])
                own = slice(at + row * width, at + (row + 1) * width)
                _draw(key0, key1, index, words, width)
                _drop(words, limit, factor, values[own])
                if layer > 0:
                    _drop(words, limit, factor, scratch.slopes[own])
        start, linear_at = net.weights_at[layer], rows * net.units_at[layer]
        product(net.address, values, at, weights, start, scratch.linear, linear_at, (rows, width, units), _NOTHING)
        biases_at = start + width * units
        for row in range(rows):
            own = slice(linear_at + row * units, linear_at + (row + 1) * units)
            linear, outputs, slopes = scratch.linear[own], scratch.outputs[own], scratch.slopes[own]
            if net.biases[layer]:
                add(weights[biases_at : biases_at + units], linear)
            code = net.activations[layer]
            if code == 0:
                _identity(linear, outputs, slopes)
            elif code == 1:
                _relu(linear, outputs, slopes)
            elif code == 2:
                _tanh(linear, outputs, slopes)
            elif code == 3:
                _sigmoid(linear, outputs, slopes)
            else:
                _gelu(linear, outputs, slopes)


@spliced
def _backward(net: Any, weights: Any, rows: Any, scratch: Any) -> None:
    """g of all layers, from what comes back to the outputs of the last."""
    for back in range(len(net.units)):
        layer = len(net.units) - 1 - back
        units, at = net.units[layer], rows * net.units_at[layer]
        own = slice(at, at + rows * units)
        multiply(scratch.slopes[own], scratch.backs[own])
        if layer > 0:
            width, before = net.inputs[layer], rows * net.units_at[layer - 1]
            product_with_transposed(
                net.address, scratch.backs, at, weights, net.weights_at[layer], scratch.backs, before,
                (rows, units, width),
            )  # fmt: skip


@spliced
def _clipped(net: Any, rule: Any, rows: Any, square_of_weights: Any, scratch: Any) -> Any:
    """Shorten the gradient of each sample; return the sum of the factors, and how many gradients were longer."""
    share, longer, mu = np.float32(0.0), 0, np.float64(rule.l2)
    for row in range(rows):
        square, inner = 0.0, 0.0
        for layer in range(len(net.units)):
            width, units = net.inputs[layer], net.units[layer]
            at = rows * net.units_at[layer] + row * units
            back, inputs = scratch.backs[at : at + units], scratch.pixels[row * width : (row + 1) * width]
            if layer > 0:
                start = rows * net.units_at[layer - 1] + row * width
                inputs = scratch.outputs[start : start + width]
            square += np.float64(dot(back, back)) * (np.float64(dot(inputs, inputs)) + net.biases[layer])
            if rule.l2 > np.float32(0.0):
                inner += np.float64(dot(scratch.linear[at : at + units], back))
        if rule.l2 > np.float32(0.0):
            square = max(square + 2.0 * mu * inner + mu * mu * square_of_weights, 0.0)  # rounding of a norm of zero
        norm, factor = np.sqrt(square), np.float32(1.0)
        if norm > rule.clip:
            factor = np.float32(rule.clip / norm)
            longer += 1
            for layer in range(len(net.units)):
                at = rows * net.units_at[layer] + row * net.units[layer]
                scale_by(factor, scratch.backs[at : at + net.units[layer]])
        share += factor
    return share, longer


@spliced
def _sum_gradients(net: Any, rows: Any, begins: Any, scratch: Any) -> None:
    """Add the gradients of all samples up; `begins` clears the sum first."""
    keep = np.float32(0.0) if begins else np.float32(1.0)
    for layer in range(len(net.units)):
        width, units, start = net.inputs[layer], net.units[layer], net.weights_at[layer]
        at, values, values_at = rows * net.units_at[layer], scratch.pixels, 0
        if layer > 0:
            values, values_at = scratch.outputs, rows * net.units_at[layer - 1]
        product_of_transposed(
            net.address, values, values_at, scratch.backs, at, scratch.gradient, start, (width, rows, units), keep
        )
        if net.biases[layer]:
            sums = scratch.gradient[start + width * units : start + (width + 1) * units]
            if begins:
                clear(sums)
            for row in range(rows):
                add(scratch.backs[at + row * units : at + (row + 1) * units], sums)


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
    rule: Any, task: Any, net: Any, moments: Any, out: Any, losses: Any, clipped: Any, first: Any, last: Any,
    scratch: Any,
) -> None:  # fmt: skip
    """Devices `first` to `last`: `out` `[D, M]`, `losses`, `clipped` `[D]`; two `moments` `[K or 0, M]` move."""
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
            slices = max((count + _MOST_ROWS - 1) // _MOST_ROWS, 1)
            height = (count + slices - 1) // slices
            for begin in range(0, count, height):
                rows = min(height, count - begin)
                # The pixels of a batch that never changes stay where they are, unless dropout left some out.
                if step == 0 or slices > 1 or len(task.samples) > 1 or (drops and net.limits[0] > np.uint32(0)):
                    for row in range(rows):
                        image = task.images[task.samples[place, device, begin + row]]
                        load_line(image, rule.scale, rule.shift, scratch.pixels[row * pixels : (row + 1) * pixels])
                _forward(net, weights, rows, key0, key1, begin, drops, scratch)
                units = net.units[-1]
                at = rows * net.units_at[-1]
                copy(scratch.outputs[at : at + rows * units], scratch.backs[at : at + rows * units])
                for row in range(rows):
                    label = task.labels[task.samples[place, device, begin + row]]
                    loss += softmax_residual(scratch.backs[at + row * units : at + (row + 1) * units], label)
                _backward(net, weights, rows, scratch)
                if clips:
                    factors, beyond = _clipped(net, rule, rows, square, scratch)
                    share += factors
                    longer += beyond
                _sum_gradients(net, rows, begin == 0, scratch)
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


def train_dense(rule: Rule, task: Task, *, stack: DenseStack, moments: Sequence[F32], out: F32) -> tuple[F64, F64]:
    """Mean losses `[D]` of the first batch, and the share `[D]` of gradients longer than G, over all steps.

    Weights after all steps go into `out` `[D, M]`; `moments` are the velocity, or both of Adam, `[K, M]`
    each, and move at the `rows` of these devices.
    """
    devices = task.samples.shape[1]
    losses, clipped = np.zeros(devices), np.zeros(devices)
    given, net = Task(*(read_only(part) for part in task)), _net(stack)
    none = np.zeros((0, stack.num_parameters), np.float32)
    moving = (*moments, none, none)[:2]
    rows = min(_MOST_ROWS, int(task.counts.max()))
    run_tasks(
        lambda first, last: _train(
            rule, given, net, moving, out, losses, clipped, first, last, _of_training(stack, rows, stack.num_parameters)
        ),
        num_tasks=devices,
    )
    return losses, clipped


@lean_kernel
def _score(
    data: Any, weights: Any, net: Any, samples: Any, bounds: Any, owners: Any, losses: Any, hits: Any, first: Any,
    last: Any, scratch: Any,
) -> None:  # fmt: skip
    images, labels, scale, shift = data
    pixels, units = images.shape[1], net.units[-1]
    for part in range(first, last):
        begin, rows = bounds[part], bounds[part + 1] - bounds[part]
        for row in range(rows):
            own = scratch.pixels[row * pixels : (row + 1) * pixels]
            load_line(images[samples[begin + row]], scale, shift, own)
        given = weights[0 if len(weights) == 1 else owners[part]]
        _forward(net, given, rows, np.uint32(0), np.uint32(0), 0, False, scratch)
        for row in range(rows):
            at = rows * net.units_at[-1] + row * units
            logits, label = scratch.outputs[at : at + units], labels[samples[begin + row]]
            best = 0
            for c in range(units):
                if logits[c] > logits[best]:
                    best = c
            hits[begin + row] = best == label
            losses[begin + row] = softmax_residual(logits, label)


def score_dense(
    stack: DenseStack,
    weights: F32,
    images: U8,
    labels: NDArray[np.int32],
    *,
    samples: I64,
    sizes: I64,
    line: tuple[float, float],
) -> tuple[F32, Bools]:
    """Cross-entropy of each sample, and True where its label has the highest logit, the first of equals.

    `weights` `[D, M]`, or `[1, M]` for all, score `samples` in turn, `sizes` `[D]` each; `line` is scale and shift of
    pixels scale u + shift.
    """
    parts = -(-sizes // _MOST_ROWS)
    owners = np.repeat(np.arange(len(sizes)), parts)
    order = np.arange(len(owners)) - np.repeat(np.cumsum(parts) - parts, parts)
    height = -(-sizes // np.maximum(parts, 1))
    ends = np.minimum((order + 1) * height[owners], sizes[owners]) + (np.cumsum(sizes) - sizes)[owners]
    bounds = np.concatenate([[0], ends])
    losses, hits, net = np.empty(len(samples), np.float32), np.empty(len(samples), np.bool_), _net(stack)
    data = read_only(images), read_only(labels), *(np.float32(one) for one in line)
    given = tuple(read_only(part) for part in (samples, bounds, owners))
    run_tasks(
        lambda first, last: _score(
            data, read_only(weights), net, *given, losses, hits, first, last,
            _of_scoring(stack, _MOST_ROWS, 0),
        ),
        num_tasks=len(owners),
        cost_us=5e-5 * len(samples) * stack.num_parameters,
    )  # fmt: skip
    return losses, hits
