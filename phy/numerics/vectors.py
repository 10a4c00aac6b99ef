"""Loops over vectors of float32 inside kernels, each an `inlined` part of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.numerics.compiled import inlined


@inlined
def load_line(whole: Any, scale: Any, shift: Any, out: Any) -> None:
    """`out` = scale `whole` + shift, of integers."""
    for p in range(len(out)):
        out[p] = np.float32(whole[p]) * scale + shift


@inlined
def copy(values: Any, out: Any) -> None:
    """`out` = `values`."""
    for p in range(len(out)):
        out[p] = values[p]


@inlined
def clear(out: Any) -> None:
    """`out` = 0."""
    for p in range(len(out)):
        out[p] = np.float32(0.0)


@inlined
def dot(first: Any, second: Any) -> Any:
    """Return the inner product in float32."""
    total = np.float32(0.0)
    for p in range(len(first)):
        total += first[p] * second[p]
    return total


@inlined
def add(values: Any, out: Any) -> None:
    """`out` += `values`."""
    for p in range(len(out)):
        out[p] += values[p]


@inlined
def add_scaled(amount: Any, values: Any, out: Any) -> None:
    """`out` += amount `values`."""
    for p in range(len(out)):
        out[p] += amount * values[p]


@inlined
def scale_by(factor: Any, values: Any) -> None:
    """`values` *= factor."""
    for p in range(len(values)):
        values[p] *= factor


@inlined
def multiply(factors: Any, values: Any) -> None:
    """`values` *= `factors`, entry by entry."""
    for p in range(len(values)):
        values[p] *= factors[p]


@inlined
def square_residual(outputs: Any, target: Any) -> Any:
    """The first output less `target`, in place; returns half its square. The other outputs do not count."""
    for c in range(len(outputs)):
        outputs[c] = outputs[c] - target if c == 0 else np.float32(0.0)
    return np.float32(0.5) * outputs[0] * outputs[0]


@inlined
def softmax_residual(logits: Any, label: Any) -> Any:
    """softmax(logits) less the label's unit vector, in place; returns the cross-entropy."""
    highest = logits[0]
    for c in range(1, len(logits)):
        highest = max(highest, logits[c])
    own, total = logits[label] - highest, np.float32(0.0)
    for c in range(len(logits)):
        logits[c] = np.exp(np.float32(logits[c] - highest))
        total += logits[c]
    for c in range(len(logits)):
        logits[c] /= total
    logits[label] -= np.float32(1.0)
    return np.log(total) - own
