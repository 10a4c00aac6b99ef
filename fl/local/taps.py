"""Norms and weighted sums of per-sample gradients of one layer, from what goes in and what comes back.

For a layer that is linear in its parameters, sample i has a_i `[P, d]` going in (P positions: 1 for a dense layer on
vectors, the output pixels of a convolution) and g_i = d loss_i / d z_i `[P, o]` coming back; its gradients are
a_i^T g_i `[d, o]` for the kernel and sum_p g_i for the bias. Their norms follow without them:

- P = 1: ||a_i||^2 ||g_i||^2 (Goodfellow 2015, Efficient per-example gradient computations);
- few positions: sum of (a_i a_i^T) * (g_i g_i^T), P x P each (Bu et al. 2022, mixed ghost clipping);
- many: the gradients themselves, which are then smaller than what they are made of.

Samples of D devices lie one after the other, `[D m, ...]`. What goes in and comes back is float32 or bfloat16, as are
gradients of samples. Norms, factors and sums are float32, so that a clipped gradient has the norm G.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fl.local.convolution import Window, kernel_gradient
from phy.numerics.lazy_tensorflow import tf

_THIN = 8
"""Input channels below which a product per row of the kernel is faster than thin products per place."""

Sums = Mapping[int, Any]
"""Per variable, by its identity: sum over the samples of each device `[D, *shape]`."""

Norms = tuple[Any, Callable[[Any, int], Sums]]
"""||dloss_i / dparameters||^2 `[D m]`, and a function of (c `[D m]`, D): the sum of the gradients with weights c."""


@dataclass(frozen=True, kw_only=True)
class LinearTap:
    """z_i = a_i W + b: dense layers, and convolutions with `window` through their patches."""

    output: Any
    inputs: Any
    kernel: Any
    bias: Any | None
    window: Window | None = None

    @property
    def linear_part(self) -> Any:
        """z without what would be left of it if all parameters were zero."""
        return self.output

    @property
    def variables(self) -> list[Any]:
        """The layer's trainable variables."""
        return [variable for variable in (self.kernel, self.bias) if variable is not None]

    @property
    def entries(self) -> int:
        """Numbers held per sample beside inputs and outputs: patches or gradients, whichever are made."""
        positions, fan_out = int(math.prod(self.output.shape[1:-1])), int(self.output.shape[-1])
        fan_in = int(math.prod(self.kernel.shape[:-1]))
        if prefers_ghost(positions=positions, fan_in=fan_in, fan_out=fan_out):
            return positions * (fan_in + fan_out + 2 * positions) if positions > 1 else fan_out
        seen = fan_in if self.window is None else fan_in // self.window.kernel[0]
        return 2 * fan_in * fan_out + 2 * positions * seen

    def squared_norms(self, back: Any) -> Norms:
        """Return the norms from `back`, dloss_i / dz_i, and the weighted sums of the gradients."""
        rows_back = tf.reshape(back, [back.shape[0], -1, back.shape[-1]])
        over_positions = _float32(tf.reduce_sum(rows_back, axis=1))
        norms = tf.reduce_sum(tf.square(over_positions), axis=1) if self.bias is not None else 0.0
        rows: Any = None
        per_sample: Any = None
        fan_in = math.prod(self.kernel.shape[:-1])
        if prefers_ghost(positions=rows_back.shape[1], fan_in=fan_in, fan_out=back.shape[-1]):
            rows, rows_back = _float32(tf.concat(self._seen(joined=True), axis=2)), _float32(rows_back)
            norms += _ghost_squared_norms(rows, rows_back)
        else:
            seen = self._seen(joined=self.inputs.shape[-1] < _THIN)
            products = [tf.matmul(part, rows_back, transpose_a=True) for part in seen]
            per_sample = _float32(_flat(tf.stack(products, axis=1)))
            norms += tf.reduce_sum(tf.square(per_sample), axis=1)

        def summed(weights: Any, num_devices: int) -> Sums:
            if per_sample is None:
                weighted = rows_back * weights[:, None, None]
                tall = [tf.reshape(part, [num_devices, -1, part.shape[-1]]) for part in (rows, weighted)]
                kernel = tf.matmul(tall[0], tall[1], transpose_a=True)
            else:
                kernel = _weighted_sums(per_sample, weights, num_devices)
            sums = {id(self.kernel): tf.reshape(kernel, [num_devices, *self.kernel.shape])}
            if self.bias is not None:
                sums[id(self.bias)] = _weighted_sums(over_positions, weights, num_devices)
            return sums

        return norms, summed

    def sums(self, back: Any, num_devices: int) -> Sums:
        """The sum of the gradients of the samples of each device, from `back`, dloss_i / dz_i."""
        inputs, backs = (tf.split(part, num_devices) for part in (self.inputs, back))
        if self.window is None:
            tall = [tf.reshape(part, [num_devices, -1, part.shape[-1]]) for part in (self.inputs, back)]
            kernel = tf.matmul(*tall, transpose_a=True)
        else:
            own = zip(inputs, backs, strict=True)
            kernel = tf.stack([kernel_gradient(*one, self.window, shape=self.kernel.shape) for one in own])
        sums = {id(self.kernel): _float32(kernel)}
        if self.bias is not None:
            each = tf.stack([tf.reduce_sum(one, axis=range(len(one.shape) - 1)) for one in backs])
            sums[id(self.bias)] = _float32(each)
        return sums

    def _seen(self, *, joined: bool) -> list[Any]:
        """a in pieces `[N, P, ..]` of d, as `Window.seen` cuts it."""
        if self.window is not None:
            return self.window.seen(self.inputs, self.output.shape[1:3], joined=joined)
        return [tf.reshape(self.inputs, [self.inputs.shape[0], -1, self.inputs.shape[-1]])]


