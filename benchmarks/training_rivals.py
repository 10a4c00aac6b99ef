"""Local steps in PyTorch and JAX, for `training_peers.py`: reads orders as JSON lines, answers with seconds.

Runs in an interpreter of its own, which has `torch` and `jax`: neither is a package of phyloop. An order is
`{"rival": .., "layers": [..], "image": [H, W, C], "samples": m, "classes": n, "clip": G or null}`; what it times is one
full-batch step of one device, gradients only. Clipped rivals vectorise per-sample gradients over `AT_ONCE` samples.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch import nn
from torch.func import functional_call, grad, vmap

AT_ONCE = 50
RNG = np.random.default_rng(1)


class Torch:
    """Layers, images and labels as PyTorch has them."""

    def __init__(self, layers: list[dict[str, Any]], image: list[int], samples: int, classes: int) -> None:
        high, wide, channels = image
        self.images = torch.from_numpy(RNG.random((samples, channels, high, wide), np.float32))
        self.labels = torch.from_numpy(RNG.integers(0, classes, samples))
        made: list[Any] = []
        for layer in layers:
            made.append(self._module(layer, nn.Sequential(*made)(self.images[:1]).shape[1]))
        self.network = nn.Sequential(*made)

    @staticmethod
    def _module(layer: dict[str, Any], inputs: int) -> nn.Module:
        match layer["kind"]:
            case "conv":
                return nn.Conv2d(inputs, layer["filters"], layer["kernel"])
            case "dense":
                return nn.Linear(inputs, layer["units"])
            case "pool":
                return nn.MaxPool2d(layer["window"])
            case "flatten":
                return nn.Flatten()
            case _:
                return nn.ReLU()

    def plain(self) -> Callable[[], None]:
        """One backward pass over the whole batch."""

        def step() -> None:
            self.network.zero_grad()
            nn.functional.cross_entropy(self.network(self.images), self.labels).backward()

        return step

    def clipped(self, clip: float) -> Callable[[], None]:
        """`vmap(grad)` over samples, as torch.func's documentation writes it."""
        weights = {name: value.detach() for name, value in self.network.named_parameters()}

        def loss(weights: Any, image: Any, label: Any) -> Any:
            return nn.functional.cross_entropy(functional_call(self.network, weights, (image[None],)), label[None])

        by_sample = vmap(grad(loss), in_dims=(None, 0, 0))

        def step() -> None:
            total = {name: torch.zeros_like(value) for name, value in weights.items()}
            for images, labels in zip(self.images.split(AT_ONCE), self.labels.split(AT_ONCE), strict=True):
                found = by_sample(weights, images, labels)
                norms = torch.stack([value.flatten(1).norm(dim=1) for value in found.values()]).norm(dim=0)
                factors = (clip / norms).clamp(max=1.0)
                for name, value in found.items():
                    total[name] += torch.einsum("n...,n->...", value, factors)

        return step


class Jax:
    """Layers, images and labels as JAX has them."""

    def __init__(self, layers: list[dict[str, Any]], image: list[int], samples: int, classes: int) -> None:
        self.images = jnp.asarray(RNG.random((samples, *image), np.float32))
        self.labels = jnp.asarray(RNG.integers(0, classes, samples))
        self.layers = layers
        self.weights: list[tuple[Any, ...]] = []
        shape = tuple(image)
        for layer in layers:
            if layer["kind"] == "conv":
                kernel = (layer["kernel"], layer["kernel"], shape[-1], layer["filters"])
                self.weights.append((_drawn(kernel), jnp.zeros(layer["filters"])))
            elif layer["kind"] == "dense":
                self.weights.append((_drawn((shape[-1], layer["units"])), jnp.zeros(layer["units"])))
            else:
                self.weights.append(())
            shape = jax.eval_shape(lambda x, one=layer: _applied(one, self.weights[-1], x), _like(shape)).shape[1:]

    def loss(self, weights: Any, images: Any, labels: Any) -> Any:
        """Mean cross-entropy."""
        for layer, own in zip(self.layers, weights, strict=True):
            images = _applied(layer, own, images)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(images), labels[:, None], axis=1))

    def plain(self) -> Callable[[], None]:
        """One compiled gradient of the whole batch."""
        step = jax.jit(jax.grad(self.loss))
        return lambda: jax.block_until_ready(step(self.weights, self.images, self.labels))

    def clipped(self, clip: float) -> Callable[[], None]:
        """`vmap(grad)` over samples, slices one after the other in one compiled scan."""
        one = jax.grad(lambda weights, image, label: self.loss(weights, image[None], label[None]))

        def add(total: Any, batch: Any) -> Any:
            found = jax.vmap(one, in_axes=(None, 0, 0))(self.weights, *batch)
            squares = sum(jnp.sum(leaf.reshape(leaf.shape[0], -1) ** 2, axis=1) for leaf in jax.tree.leaves(found))
            factors = jnp.minimum(1.0, clip / jnp.sqrt(squares))
            return jax.tree.map(lambda a, leaf: a + jnp.einsum("n...,n->...", leaf, factors), total, found), None

        def step(images: Any, labels: Any) -> Any:
            at_once = min(AT_ONCE, len(labels))
            slices = (images.reshape(-1, at_once, *images.shape[1:]), labels.reshape(-1, at_once))
            return lax.scan(add, jax.tree.map(jnp.zeros_like, self.weights), slices)[0]

        call = jax.jit(step)
        return lambda: jax.block_until_ready(call(self.images, self.labels))


def _drawn(shape: tuple[int, ...]) -> Any:
    return jnp.asarray(RNG.normal(0.0, 0.05, shape).astype(np.float32))


def _like(shape: tuple[int, ...]) -> Any:
    return jax.ShapeDtypeStruct((1, *shape), jnp.float32)


def _applied(layer: dict[str, Any], own: Any, x: Any) -> Any:
    match layer["kind"]:
        case "conv":
            return (
                lax.conv_general_dilated(x, own[0], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
                + own[1]
            )
        case "dense":
            return x @ own[0] + own[1]
        case "pool":
            window = (1, layer["window"], layer["window"], 1)
            return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
        case "flatten":
            return x.reshape(x.shape[0], -1)
        case _:
            return jax.nn.relu(x)


def main() -> None:
    """Answer orders until there are no more."""
    torch.set_num_threads(os.cpu_count() or 1)
    steps: dict[str, Callable[[], None]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        key = json.dumps(order)
        if key not in steps:
            sizes = (order["layers"], order["image"], order["samples"], order["classes"])
            made = Torch(*sizes) if order["rival"] == "PyTorch" else Jax(*sizes)
            steps[key] = made.plain() if order["clip"] is None else made.clipped(order["clip"])
            steps[key]()
        start = time.perf_counter()
        steps[key]()
        print(json.dumps(time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    main()
