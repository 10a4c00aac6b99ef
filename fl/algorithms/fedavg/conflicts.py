"""Conflicts of federated averaging: data, model, aggregation scheme, personal models, attackers and privacy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from fl.algorithms.fedavg.footprint import samples_per_device, training_samples
from fl.algorithms.fedavg.timing import timing_conflicts
from fl.algorithms.fedavg.upload import training_of
from fl.attacks.attacks import attack_conflicts, choose_attackers
from fl.base.errors import LearningError
from fl.base.words import plural
from fl.data.data_set import ImageFacts
from fl.data.partition.split import partition_problem
from fl.models.kinds.networks import MODEL_KEYS, OF_IMAGES
from fl.schemes.codecs.codec import codecs
from fl.schemes.mean import MeanScheme
from fl.schemes.scheme import SCHEME_KEYS, schemes
from fl.uplink.channel_credit import errors_arrive
from phy.config import LinkConfig
from phy.config.conflict import Conflict, LeaveOut, Remedy, Say, Write, listing, remedy_in
from phy.config.mcs import entries_of, is_by_device
from privacy.config import Mechanism, ReceiverNoise

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

_MECHANISM = "privacy.mechanism privacy"
_UNSEEN = "which nobody sees in a sum"


def fedavg_conflicts(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield every combination of keys that cannot be simulated or that has no meaning."""
    try:
        facts = config.data.described()
    except LearningError as error:
        yield error.conflict
        return
    yield from list(_samples(config)) or _shares(config)
    unfit = list(_of_files(config, facts))
    yield from unfit
    if unfit:
        return
    try:
        config.num_values()
    except LearningError as error:
        yield error.conflict.completed(MODEL_KEYS, Write({"learning.model": "mlp"}))
        return
    if config.downlink == "ideal" and config.downlink_codec is not None:
        problem = "downlink_codec writes what goes over a downlink, and the downlink is ideal"
        yield Conflict(
            "learning.downlink_codec learning.downlink",
            problem,
            LeaveOut("downlink_codec"),
            Write({"downlink": {"power": {"snr_max_db": 20}}}),
        )
    yield from _scheme(config, link=link, privacy=privacy)
    yield from _personal(config)
    yield from _selection(config, link=link, privacy=privacy)
    yield from _mcs(config, link=link, privacy=privacy)
    yield from timing_conflicts(config, link=link, privacy=privacy)
    if link.access == "superposition" and config.sums:
        yield from _superposed(config, link=link, privacy=privacy)
    elif config.attack is not None and config.attack.acts_on == "air":
        kind = config.attack.kind
        problem = f"attack.kind {kind} acts on symbols that add up in the air, and the access is {link.access}"
        yield Conflict(
            "learning.attack.kind learning.attack",
            problem,
            Write({"link.access": "superposition"}),
            Say("kind: random, which sends random bits"),
        )
    if config.attack is not None:
        choose = partial(choose_attackers, config.attack, num_devices=config.num_devices, seed=0, trial=0)
        yield from attack_conflicts(config.attack, choose)
    if isinstance(privacy, ReceiverNoise):
        yield from _receiver_noise(config, link=link, privacy=privacy)
    if privacy is not None and privacy.for_uploads is not None and config.aggregation.uses_codec:
        # A budget for the scheme is checked as a budget; a scheme with bits of its own protects them itself.
        for keys, problem, *plain in privacy.for_uploads.conflicts(training_of(config), lost=_lost(link)):
            yield Conflict(keys, problem, *map(remedy_in, plain))


