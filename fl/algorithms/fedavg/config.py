"""Federated averaging of a classifier as the user writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fl.algorithms.fedavg import footprint
from fl.algorithms.fedavg.conflicts import fedavg_conflicts
from fl.algorithms.fedavg.findings import fedavg_findings
from fl.algorithms.fedavg.upload import upload_plan
from fl.algorithms.learning import Label, Learning, PointFacts, algorithms
from fl.attacks.attack import AttackConfig
from fl.attacks.attacks import attack_in_words, nobody_honest
from fl.base.fields import PositiveFloat, whole
from fl.base.measured import ALONG, AT_HOME, LINK, PRIVACY, RADIO, RATES, SPENT, TIMED, UPLOADS, Measured, joined
from fl.base.words import plural
from fl.data.data_set import DataSet, PartitionConfig, PartitionRule, data_sets, partitions
from fl.data.whereabouts import where_is
from fl.local.config import LocalConfig, PersonalConfig
from fl.models.layer_stack import layer_stack
from fl.models.layers import is_softmax_regression, num_parameters
from fl.models.model import Model, models
from fl.schemes.codecs.codec import Codec, CodecConfig, codecs
from fl.schemes.scheme import AggregationConfig, Scheme, schemes
from fl.uplink.budgets import rounds_within, scheme_within, upload_parameters
from fl.uplink.participation import ParticipationConfig
from fl.uplink.timing import TimingConfig
from phy.config import LinkConfig
from phy.config.base import Access, Modulation
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Write, rounded
from phy.engines.choice import sees_gpu, with_engine
from phy.links.airtime import superposed_airtime_s
from privacy.config import DeviceNoise, Mechanism, ReceiverNoise, StatedNoise

if TYPE_CHECKING:
    from fl.algorithms.fedavg.federation import Federation

_AGGREGATION = (
    *("aggregation_snr_db", "aggregation_snr_20log_db", "aggregation_mse"),
    *("alignment_mse", "expected_mse", "aggregation_bias"),
)
_MEASURED = Measured(
    per_trial=(
        *("test_accuracy", "best_accuracy", "validated_accuracy", "test_rmse", "best_rmse", "test_r2"),
        *("test_loss", "train_loss", "num_parameters"),
        *("upload_bits", "empty_rounds", "rounds_sent", *SPENT, *PRIVACY, *_AGGREGATION, *AT_HOME),
        *("participation_fairness", "arrival_fairness", "goodput_bps", "mean_mcs", "total_round_s"),
        *("strong_convexity", "smoothness", "heterogeneity", "bound_valid", "bound_contraction"),
        *("upload_symbols", "vote_error_rate"),
    ),
    per_round=(
        *("test_accuracy", "validation_accuracy", "test_rmse", "validation_rmse", "test_r2", "test_loss"),
        *("train_loss", "clipped_gradients", "num_active"),
        *(*RADIO, "model_norm", "distance_sq", "bound", *_AGGREGATION, "num_attackers"),
        *("participation_age", *TIMED),
        *("amplitude", "votes", "wrong_votes", "num_spent", "peak_amplitude", "active_cap"),
    ),
    per_device=(*LINK, *UPLOADS, *AT_HOME, "energy_left_j", "noise_multiplier"),
    rates=RATES,
    axes=(*ALONG, "wall_s"),
)


@algorithms.register
class FedAvgConfig(Learning):
    """Federated averaging, Li et al. 2025 (3)-(4): w <- sum_n q_n w~_n over what the radio delivered."""

    compiled_bytes: ClassVar[int] = 100 << 20
    takes_budget: ClassVar[bool] = True
    sums: ClassVar[bool] = True
    sends_by_mcs: ClassVar[bool] = True

    algorithm: Literal["fedavg"] = Field(default="fedavg", description="federated averaging")
    data: Annotated[DataSet, data_sets] = Field(
        default_factory=lambda: data_sets.read("digits"), description="set of images"
    )
    partition: Annotated[PartitionRule, partitions] = Field(
        default=PartitionConfig(), description="samples of each device"
    )
    model: Annotated[Model, models] = Field(default_factory=lambda: models.read("linear"), description="network")
    local: LocalConfig = Field(default=LocalConfig(), description="training on each device between two uploads")
    codec: CodecConfig = Field(
        default_factory=lambda: codecs.read("uniform"),
        description="numbers to bits, for aggregation mean and the robust ones; uniform: a wrong bit changes a number "
        "by at most twice the bound, a wrong bit of binary32 up to 1e38",
    )
    num_devices: int = whole(20, "number of devices; 20 as in Zhang et al. 2022 and in Li et al. 2025", most=1_000_000)
    rounds: int = whole(
        50, "K; in 50 rounds the defaults reach 85 to 90 % on digits and MNIST at 20 dB", most=1_000_000
    )
    upload: Literal["model", "update"] = Field(
        default="update",
        description="the update against the model that was received, whose numbers are small and which every "
        "aggregation takes, or the model, as in Li et al. 2025",
    )
    weighting: Literal["samples", "equal"] = Field(
        default="samples", description="q_n by number of samples, or equal; samples as in Li et al. 2025"
    )
    participation: ParticipationConfig = Field(
        default=ParticipationConfig(), description="devices that take part in a round"
    )
    timing: TimingConfig | None = Field(
        default=None,
        description="time to compute, and when rounds end; left out: rounds take no time beside that on air",
    )
    downlink: Literal["ideal"] | LinkConfig = Field(
        default="ideal", description="ideal, or a link over which every device receives the model"
    )
    downlink_codec: CodecConfig | None = Field(
        default=None,
        description="left out: codec; in place of its default, which suits updates, uniform of 16 bits within +-4, for "
        "a model has larger numbers",
    )
    receiver_limit: PositiveFloat | None = Field(
        default=None, description="larger received numbers, and those not finite, count as missing; left out: none do"
    )
    aggregation: AggregationConfig = Field(
        default_factory=lambda: schemes.read("mean"),
        description="numbers through codec and their mean, or a scheme with bits of its own, on updates",
    )
    attack: AttackConfig | None = Field(default=None, description="devices that attack")
    personal: PersonalConfig | None = Field(default=None, description="a model of its own on every device")
    convergence_bound: bool = Field(
        default=False,
        description="follow the distance to the optimum beside Theorem 2; linear model with l2; false: it takes a "
        "search for the optimum",
    )
    test_every: int = whole(
        1, "rounds between two looks at the test set; the last is always one; 1: a test accuracy of every round"
    )

    @field_validator("partition", mode="before")
    @classmethod
    def _a_bare_word_names_the_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _no_more_take_part_than_there_are(self) -> FedAvgConfig:
        some = self.participation.devices_per_round
        if some is not None and some > self.num_devices:
            raise ConflictError(
                "participation.devices_per_round num_devices",
                f"participation.devices_per_round {some} exceeds num_devices {self.num_devices}",
                Write({"devices_per_round": self.num_devices}, note="or less"),
            )
        if not self.aggregation.uses_codec and self.upload != "update":
            raise ConflictError(
                "aggregation", f"aggregation {self.aggregation.name} sends updates", Write({"upload": "update"})
            )
        local = self.local
        convex = self.model.name == "linear" and local.l2 > 0.0 and local.optimizer == "gd" and local.clip is not None
        if self.convergence_bound and not convex:
            raise ConflictError(
                "convergence_bound model local.l2 local.clip",
                "convergence_bound needs model: linear, local.l2 above 0, optimizer: gd, and "
                "local.clip as the bound G on gradients",
                Write({"model": "linear", "local": {"optimizer": "gd", "l2": 0.01, "clip": 1}}),
                LeaveOut("convergence_bound"),
            )
        if self.participation.straggling > 0.0 and self.local.steps == 1:
            raise ConflictError(
                "local", "straggling needs at least 2 local steps to leave some out", Write({"local.steps": 5})
            )
        return self

    @classmethod
    def measured(cls) -> Measured:
        """See `Learning`; with the numbers of every scheme."""
        return joined((_MEASURED, *(scheme.measured for scheme in schemes.classes())))

    def resolved(self) -> Self:
        if self.downlink == "ideal":
            return self
        downlink = with_engine(self.downlink.resolve_digital())
        return self.model_copy(update={"downlink": downlink, "downlink_codec": self.codec_down})

    @property
    def codec_down(self) -> Codec:
        """The codec of the server's model over a downlink."""
        if self.downlink_codec is not None:
            return self.downlink_codec
        if self.codec != codecs.read("uniform"):
            return self.codec
        return codecs.read({"name": "uniform", "bits": 16, "bound": 4.0})

    @property
    def upload_scheme(self) -> Scheme:
        return self.aggregation

    def modulation_over(self, access: Access) -> Modulation:
        usual = self.aggregation.air_modulations[:1] if access == "superposition" else ()
        return usual[0] if usual else super().modulation_over(access)

    def conflicts(self, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
        yield from super().conflicts(link=link, privacy=privacy)
        yield from fedavg_conflicts(self, link=link, privacy=privacy)

    def links(self) -> Mapping[str, LinkConfig]:
        return {} if self.downlink == "ideal" else {"learning.downlink": self.downlink}

    def downlink_bits(self) -> int | None:
        size = self.num_values()
        return None if size is None else size * self.codec_down.bits_per_value

    def privacy_conflict(self, privacy: Mechanism | None) -> Conflict | None:
        if privacy is None or privacy.protects != "amplitude":
            return None
        problem = "privacy without a mechanism bounds the amplitudes of flmc, the algorithm is fedavg"
        wanted = {"epsilon": 5, "delta": 1e-5, **privacy.model_dump(include={"epsilon", "delta"}, exclude_unset=True)}
        lines: dict[str, Any] = {
            "privacy": {"mechanism": "gaussian", **{key: rounded(number, 6) for key, number in wanted.items()}}
        }
        if self.local.optimizer != "gd" or self.local.clip is None:
            taken = self.local.model_dump(exclude_unset=True, exclude={"optimizer", "batch_size", "momentum"})
            lines["learning.local"] = {"optimizer": "gd", "clip": 1, **taken}
        return Conflict("privacy learning.algorithm", problem, Write(lines, example=True))

    def budget_conflicts(self, *, link: LinkConfig, privacy: Any) -> Iterator[Conflict]:
        plan = upload_plan(self)
        upload_parameters(plan, link=link, privacy=privacy)
        scheme_within(plan, link=link, privacy=privacy)
        yield from ()

    def settled(self, *, link: LinkConfig, privacy: Mechanism | None) -> Self:
        return self.model_copy(update={"aggregation": scheme_within(upload_plan(self), link=link, privacy=privacy)})

    def build(self, *, link: LinkConfig, privacy: Any, seed: int, trials: tuple[int, ...]) -> Federation:
        from fl.algorithms.fedavg.federation import Federation

        return Federation(self, link=link, privacy=privacy, seed=seed, trial=trials[0])

    def rounds_within(self, *, link: LinkConfig, privacy: Any) -> int | None:
        """See `Learning`; `link` names access and modulation."""
        return rounds_within(upload_plan(self.settled(link=link, privacy=privacy)), link=link, privacy=privacy)

    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        data, partition, local = self.data, self.partition, self.local
        facts = data.described()
        train, test = footprint.training_samples(data), data.test_samples or facts.num_test
        held = f", {data.validation_samples:,} held out for validation" if data.validation_samples else ""
        where = where_is(data)
        told = where.place == "nowhere" or data.source is not None  # by a warning, or by the name itself
        place = "" if told else f"; {where.sentence}"
        each = plural(footprint.samples_per_device(self), "sample")
        held_by = f"{'' if partition.each is not None else 'about '}{each} each"
        if partition.kind == "given" and facts.sizes_of_owners:
            low, high = min(facts.sizes_of_owners), max(facts.sizes_of_owners)
            held_by = f"{low:,} to {plural(high, 'sample')} each"
        size = self.num_values()
        parameters = "a number of parameters set by its function" if size is None else plural(size, "parameter")
        steps = f"{plural(local.steps, 'local step')}"
        part = self.participation
        absent = ((part.dropout, "uploads are never sent"), (part.straggling, "devices stop before their last step"))
        return [
            f"{data.source or data.name}, {train:,} training and {test:,} test {facts.in_words}{held}{place}",
            f"{partition.kind} over {plural(self.num_devices, 'device')}, {held_by}"
            + (f", {part.devices_per_round} of them in a round" if part.devices_per_round is not None else "")
            + ("" if part.selection.uniform else f" ({label('learning.participation.selection', part.selection.name)})")
            + "".join(f", {100 * share:g} % of {what}" for share, what in absent if share),
            f"{self.model.name}, {parameters}, {plural(self.rounds, 'round')} of {steps} ({local.optimizer}), "
            f"{self.sent(label, link=link)}",
            *(() if self.timing is None else self.timing.describe()),
            *self.aggregation.describe(size),
            *self._energy(link),
            *attack_in_words(self.attack, self.num_devices, label),
        ]

    @property
    def num_drawn(self) -> int | None:
        some = self.participation.devices_per_round
        return None if some is None or some >= self.num_devices else some

    def _energy(self, link: LinkConfig) -> Iterator[str]:
        budget, found = link.power.budget, footprint.energy_of_round(self, link)
        if budget is not None and found is not None:
            yield (
                f"energy budget of {budget.energy_j:g} J per device, {budget.spread}: a round at full power takes "
                f"{found[0]:.3g} J, {plural(self.rounds, 'round')} {self.rounds * found[0]:.3g} J"
            )

    def sent(self, label: Label, *, link: LinkConfig) -> str:
        """Return the bits or symbols of an upload, and their codec or scheme, in words."""
        scheme, name = self.aggregation, label("learning.aggregation", self.aggregation.model_dump(mode="json"))
        if link.access == "superposition":
            symbols = footprint.upload_symbols(self, link)
            many = "symbols known at run time" if symbols is None else plural(symbols, "symbol")
            return f"{many} of all devices at once ({name})"
        if scheme.uses_codec:
            robust = "" if scheme.unbiased else f", {name} at the server"
            each = self.codec.bits_per_value
            return f"{plural(each, 'bit')} per parameter ({self.codec.name}){robust}"
        bits = self.payload_bits()
        sent = "bits per upload known at run time" if bits is None else f"{plural(bits, 'bit')} per upload"
        return f"{sent} ({name})"

    def why_not_audited(self, privacy: Mechanism | None, *, link: LinkConfig) -> str | None:
        if link.access == "superposition" and not isinstance(privacy, ReceiverNoise):
            return "uploads add up in the air, and audits are played against single uploads"
        if isinstance(privacy, DeviceNoise | StatedNoise):
            return f"mechanism {privacy.mechanism} has no game of its own"
        if privacy is not None and privacy.protects == "bits" and self.codec.as_fractions() is None:
            return f"bit flipping is audited on the fixed-point code, and codec is {self.codec.name}"
        return nobody_honest(self.attack, num_devices=self.num_devices)

    def findings(self, facts: PointFacts) -> Iterator[str]:
        return fedavg_findings(self, facts)

    def num_values(self) -> int | None:
        """Return the number of parameters M."""
        facts = self.data.described()
        return num_parameters(self.model, image_shape=facts.image_shape, num_classes=facts.num_classes)

    def superposed(self, link: LinkConfig) -> tuple[int, float | None] | None:
        symbols = footprint.upload_symbols(self, link)
        return None if symbols is None else (symbols, superposed_airtime_s(link, symbols, self.num_devices))

    def payload_bits(self) -> int | None:
        size = self.num_values()
        return None if size is None else self.upload_bits(size)

    def upload_bits(self, num_values: int) -> int:
        """Return the bits per device and round for `num_values` numbers M, before ciphers and channel coding."""
        scheme = self.aggregation
        return num_values * self.codec.bits_per_value if scheme.uses_codec else scheme.upload_bits(num_values)

    def bytes_per_trial(self, link: LinkConfig) -> int:
        return footprint.bytes_per_trial(self, link)

    def loads_tensorflow(self, link: LinkConfig) -> bool:
        return not trains_in_kernels(self) or super().loads_tensorflow(link)


def trains_in_kernels(config: FedAvgConfig) -> bool:
    """Return True if fused kernels train the network, False if TensorFlow does."""
    facts = config.data.described()
    layers = config.model.layers(image_shape=facts.image_shape, num_classes=facts.num_classes)
    if facts.predicts_numbers:
        return True
    if is_softmax_regression(layers):
        in_kernels = config.local.in_kernels and config.personal is None
    else:
        in_kernels = config.local.in_layer_kernel and layer_stack(layers, image_shape=facts.image_shape) is not None
    return in_kernels and not sees_gpu()
