"""Studies of the codec alone, without training: what flipped bits do to numbers, and how far apart bits lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from fl.algorithms.learning import Label, Learning, algorithms
from fl.base.checkpoints import Trials
from fl.base.fields import PositiveFloat, Probability, whole
from fl.base.measured import LINK, LINK_RATES, Measured
from fl.base.words import plural
from fl.schemes.codecs.codec import Codec, CodecConfig, codecs
from phy.config.conflict import Conflict, ConflictError, Say, Write, rounded
from phy.config.link import LinkConfig
from privacy.config import Mechanism

_SERIES_PER_DEVICE = 24
_BYTES_PER_VALUE = 32


@algorithms.register
class FlipMomentsConfig(Learning):
    """Mean and variance of numbers whose bits were flipped, Li et al. 2025 Lemma 1 and Fig. 8.

    Round r sends the r-th of `rounds` values spread evenly over [-`largest`, `largest`], `draws` copies from every
    device; devices flip bits at `flip_probability` before the link does.
    """

    algorithm: Literal["flip-moments"] = "flip-moments"
    codec: CodecConfig = Field(default_factory=lambda: codecs.read("fixed-point"), description="numbers to bits")
    num_devices: int = whole(10, "number of devices; 10: with 2000 draws each, 20,000 copies of a value", most=10_000)
    rounds: int = whole(41, "values looked at; 41: steps of 0.05 from -1 to 1", least=2, most=10_000)
    largest: PositiveFloat = Field(
        default=1.0, description="values reach from minus this to this; 1: the range of the default codec"
    )
    draws: int = whole(
        2000,
        "copies of a value from each device; 2000: with 10 devices the standard error of a mean is below 0.005",
        least=2,
        most=1_000_000,
    )
    flip_probability: Annotated[Probability, Field(le=0.5)] = Field(
        default=0.0, description="of every bit at the device, before the link; 0: the link alone flips"
    )

    @classmethod
    def measured(cls) -> Measured:
        return Measured(
            per_trial=("largest_mean_gap", "largest_variance_gap"),
            per_round=(
                *("value", "recovered_mean", "recovered_variance", "lemma1_mean", "lemma1_variance"),
                *("airtime_s", "energy_j"),
            ),
            per_device=(*LINK, "flip_probability"),
            rates=(*LINK_RATES, "end_error_rate"),
            axes=("round", "value"),
        )

    def conflicts(self, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
        yield from super().conflicts(link=link, privacy=privacy)
        limit = self.codec.value_range
        if limit is not None and self.largest > limit:
            codec = f"codec {self.codec.name}, which clips them"
            problem = f"values up to {self.largest:g} exceed the limit {limit:g} of {codec}"
            yield Conflict(
                "learning.largest learning.codec.bound learning.codec",
                problem,
                Write({"largest": rounded(limit, 6)}),
                Say("raise codec.bound"),
            )

    def build(self, *, link: LinkConfig, privacy: Any, seed: int, trials: tuple[int, ...]) -> Trials:
        from fl.algorithms.codec_studies.trials import FlipMoments

        return FlipMoments(self, link=link, privacy=privacy, seed=seed, trial=trials[0])

    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        return [
            f"{plural(self.rounds, 'value')} up to {self.largest:g}, {plural(self.draws, 'copy', 'copies')} "
            f"from each of {self.num_devices} devices, codec {self.codec.name}, "
            f"{plural(self.codec.bits_per_value, 'bit')} each"
        ]

    def num_values(self) -> int:
        return self.draws

    def payload_bits(self) -> int:
        return self.draws * self.codec.bits_per_value

    def bytes_per_trial(self, link: LinkConfig) -> int:
        values = self.num_devices * self.draws * _BYTES_PER_VALUE
        return values + 8 * self.rounds * self.num_devices * _SERIES_PER_DEVICE


@algorithms.register
class BitDistanceConfig(Learning):
    """The expected bit-level distance kappa of Li et al. 2025 (15), estimated by (26), Fig. 3.

    `num_pairs` times: weights w, uniform over the codec's range or normal of `weight_std`, and x uniform on the sphere
    ||x||_2 = `sensitivity`; no radio is used.
    """

    access: ClassVar[None] = None

    algorithm: Literal["bit-distance"] = "bit-distance"
    codec: CodecConfig = Field(default_factory=lambda: codecs.read("fixed-point"), description="numbers to bits")
    dimension: int = whole(1_206_590, "M; 1,206,590 parameters: the CNN of Li et al. 2025", most=1_000_000_000)
    sensitivity: PositiveFloat = Field(
        default=1e-4, description="||x||_2 of the change; 1e-4: the CNN of Li et al. 2025"
    )
    weights: Literal["uniform", "normal"] = Field(
        default="uniform", description="uniform over the range of the codec, or normal"
    )
    weight_std: PositiveFloat = Field(default=0.05, description="of normal weights; 0.05 is a convention")
    num_pairs: int = whole(
        20, "pairs of weights and changes; 20: a standard error of about a tenth of kappa or less", most=1_000_000
    )
    num_devices: Literal[1] = Field(default=1, description="number of devices")
    rounds: Literal[1] = Field(default=1, description="number of rounds")

    @field_validator("codec")
    @classmethod
    def _distances_are_of_fractions(cls, codec: Codec) -> Codec:
        if codec.as_fractions() is None:
            raise ConflictError(
                "codec", f"kappa compares fraction bits, the codec is {codec.name}", Write({"codec": "fixed-point"})
            )
        return codec

    @classmethod
    def measured(cls) -> Measured:
        return Measured(per_trial=("kappa", "kappa_standard_error", "l1_distance"))

    def build(self, *, link: LinkConfig, privacy: Any, seed: int, trials: tuple[int, ...]) -> Trials:
        from fl.algorithms.codec_studies.trials import BitDistance

        return BitDistance(self, link=link, privacy=privacy, seed=seed, trial=trials[0])

    def depends_on(self, path: str) -> bool:
        """See `Learning`: on its own settings, without a radio."""
        return path.startswith("learning.")

    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        return [f"{plural(self.num_pairs, 'pair')} of {plural(self.dimension, 'weight')}, codec {self.codec.name}"]

    def num_values(self) -> int:
        return self.dimension

    def payload_bits(self) -> int:
        return 0

    def bytes_per_trial(self, link: LinkConfig) -> int:
        return self.dimension * _BYTES_PER_VALUE + 8 * _SERIES_PER_DEVICE