def _superposed(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """What has no meaning where the server receives the sum of all devices alone."""
    scheme, mechanism = config.aggregation, None if privacy is None else privacy.for_uploads
    response, usual, attack = scheme.response, scheme.air_modulations, config.attack
    orthogonal = Write({"link.access": "orthogonal"})
    if not usual:
        able = [word for word in schemes.words() if schemes.read({"name": word}).air_modulations]
        problem = "needs what every device sends, but access superposition adds devices up in the air"
        others = Say(f"aggregation: {listing(able)}")
        yield Conflict(f"link.access {SCHEME_KEYS}", f"aggregation {scheme.name} {problem}", orthogonal, others)
        return
    if link.modulation not in ("auto", *usual):
        symbols = " or ".join(usual)
        problem = f"aggregation {scheme.name} adds up {symbols} symbols, the modulation is {link.modulation}"
        yield Conflict(f"link.modulation {SCHEME_KEYS}", problem, Write({"modulation": "auto"}), Say(symbols))
    if response is not None and response.channel != "agnostic":
        problem = f"channel {response.channel} needs the bit errors of every device, {_UNSEEN}"
        yield Conflict(
            f"learning.aggregation.channel link.access {SCHEME_KEYS}",
            problem,
            Write({"learning.aggregation.channel": "agnostic"}),
            orthogonal,
        )
    if mechanism is not None and mechanism.protects == "bits":
        problem = f"mechanism {mechanism.mechanism} needs the bits of every device, {_UNSEEN}"
        yield Conflict(f"{_MECHANISM} link.access", problem, orthogonal)
    for key in ("receiver_limit", "convergence_bound"):
        if getattr(config, key):
            problem = f"{key} is for the numbers of single devices, {_UNSEEN}"
            yield Conflict(f"learning.{key} link.access", problem, LeaveOut(key), orthogonal)
    if attack is not None and attack.acts_on == "bits" and usual == ("analog",) and response is None:
        problem = f"attack.kind {attack.kind} acts on bits, and aggregation {scheme.name} sends none over the air"
        yield Conflict(
            "learning.attack.kind learning.attack link.access",
            problem,
            Write({"kind": "sign-flip"}),
            Write({"kind": "jam"}),
        )
    if attack is not None and attack.acts_on == "air" and link.error_model == "error_free":
        problem = f"attack.kind {attack.kind} sends at the full power of a radio, and error_model error_free has none"
        yield Conflict(
            "learning.attack.kind learning.attack link.error_model",
            problem,
            Write({"link.error_model": "measured"}),
            Say("another kind"),
        )


def _receiver_noise(config: FedAvgConfig, *, link: LinkConfig, privacy: ReceiverNoise) -> Iterator[Conflict]:
    """Links on which the receiver's noise has no distance of two sums to hide, or on which power control tells data."""
    scheme = config.aggregation
    if link.access != "superposition":
        problem = "protects updates that add up in the air, but the server receives every device on its own"
        yield Conflict(
            f"{_MECHANISM} link.access",
            f"mechanism receiver-noise {problem}",
            Write({"link.access": "superposition"}),
            Write({"mechanism": "device-noise"}),
        )
        return

    def noise_fails(keys: str, problem: str, *remedies: Remedy) -> Conflict:
        reason = f"mechanism receiver-noise relies on the receiver's noise, but {problem}"
        return Conflict(f"{keys} {_MECHANISM}", reason, *remedies)

    if link.error_model != "measured":
        problem = f"there is none with error_model {link.error_model}"
        yield noise_fails("link.error_model", problem, Write({"link.error_model": "measured"}))
    if link.combines:
        problem = "with several antennas, or one that devices do not invert their channels for, a listener has more"
        remedy = Write({"link.receiver": {"num_antennas": 1}})
        yield noise_fails("link.receiver.num_antennas link.receiver", f"{problem} than one noisy sum", remedy)
    if link.mixes_carriers or not link.impairments.none:
        problem = "devices out of step, and impaired ones, arrive at amplitudes that nobody limits"
        if not link.impairments.none:
            yield noise_fails("link.impairments", problem, LeaveOut("link.impairments"))
        if link.ofdm != "none" and link.ofdm.domain == "time":
            yield noise_fails("link.ofdm.domain", problem, Write({"domain": "frequency"}))
    tells = "power control that follows the power of payloads tells of them"
    if link.control.clips:
        yield noise_fails("link.power.policy", tells, Write({"policy": "inversion"}))
    if link.power.budget is not None:
        yield noise_fails("link.power.budget", tells, LeaveOut("budget"))
    if link.receiver.scaling == "mmse":
        yield noise_fails("link.receiver.scaling", tells, Write({"scaling": "unbiased"}))
    if privacy.budget is not None and link.csi != "perfect":
        problem = "the amplitude at which devices arrive is unknown before the run with an estimated channel"
        yield noise_fails(
            "privacy.budget link.csi",
            problem,
            Write({"link.csi": "perfect"}),
            Say("the epsilon of a round in place of the budget"),
        )
    form = scheme.over_air(config.num_values() or 1)
    if scheme.own_epsilon is not None:
        problem = f"aggregation {scheme.name} protects its bits itself, and the receiver's noise is not counted on top"
        yield Conflict(f"{SCHEME_KEYS} {_MECHANISM}", problem, Write({"privacy": "none"}))
    elif form is not None and form.follows_updates and privacy.clip is None and not scheme.uses_codec:
        problem = f"mechanism receiver-noise needs a bound on the norm of what aggregation {scheme.name} sends"
        yield Conflict(f"privacy.clip {_MECHANISM}", problem, Write({"privacy.clip": 1}))
    if form is not None and not form.follows_updates and privacy.clip is not None:
        problem = f"privacy.clip shortens updates sent as amplitudes, and {scheme.name} sends symbols of one power"
        yield Conflict(f"privacy.clip {SCHEME_KEYS}", problem, LeaveOut("clip"))
    if config.upload != "update":
        problem = "mechanism receiver-noise clips updates, and devices send models"
        yield Conflict("learning.upload privacy.mechanism", problem, Write({"upload": "update"}))


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
        yield Conflict(
            f"learning.codec.name learning.codec {SCHEME_KEYS}",
            problem,
            LeaveOut("codec"),
            Write({"aggregation": "mean"}, note=f"in place of {scheme.name}"),
        )
    if privacy is not None and privacy.protects not in ("scheme", "sum"):
        problem = f"aggregation {scheme.name} makes its own bits, and privacy is for mechanisms on plain numbers"
        by_budget = Write({"privacy.mechanism": "scheme"}, note=", so that the budget sets its epsilon")
        able = privacy.budget is not None and hasattr(scheme, "epsilon")
        yield Conflict(f"{_MECHANISM} {SCHEME_KEYS}", problem, LeaveOut("privacy"), *([by_budget] if able else []))
    response, lost = scheme.response, _lost(link)
    if lost is not None and response is not None and response.channel != "agnostic":
        problem = f"channel {response.channel} needs the bit errors of the channel, but packets.policy {lost} drops "
        keys = f"link.packets.policy learning.aggregation.channel {SCHEME_KEYS}"
        yield Conflict(
            keys,
            f"{problem}packets with errors or sends them again",
            Write({"link.packets.policy": "accept"}),
            Write({"learning.aggregation.channel": "agnostic"}),
        )


def _personal(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Check personal models, and the convergence bound of Li et al. 2025, Theorem 2."""
    personal, aggregation = learning.personal, "learning.aggregation.name learning.aggregation"
    if personal is not None and samples_per_device(learning) < 2:
        keys = "learning.partition.samples_per_device learning.num_devices learning.personal"
        problem = "a device with one sample has none to hold out for a test of its personal model"
        given = learning.partition.each is not None
        more = Write({"learning.partition.samples_per_device": 2}) if given else Say("write fewer devices")
        yield Conflict(keys, problem, more, LeaveOut("personal"))
    if learning.convergence_bound and not (
        learning.aggregation == MeanScheme() and learning.attack is None and personal is None
    ):
        problem = "the convergence bound holds for the mean of honest updates of one common model"
        keys = f"learning.convergence_bound {aggregation} learning.attack learning.personal"
        yield Conflict(keys, problem, LeaveOut("convergence_bound"))


def _selection(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Selections that have nobody to choose, that know no channel, or that tell of data what no account has."""
    selection, part = config.participation.selection, "learning.participation"
    keys, draw = f"{part}.selection.name {part}.selection", Write({"selection": "random"})
    if selection.uniform:
        return
    if config.num_drawn is None:
        problem = f"selection {selection.name} chooses nobody where all {config.num_devices} devices take part"
        some = Write({"devices_per_round": max(config.num_devices // 4, 1)}, example=True)
        yield Conflict(keys, problem, *([some] if config.num_devices > 1 else []), LeaveOut("selection"))
        return
    if selection.by_channel and link.access == "superposition":
        problem = f"selection {selection.name} needs a probe of every device, {_UNSEEN}"
        yield Conflict(f"{keys} link.access", problem, draw, Write({"link.access": "orthogonal"}))
    elif selection.by_channel and link.error_model not in ("measured", "iid"):
        problem = (
            f"selection {selection.name} needs a probe of every device, and error_model {link.error_model} has none"
        )
        yield Conflict(f"{keys} link.error_model", problem, draw, Write({"link.error_model": "measured"}))
    if selection.by_data and (privacy is not None or config.aggregation.own_epsilon is not None):
        what = " and ".join(one.replace("_", " ") for one in selection.asks if one != "snr_db")
        problem = f"selection {selection.name} tells the {what} of devices, which no privacy mechanism protects"
        whose = _MECHANISM if privacy is not None else SCHEME_KEYS
        yield Conflict(f"{keys} {whose}", problem, draw, Write({"selection": "by-age"}))


def _mcs(config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Mechanisms that answer for the bit errors of a link, whose devices have one MCS each."""
    response, mechanism = config.aggregation.response, None if privacy is None else privacy.for_uploads
    flips = mechanism is not None and mechanism.protects == "bits"
    counts = response is not None and response.channel != "agnostic"
    if is_by_device(link.mcs) and errors_arrive(link) and (flips or counts):
        whose = _MECHANISM if flips else f"learning.aggregation.channel {SCHEME_KEYS}"
        what = f"mechanism {mechanism.mechanism}" if mechanism is not None and flips else "channel native or debias"
        problem = f"{what} counts bit errors of a probe with one MCS, and mcs is for each device"
        one_index = Write({"link.mcs": entries_of(link.mcs)[0].number}, example=True)
        yield Conflict(f"link.mcs {whose}", problem, one_index, Write({"link.packets.policy": "drop"}))


def _samples(learning: FedAvgConfig) -> Iterator[Conflict]:
    data, facts = learning.data, learning.data.described()
    for key, most in (("train_samples", facts.num_train), ("test_samples", facts.num_test)):
        wanted = getattr(data, key)
        if wanted is not None and wanted > most:
            problem = f"{data.name} has {most} of these images, {wanted} are asked for"
            yield Conflict(
                f"learning.data.{key} learning.data", problem, Write({key: most}), LeaveOut(key, note="to take all")
            )
    held, least = data.validation_samples or 0, data.train_samples or 1
    if held + least > facts.num_train >= least:
        left = "one" if data.train_samples is None else str(data.train_samples)
        keys = "learning.data.validation_samples learning.data.train_samples learning.data"
        problem = (
            f"{plural(held, 'image')} held out for validation do not leave {left} of {facts.num_train} to train on"
        )
        yield Conflict(keys, problem, Write({"validation_samples": min(facts.num_train // 5, facts.num_train - least)}))


def _shares(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Check that the samples can be dealt to the devices."""
    facts = learning.data.described()
    problem = partition_problem(
        learning.partition,
        num_devices=learning.num_devices,
        num_samples=max(training_samples(learning.data), 0),
        num_classes=facts.num_classes,
        num_owners=len(facts.owners),
    )
    if problem is not None:
        yield problem.under("learning")


def _of_files(config: FedAvgConfig, facts: ImageFacts) -> Iterator[Conflict]:
    """Yield what does not go with rows of a table, or with numbers to predict."""
    model, dense = config.model.name, Write({"learning.model": "mlp"})
    if facts.is_table and model in OF_IMAGES:
        yield Conflict(MODEL_KEYS, f"model {model} is for images, and the data are {facts.in_words}", dense)
        return
    if not facts.predicts_numbers:
        return
    number = "the label is a number to predict"
    classes = Write({"learning.data.target": "class"})
    if model in OF_IMAGES:
        yield Conflict(MODEL_KEYS, f"{number}, and model {model} has other layers than dense ones", dense)
    if config.model.outputs not in (None, 1):
        keys = "learning.model.outputs learning.model"
        yield Conflict(keys, f"{number}, and outputs are for classes", LeaveOut("outputs"))
    if config.local.precision != "float32":
        keys = "learning.local.precision learning.local"
        yield Conflict(keys, f"{number}, which is learnt in float32", LeaveOut("precision"))
    for key in ("personal", "convergence_bound"):
        if getattr(config, key):
            yield Conflict(f"learning.{key} learning.data.label learning.data", f"{number}, and {key} is for classes",
                           LeaveOut(key), classes)  # fmt: skip
    if config.attack is not None and config.attack.acts_on == "labels":
        kind = config.attack.kind
        keys = "learning.attack.kind learning.attack"
        yield Conflict(keys, f"{number}, and attack {kind} changes classes", Write({"kind": "sign-flip"}))
    if config.partition.kind in ("labels", "dirichlet"):
        keys = "learning.partition.kind learning.partition"
        problem = f"{number}, and partition {config.partition.kind} deals classes"
        yield Conflict(keys, problem, Write({"learning.partition": "iid"}))
