"""Warnings: combinations of keys that are allowed and that spoil a result, one sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.footprint import energy_of_round, samples_per_device
from fl.algorithms.fedavg.upload import training_of, upload_plan
from fl.attacks.attacks import number_of
from fl.base.words import plural
from fl.schemes.codecs.codec import Codec, codecs
from fl.uplink.budgets import upload_parameters
from fl.uplink.channel_credit import errors_together, law_of_errors
from phy.coding.plan import plan_packet
from phy.config import LinkConfig
from phy.config.mcs import is_by_device
from phy.engines.choice import has_bfloat16
from phy.links.airtime import cut_packet, fullest_packet_bytes
from phy.links.recorded import recorded_warnings
from phy.links.warnings import link_warnings
from privacy.config import UploadMechanism
from privacy.config.base import Training
from privacy.evidence import USUAL_DELTA, confidence_for, evidence_delta, may_credit
from scenarios.schema.consistency.conflicts import rounds_known
from scenarios.schema.consistency.resolve import links_of, resolve_auto
from scenarios.schema.schema import Scenario

_LOOKS = 10
"""Independent looks at a channel below which the lower confidence limit of its error rate is next to nothing."""

_ROUNDED_UP = 1.0 + 1e-4
"""A budget keeps back the rounding of energies, see `fl.uplink.energy`."""
_CANCELLED = 0.05
"""Share of the mean update below which attackers have cancelled it."""
_LITTLE_NOISE = 0.2
"""Noise of a run over all of its steps with which a model learns."""
_USED_SLOTS = 0.7
"""Share of the data symbols of its slots that a packet of a sensible size fills."""
_LITTLE_POWER = 0.01
"""Share of full power below which an energy budget is likely a mistake in its unit."""


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Yield warnings, one sentence each, without full stops."""
    # An attack on uploads is warned of as the round of federated averaging that it attacks.
    yield from _learning_and_link(scenario.model_copy(update={"learning": scenario.learning.played}))
    yield from _budget(scenario)


def _learning_and_link(scenario: Scenario) -> Iterator[str]:
    learning, privacy = scenario.learning, scenario.mechanism
    if learning.uses_radio:
        for _, link in links_of(scenario):
            yield from link_warnings(link)
            yield from recorded_warnings(link, num_rounds=learning.rounds)
        yield from _short_upload(scenario)
        yield from _empty_slots(resolve_auto(scenario).link, scenario.learning.payload_bits())
    yield from learning.warnings()
    if not isinstance(learning, FedAvgConfig):
        return
    yield from _data(learning)
    yield from _energy(learning, resolve_auto(scenario).link)
    most, batch = samples_per_device(learning), learning.local.batch_size
    if batch is not None and batch > most:
        yield (
            f"learning.local.batch_size: a batch of {batch:,} takes all of the {plural(most, 'sample')} "
            "that a device has on average; write a smaller batch_size, or optimizer: gd without one"
        )
    if learning.local.precision == "bfloat16" and not has_bfloat16():
        yield (
            "learning.local.precision: this processor has neither AMX nor AVX-512 BF16, so that bfloat16 is no faster "
            "than float32; leave precision out"
        )
    yield from _bare_numbers(learning, scenario)
    yield from _coins(learning, scenario)
    mechanism = None if privacy is None else privacy.for_uploads
    if mechanism is not None:
        yield from mechanism.warnings(training_of(learning))
        yield from _noise(learning, mechanism)
        if mechanism.credited is not None and not mechanism.calibrated:
            yield from _probe(scenario)
    yield from _aggregation(learning, scenario)
    yield from _evidence(learning, scenario)


def _short_upload(scenario: Scenario) -> Iterator[str]:
    """A code whose check sum and smallest block are longer than an upload."""
    link, bits = resolve_auto(scenario).link, scenario.learning.payload_bits()
    if link.coding == "none" or bits is None or bits >= 8 * link.packet_size_bytes:
        return
    crc, width = link.packets.crc_name(bits), link.bits_per_symbol
    plan = plan_packet(link.coding, payload_bits=bits, bits_per_symbol=width, crc=crc)
    if plan.rate < 0.5 * link.coding.rate:
        longer = f"the smallest block of {link.coding.code} is" + (f" longer, with {crc}" if crc else " longer")
        yield (
            f"link.coding: {plural(bits, 'bit')} of an upload take {plan.coded_bits} on the air, a rate of "
            f"{plan.rate:.2g} in place of {link.coding.rate:.2g}, because {longer}, and its bits err "
            "together; write coding: none, or learn a larger model"
        )


