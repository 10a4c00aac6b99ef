"""Norms and weighted sums of per-sample gradients of one layer, from what goes in and what comes back.

For a layer that is linear in its parameters, sample i has a_i `[P, d]` going in (P positions: 1 for a dense layer on
vectors, the output pixels of a convolution) and g_i = d loss_i / d z_i `[P, o]` coming back; its gradients are
a_i^T g_i `[d, o]` for the kernel and sum_p g_i for the bias. Their norms follow without them:

- P = 1: ||a_i||^2 ||g_i||^2 (Goodfellow 2015, Efficient per-example gradient computations);
- few positions: sum of (a_i a_i^T) * (g_i g_i^T), P x P each (Bu et al. 2022, mixed ghost clipping);
- many: the gradients themselves, which are then smaller than what they are made of.

All arrays are float32 tensors of N samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


def prefers_ghost(*, positions: int, fan_in: int, fan_out: int) -> bool:
    """Whether the P x P products cost less than the gradients of all samples: P (d + o) < d o, or P = 1."""
    return positions == 1 or positions * (fan_in + fan_out) < fan_in * fan_out


def ghost_squared_norms(rows: Any, back: Any) -> Any:
    """||a_i^T g_i||^2, `[N]`, from `rows` a `[N, P, d]` and `back` g `[N, P, o]`."""
    import tensorflow as tf

    if rows.shape[1] == 1:
        return tf.reduce_sum(tf.square(rows), axis=(1, 2)) * tf.reduce_sum(tf.square(back), axis=(1, 2))
    inputs = tf.matmul(rows, rows, transpose_b=True)
    return tf.reduce_sum(inputs * tf.matmul(back, back, transpose_b=True), axis=(1, 2))


def summed_product(rows: Any, back: Any, *, num_devices: int) -> Any:
    """sum_i a_i^T g_i over the samples of each device, `[D, d, o]`; the N rows are D devices, one after the other."""
    import tensorflow as tf

    tall = [tf.reshape(part, [num_devices, -1, part.shape[-1]]) for part in (rows, back)]
    return tf.matmul(tall[0], tall[1], transpose_a=True)


def weighted_sums(per_sample: Any, weights: Any, *, num_devices: int) -> Any:
    """sum_i c_i v_i over the samples of each device, `[D, size]`, from v `[N, size]` and c `[N]`."""
    import tensorflow as tf

    size = per_sample.shape[-1]
    rows = tf.reshape(per_sample, [num_devices, -1, size])
    return tf.matmul(tf.reshape(weights, [num_devices, 1, -1]), rows)[:, 0]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Kernel, strides, dilation and padding ("VALID", "SAME") of a convolution, rows before columns."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: str

    def patches(self, images: Any) -> Any:
        """What each output pixel sees: `[N, H, W, C]` to `[N, P, kernel rows * kernel columns * C]`."""
        import tensorflow as tf

        sees = tf.image.extract_patches(
            images, [1, *self.kernel, 1], [1, *self.strides, 1], [1, *self.dilation, 1], self.padding
        )
        return tf.reshape(sees, [sees.shape[0], -1, sees.shape[-1]])

    def per_sample_gradients(self, images: Any, back: Any) -> Any:
        """a_i^T g_i as `[N, kernel rows * kernel columns, C, o]`, one product per place of the kernel.

        `back` is `[N, H', W', o]`. No patches are copied out, which takes three times as long as the products.
        """
        import tensorflow as tf

        samples, high, wide, out = back.shape
        images = tf.pad(images, [(0, 0), *self._margins(images.shape[1:3], (high, wide)), (0, 0)])
        flat = tf.reshape(back, [samples, high * wide, out])
        products = []
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                top, left = row * self.dilation[0], column * self.dilation[1]
                seen = images[
                    :,
                    top : top + (high - 1) * self.strides[0] + 1 : self.strides[0],
                    left : left + (wide - 1) * self.strides[1] + 1 : self.strides[1],
                ]
                seen = tf.reshape(seen, [samples, high * wide, images.shape[-1]])
                products.append(tf.matmul(seen, flat, transpose_a=True))
        return tf.stack(products, axis=1)

    def _margins(self, size: tuple[int, int], out: tuple[int, int]) -> list[tuple[int, int]]:
        """Zeros before and after, rows and columns; TensorFlow's "SAME" puts the odd one behind."""
        margins = []
        for axis in range(2):
            needed = (out[axis] - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1
            total = max(needed - size[axis], 0) if self.padding == "SAME" else 0
            margins.append((total // 2, total - total // 2))
        return margins
