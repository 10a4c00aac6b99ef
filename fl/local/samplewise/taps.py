"""Taps: what goes into each layer with weights and what comes out of it, so that one backward pass serves all samples.

Where the gradient with respect to an output is known, `norms.py` has the rest. Samples of D devices lie one
after the other, `[D m, ...]`, so that a layer without weights needs to know nothing of devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fl.local.samplewise.norms import Window, ghost_squared_norms, prefers_ghost, summed_product, weighted_sums

Sums = Mapping[int, Any]
"""Per variable, by its identity: sum over the samples of each device `[D, *shape]`."""


class Tap(Protocol):
    """One layer that is linear in its parameters, or is so up to a summand without any."""

    @property
    def output(self) -> Any:
        """z, `[D m, ...]`: what the gradient is taken with respect to."""
        ...

    @property
    def linear_part(self) -> Any:
        """z without what would be left of it if all parameters were zero."""
        ...

    @property
    def variables(self) -> list[Any]:
        """The layer's trainable variables."""
        ...

    @property
    def entries(self) -> int:
        """Numbers held per sample beside inputs and outputs."""
        ...

    def squared_norms(self, back: Any) -> tuple[Any, Callable[[Any, int], Sums]]:
        """||dloss_i / dparameters||^2 `[D m]` from dloss_i / dz_i, and the sum of them with weights c `[D m]`.

        The second takes (c, D).
        """
        ...


def inner_products(tap: Tap, back: Any) -> Any:
    """<parameters, dloss_i / dparameters> `[D m]` = <z_i, dloss_i / dz_i> for a z that is linear in the parameters."""
    import tensorflow as tf

    return tf.reduce_sum(_flat(tap.linear_part * back), axis=1)


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
        """See `Tap`."""
        return self.output

    @property
    def variables(self) -> list[Any]:
        """See `Tap`."""
        return [variable for variable in (self.kernel, self.bias) if variable is not None]

    @property
    def entries(self) -> int:
        """See `Tap`: patches or gradients, whichever are made."""
        positions: int = math.prod(self.output.shape[1:-1])
        fan_in: int = math.prod(self.kernel.shape[:-1])
        fan_out = int(self.output.shape[-1])
        if prefers_ghost(positions=positions, fan_in=fan_in, fan_out=fan_out):
            return positions * (fan_in + fan_out + 2 * positions) if positions > 1 else fan_out
        channels = int(self.inputs.shape[-1])
        seen = channels if self.window is None or channels >= _THIN else fan_in
        return 2 * fan_in * fan_out + 2 * positions * seen

    def squared_norms(self, back: Any) -> tuple[Any, Callable[[Any, int], Sums]]:
        """See `Tap`."""
        import tensorflow as tf

        fan_out = back.shape[-1]
        fan_in = math.prod(self.kernel.shape[:-1])
        rows_back = tf.reshape(back, [back.shape[0], -1, fan_out])
        over_positions = tf.reduce_sum(rows_back, axis=1)
        norms = tf.reduce_sum(tf.square(over_positions), axis=1) if self.bias is not None else 0.0
        rows = per_sample = None
        if prefers_ghost(positions=rows_back.shape[1], fan_in=fan_in, fan_out=fan_out):
            rows = self._rows()
            norms += ghost_squared_norms(rows, rows_back)
        else:
            per_sample = self._per_sample(back, rows_back)
            norms += tf.reduce_sum(tf.square(per_sample), axis=1)

        def summed(weights: Any, num_devices: int) -> Sums:
            shape = [num_devices, *self.kernel.shape]
            if per_sample is None:
                weighted = rows_back * weights[:, None, None]
                kernel = summed_product(rows, weighted, num_devices=num_devices)
            else:
                kernel = weighted_sums(per_sample, weights, num_devices=num_devices)
            sums = {id(self.kernel): tf.reshape(kernel, shape)}
            if self.bias is not None:
                sums[id(self.bias)] = weighted_sums(over_positions, weights, num_devices=num_devices)
            return sums

        return norms, summed

    def _rows(self) -> Any:
        import tensorflow as tf

        if self.window is not None:
            return self.window.patches(self.inputs)
        return tf.reshape(self.inputs, [self.inputs.shape[0], -1, self.inputs.shape[-1]])

    def _per_sample(self, back: Any, rows_back: Any) -> Any:
        import tensorflow as tf

        # Few channels make thin products: one over all patches is faster then.
        if self.window is not None and self.inputs.shape[-1] >= _THIN:
            return _flat(self.window.per_sample_gradients(self.inputs, back))
        return _flat(tf.matmul(self._rows(), rows_back, transpose_a=True))


_THIN = 8


@dataclass(frozen=True, kw_only=True)
class ScaleTap:
    """z_i = gamma x^_i + beta along the last axis: group normalisation after the normalising."""

    output: Any
    normalised: Any
    scale: Any | None
    offset: Any | None

    @property
    def linear_part(self) -> Any:
        """See `Tap`."""
        return self.output if self.scale is not None else self.output - self.normalised

    @property
    def variables(self) -> list[Any]:
        """See `Tap`."""
        return [variable for variable in (self.scale, self.offset) if variable is not None]

    @property
    def entries(self) -> int:
        """See `Tap`: what normalising leaves behind."""
        return int(4 * math.prod(self.output.shape[1:]))

    def squared_norms(self, back: Any) -> tuple[Any, Callable[[Any, int], Sums]]:
        """See `Tap`."""
        import tensorflow as tf

        inner = list(range(1, len(back.shape) - 1))
        gradients = {}
        if self.scale is not None:
            gradients[id(self.scale)] = tf.reduce_sum(back * self.normalised, axis=inner)
        if self.offset is not None:
            gradients[id(self.offset)] = tf.reduce_sum(back, axis=inner)
        norms = tf.add_n([tf.reduce_sum(tf.square(gradient), axis=1) for gradient in gradients.values()])

        def summed(weights: Any, num_devices: int) -> Sums:
            return {
                variable: weighted_sums(gradient, weights, num_devices=num_devices)
                for variable, gradient in gradients.items()
            }

        return norms, summed


def _flat(values: Any) -> Any:
    import tensorflow as tf

    return tf.reshape(values, [values.shape[0], -1])