def _empty_slots(link: LinkConfig, payload_bits: int | None) -> Iterator[str]:
    """Slots of OFDM that a packet does not fill, and which are on the air and cost energy all the same."""
    if link.ofdm == "none" or link.plain or link.error_model == "error_free" or link.access == "superposition":
        return
    if is_by_device(link.mcs):
        return  # of one MCS the slots are full, of another they are not
    bits = 8 * link.packet_size_bytes
    if payload_bits is not None and payload_bits < bits:
        return  # a payload is one packet, and no other is there to fill its slots
    cut = cut_packet(link, packet_bits=bits)
    if cut.used >= _USED_SLOTS:
        return
    fuller = next((slots for slots in range(cut.slots, cut.slots + 8) if _fills(link, slots)), cut.slots)
    size = fullest_packet_bytes(link, slots=fuller)
    may_share = link.access == "orthogonal" and link.multiplexing == "tdma"
    yield (
        f"link.packet_size_bytes: a packet of {plural(link.packet_size_bytes, 'byte')} fills {cut.used:.0%} of the "
        f"data symbols of the {plural(cut.slots, 'slot')} that it has for itself, and airtime and energy count them "
        f"all; write packet_size_bytes: {size}{' or ofdm.packing: shared' if may_share else ''}"
    )


def _fills(link: LinkConfig, slots: int) -> bool:
    """Tell if the largest packet of so many slots fills them, codes being coarse."""
    size = fullest_packet_bytes(link, slots=slots)
    return size >= link.packet_size_bytes and cut_packet(link, packet_bits=8 * size).used >= _USED_SLOTS


def _noise(learning: FedAvgConfig, mechanism: UploadMechanism) -> Iterator[str]:
    """Noise of privacy that is larger than all that the devices can learn."""
    training, numbers = training_of(learning), learning.num_values()
    limit = learning.codec.value_range or 0.0
    noise = mechanism.noise_std(training, num_samples=samples_per_device(learning), value_range=limit)
    if noise is not None and mechanism.protects == "numbers":
        yield from _beyond_codec(learning, noise)
    if noise is None or numbers is None or training.clip is None:
        return
    devices = learning.participation.devices_per_round or learning.num_devices
    # The norm of the noise of all rounds, and the largest norm of all steps.
    of_run = noise * math.sqrt(numbers / devices * training.num_rounds)
    way = training.num_rounds * training.steps * training.learning_rate * training.clip
    if of_run > way:
        epsilon = _enough(
            mechanism, way / of_run * noise, training, num_samples=samples_per_device(learning), limit=limit
        )
        enough = "" if epsilon is None else f" to {float(f'{epsilon:.2g}'):g}"
        if mechanism.protects == "bits" and limit:  # see `FlippedBits.noise_std`
            most = 0.75 * (way / of_run * noise / limit) ** 2
            enough += f" (where the channel's own bit error rate is below {most:.2g})"
        yield (
            f"privacy.epsilon: the noise that {plural(devices, 'device')} average out is {of_run / way:.2g} "
            "times as large as all steps of a run together, so that the model may stay at guessing; raise "
            f"epsilon{enough}, learning.num_devices or learning.local.steps, or take a smaller model"
        )


def _coins(learning: FedAvgConfig, scenario: Scenario) -> Iterator[str]:
    """Bits that a budget flips almost with probability 1/2, which leave less of all steps of a run than noise.

    A received number is 1 - 2 p of the sent one, beside the errors of `FlippedBits.noise_std`.
    """
    privacy, numbers, training = scenario.mechanism, learning.num_values(), training_of(learning)
    budget, link = scenario.budget, resolve_auto(scenario).link
    if privacy is None or budget is None or not privacy.calibrated or privacy.protects != "bits":
        return
    if numbers is None or training.clip is None:
        return
    devices = learning.participation.devices_per_round or learning.num_devices
    step = training.steps * training.learning_rate * training.clip

    def flips(codec: Codec, epsilon: float) -> tuple[float, float]:
        """Probability of a flip, and the noise of all rounds over the norm of all steps."""
        raised = privacy.model_copy(update={"budget": budget.model_copy(update={"epsilon": epsilon})})
        found = upload_parameters(upload_plan(learning.model_copy(update={"codec": codec})), link=link, privacy=raised)
        assert found is not None
        p = float(found.max())
        noise = (codec.value_range or 0.0) * math.sqrt(4.0 / 3.0 * p) / max(1.0 - 2.0 * p, 1e-12)
        return p, noise * math.sqrt(numbers / (devices * training.num_rounds)) / step

    rate, times = flips(learning.codec, budget.epsilon)
    if times <= 1.0:
        return
    bit = codecs.read({"name": "uniform", "bits": 1, "bound": float(f"{4.0 * step / math.sqrt(numbers):.1g}")})
    fewer = bit if training.bits_per_value > 1 else learning.codec
    tried = [float(f"{budget.epsilon * 2.0**doublings:.2g}") for doublings in range(20)]
    enough = next((one for one in tried if one <= 1e6 and flips(fewer, one)[1] <= _LITTLE_NOISE), None)
    remedies = [f"learning.codec: {{name: uniform, bits: 1, bound: {bit.value_range:g}}}"] if fewer is bit else []
    remedies += [f"privacy.budget.epsilon: {enough:g}"] if enough not in (None, tried[0]) else []
    yield (
        f"privacy.budget.epsilon: {budget.epsilon:g} for {numbers * training.bits_per_value:,} bits in each of "
        f"{plural(training.num_rounds, 'round')} flips them with probability {rate:.4f}, and the noise that "
        f"{plural(devices, 'device')} average out is {times:.2g} times as large as all steps of a run together; write "
        f"{' and '.join(remedies) or 'a smaller learning.model'}, or more learning.num_devices"
    )


