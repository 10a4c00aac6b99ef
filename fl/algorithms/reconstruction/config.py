"""An attack on uploads as the user writes it: images rebuilt from what the server received of one local step."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.footprint import training_samples
from fl.algorithms.learning import Label, Learning, algorithms
from fl.base.checkpoints import Trials
from fl.base.errors import LearningError
from fl.base.fields import PositiveFloat, whole
from fl.base.measured import LINK, PRIVACY, RATES, UPLOADS, Measured
from fl.base.words import plural
from fl.data.data_set import DataSet, PartitionConfig, data_sets
from fl.data.whereabouts import where_is
from fl.local.config import LocalConfig
from fl.schemes.codecs.codec import CodecConfig, codecs
from fl.schemes.scheme import AggregationConfig, Scheme, schemes
from phy.config import LinkConfig
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write
from privacy.config import Mechanism

_SERIES_PER_DEVICE = 28
_BYTES_PER_MATCH = 16


class OneStep(LocalConfig):
    """The local step that is attacked."""

    learning_rate: PositiveFloat = Field(default=1.0, description="eta; the attack divides by it")
    steps: Literal[1] = Field(default=1, description="the attack inverts one step")
    clip: PositiveFloat | None = Field(
        default=1.0, description="G, largest l2 norm of the gradient of one sample; 1 as in Li et al. 2025"
    )


@algorithms.register
class ReconstructionConfig(Learning):
    """Rebuild the images of every device from its upload, and tell whether a given image was among them.

    In each of `rounds` rounds every one of `num_devices` devices holds `samples_per_device` other images, takes one
    step of gradient descent from the initial weights of softmax regression, and sends the update as `aggregation`
    (`codec` for the plain mean), `privacy` and the link have it. The server knows all but the images and the devices'
    own randomness. A round is a first round: nothing is learnt, and privacy is that of one upload.
    """

    compiled_bytes: ClassVar[int] = 190 << 20

    algorithm: Literal["reconstruction"] = "reconstruction"
    data: Annotated[DataSet, data_sets] = Field(
        default_factory=lambda: data_sets.read("digits"), description="set of images"
    )
    local: OneStep = Field(default=OneStep(), description="the step of gradient descent that is attacked")
    codec: CodecConfig = Field(
        default_factory=lambda: codecs.read("uniform"), description="numbers to bits, for aggregation mean"
    )
    aggregation: AggregationConfig = Field(
        default_factory=lambda: schemes.read("mean"), description="scheme of the uploads"
    )
    samples_per_device: int = whole(
        1, "images behind an upload; 1: the update is that of one image, the worst case", most=10_000
    )
    num_devices: int = whole(
        100, "number of devices; 100: in 10 rounds 1000 uploads, which give a share to +-0.03", least=2, most=100_000
    )
    rounds: int = whole(10, "first rounds attacked; 10: with 100 devices 1000 uploads", most=100_000)
    receiver_limit: PositiveFloat | None = Field(default=None, description="larger received numbers count as missing")

    @model_validator(mode="after")
    def _one_plain_step_is_attacked(self) -> ReconstructionConfig:
        local, scheme = self.local, self.aggregation
        if local.optimizer != "gd" or local.l2 > 0.0 or local.proximal > 0.0:
            unfit = {"optimizer", "batch_size", "momentum", "l2", "proximal"} & local.model_fields_set
            raise ConflictError(
                "",
                "reconstruction inverts gradient descent on the loss alone",
                LeaveOut(*(f"local.{key}" for key in sorted(unfit))),
            )
        if scheme.uses_codec and not scheme.unbiased:
            raise ConflictError(
                "aggregation",
                f"reconstruction looks at every upload on its own, before aggregation {scheme.name} acts",
                LeaveOut("aggregation"),
            )
        if (radius := getattr(scheme, "radius", "fixed")) != "fixed":
            raise ConflictError(
                "",
                f"reconstruction attacks a first round, of which a {radius} radius has no past to follow",
                Write({"aggregation.radius": "fixed"}),
            )
        return self

    @classmethod
    def measured(cls) -> Measured:
        return Measured(
            per_trial=(
                *("mean_correlation", "recognised_share", "psnr_db"),
                *("membership_auc", "membership_auc_low", "membership_auc_high"),
                *("true_positive_rate", "true_positive_rate_low", "true_positive_rate_high", *PRIVACY),
            ),
            per_round=("mean_correlation", "recognised_share", "psnr_db", "airtime_s", "energy_j"),
            per_device=(*LINK, *UPLOADS, "correlation", "pixel_error", "recognised", "membership_score", "member"),
            rates=RATES,
            axes=("round",),
        )

    @property
    def played(self) -> FedAvgConfig:
        """The round of federated averaging that is attacked."""
        return FedAvgConfig(
            data=self.data,
            partition=PartitionConfig(samples_per_device=self.samples_per_device),
            local=self.local,
            codec=self.codec,
            aggregation=self.aggregation,
            num_devices=self.num_devices,
            rounds=1,
            upload="update",
            weighting="equal",
            receiver_limit=self.receiver_limit,
        )

    @property
    def upload_scheme(self) -> Scheme:
        return self.aggregation

    def conflicts(self, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
        try:
            facts = self.data.described()
        except LearningError as error:
            yield error.conflict
            return
        if facts.is_table or not facts.is_bytes or facts.predicts_numbers:
            problem = f"reconstruction rebuilds images of whole numbers, and the data are {facts.in_words}"
            yield Conflict("learning.data.file learning.data", problem, Write({"learning.data": "digits"}))
            return
        there = training_samples(self.data)
        each = self.samples_per_device + 1
        if (needed := self.num_devices * each) > there >= 1:
            keys = "learning.num_devices learning.samples_per_device learning.data.train_samples learning.data"
            images = f"{plural(self.samples_per_device, 'image')} and a target each need {needed} images that differ"
            problem = f"{plural(self.num_devices, 'device')} with {images}, there are {there}"
            yield Conflict(
                keys, problem, Write({"num_devices": max(there // each, 2)}, note="or less, and more rounds")
            )
        yield from super().conflicts(link=link, privacy=privacy)
        yield from self.played.conflicts(link=link, privacy=privacy)

    def privacy_conflict(self, privacy: Mechanism | None) -> Conflict | None:
        if privacy is None or (privacy.for_uploads is not None and not privacy.calibrated):
            return None
        problem = "reconstruction attacks one upload, but this privacy is that of a whole run"
        return Conflict(
            "privacy.budget privacy.mechanism privacy learning.algorithm",
            problem,
            Write({"privacy": "none"}),
            Say("a mechanism with an epsilon and no budget"),
        )

    def settled(self, *, link: LinkConfig, privacy: Mechanism | None) -> Self:
        return self.model_copy(update={"aggregation": self.played.settled(link=link, privacy=privacy).aggregation})

    def build(self, *, link: LinkConfig, privacy: Any, seed: int, trials: tuple[int, ...]) -> Trials:
        from fl.algorithms.reconstruction.attack import Reconstruction

        return Reconstruction(self, link=link, privacy=privacy, seed=seed, trial=trials[0])

    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        games, each = self.num_devices * self.rounds, self.samples_per_device
        return [
            f"{self.data.name}, {where_is(self.data).sentence}",
            f"an attack on {plural(games, 'upload')} per trial, {plural(each, 'image')} "
            "behind each: images are rebuilt from the received updates, and a test decides if a target "
            "image is among them",
            f"softmax regression, {self.num_values():,} parameters, one step, {self.played.sent(label, link=link)}",
        ]

    def why_not_audited(self, privacy: Mechanism | None, *, link: LinkConfig) -> str | None:
        return self.played.why_not_audited(privacy, link=link)

    def num_values(self) -> int | None:
        return self.played.num_values()

    def payload_bits(self) -> int | None:
        return self.played.payload_bits()

    def bytes_per_trial(self, link: LinkConfig) -> int:
        """Return the memory of one round, of images as numbers, and of every upload beside every image [B]."""
        facts = self.data.described()
        pixels = prod(facts.image_shape)
        matches = training_samples(self.data) * (8 * 2 * pixels + self.num_devices * _BYTES_PER_MATCH)
        records = 8 * self.rounds * self.num_devices * _SERIES_PER_DEVICE
        return self.played.bytes_per_trial(link) + matches + records
