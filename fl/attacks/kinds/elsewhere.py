"""Attacks on labels, on bits after privacy, and on the air."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fl.attacks.kinds.numbers import Known
from fl.config.attack import Place, attacks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attacks.register
class Labels(Known):
    """Attackers train with the label num_classes - 1 - y in place of every label y."""

    kind: Literal["labels"]
    acts_on: ClassVar[Place] = "labels"

    def of_labels(self, labels: NDArray[np.int64], *, num_classes: int) -> NDArray[np.int64]:
        """See `Attack.of_labels`."""
        return num_classes - 1 - labels


class _OnBits(Known):
    acts_on: ClassVar[Place] = "bits"


@attacks.register
class Ones(_OnBits):
    """Attackers send ones."""

    kind: Literal["ones"]

    def of_bits(
        self, payload: NDArray[np.uint8], *, meant: NDArray[np.uint8], coins: Callable[[], NDArray[np.uint8]]
    ) -> NDArray[np.uint8]:
        """See `Attack.of_bits`."""
        return payload | meant


@attacks.register
class Invert(_OnBits):
    """Attackers invert every bit."""

    kind: Literal["invert"]

    def of_bits(
        self, payload: NDArray[np.uint8], *, meant: NDArray[np.uint8], coins: Callable[[], NDArray[np.uint8]]
    ) -> NDArray[np.uint8]:
        """See `Attack.of_bits`."""
        return payload ^ meant


@attacks.register
class Random(_OnBits):
    """Attackers send fair random bits."""

    kind: Literal["random"]

    def of_bits(
        self, payload: NDArray[np.uint8], *, meant: NDArray[np.uint8], coins: Callable[[], NDArray[np.uint8]]
    ) -> NDArray[np.uint8]:
        """See `Attack.of_bits`."""
        return (payload & ~meant) | (coins() & meant)


@attacks.register
class Jam(Known):
    """Attackers send at full power on the air, in superposition alone: signs at random, constant ones, or noise."""

    kind: Literal["jam"]
    acts_on: ClassVar[Place] = "air"
    reads: ClassVar[tuple[str, ...]] = ("signal",)

    def of_air(
        self, amplitudes: NDArray[np.float64], *, words: Callable[[], Any], normals: Callable[[], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """See `Attack.of_air`."""
        import numpy as np

        if self.signal == "random":
            return np.where(words() >> np.uint32(31), -1.0, 1.0)
        if self.signal == "noise":
            noise = normals()
            return np.asarray(noise / np.sqrt((noise**2).mean(axis=2, keepdims=True)))
        return np.ones_like(amplitudes)