def _enough(
    mechanism: UploadMechanism, noise: float, training: Training, *, num_samples: int, limit: float
) -> float | None:
    """The first of epsilon 2^(k/4), k = 1 .. 80, with at most this noise; None without an epsilon of its own."""
    written = getattr(mechanism, "epsilon", None)
    for step in range(1, 81) if written is not None else ():
        tried = mechanism.model_copy(update={"epsilon": written * 2.0 ** (step / 4.0)})
        found = tried.noise_std(training, num_samples=num_samples, value_range=limit)
        if found is not None and found <= noise:
            return float(f"{written * 2.0 ** ((step + 1) / 4.0):.2g}")  # two digits may round down by less than a step
    return None


def _beyond_codec(learning: FedAvgConfig, noise: float) -> Iterator[str]:
    """Gaussian noise of which the codec clips more than it may: P(|z| > B) of z ~ N(0, noise^2)."""
    bound, limit = learning.codec.value_range, learning.codec.clipped_limit
    if not learning.aggregation.uses_codec or bound is None or limit is None or noise == 0.0:
        return
    share = math.erfc(bound / (math.sqrt(2.0) * noise))
    if share > limit:
        yield (
            f"learning.codec.bound: noise of standard deviation {noise:.3g} takes {share:.0%} of the values beyond the "
            f"codec's +-{bound:g}, and more than max_clipped = {limit:g} ends a trial; write bound: {4.0 * noise:.2g}, "
            "four standard deviations, or max_clipped: 1 where wrong bits would cost more in a wide range, or raise "
            "privacy.epsilon"
        )


def _data(learning: FedAvgConfig) -> Iterator[str]:
    """Images that are not on this machine, or fewer of them than the scenario asks for."""
    from fl.base.errors import LearningError
    from fl.data.images import available_images
    from fl.data.whereabouts import missing_data

    if learning.data.source is not None:
        yield from _owners(learning)
        return
    missing = missing_data(learning.data.name)
    if missing is not None:
        yield f"learning.data: {missing}"
        return
    try:
        have = available_images(learning.data.name)
    except LearningError as error:
        yield f"learning.data: {error}"
        return
    for key, there in zip(("train_samples", "test_samples"), have, strict=True):
        wanted = getattr(learning.data, key)
        if wanted is not None and wanted > there:
            yield f"learning.data.{key}: {wanted} images are asked for, this copy of {learning.data.name} has {there}"


def _owners(learning: FedAvgConfig) -> Iterator[str]:
    """Owners named for nothing, and owners with one class or one sample."""
    facts = learning.data.described()
    given = learning.partition.kind == "given"
    if facts.owners and not given:
        yield (
            f"learning.partition: the data name {plural(len(facts.owners), 'owner')}, and partition "
            f"{learning.partition.kind} deals their samples anew; write partition: given to leave them where they are"
        )
    lone = sum(classes == 1 for classes in facts.classes_of_owners) if given else 0
    if lone and not facts.predicts_numbers:
        yield (
            f"learning.partition: {lone} of {plural(len(facts.owners), 'owner')} have samples of one class alone, from "
            "which a device learns to answer that class; leave them out of the file, or average more devices"
        )
    smallest = min(facts.sizes_of_owners, default=0) if given else 0
    if smallest == 1:
        alone = sum(size == 1 for size in facts.sizes_of_owners)
        yield f"learning.partition: {alone} of {plural(len(facts.owners), 'owner')} have one sample to train on"


