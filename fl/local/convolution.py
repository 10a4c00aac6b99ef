"""Convolutions and gradients of their kernels on every processor: what TensorFlow lacks on some is put otherwise.

oneDNN, which TensorFlow takes on Linux, has the gradients of dilated convolutions. TensorFlow's own kernels for CPUs,
all that macOS has, lack them. There a convolution of dilation d is one without dilation of d^2 smaller images: each is
every d-th pixel of every d-th row, from another one on (`tf.space_to_batch`). It multiplies and adds the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from phy.numerics.lazy_tensorflow import tf


@dataclass(frozen=True, kw_only=True)
class Window:
    """Kernel, strides, dilation and padding ("VALID", "SAME") of a convolution, rows before columns."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: str

    def seen(self, images: Any, size: tuple[int, int], *, joined: bool) -> list[Any]:
        """Inputs of all P output pixels, an image of `size`, from `images` `[N, H, W, C]`.

        One `[N, P, C]` per place of the kernel, row by row, or with `joined` one `[N, P, kernel columns * C]` per row.
        """
        samples, (high, wide) = images.shape[0], size
        images = tf.pad(images, [(0, 0), *self.margins(images.shape[1:3], size), (0, 0)])
        lefts, tops = (
            range(0, many * gap, gap) for many, gap in zip(self.kernel[::-1], self.dilation[::-1], strict=True)
        )
        (down, across), seen = self.strides, []
        columns = [images[:, :, left : left + (wide - 1) * across + 1 : across] for left in lefts]
        if joined:
            columns = [tf.concat(columns, axis=3)]
        for top in tops:
            rows = slice(top, top + (high - 1) * down + 1, down)
            seen += [tf.reshape(column[:, rows], [samples, high * wide, -1]) for column in columns]
        return seen

    def output_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the output for images of `size`, with dilation and without strides."""
        if self.padding == "SAME":
            return size
        rows, columns = (
            long - (taps - 1) * gap for long, taps, gap in zip(size, self.kernel, self.dilation, strict=True)
        )
        return rows, columns

    def margins(self, size: tuple[int, int], out: tuple[int, int]) -> list[tuple[int, int]]:
        """Zeros before and after, rows and columns; TensorFlow's "SAME" puts the odd one behind."""
        margins = []
        for axis in range(2):
            needed = (out[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
            total = max(needed - size[axis], 0) if self.padding == "SAME" else 0
            margins.append((total // 2, total - total // 2))
        return margins


def convolve(images: Any, kernel: Any, window: Window) -> Any:
    """Convolution `[N, H', W', o]` of `images` `[N, H, W, C]` with `kernel` `[k, k', C, o]`, of their dtype."""
    if differentiates(window):
        return tf.nn.conv2d(images, kernel, strides=window.strides, padding=window.padding, dilations=window.dilation)
    apart, crops = _phases(images, window)
    return tf.batch_to_space(tf.nn.conv2d(apart, kernel, strides=1, padding="VALID"), window.dilation, crops)


def kernel_gradient(images: Any, back: Any, window: Window, *, shape: Any) -> Any:
    """The gradient of the kernel, of `shape`, summed over `images` `[N, H, W, C]`, from what comes `back`."""
    if not differentiates(window):
        images, crops = _phases(images, window)
        back = tf.space_to_batch(back, window.dilation, crops)
        window = replace(window, dilation=(1, 1), padding="VALID")
    return _kernel_gradient(images, back, window, shape=shape)


def _kernel_gradient(images: Any, back: Any, window: Window, *, shape: Any) -> Any:
    return tf.raw_ops.Conv2DBackpropFilter(
        input=images,
        filter_sizes=list(shape),
        out_backprop=back,
        strides=[1, *window.strides, 1],
        padding=window.padding,
        dilations=[1, *window.dilation, 1],
    )


def differentiates(window: Window) -> bool:
    """True if TensorFlow has the gradients of this convolution here."""
    return window.dilation == (1, 1) or _differentiates_dilated()


@lru_cache(maxsize=1)
def _differentiates_dilated() -> bool:
    """Try it, in float32: what the kernels of a build and a machine can do is listed nowhere."""
    window = Window(kernel=(2, 2), strides=(1, 1), dilation=(2, 2), padding="VALID")
    with tf.init_scope():  # at once, also while a function is traced; no tape records there
        try:
            _kernel_gradient(tf.ones([1, 5, 5, 1]), tf.ones([1, 3, 3, 1]), window, shape=(2, 2, 1, 1))
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            return False
    return True


def _phases(images: Any, window: Window) -> tuple[Any, list[tuple[int, int]]]:
    """Return the images of every d-th pixel, padded, and how many rows and columns of zeros fill up the last ones."""
    size = images.shape[1:3]
    margins = window.margins(size, window.output_size(size))
    fill = [-(long + sum(zeros)) % gap for long, zeros, gap in zip(size, margins, window.dilation, strict=True)]
    padding = [(before, after + more) for (before, after), more in zip(margins, fill, strict=True)]
    return tf.space_to_batch(images, window.dilation, padding), [(0, more) for more in fill]
