"""The forward pass of a Keras network with weights of one's own, per device, that taps the layers which have weights.

Networks of the layers below are walked through, layer by layer; every other one is left to `fl/local/gradients.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from fl.local.convolution import Window, convolve
from fl.local.rounding import rounded, rounded_weights
from fl.local.taps import LinearTap, ScaleTap, Tap
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import threefry

_MOST_RANDOM_LAYERS = 4096


@dataclass(kw_only=True)
class Pass:
    """One forward pass of D devices with m samples each, as it is traced.

    - `parts`: variable (by identity) to weights `[D, *shape]`;
    - `tape`: watches the output of each tap, where gradients are wanted;
    - `keys`: of dropout, uint32 `[D, 2]`, one per (seed, trial, round, step, device); None at test;
    - `first`: number of the first sample of the slice in its step;
    - `precision`: number format of what convolutions and dense layers multiply and return;
    - `rounds`: these layers multiply and return float32 rounded to bfloat16, see `fl/local/rounding.py`;
    - `taps`, `random_layers`, `entries` (numbers in all layers' outputs): filled in on the way.
    """

    parts: Mapping[int, Any]
    num_devices: int
    tape: Any | None = None
    keys: Any | None = None
    first: Any | None = None
    precision: str = "float32"
    rounds: bool = False
    taps: list[Tap] = field(default_factory=list)
    random_layers: int = 0
    entries: int = 0

    def keep(self, tap: Tap) -> Any:
        """Watch the tap's output and return what the next layer gets."""
        if self.tape is not None:
            self.tape.watch(tap.output)
        self.taps.append(tap)
        return rounded(tap.output) if self.rounds and isinstance(tap, LinearTap) else tap.output

    def operands(self, layer: Any, inputs: Any) -> tuple[Any, ...]:
        """Return inputs, kernels and biases (of all devices) as convolutions and dense layers multiply them."""
        kernel, bias = (None if v is None else self.parts[id(v)] for v in (layer.kernel, layer.bias))
        if self.rounds:
            weights = (None if v is None else rounded_weights(v) for v in (kernel, bias))
            return rounded(inputs), *weights
        return tuple(None if v is None else tf.cast(v, self.precision) for v in (inputs, kernel, bias))


def can_walk(network: Any) -> bool:
    """True if every layer is known here, has no weights, or is a network of such layers."""
    return _is_graph(network) and all(
        can_walk(layer) if _is_graph(layer) else _rule(layer) is not None or not layer.variables
        for layer in network.layers
    )


def has_convolutions(network: Any) -> bool:
    """True if some layer's weights cannot be stacked over devices in one call."""
    return any(has_convolutions(layer) if _is_graph(layer) else _rule(layer) is _conv for layer in network.layers)


def walk(network: Any, images: Any, run: Pass) -> Any:
    """Logits `[D m, outputs]` of `images` `[D m, H, W, C]`."""
    import keras

    if isinstance(network, keras.Sequential):
        for layer in network.layers:
            images = _step(layer, run)(images)
        return images
    return network._run_through_graph([images], operation_fn=lambda operation: _step(operation, run))


def _is_graph(layer: Any) -> bool:
    """Keras's own Functional or Sequential: a subclass may call its layers as it likes."""
    import keras

    return isinstance(layer, keras.Sequential | keras.Function) and type(layer).__module__.startswith("keras.")


def _step(operation: Any, run: Pass) -> Callable[..., Any]:
    if _is_graph(operation):
        return lambda images, **_: walk(operation, images, run)
    rule = _rule(operation)
    if rule is None:
        if run.precision != "float32":
            operation.autocast = False  # Keras turns bfloat16 into float32 in layers without weights too
        mode = {"training": run.keys is not None} if getattr(operation, "_call_has_training_arg", False) else {}
        return lambda *inputs, **options: _counted(operation(*inputs, **{**options, **mode}), run)
    return lambda inputs, **_: _counted(rule(operation, inputs, run), run)


def _counted(output: Any, run: Pass) -> Any:
    run.entries += output.shape.num_elements()
    return output


def _rule(layer: Any) -> Callable[[Any, Any, Pass], Any] | None:
    """(layer, input, pass) to output of a known layer; exact types, for a subclass may do anything."""
    import keras

    kinds = keras.layers
    kind = type(layer)
    if kind is kinds.Dense and _owns(layer, layer.kernel, layer.bias):
        return _dense
    if kind is kinds.Conv2D and layer.groups == 1 and layer.data_format == "channels_last":
        return _conv if _owns(layer, layer.kernel, layer.bias) else None
    if kind is kinds.GroupNormalization and layer.axis in (-1, 3) and layer.trainable_variables:
        return _group_norm if _owns(layer, layer.gamma, layer.beta) else None
    if kind is kinds.Dropout and layer.noise_shape is None:
        return _dropout
    return None


def _owns(layer: Any, *variables: Any) -> bool:
    """True if these are all of the layer's variables and all are trained."""
    return {id(v) for v in variables if v is not None} == {id(v) for v in layer.trainable_variables} and len(
        layer.variables
    ) == len(layer.trainable_variables)


def _dense(layer: Any, inputs: Any, run: Pass) -> Any:
    inputs, kernel, bias = run.operands(layer, inputs)
    tall = tf.reshape(inputs, [run.num_devices, -1, inputs.shape[-1]])
    output = tf.matmul(tall, kernel)
    if bias is not None:
        output += bias[:, None]
    output = tf.reshape(output, [*inputs.shape[:-1], kernel.shape[-1]])
    return layer.activation(run.keep(LinearTap(output=output, inputs=inputs, kernel=layer.kernel, bias=layer.bias)))


def _conv(layer: Any, inputs: Any, run: Pass) -> Any:
    padding, (inputs, kernel, bias) = layer.padding.upper(), run.operands(layer, inputs)
    window = Window(kernel=layer.kernel_size, strides=layer.strides, dilation=layer.dilation_rate, padding=padding)
    output = convolve(inputs, kernel[0], window)
    if bias is not None:
        output += bias[0]
    tap = LinearTap(output=output, inputs=inputs, kernel=layer.kernel, bias=layer.bias, window=window)
    return layer.activation(run.keep(tap))


def _group_norm(layer: Any, inputs: Any, run: Pass) -> Any:
    samples, *inner, channels = inputs.shape
    split = tf.reshape(tf.cast(inputs, tf.float32), [samples, -1, layer.groups, channels // layer.groups])
    mean, variance = tf.nn.moments(split, axes=[1, 3], keepdims=True)
    normalised = tf.reshape((split - mean) * tf.math.rsqrt(variance + layer.epsilon), inputs.shape)
    output = normalised
    for variable, combine in ((layer.gamma, tf.multiply), (layer.beta, tf.add)):
        if variable is not None:
            each = tf.repeat(run.parts[id(variable)], samples // run.num_devices, axis=0)
            output = combine(output, tf.reshape(each, [samples, *(1 for _ in inner), channels]))
    return run.keep(ScaleTap(output=output, normalised=normalised, scale=layer.gamma, offset=layer.beta))


def _dropout(layer: Any, inputs: Any, run: Pass) -> Any:
    """Each entry zero with probability `rate`, the others over 1 - `rate`; masks are counter-based.

    Sample `first` + i of the step takes the words of counters (pair, (first + i) 4096 + layer), first words before
    second ones, whatever samples or devices share its batch; rates are kept to 2^-32.
    """
    number = run.random_layers
    run.random_layers += 1
    if run.keys is None or layer.rate == 0.0:
        return inputs
    devices = run.keys.shape[0]
    samples, entries = inputs.shape[0] // devices, int(np.prod(inputs.shape[1:]))
    words = _words_kernel(devices, samples, -(-entries // 2))(
        run.keys, run.first, tf.constant(number, tf.uint32), tf.constant(_MOST_RANDOM_LAYERS, tf.uint32)
    )
    keep = tf.reshape(words[:, :entries], inputs.shape) >= np.uint32(round(layer.rate * 2.0**32))
    return tf.where(keep, inputs * tf.cast(1.0 / (1.0 - layer.rate), inputs.dtype), tf.zeros_like(inputs))


@lru_cache(maxsize=64)
def _words_kernel(num_devices: int, samples: int, pairs: int) -> Any:
    """Words `[D * m, 2 pairs]`; compiled, because twenty rounds of plain operations take four times as long."""

    @tf.function(jit_compile=True, autograph=False)
    def kernel(keys: Any, first: Any, layer: Any, num_layers: Any) -> Any:
        position = tf.cast(tf.range(pairs), tf.uint32)[None, None, :]
        index = ((first + tf.cast(tf.range(samples), tf.uint32)) * num_layers + layer)[None, :, None]
        halves = threefry((keys[:, 0, None, None], keys[:, 1, None, None]), (position, index), tf.bitwise)
        return tf.reshape(tf.concat(halves, axis=-1), [num_devices * samples, 2 * pairs])

    return kernel