def _energy(learning: FedAvgConfig, link: LinkConfig) -> Iterator[str]:
    """An energy budget that never limits a device, or that leaves it next to nothing."""
    budget, found = link.power.budget, energy_of_round(learning, link)
    if budget is None or found is None:
        return
    round_j, pilots_j = found
    of_run = f"{plural(learning.rounds, 'round')} at full power take {learning.rounds * round_j:.3g} J"
    key, greedy = f"link.power.budget.energy_j: {budget.energy_j:g} J", budget.spread == "greedy"
    # `convergence` may shift more than an even share to a round, and so binds a little above.
    if budget.spread != "convergence" and budget.energy_j >= learning.rounds * round_j * _ROUNDED_UP:
        yield f"{key} never limits a device, because {of_run}; write less, or leave budget out"
        return
    each_j = budget.energy_j if greedy else budget.energy_j / learning.rounds
    share = (each_j - pilots_j) / (round_j - pilots_j)
    remedy = f"{of_run}; raise it, or shorten pilots" if pilots_j else f"{of_run}; raise it"
    if share <= 0.0:
        yield f"{key} does not pay for pilots of {pilots_j:.3g} J in a round: {remedy}"
    elif greedy and share < 1.0:
        yield f"{key} is spent before the end of one round at full power, and then every device is silent: {remedy}"
    elif share < _LITTLE_POWER:
        yield f"{key} keeps devices {-10.0 * math.log10(share):.0f} dB below full power in a round: {remedy}"


def _bare_numbers(learning: FedAvgConfig, scenario: Scenario) -> Iterator[str]:
    """Bit errors in numbers of binary32."""
    for path, link in links_of(scenario):
        scheme, own = learning.aggregation, path == "link" and not learning.aggregation.uses_codec
        codec = learning.codec if path == "link" else learning.codec_down
        bounded = not scheme.binary32 if own else codec.value_range is not None
        if bounded or learning.receiver_limit is not None:
            continue
        if link.error_model != "error_free" and link.packets.policy == "accept":
            yield (
                f"{path}: a wrong exponent bit makes a number of binary32 as large as 1e38, which ends a trial; write "
                f"{'' if own else 'codec: uniform, '}packets.policy: drop, or a learning.receiver_limit"
            )


def _fades_within_round(scenario: Scenario) -> bool:
    """Return True if the probe and the payload of a simulated round meet different fades."""
    channel = scenario.link.channel
    return channel.coherence in ("symbol", "packet", "doppler") and channel.fades


def _probe(scenario: Scenario) -> Iterator[str]:
    """Channel errors that `channel: native` cannot count towards privacy."""
    link = scenario.link
    if link.error_model in ("error_free", "analytic", "iid-mean"):
        return
    changing, coded = _fades_within_round(scenario), link.coding != "none" or link.mcs is not None
    if changing:
        yield (
            f"privacy.channel: under channel coherence {link.channel.coherence} the probe and the payload meet "
            "different fades, so that channel native can count few channel errors or none towards privacy; write "
            "coherence: round or run, or channel: agnostic"
        )
    if coded:
        yield (
            "privacy.channel: errors after decoding fill whole packets and spare all others, while Theorem 1 needs "
            "independent errors of all bits, so that native counts almost no channel error towards privacy; write "
            "channel: agnostic to count none"
        )
    if changing or coded:
        return
    together = errors_together(resolve_auto(scenario).link)
    if together > 1 and link.probe_bits < _LOOKS * together:
        yield (
            f"link.probe_bits: a probe of {plural(link.probe_bits, 'bit')} is too short, because "
            f"{together:,} may be wrong together, such as those of a packet under one channel estimate; "
            f"channel native then counts almost no channel error: write probe_bits: {_LOOKS * together} or "
            "more, a smaller packet_size_bytes, or channel: agnostic"
        )


