"""Dilated convolutions and their gradients where TensorFlow has none: the numbers of those that it has elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl.local.convolution as module
from fl.local.convolution import Window, convolve, kernel_gradient
from phy.numerics.lazy_tensorflow import tf


def by_place(images: np.ndarray, kernel: np.ndarray, window: Window) -> np.ndarray:
    """Convolution as it is defined, in float64, without strides: one product per place of the kernel."""
    size = images.shape[1:3]
    reach = [(taps - 1) * gap for taps, gap in zip(window.kernel, window.dilation, strict=True)]
    before = [far // 2 if window.padding == "SAME" else 0 for far in reach]
    after = [far - zeros if window.padding == "SAME" else 0 for far, zeros in zip(reach, before, strict=True)]
    margins = list(zip(before, after, strict=True))
    padded = np.pad(images.astype(float), [(0, 0), *margins, (0, 0)])
    rows, columns = (long + sum(zeros) - far for long, zeros, far in zip(size, margins, reach, strict=True))
    output = np.zeros((len(images), rows, columns, kernel.shape[-1]))
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            top, left = row * window.dilation[0], column * window.dilation[1]
            output += padded[:, top : top + rows, left : left + columns] @ kernel[row, column].astype(float)
    return output


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilation", [(2, 2), (3, 2), (1, 4), (1, 1)])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 3)])
@pytest.mark.parametrize("there", [True, False], ids=["as-the-machine-has-it", "without-dilated-gradients"])
def test_a_convolution_and_its_gradients_are_those_of_the_definition(
    there: bool, kernel: tuple[int, int], dilation: tuple[int, int], padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not there:
        monkeypatch.setattr(module, "_differentiates_dilated", lambda: False)
    window = Window(kernel=kernel, strides=(1, 1), dilation=dilation, padding=padding)
    rng = np.random.default_rng(1)
    images, weights = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 11, 9, 3), (*kernel, 3, 4)))
    with tf.GradientTape() as tape:
        given: Any = [tf.constant(images), tf.constant(weights)]
        tape.watch(given)
        output = convolve(*given, window)
        back = tf.constant(rng.normal(size=output.shape).astype(np.float32))
        product = tf.reduce_sum(output * back)
    to_images, to_weights = tape.gradient(product, given)
    expected = by_place(images, weights, window)
    assert output.shape == expected.shape
    # Sums of at most 27 products forward, of 36 back and of 198 over positions, in float32.
    np.testing.assert_allclose(output, expected, atol=2e-5)
    np.testing.assert_allclose(kernel_gradient(images, back, window, shape=weights.shape), to_weights, atol=1e-4)
    # The product is linear in either: its derivative along a direction is the product there.
    for gradient, place in ((to_images, 0), (to_weights, 1)):
        along = rng.normal(size=gradient.shape)
        moved = [along if number == place else one for number, one in enumerate((images, weights))]
        exact = (by_place(*moved, window) * back.numpy()).sum()
        scale = np.linalg.norm(along) * np.linalg.norm(gradient)
        assert abs((gradient.numpy() * along).sum() - exact) < 1e-6 * scale


def test_what_is_tried_answers_as_the_gradient_of_a_network_would() -> None:
    """A wrong answer of the trial would end a run in an error of TensorFlow."""
    window = Window(kernel=(3, 3), strides=(1, 1), dilation=(2, 2), padding="SAME")

    @tf.function(autograph=False)
    def gradient(images: Any, kernel: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([images, kernel])
            output = tf.nn.conv2d(images, kernel, strides=1, padding="SAME", dilations=2)
        return tape.gradient(output, [images, kernel])

    given = tf.ones([2, 8, 8, 3]), tf.ones([3, 3, 3, 4])
    if module.differentiates(window):
        assert [each.shape for each in gradient(*given)] == [each.shape for each in given]
    else:
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError), match="dilation"):
            gradient(*given)