@dataclass(frozen=True, kw_only=True)
class ScaleTap:
    """z_i = gamma x^_i + beta along the last axis: group normalisation after the normalising."""

    output: Any
    normalised: Any
    scale: Any | None
    offset: Any | None

    @property
    def linear_part(self) -> Any:
        return self.output if self.scale is not None else self.output - self.normalised

    @property
    def variables(self) -> list[Any]:
        return [variable for variable in (self.scale, self.offset) if variable is not None]

    @property
    def entries(self) -> int:
        """Numbers that normalising leaves behind, per sample."""
        return int(4 * math.prod(self.output.shape[1:]))

    def squared_norms(self, back: Any) -> Norms:
        inner = list(range(1, len(back.shape) - 1))
        gradients = {}
        if self.scale is not None:
            gradients[id(self.scale)] = tf.reduce_sum(back * self.normalised, axis=inner)
        if self.offset is not None:
            gradients[id(self.offset)] = tf.reduce_sum(back, axis=inner)
        norms = tf.add_n([tf.reduce_sum(tf.square(gradient), axis=1) for gradient in gradients.values()])
        return norms, lambda weights, num_devices: {
            variable: _weighted_sums(gradient, weights, num_devices) for variable, gradient in gradients.items()
        }


Tap: TypeAlias = LinearTap | ScaleTap
"""One layer that is linear in its parameters, or is so up to a summand without any, with its output z `[D m, ...]`."""


def inner_products(tap: Tap, back: Any) -> Any:
    """<parameters, dloss_i / dparameters> `[D m]` = <z_i, dloss_i / dz_i> for a z that is linear in the parameters."""
    return tf.reduce_sum(_flat(tap.linear_part * back), axis=1)


def prefers_ghost(*, positions: int, fan_in: int, fan_out: int) -> bool:
    """True if the P x P products cost less than the gradients of all samples: P (d + o) < d o, or P = 1."""
    return positions == 1 or positions * (fan_in + fan_out) < fan_in * fan_out


def _ghost_squared_norms(rows: Any, back: Any) -> Any:
    """||a_i^T g_i||^2, `[N]`, from `rows` a `[N, P, d]` and `back` g `[N, P, o]`."""
    if rows.shape[1] == 1:
        return tf.reduce_sum(tf.square(rows), axis=(1, 2)) * tf.reduce_sum(tf.square(back), axis=(1, 2))
    inputs = tf.matmul(rows, rows, transpose_b=True)
    return tf.reduce_sum(inputs * tf.matmul(back, back, transpose_b=True), axis=(1, 2))


def _weighted_sums(per_sample: Any, weights: Any, num_devices: int) -> Any:
    """sum_i c_i v_i over the samples of each device, `[D, size]`, from v `[N, size]` and c `[N]`."""
    rows = tf.reshape(per_sample, [num_devices, -1, per_sample.shape[-1]])
    return tf.matmul(tf.reshape(weights, [num_devices, 1, -1]), rows)[:, 0]


def _float32(values: Any) -> Any:
    return tf.cast(values, tf.float32)


def _flat(values: Any) -> Any:
    return tf.reshape(values, [values.shape[0], -1])