def _aggregation(learning: FedAvgConfig, scenario: Scenario) -> Iterator[str]:
    """Fades that a probe misses, and attackers whose numbers have no limit."""
    scheme, link, attack = learning.aggregation, scenario.link, learning.attack
    simulated = link.error_model not in ("error_free", "analytic", "iid-mean")
    if scheme.credited is not None and simulated and _fades_within_round(scenario):
        yield (
            f"learning.aggregation.channel: under channel coherence {link.channel.coherence} the probe and the payload "
            "meet different fades, so that native may count channel errors that the payload does not have; write "
            "coherence: round or run, or channel: agnostic"
        )
    trim = scheme.cut_off
    if trim is not None and attack is not None and attack.share is not None and trim < attack.share:
        yield (
            f"learning.aggregation.trim: {trim:g} cuts off fewer devices at each end than the share {attack.share:g} "
            f"that attacks; write trim: {attack.share:g}"
        )
    yield from _cancelled(learning)
    if attack is None or attack.acts_on != "bits" or learning.receiver_limit is not None:
        return
    remedy, unlimited = "write a learning.receiver_limit", scheme.overwhelmed
    if scheme.uses_codec:
        remedy = "write codec: fixed-point, or a learning.receiver_limit"
        unlimited = unlimited and learning.codec.value_range is None
    if unlimited:
        yield (
            f"learning.attack.kind: {attack.kind} on bits of binary32 makes numbers of up to 1e38, or NaN, which ends "
            f"a trial; {remedy}"
        )


def _cancelled(learning: FedAvgConfig) -> Iterator[str]:
    """Attackers whose scaled updates leave nothing of the mean: 1 - s + s f = 0 for a share s and a factor f."""
    attack = learning.attack
    if attack is None or not learning.aggregation.unbiased:
        return
    if attack.acts_on != "updates" or "factor" not in attack.reads:
        return
    share = number_of(attack, learning.num_devices) / learning.num_devices
    factor = getattr(attack, "factor", 1.0)
    if abs(1.0 - share + share * factor) < _CANCELLED:
        yield (
            f"learning.attack.factor: {share:g} of the devices send {factor:g} times their updates, which cancels the "
            "mean of all, so that the model stays as it is; write factor: -1 for a weaker attack, or another share"
        )


def _evidence(learning: FedAvgConfig, scenario: Scenario) -> Iterator[str]:
    """Channel errors that no proof counts towards privacy, and the delta that the evidence for them costs."""
    privacy = resolve_auto(scenario).mechanism
    mechanism = None if privacy is None else privacy.for_uploads
    scheme = learning.settled(link=resolve_auto(scenario).link, privacy=privacy).aggregation
    where, confidence = "learning.aggregation", scheme.credited
    if mechanism is not None and not mechanism.calibrated:
        where, confidence = "privacy", mechanism.credited
    if confidence is None or scenario.link.error_model == "error_free":
        return
    law = law_of_errors(scenario.link.resolve_digital())
    reason = may_credit(law=law)
    if reason is not None:
        unless = ", unless errors counted in the run pass the test of independence" if law == "unknown" else ""
        yield (
            f"{where}.channel: native counts channel errors towards privacy as the paper does, but without a proof: "
            f"{reason}; phyloop privacy counts the devices' own flips only{unless}"
        )
        return
    cost = evidence_delta(1.0 - confidence, num_rounds=learning.rounds)
    if cost >= USUAL_DELTA:
        enough = confidence_for(0.1 * USUAL_DELTA, num_rounds=learning.rounds)
        yield (
            f"{where}.confidence: level {confidence:g} in each of {plural(learning.rounds, 'round')} costs "
            f"delta {cost:.3g}, more than the usual {USUAL_DELTA:g} of a run; write confidence: "
            f"{enough:.10g} to spend a tenth of that"
        )


def _budget(scenario: Scenario) -> Iterator[str]:
    """Warn of a budget that is spent before the last round."""
    learning, budget = scenario.learning, scenario.budget
    burn_in = getattr(learning, "burn_in", -1)
    if budget is not None and budget.calibrate and learning.num_drawn is not None:
        yield (
            f"privacy.budget.epsilon: noise for epsilon {budget.epsilon:g} is that of devices that send in all "
            f"{plural(learning.rounds, 'round')}, and only {learning.num_drawn} of "
            f"{learning.num_devices} are drawn in each, so that the run may prove a smaller epsilon; raise it if "
            "phyloop privacy shows a smaller one than you need"
        )
    rounds = rounds_known(scenario)
    if budget is None or rounds is None or rounds >= learning.rounds:
        return
    what = "the trials stop after" if budget.action == "stop" else "no device sends after"
    text = f"privacy.budget: epsilon {budget.epsilon:g} is spent after {rounds} of {plural(learning.rounds, 'round')}"
    if budget.action == "stop" and rounds <= burn_in:
        yield f"{text}, and of {plural(burn_in, 'round')} of burn-in no sample counts; write calibrate: true"
    else:
        yield f"{text}, and {what} that; write calibrate: true to spread it over all"
