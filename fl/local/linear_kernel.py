"""All local steps of softmax regression in one kernel: a device's weights stay in the first cache from step to step.

What `fl.local.gradients` and `fl.local.trainer` compute for one dense layer: the same sums, with roundings of their
own. Numbers of a device depend on its samples, their order and its weights alone.

The gradient of a sample is r x^T for the kernel and r for the biases, r = softmax(z) - e_label `[C]`, z = W x + b; with
mu/2 ||w||^2 in its loss it is v = (r x^T, r) + mu w, of which no more is needed than

    ||v||^2 = ||r||^2 (||x||^2 + 1) + 2 mu <z, r> + mu^2 ||w||^2

to clip it to G, Li et al. 2025 (3).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U8, Bools
from phy.numerics.compiled import contracted, inlined, lean_kernel, read_only
from phy.numerics.vectors import add_scaled, clear, copy, dot, load_line, scale_by, softmax_residual
from phy.numerics.workers import run_tasks

_ROWS = 16
"""Samples whose pixels are held as floats at once."""


class Rule(NamedTuple):
    """w <- w - eta v, v <- momentum v + g + rho (w - w_global), g the mean of clipped gradients; no clipping: inf.

    Pixels are `scale` u + `shift`.
    """

    rate: np.float32
    momentum: np.float32
    l2: np.float32
    proximal: np.float32
    clip: np.float32
    scale: np.float32
    shift: np.float32


class Task(NamedTuple):
    """Who trains on what: `images` `[N, P]` uint8 or float32, `labels` `[N]` int32, and per device

    - `start` `[1 or D, M]`, weights and then biases: the same for all, or each its own;
    - `samples` `[1 or steps, D, width]`, of which the first `counts` `[1 or steps, D]` are a batch: the same in every
      step, or each its own; `steps` `[D]` taken.
    """

    images: U8 | F32
    labels: NDArray[np.int32]
    start: F32
    samples: I64
    counts: I64
    steps: I64


class _Scratch(NamedTuple):
    """Scratch arrays of a thread: weights and sums `[C, P]`, those of biases `[C]`, pixels and logits of rows."""

    weights: F32
    anchor: F32
    total: F32
    moving: F32
    biases: F32
    start_biases: F32
    bias_total: F32
    bias_moving: F32
    linear: F32
    pixels: F32
    logits: F32


def _scratch(classes: int, size: int) -> _Scratch:
    tall, flat = np.zeros((4, classes, size), np.float32), np.zeros((5, classes), np.float32)
    return _Scratch(*tall, *flat, *(np.empty((_ROWS, n), np.float32) for n in (size, classes)))


@inlined
def _turned(flat: Any, tall: Any) -> None:
    """`[P C]` as `[C, P]`."""
    classes, pixels = tall.shape
    for c in range(classes):
        row = tall[c]
        for p in range(pixels):
            row[p] = flat[np.uint64(p) * np.uint64(classes) + np.uint64(c)]


@inlined
def _turned_back(tall: Any, flat: Any) -> None:
    classes, pixels = tall.shape
    for c in range(classes):
        row = tall[c]
        for p in range(pixels):
            flat[np.uint64(p) * np.uint64(classes) + np.uint64(c)] = row[p]


@inlined
def _norm(rule: Any, residual: Any, linear: Any, square_of_inputs: Any, square_of_weights: Any) -> Any:
    """Length of the gradient of a sample's loss, from what goes into the layer, a bias's 1 too, and `linear` z."""
    square = np.float64(dot(residual, residual)) * square_of_inputs
    if rule.l2 > np.float32(0.0):
        mu = np.float64(rule.l2)
        square += 2.0 * mu * dot(linear, residual) + mu * mu * square_of_weights
        if square < 0.0:  # rounding of a norm that vanishes
            square = 0.0
    return np.sqrt(square)


@contracted
def _step(rule: Any, weights: Any, anchor: Any, total: Any, count: Any, share: Any, velocity: Any) -> None:
    """One step of a row of weights; `share`: sum of clipping factors; `velocity` is left alone without momentum."""
    per_sample, pull = np.float32(1.0) / count, rule.l2 * share
    if rule.momentum > np.float32(0.0):
        for p in range(len(weights)):
            gradient = (total[p] + pull * weights[p]) * per_sample + rule.proximal * (weights[p] - anchor[p])
            velocity[p] = rule.momentum * velocity[p] + gradient
            weights[p] -= rule.rate * velocity[p]
    else:
        step, back = rule.rate * per_sample, rule.rate * rule.proximal
        for p in range(len(weights)):
            weights[p] += back * (anchor[p] - weights[p]) - step * (total[p] + pull * weights[p])


@lean_kernel
def _train(
    rule: Any, task: Any, classes: Any, velocity: Any, out: Any, losses: Any, clipped: Any, first: Any, last: Any,
    scratch: Any,
) -> None:  # fmt: skip
    """Devices `first` to `last`: `out` `[D, M]`, `losses`, `clipped` `[D]`, `velocity` `[D, M]` where it is kept."""
    cells, clips = task.images.shape[1] * classes, rule.clip < np.float32(np.inf)
    weights, anchor, total, moving = scratch.weights, scratch.anchor, scratch.total, scratch.moving
    biases, start_biases = scratch.biases, scratch.start_biases
    bias_total, bias_moving = scratch.bias_total, scratch.bias_moving
    pixels, logits, linear = scratch.pixels, scratch.logits, scratch.linear
    shared = len(task.start) == 1
    if shared:
        _turned(task.start[0, :cells], anchor)
    for device in range(first, last):
        start = task.start[0 if shared else device]
        if not shared:
            _turned(start[:cells], anchor)
        for c in range(classes):
            copy(anchor[c], weights[c])
        copy(start[cells:], start_biases)
        copy(start_biases, biases)
        if len(velocity):
            _turned(velocity[device, :cells], moving)
            copy(velocity[device, cells:], bias_moving)
        longer, seen = 0, 0
        for step in range(task.steps[device]):
            place = min(step, len(task.samples) - 1)
            count = task.counts[place, device]
            for c in range(classes):
                clear(total[c])
            clear(bias_total)
            loss, share, square = 0.0, np.float32(0.0), 0.0
            if rule.l2 > np.float32(0.0):
                square = np.float64(dot(biases, biases))
                for c in range(classes):
                    square += dot(weights[c], weights[c])
            for begin in range(0, count, _ROWS):
                rows = min(_ROWS, count - begin)
                for row in range(rows):
                    sample = task.samples[place, device, begin + row]
                    load_line(task.images[sample], rule.scale, rule.shift, pixels[row])
                for c in range(classes):
                    for row in range(rows):
                        logits[row, c] = dot(pixels[row], weights[c]) + biases[c]
                for row in range(rows):
                    own = logits[row]
                    if clips:
                        copy(own, linear)
                    loss += softmax_residual(own, task.labels[task.samples[place, device, begin + row]])
                    if clips:
                        inputs = np.float64(dot(pixels[row], pixels[row])) + 1.0
                        norm = _norm(rule, own, linear, inputs, square)
                        factor = np.float32(1.0)
                        if norm > rule.clip:
                            factor = np.float32(rule.clip / norm)
                            scale_by(factor, own)
                            longer += 1
                        share += factor
                for c in range(classes):
                    for row in range(rows):
                        add_scaled(logits[row, c], pixels[row], total[c])
                        bias_total[c] += logits[row, c]
            if step == 0:
                losses[device] = loss / count + 0.5 * rule.l2 * square
            samples = np.float32(count)
            if not clips:
                share = samples
            seen += count
            for c in range(classes):
                _step(rule, weights[c], anchor[c], total[c], samples, share, moving[c])
            _step(rule, biases, start_biases, bias_total, samples, share, bias_moving)
        clipped[device] = longer / seen
        _turned_back(weights, out[device, :cells])
        copy(biases, out[device, cells:])
        if len(velocity):
            _turned_back(moving, velocity[device, :cells])
            copy(bias_moving, velocity[device, cells:])


def train_linear(rule: Rule, task: Task, *, classes: int, velocity: F32 | None, out: F32) -> tuple[F64, F64]:
    """Mean losses `[D]` of the first batch, and the share `[D]` of gradients longer than G, over all steps.

    Weights after all steps go into `out` `[D, M]`; `velocity` `[D, M]` moves.
    """
    devices, size = task.samples.shape[1], task.start.shape[1]
    losses, clipped = np.zeros(devices), np.zeros(devices)
    moving = np.zeros((0, size), np.float32) if velocity is None else velocity
    given = Task(*(read_only(part) for part in task))
    pixels = task.images.shape[1]
    run_tasks(
        lambda first, last: _train(
            rule, given, classes, moving, out, losses, clipped, first, last, _scratch(classes, pixels)
        ),
        num_tasks=devices,
    )
    return losses, clipped


@lean_kernel
def _score(data: Any, layer: Any, losses: Any, hits: Any, first: Any, last: Any, scratch: Any) -> None:
    images, labels, scale, shift = data
    (weights, biases), (pixels, logits) = layer, scratch
    for sample in range(first, last):
        load_line(images[sample], scale, shift, pixels)
        best = 0
        for c in range(len(weights)):
            logits[c] = dot(pixels, weights[c]) + biases[c]
            if logits[c] > logits[best]:
                best = c
        hits[sample] = best == labels[sample]
        losses[sample] = softmax_residual(logits, labels[sample])


def score_linear(
    weights: F32, images: U8 | F32, labels: NDArray[np.int32], *, classes: int, scale: float, shift: float
) -> tuple[F32, Bools]:
    """Cross-entropy of each sample, and whether its label has the highest logit, the first of equals."""
    cells = images.shape[1] * classes
    layer = read_only(weights[:cells].reshape(-1, classes).T), read_only(weights[cells:])
    losses, hits = np.empty(len(images), np.float32), np.empty(len(images), np.bool_)
    data = read_only(images), read_only(labels), np.float32(scale), np.float32(shift)
    scratch = images.shape[1], classes
    run_tasks(
        lambda first, last: _score(
            data, layer, losses, hits, first, last, tuple(np.empty(n, np.float32) for n in scratch)
        ),
        num_tasks=len(images),
        cost_us=2e-4 * images.size * classes,
    )
    return losses, hits
