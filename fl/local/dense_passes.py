"""Samples on their way through a stack of dense layers and back, as parts of kernels: matrix products by BLAS.

Layer l has x_l `[m, n_l]` going in, z_l = x_l W_l + b_l, and g_l `[m, n_(l+1)]` coming back, the gradient of each
sample's loss by z_l. The gradient of sample i is x_il g_il^T for W_l and g_il for b_l. With mu/2 ||w||^2 in its loss it
is v = (x_il g_il^T, g_il)_l + mu w, of length

    ||v||^2 = sum_l ||g_l||^2 (||x_l||^2 + 1) + 2 mu sum_l <z_l, g_l> + mu^2 ||w||^2,

Goodfellow 2015, Efficient per-example gradient computations. It is clipped to G, Li et al. 2025 (3).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fl.base.arrays import F32, F64, I64, U32
from fl.models.layer_stack import LayerStack
from phy.numerics.blas import product, product_of_transposed, product_with_transposed, sgemm_address
from phy.numerics.compiled import aligned_zeros, inlined, read_only, spliced
from phy.numerics.threefry import threefry
from phy.numerics.vectors import add, clear, dot, multiply, scale_by

MOST_ROWS = 96
"""Samples that go through the network at once, at most."""
MOST_LANES = 16
"""Places beyond the samples in arrays of one number per sample."""
_RANDOM_LAYERS = np.uint32(4096)
"""As in `fl.local.forward`: counters of dropout."""
CODES = {None: 0, "relu": 1, "tanh": 2, "sigmoid": 3, "gelu": 4}
"""Numbers of activations in kernels."""
_NOTHING = np.float32(0.0)
_ROOT_HALF, _DENSITY = np.float32(math.sqrt(0.5)), np.float32(1.0 / math.sqrt(2.0 * math.pi))


class Net(NamedTuple):
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


class Scratch(NamedTuple):
    """Arrays of a thread for some samples: pixels, and of all units z, f(z), the slope f'(z), and what comes back.

    One layer of all samples lies behind the other. `words` are those of one sample, `gradient` is that of a device.
    Per sample, `squares` and `inners` are what convolutions in front add to ||v||^2 and to its product with the
    weights, and `factors` shorten v.
    """

    pixels: F32
    linear: F32
    outputs: F32
    slopes: F32
    backs: F32
    gradient: F32
    words: U32
    squares: F64
    inners: F64
    factors: F32


def net_of(stack: LayerStack) -> Net:
    layers = stack.layers
    units = np.array([layer.units for layer in layers], np.int64)
    sizes = np.array([layer.num_parameters for layer in layers], np.int64)
    numbers = (
        np.array([layer.inputs for layer in layers], np.int64),
        units,
        np.array([layer.bias for layer in layers], np.int64),
        np.array([CODES[layer.activation] for layer in layers], np.int64),
        stack.num_parameters - int(sizes.sum()) + np.cumsum(sizes) - sizes,  # behind those of convolutions
        np.cumsum(units) - units,
        np.array([round(layer.dropout * 2.0**32) for layer in layers], np.uint32),
        np.array([1.0 / (1.0 - layer.dropout) for layer in layers], np.float32),
        np.array([layer.random_layer for layer in layers], np.uint32),
    )
    return Net(sgemm_address(), *(read_only(part) for part in numbers))


def scratch_of(stack: LayerStack, rows: int, size: int) -> Scratch:
    """Of `rows` samples, with a gradient of `size` numbers."""
    units, padded = rows * sum(layer.units for layer in stack.layers), rows + MOST_LANES
    linear, outputs, slopes, backs = (aligned_zeros(units, np.float32) for _ in range(4))
    return Scratch(
        pixels=aligned_zeros(stack.layers[0].inputs * rows, np.float32),
        linear=linear,
        outputs=outputs,
        slopes=slopes,
        backs=backs,
        gradient=aligned_zeros(size, np.float32),
        words=aligned_zeros(max(layer.inputs for layer in stack.layers) + 1, np.uint32),
        squares=np.zeros(padded, np.float64),
        inners=np.zeros(padded, np.float64),
        factors=np.zeros(padded, np.float32),
    )


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


@spliced
def activate(code: Any, linear: Any, outputs: Any, slopes: Any) -> None:
    """f and f' of `linear`, for the number `code` of an activation."""
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


@inlined
def _fill(key0: Any, key1: Any, index: Any, first: Any, second: Any) -> None:
    for p in range(len(first)):
        first[p], second[p] = threefry(key0, key1, np.uint32(p), index)


@spliced
def draw(key0: Any, key1: Any, sample: Any, layer: Any, words: Any, count: Any) -> None:
    """Words of dropout of `count` entries: all first words of the pairs, and then all second ones."""
    pairs, index = (count + 1) // 2, np.uint32(np.uint32(sample) * _RANDOM_LAYERS + layer)
    _fill(key0, key1, index, words[:pairs], words[pairs : 2 * pairs])


@inlined
def _drop(words: Any, limit: Any, factor: Any, values: Any) -> None:
    for p in range(len(values)):
        values[p] = values[p] * factor if words[p] >= limit else np.float32(0.0)


@spliced
def forward(net: Any, weights: Any, rows: Any, key0: Any, key1: Any, first: Any, drops: Any, scratch: Any) -> None:
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
                own = slice(at + row * width, at + (row + 1) * width)
                draw(key0, key1, first + row, net.random_layers[layer], words, width)
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
            activate(net.activations[layer], linear, outputs, slopes)


@spliced
def backward(net: Any, weights: Any, rows: Any, scratch: Any) -> None:
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
def clip_gradients(net: Any, rule: Any, rows: Any, square_of_weights: Any, scratch: Any) -> Any:
    """Shorten the gradient of each sample; return the sum of the factors, and how many gradients were longer."""
    share, longer, mu = np.float32(0.0), 0, np.float64(rule.l2)
    for row in range(rows):
        square, inner = scratch.squares[row], scratch.inners[row]
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
        scratch.factors[row] = factor
        share += factor
    return share, longer


@spliced
def sum_gradients(net: Any, rows: Any, begins: Any, scratch: Any) -> None:
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
