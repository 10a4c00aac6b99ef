"""Conflicts of federated averaging: data, model, aggregation scheme, personal models, attackers and privacy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from fl.algorithms.fedavg.footprint import samples_per_device, training_samples
from fl.algorithms.fedavg.upload import training_of
from fl.attacks.attacks import attack_conflicts, choose_attackers
from fl.base.errors import LearningError
from fl.base.words import plural
from fl.data.arrays import image_facts
from fl.data.partition.split import partition_problem
from fl.schemes.codecs.codec import codecs
from fl.schemes.mean import MeanScheme
from fl.schemes.scheme import SCHEME_KEYS, schemes
from phy.config import LinkConfig
from phy.config.conflict import Conflict
from privacy.config import Mechanism, ReceiverNoise

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

_MECHANISM = "privacy.mechanism privacy"
_MODEL = "learning.model.name learning.model learning.data.name learning.data"
_SHARES = ("partition.samples_per_device", "partition.labels_per_device", "num_devices", "data.train_samples", "data")


def fedavg_conflicts(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield every combination of keys that cannot be simulated or that has no meaning."""
    yield from list(_samples(config)) or _shares(config)
    try:
        config.num_values()
    except LearningError as error:
        keys = f"learning.model.outputs {_MODEL}" if "outputs" in str(error).partition("; ")[0] else _MODEL
        yield Conflict.of(keys, error, usual="write learning.model: mlp")
        return
    if config.downlink == "ideal" and config.downlink_codec is not None:
        problem = "downlink_codec writes what goes over a downlink, and the downlink is ideal"
        remedy = "leave downlink_codec out, or write downlink: {power: {snr_max_db: 20}}"
        yield Conflict("learning.downlink_codec learning.downlink", problem, remedy)
    yield from _scheme(config, link=link, privacy=privacy)
    yield from _personal(config)
    if link.access == "superposition" and config.sums:
        yield from _superposed(config, link=link, privacy=privacy)
    elif config.attack is not None and config.attack.acts_on == "air":
        kind = config.attack.kind
        problem = f"attack.kind {kind} acts on symbols that add up in the air, and the access is {link.access}"
        remedy = "write link.access: superposition, or kind: random, which sends random bits"
        yield Conflict("learning.attack.kind learning.attack", problem, remedy)
    if config.attack is not None:
        choose = partial(choose_attackers, config.attack, num_devices=config.num_devices, seed=0, trial=0)
        yield from attack_conflicts(config.attack, choose)
    if isinstance(privacy, ReceiverNoise):
        yield from _receiver_noise(config, link=link, privacy=privacy)
    if privacy is not None and privacy.for_uploads is not None and config.aggregation.uses_codec:
        # A budget for the scheme is checked as a budget; a scheme with bits of its own protects them itself.
        for keys, problem, remedy in privacy.for_uploads.conflicts(training_of(config), lost=_lost(link)):
            yield Conflict(keys, problem, remedy)


