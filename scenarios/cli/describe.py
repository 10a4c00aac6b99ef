"""Text of `phyloop check`: the learning task, the size of an upload, and the limits of each sweep point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fl.config import (
    FedAvgConfig,
    FlipMomentsConfig,
    FlmcConfig,
    GaussianLinearConfig,
    ReconstructionConfig,
)
from fl.footprint import dimension, payload_bits
from fl.footprint.fedavg import samples_per_device, training_samples
from fl.footprint.radio import upload_airtime_s
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig
from scenarios.cli.describe_budget import HEADS, budget_cells, learning_within
from scenarios.cli.describe_schemes import attackers, others, promise, promises, sent
from scenarios.plan.points import Plan, Point, value_of
from scenarios.schema.caps import caps_of
from scenarios.schema.labels.labels import setting_cell
from scenarios.schema.schema import Scenario


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A table with a title; `left` lists the heads of left-aligned columns."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()


def describe(scenario: Scenario) -> list[str]:
    """Lines about the learning task and the size of a round."""
    learning = scenario.learning
    if isinstance(learning, FlmcConfig):
        task = learning.task
        samples = task.num_samples if isinstance(task, GaussianLinearConfig) else 569
        return [
            f"{task.name}, {samples} samples, {dimension(learning)} parameters, "
            f"{learning.num_devices} devices, {learning.rounds} rounds",
            *attackers(learning),
        ]
    if isinstance(learning, FedAvgConfig):
        return list(_classification(learning_within(scenario)))
    if isinstance(learning, ReconstructionConfig):
        return _attacked(learning)
    if isinstance(learning, FlipMomentsConfig):
        return [
            f"{learning.rounds} values up to {learning.largest:g}, {learning.draws:,} copies from each of "
            f"{learning.num_devices} devices, codec {learning.codec.name}, {learning.codec.bits_per_value} bits each"
        ]
    return [f"{learning.num_pairs} pairs of {learning.dimension:,} weights, codec {learning.codec.name}"]


def _classification(learning: FedAvgConfig) -> list[str]:
    from fl.data.facts import image_facts
    from fl.data.whereabouts import find_data

    data, partition, local = learning.data, learning.partition, learning.local
    facts = image_facts(data.name)
    height, width, channels = facts.image_shape
    train, test = training_samples(data, facts=facts), data.test_samples or facts.num_test
    held = f", {data.validation_samples:,} held out for validation" if data.validation_samples else ""
    colours = f" x {channels}" if channels > 1 else ""
    each = samples_per_device(learning)
    about = "" if partition.samples_per_device is not None else "about "
    size = dimension(learning)
    parameters = "a number of parameters set by its function" if size is None else f"{size:,} parameters"
    steps = f"{local.steps} local step{'s' if local.steps > 1 else ''}"
    active = learning.participation.devices_per_round
    return [
        f"{data.name}, {train:,} training and {test:,} test images of {height} x {width}{colours}, "
        f"{facts.num_classes} classes{held}; {find_data(data.name).sentence}",
        f"{partition.kind} over {learning.num_devices} devices, {about}{each:,} samples each"
        + (f", {active} of them in a round" if active is not None else ""),
        f"{learning.model.name}, {parameters}, {learning.rounds} rounds of {steps} ({local.optimizer}), "
        f"{sent(learning)}",
        *others(learning),
    ]


def _attacked(learning: ReconstructionConfig) -> list[str]:
    from fl.data.whereabouts import find_data

    games, each = learning.num_devices * learning.rounds, learning.samples_per_device
    return [
        f"{learning.data.name}, {find_data(learning.data.name).sentence}",
        f"an attack on {games:,} uploads per trial, {each} image{'s' if each > 1 else ''} behind each: images are "
        "rebuilt from the received updates, and a test decides if a target image is among them",
        f"softmax regression, {dimension(learning):,} parameters, one step, {sent(learning.one_round)}",
    ]


def listings(plan: Plan) -> list[Listing]:
    """Tables with a row per sweep point, one for each kind of algorithm in the plan, and one for budgets."""
    kinds: tuple[tuple[type, Callable[[Plan, Sequence[Point]], Listing]], ...] = (
        (FlmcConfig, _amplitudes),
        (FedAvgConfig, _uploads),
        (FlipMomentsConfig, _uploads),
        (ReconstructionConfig, _uploads),
    )
    made = []
    for kind, listing in kinds:
        points = [point for point in plan.points if isinstance(point.scenario.learning, kind)]
        if points:
            made.append(listing(plan, points))
    budgets = [(point, cells) for point in plan.points if (cells := budget_cells(point.scenario)) is not None]
    if budgets:
        made.append(
            Listing(
                title="Budget for the whole run:",
                heads=(*_heads(plan), *HEADS),
                rows=tuple((*_settings(plan, point), *cells) for point, cells in budgets),
                left=(*_heads(plan), *HEADS[2:]),
            )
        )
    return made


def _heads(plan: Plan) -> tuple[str, ...]:
    return tuple(path.rsplit(".", 1)[-1] for path in plan.swept_paths)


def _settings(plan: Plan, point: Point) -> tuple[str, ...]:
    return tuple(setting_cell(path, value_of(point, path)) for path in plan.swept_paths)


def _amplitudes(plan: Plan, points: Sequence[Point]) -> Listing:
    rows = []
    for point in points:
        caps = caps_of(point.scenario)
        cells: tuple[str, ...] = ("", "", "", "no radio", "")
        if caps is not None:
            amplitudes = [_cell(cap) for cap in (caps.power, caps.lmc, caps.privacy)]
            cells = (*amplitudes, caps.binding, _cell(caps.loss_bound))
        rows.append((*_settings(plan, point), *cells))
    return Listing(
        title="Receive amplitude A at most:",
        heads=(*_heads(plan), "power cap", "LMC cap", "privacy cap", "binds", "largest loss"),
        rows=tuple(rows),
        left=(*_heads(plan), "binds"),
    )


def _cell(value: object) -> str:
    """A cap in a narrow column; empty for a cap that is unknown before the run."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "none" if value == float("inf") else f"{value:.4g}"
    return str(value)


