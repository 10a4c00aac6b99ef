"""One thing of every kind in one file, as a plug-in."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy import special

from fl.algorithms.flmc.schemes import Noiseless, flmc_schemes
from fl.attacks.attack import Attack, HonestRound, Place, attacks
from fl.data.data_set import DataSet, ImageFacts, Pair, PartitionRule, data_sets, partitions
from fl.models.layers import Dense, Function, Layer
from fl.models.model import Model, models
from fl.schemes.aggregation.estimates import weighted_mean
from fl.schemes.codecs.codec import codecs
from fl.schemes.codecs.partwise import Uniform
from fl.schemes.scheme import Scheme, schemes
from fl.uplink.mechanisms import mechanisms
from fl.uplink.selection import Selection, selections
from phy.config.channel_source import ChannelSource, channel_sources
from phy.config.fading import FadingLaw, fading_laws
from phy.config.power import PowerPolicy, power_policies
from privacy.config import StatedNoise
from privacy.events.noise_events import GaussianNoise


@codecs.register
class OwnCodec(Uniform):
    """Uniform codes."""

    name: Literal["own-codec"] = "own-codec"


@attacks.register
class OwnAttack(Attack):
    """Attackers send half of their update."""

    kind: Literal["own-attack"]
    acts_on: ClassVar[Place] = "updates"

    def of_updates(self, honest: HonestRound) -> Any:
        """Half of it."""
        return honest.updates[honest.attackers] * np.float32(0.5)


@data_sets.register
class OwnData(DataSet):
    """Dark and bright squares."""

    facts: ClassVar[ImageFacts | None] = ImageFacts(image_shape=(4, 4, 1), num_classes=2, num_train=200, num_test=50)

    name: Literal["own-data"] = "own-data"

    def read(self) -> tuple[Pair, Pair]:
        """Return 250 squares."""
        rng = np.random.default_rng(1)
        y = rng.integers(0, 2, 250)
        x = (rng.integers(0, 100, (250, 4, 4, 1)) + 120 * y[:, None, None, None]).astype(np.uint8)
        return (x[:200], y[:200]), (x[200:], y[200:])


@models.register
class OwnModel(Model):
    """Two dense layers."""

    name: Literal["own-model"] = "own-model"

    def layers(self, *, image_shape: tuple[int, ...], num_classes: int) -> tuple[Layer, ...]:
        """Return four neurons in between."""
        assert image_shape
        return (Function(kind="flatten"), Dense(units=4), Function(kind="relu"), Dense(units=num_classes))


@schemes.register
class OwnScheme(Scheme):
    """A share of the mean."""

    uses_codec: ClassVar[bool] = True

    name: Literal["own-scheme"] = "own-scheme"
    part: float = 0.5

    def aggregate(self, values: Any, *, weights: Any, known: Any, otherwise: Any) -> Any:
        """Return that share."""
        mean = weighted_mean(values, weights=weights, known=known, otherwise=otherwise / np.float32(self.part))
        return np.float32(self.part) * mean


@fading_laws.register
class OwnLaw(FadingLaw):
    """Weibull fading of unit mean power."""

    label: ClassVar[str] = "Weibull fading"

    name: Literal["own-law"] = "own-law"
    shape: float = 3.0

    def quantile(self, tail: Any, *, upper: bool) -> Any:
        """(-ln(1 - u))^(1/shape) over the root mean square."""
        size = -np.log(tail) if upper else -np.log1p(-tail)
        return (size / special.gamma(1.0 + 2.0 / self.shape) ** (self.shape / 2.0)) ** (1.0 / self.shape)


@power_policies.register
class OwnPolicy(PowerPolicy):
    """Half of the inversion, in decibels."""

    name: Literal["own-policy"] = "own-policy"

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """1 / sqrt(`gain`)."""
        del mean_gain
        return 1.0 / xp.sqrt(xp.maximum(gain, 1e-9))


@flmc_schemes.register
class OwnRounds(Noiseless):
    """Noiseless under another word."""

    name: Literal["own-rounds"] = "own-rounds"


@selections.register
class OwnSelection(Selection):
    """The devices with the most samples."""

    label: ClassVar[str] = "most samples"

    name: Literal["own-selection"] = "own-selection"

    def scores(self, known: Any) -> Any:
        """Return the numbers of samples."""
        return known.samples


@partitions.register
class OwnPartition(PartitionRule):
    """Every `num_devices`-th sample."""

    kind: Literal["own-partition"] = "own-partition"
    first: int = 0

    def deal(self, labels: Any, *, features: Any, owner: Any, num_devices: int, generator: Any) -> Any:
        """Return the positions of the samples of each device."""
        assert len(features) == len(labels)
        del owner, generator
        return [
            np.arange((device + self.first) % num_devices, len(labels), num_devices) for device in range(num_devices)
        ]


@mechanisms.register
class OwnMechanism(StatedNoise):
    """Gaussian noise of multiplier `z`."""

    mechanism: Literal["own-mechanism"] = "own-mechanism"
    z: float = 4.0

    def perturb(self, updates: Any, *, strength: float, generator: np.random.Generator) -> Any:
        """Add the noise."""
        noise = generator.standard_normal(updates.shape, dtype=np.float32)
        return updates + np.float32(2.0 * self.clip * self.z / strength) * noise

    def event(self, *, strength: float, num_values: int) -> GaussianNoise:
        """Return Gaussian noise."""
        del num_values
        return GaussianNoise(noise_multiplier=self.z / strength)


@channel_sources.register
class OwnChannel(ChannelSource):
    """Two taps of random phase."""

    name: Literal["own-channel"] = "own-channel"
    late: float = 0.5

    def taps(self, snapshot: int, *, devices: Any, time_s: float) -> Any:
        """Return a tap of 1 and a late one."""
        del time_s
        drawn = [np.random.default_rng((self.seed, snapshot, int(one))).random(2) for one in devices]
        return (np.exp(2j * np.pi * np.array(drawn)) * np.array([1.0, self.late]))[:, None]