def _superposed(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """What has no meaning where the server receives the sum of all devices alone."""
    scheme, mechanism = config.aggregation, None if privacy is None else privacy.for_uploads
    response, usual, attack = scheme.response, scheme.air_modulations, config.attack
    orthogonal, unseen = "write link.access: orthogonal", "which nobody sees in a sum"
    if not usual:
        able = [word for word in schemes.words() if schemes.read({"name": word}).air_modulations]
        problem = "needs what every device sends, but access superposition adds devices up in the air"
        remedy = f"{orthogonal}, or aggregation: {', '.join(able[:-1])} or {able[-1]}"
        yield Conflict(f"link.access {SCHEME_KEYS}", f"aggregation {scheme.name} {problem}", remedy)
        return
    if link.modulation not in ("auto", *usual):
        symbols = " or ".join(usual)
        problem = f"aggregation {scheme.name} adds up {symbols} symbols, the modulation is {link.modulation}"
        yield Conflict(f"link.modulation {SCHEME_KEYS}", problem, f"write modulation: auto, or {symbols}")
    if response is not None and response.channel != "agnostic":
        problem = f"channel {response.channel} needs the bit errors of every device, {unseen}"
        remedy = f"write learning.aggregation.channel: agnostic, or {orthogonal}"
        yield Conflict(f"learning.aggregation.channel link.access {SCHEME_KEYS}", problem, remedy)
    if mechanism is not None and mechanism.protects == "bits":
        problem = f"mechanism {mechanism.mechanism} needs the bits of every device, {unseen}"
        yield Conflict(f"{_MECHANISM} link.access", problem, orthogonal)
    for key in ("receiver_limit", "convergence_bound"):
        if getattr(config, key):
            problem = f"{key} is for the numbers of single devices, {unseen}"
            yield Conflict(f"learning.{key} link.access", problem, f"leave {key} out, or {orthogonal}")
    if attack is not None and attack.acts_on == "bits" and usual == ("analog",) and response is None:
        problem = f"attack.kind {attack.kind} acts on bits, and aggregation {scheme.name} sends none over the air"
        yield Conflict(
            "learning.attack.kind learning.attack link.access", problem, "write kind: sign-flip, or kind: jam"
        )
    if attack is not None and attack.acts_on == "air" and link.error_model == "error_free":
        problem = f"attack.kind {attack.kind} sends at the full power of a radio, and error_model error_free has none"
        remedy = "write link.error_model: measured, or another kind"
        yield Conflict("learning.attack.kind learning.attack link.error_model", problem, remedy)


def _receiver_noise(config: FedAvgConfig, *, link: LinkConfig, privacy: ReceiverNoise) -> Iterator[Conflict]:
    """Links on which the receiver's noise has no distance of two sums to hide, or on which power control tells data."""
    scheme = config.aggregation
    if link.access != "superposition":
        problem = "protects updates that add up in the air, but the server receives every device on its own"
        remedy = "write link.access: superposition, or mechanism: device-noise"
        yield Conflict(f"{_MECHANISM} link.access", f"mechanism receiver-noise {problem}", remedy)
        return

    def noise_fails(keys: str, problem: str, remedy: str) -> Conflict:
        reason = f"mechanism receiver-noise relies on the receiver's noise, but {problem}"
        return Conflict(f"{keys} {_MECHANISM}", reason, remedy)

    if link.error_model != "measured":
        problem = f"there is none with error_model {link.error_model}"
        yield noise_fails("link.error_model", problem, "write link.error_model: measured")
    if link.combines:
        problem = "with several antennas, or one that devices do not invert their channels for, a listener has more"
        remedy = "write link.receiver: {num_antennas: 1}"
        yield noise_fails("link.receiver.num_antennas link.receiver", f"{problem} than one noisy sum", remedy)
    if link.mixes_carriers or not link.impairments.none:
        problem = "devices out of step, and impaired ones, arrive at amplitudes that nobody limits"
        for wrong, key, remedy in (
            (not link.impairments.none, "link.impairments", "leave link.impairments out"),
            (link.ofdm != "none" and link.ofdm.domain == "time", "link.ofdm.domain", "write domain: frequency"),
        ):
            if wrong:
                yield noise_fails(key, problem, remedy)
    for wrong, key, remedy in (
        (link.control.clips, "link.power.policy", "write policy: inversion"),
        (link.power.budget is not None, "link.power.budget", "leave budget out"),
        (link.receiver.scaling == "mmse", "link.receiver.scaling", "write scaling: unbiased"),
    ):
        if wrong:
            yield noise_fails(key, "power control that follows the power of payloads tells of them", remedy)
    if privacy.budget is not None and link.csi != "perfect":
        problem = "the amplitude at which devices arrive is unknown before the run with an estimated channel"
        remedy = "write link.csi: perfect, or the epsilon of a round in place of the budget"
        yield noise_fails("privacy.budget link.csi", problem, remedy)
    form = scheme.over_air(config.num_values() or 1)
    if scheme.own_epsilon is not None:
        problem = f"aggregation {scheme.name} protects its bits itself, and the receiver's noise is not counted on top"
        remedy = "write privacy: none"
        yield Conflict(f"{SCHEME_KEYS} {_MECHANISM}", problem, remedy)
    elif form is not None and form.follows_updates and privacy.clip is None and not scheme.uses_codec:
        problem = f"mechanism receiver-noise needs a bound on the norm of what aggregation {scheme.name} sends"
        yield Conflict(f"privacy.clip {_MECHANISM}", problem, "write privacy.clip: 1")
    if form is not None and not form.follows_updates and privacy.clip is not None:
        problem = f"privacy.clip shortens updates sent as amplitudes, and {scheme.name} sends symbols of one power"
        yield Conflict(f"privacy.clip {SCHEME_KEYS}", problem, "leave clip out")
    if config.upload != "update":
        problem = "mechanism receiver-noise clips updates, and devices send models"
        yield Conflict("learning.upload privacy.mechanism", problem, "write upload: update")


def _lost(link: LinkConfig) -> str | None:
    """The policy that drops packets with bit errors or sends them again, None if all bit errors are kept."""
    return None if link.error_model == "error_free" or link.packets.policy == "accept" else link.packets.policy


def _scheme(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Numbers of the scheme, and what a scheme with bits of its own does not allow."""
    # A calibrated budget for the run sets the scheme's epsilon, and b with it.
    calibrated = privacy is not None and privacy.protects == "scheme" and privacy.calibrated
    scheme = config.aggregation
    yield from scheme.conflicts(num_rounds=config.rounds, num_values=config.num_values(), calibrated=calibrated)
    if scheme.uses_codec:
        return
    # Comparisons with a mean write the codec of the mean once for all: full precision, or the default.
    if config.codec not in (codecs.read("uniform"), codecs.read("binary32")) and config.downlink == "ideal":
        problem = f"aggregation {scheme.name} makes its own bits and never uses codec {config.codec.name}"
        remedy = f"leave codec out, or write aggregation: mean in place of {scheme.name}"
        yield Conflict(f"learning.codec.name learning.codec {SCHEME_KEYS}", problem, remedy)
    if privacy is not None and privacy.protects not in ("scheme", "sum"):
        problem = f"aggregation {scheme.name} makes its own bits, and privacy is for mechanisms on plain numbers"
        remedy = "leave privacy out"
        if privacy.budget is not None and hasattr(scheme, "epsilon"):
            remedy += ", or write privacy.mechanism: scheme, so that the budget sets its epsilon"
        yield Conflict(f"{_MECHANISM} {SCHEME_KEYS}", problem, remedy)
    response, lost = scheme.response, _lost(link)
    if lost is not None and response is not None and response.channel != "agnostic":
        problem = f"channel {response.channel} needs the bit errors of the channel, but packets.policy {lost} drops "
        remedy = "write link.packets.policy: accept, or learning.aggregation.channel: agnostic"
        keys = f"link.packets.policy learning.aggregation.channel {SCHEME_KEYS}"
        yield Conflict(keys, f"{problem}packets with errors or sends them again", remedy)


def _personal(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Check personal models, and the convergence bound of Li et al. 2025, Theorem 2."""
    personal, aggregation = learning.personal, "learning.aggregation.name learning.aggregation"
    if personal is not None and samples_per_device(learning) < 2:
        keys = "learning.partition.samples_per_device learning.num_devices learning.personal"
        problem = "a device with one sample has none to hold out for a test of its personal model"
        given = learning.partition.samples_per_device is not None
        remedy = "write learning.partition.samples_per_device: 2" if given else "write fewer devices"
        yield Conflict(keys, problem, f"{remedy}, or leave personal out")
    if learning.convergence_bound and not (
        learning.aggregation == MeanScheme() and learning.attack is None and personal is None
    ):
        problem = "the convergence bound holds for the mean of honest updates of one common model"
        remedy = "leave convergence_bound out"
        yield Conflict(f"learning.convergence_bound {aggregation} learning.attack learning.personal", problem, remedy)


def _samples(learning: FedAvgConfig) -> Iterator[Conflict]:
    data, facts = learning.data, image_facts(learning.data.name)
    for key, most in (("train_samples", facts.num_train), ("test_samples", facts.num_test)):
        wanted = getattr(data, key)
        if wanted is not None and wanted > most:
            problem = f"{data.name} has {most} of these images, {wanted} are asked for"
            remedy = f"write {key}: {most}, or leave {key} out to take all"
            yield Conflict(f"learning.data.{key} learning.data", problem, remedy)
    held, least = data.validation_samples or 0, data.train_samples or 1
    if held + least > facts.num_train >= least:
        left = "one" if data.train_samples is None else str(data.train_samples)
        keys = "learning.data.validation_samples learning.data.train_samples learning.data"
        problem = (
            f"{plural(held, 'image')} held out for validation do not leave {left} of {facts.num_train} to train on"
        )
        yield Conflict(keys, problem, f"write validation_samples: {min(facts.num_train // 5, facts.num_train - least)}")


def _shares(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Check that the samples can be dealt to the devices."""
    facts = image_facts(learning.data.name)
    problem = partition_problem(
        learning.partition,
        num_devices=learning.num_devices,
        num_samples=max(training_samples(learning.data), 0),
        num_classes=facts.num_classes,
    )
    if problem is not None:
        at = {key: problem.find(key.rpartition(".")[2]) for key in _SHARES}
        named = sorted(_SHARES, key=lambda key: at[key] if at[key] >= 0 else len(problem))
        yield Conflict.of(" ".join(f"learning.{key}" for key in named), problem)