def _uploads(plan: Plan, points: Sequence[Point]) -> Listing:
    private = any(point.scenario.privacy != "none" or promises(point.scenario.learning) for point in points)
    heads = ("mechanism", "epsilon", "kappa", "target p", "sigma") if private else ()
    return Listing(
        title="What one device sends in a round:",
        heads=(*_heads(plan), "numbers", "bits", "airtime", *heads),
        rows=tuple(
            (*_settings(plan, point), *_upload(point.scenario), *(_privacy(point.scenario) if private else ()))
            for point in points
        ),
        left=(*_heads(plan), "mechanism"),
    )


def _upload(scenario: Scenario) -> tuple[str, str, str]:
    learning = scenario.learning
    size, bits = dimension(learning), payload_bits(learning)
    if size is None or bits is None:
        return "", "", ""
    airtime = upload_airtime_s(scenario.link, payload_bits=bits)
    return f"{size:,}", f"{bits:,}", "no radio" if airtime is None else f"{airtime:.4g} s"


def _privacy(scenario: Scenario) -> tuple[str, str, str, str, str]:
    """Mechanism, epsilon, kappa, bit error rate of Theorem 1, and noise."""
    learning, privacy = scenario.learning, scenario.privacy
    if isinstance(learning, ReconstructionConfig):
        learning = learning.one_round
    if not isinstance(learning, FedAvgConfig):
        return "", "", "", "", ""
    if isinstance(privacy, BitFlippingConfig):
        name = f"bit-flipping, {privacy.channel}" + (", debiased" if privacy.debias else "")
        if privacy.kappa == "measured":
            return name, f"{privacy.epsilon:g}", "measured", "", ""
        from privacy.mechanisms.bit_flipping import target_bit_error_rate

        target = target_bit_error_rate(
            epsilon=privacy.epsilon, order=privacy.order, num_rounds=learning.rounds, kappa=privacy.kappa
        )
        clamped = " (clamped)" if target.clamped else ""
        return name, f"{privacy.epsilon:g}", f"{privacy.kappa:g}", f"{target.rate:.4g}{clamped}", ""
    if isinstance(privacy, GaussianConfig):
        return f"gaussian, {privacy.calibration}", f"{privacy.epsilon:g}", "", "", _sigma(learning, privacy)
    if isinstance(privacy, BitFlippingBudget | GaussianBudget):
        return f"{privacy.mechanism}, from the budget", f"{privacy.budget.epsilon:g} per run", "", "", ""
    if promises(learning):
        return promise(learning_within(scenario))
    return "none", "", "", "", ""


def _sigma(learning: FedAvgConfig, privacy: GaussianConfig) -> str:
    """The printed noise at the mean |D_n|; the calibrated noise needs a library that loads slowly."""
    local = learning.local
    if privacy.calibration != "printed" or local.clip is None:
        return ""
    from privacy.mechanisms.gaussian_mechanism import delta_from_renyi, printed_sigma, sensitivity

    distance = sensitivity(
        learning_rate=local.learning_rate,
        clip=local.clip,
        num_samples=samples_per_device(learning),
        steps=local.steps if privacy.sensitivity == "all-steps" else 1,
    )
    delta = privacy.delta
    if delta is None:
        delta = delta_from_renyi(order=privacy.order, epsilon=privacy.epsilon, epsilon_prime=privacy.epsilon)
    sigma = printed_sigma(sensitivity=distance, num_rounds=learning.rounds, epsilon=privacy.epsilon, delta=delta)
    return f"{float(sigma):.4g}"
