"""Federated averaging of one trial, ready to run: data, model, trainer, radio and privacy put together.

One round, Li et al. 2025 Algorithm 1: the server's model goes down, devices train E steps, what they upload is
encoded, protected, sent, recovered, and averaged with weights q_n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_uploads import upload_allowance
from fl.algorithms.device_blocks import devices_in_a_block
from fl.algorithms.round_tally import RoundTally, Trained
from fl.attacks.attackers import Attackers
from fl.checkpoints import State, kept_array
from fl.codecs import build_codec
from fl.config import FedAvgConfig, LocalConfig
from fl.data import ImageData, load_images
from fl.local import LocalTrainer, evaluate
from fl.local.divergence import DivergedError, check_finite, checked_updates_from
from fl.local.personal import PersonalModels, hold_out, personal_local_config
from fl.models.build import build_model
from fl.models.federated import FederatedModel
from fl.partition.participation import Participants, draw_participants
from fl.partition.split import Partition, partition
from fl.schemes.build import build_upward
from fl.schemes.cpa.cpa_theory import aggregation_snr_db, coded_snr_db
from fl.uplink.exchange import Exchange, digital_link
from fl.uplink.mechanisms import build_protection
from fl.uplink.numbers import Upward, check_range
from fl.uplink.protection import NoProtection
from fl.uplink.senders import Slots
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.fading.gains import device_gains
from phy.measure.burstiness import Burstiness
from phy.numerics.random import Purpose, generator
from privacy.config import UploadPrivacy


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """One round: numbers of the round, of each device `[num_devices]`, and of the link (see `fl.results`).

    `bursts`: how errors of each seat of the link lie together. `failure`: why the trial cannot go on, though everybody
    had sent; None where it can.
    """

    rounds: Mapping[str, float]
    devices: Mapping[str, NDArray[Any]]
    link: Mapping[str, NDArray[Any]]
    bursts: Burstiness | None = None
    failure: str | None = None


class Federation:
    """One trial. `weights` `[M]` is the server's model after the last round."""

    def __init__(
        self,
        config: FedAvgConfig,
        *,
        link: LinkConfig,
        privacy: UploadPrivacy | None,
        seed: int,
        trial: int,
    ) -> None:
        self._config, self._seed, self._trial = config, seed, trial
        self.data: ImageData = load_images(config.data, seed=seed, trial=trial)
        self.partition: Partition = partition(
            self.data.y_train,
            config=config.partition,
            num_devices=config.num_devices,
            num_classes=self.data.num_classes,
            generator=generator(seed, trial, Purpose.PARTITION),
        )
        self.model: FederatedModel = build_model(
            config.model,
            image_shape=self.data.image_shape,
            num_classes=self.data.num_classes,
            seed=seed,
            trial=trial,
        )
        self.weights = self.model.initial_weights()
        self._attackers = Attackers(config.attack, num_devices=config.num_devices, seed=seed, trial=trial)
        local, trained_on, self.personal = self._at_home()
        self._trainer = LocalTrainer(
            self.model,
            config=local,
            data=self._attackers.labels(self.data, trained_on),
            partition=trained_on,
            seed=seed,
            trial=trial,
        )
        self._sizes = np.asarray(trained_on.sizes, np.float64)
        self._slots = Slots(config, link=link)
        self.protection, self.budget = build_protection(
            privacy,
            config=config,
            sizes=self._sizes,
            link=digital_link(link),
            local_models=self._first_uploads,
            seed=seed,
            trial=trial,
        )
        self.allowance = upload_allowance(
            config,
            link=digital_link(link),
            privacy=privacy,
            num_values=self.model.num_parameters,
            target=self.budget.get("target_bit_error_rate"),
        )
        self._up: Upward = build_upward(
            config,
            link=link,
            model=self.model,
            slots=self._slots,
            protection=self.protection,
            attack=self._attackers.bits,
        )
        self._down = self._downlink()
        self._copies = np.tile(self.weights, (config.num_devices, 1)) if self._down is not None else None

    @property
    def upload_bits(self) -> int:
        """Bits that each device sends per round, before channel coding."""
        return self._up.upload_bits

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers of the uplink that hold for every round."""
        return self._up.facts

    @property
    def seats(self) -> int:
        """Devices of the link, see `fl.uplink.senders`."""
        return self._slots.count

    def state(self) -> State:
        """What rounds have changed, see `fl.checkpoints`; all else follows from the configuration and the seed."""
        return {
            "weights": self.weights,
            "trainer": self._trainer.state(),
            "personal": None if self.personal is None else self.personal.weights,
            "allowance": self.allowance.state(),
            "up": self._up.state(),
            "down": None if self._down is None else self._down.pipe.state(),
            "copies": self._copies,
        }

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError, LinkError for the state of another federation."""
        self.weights = kept_array(state, "weights", like=self.weights)
        self._trainer.restore(state["trainer"])
        if self.personal is not None:
            self.personal.weights = kept_array(state, "personal", like=self.personal.weights)
        self.allowance.restore(state["allowance"])
        self._up.restore(state["up"])
        if self._down is not None and self._copies is not None:
            self._down.pipe.restore(state["down"])
            self._copies = kept_array(state, "copies", like=self._copies)

    def _at_home(self) -> tuple[LocalConfig, Partition, PersonalModels | None]:
        """Local training, what it is on, and the personal models, where devices keep their own."""
        config = self._config
        if config.personal is None:
            return config.local, self.partition, None
        train, test = hold_out(
            self.partition,
            test_share=config.personal.test_share,
            generator=generator(self._seed, self._trial, Purpose.PARTITION).spawn(1)[0],
        )
        local = personal_local_config(config.local, personal=config.personal)
        return local, train, PersonalModels(self.model, data=self.data, test=test)

    def _first_uploads(self) -> NDArray[np.float32]:
        """What a first round would upload: what (26) measures kappa on. Leaves no trace in the state."""
        state = self._trainer.state()
        devices = np.arange(min(self._config.num_devices, 4))
        models = self._trainer.train(self.weights, devices=devices, round_index=0).weights
        self._trainer.restore(state)
        check_finite(models, devices=devices)
        return np.asarray(models - self.weights if self._config.upload == "update" else models)

    def _downlink(self) -> Exchange | None:
        config = self._config
        if config.downlink == "ideal":
            return None
        return Exchange(
            digital_link(_placed(config.downlink, config=config, seed=self._seed, trial=self._trial)),
            codec=build_codec(config.downlink_codec or config.codec),
            protection=NoProtection(),
            num_devices=self._slots.count,
            num_values=self.model.num_parameters,
            receiver_limit=config.receiver_limit,
        )

    def round(self, round_index: int) -> RoundReport:
        """Run one round.

        Raises LearningError for a device's model that is not finite or lies too far beyond the codec: then nobody has
        sent. A server's model that is not finite in the end is the report's `failure`.
        """
        config = self._config
        who = self.allowance.admit(self._drawn(round_index))
        start = self._hear_the_model(who.devices, round_index)
        senders = who.devices[who.sends]
        q = self._sizes[senders] if config.weighting == "samples" else np.ones(len(senders))
        context = UplinkContext(
            seed=self._seed, trials=(self._trial,), round_index=round_index, silent=self._slots.empty(senders)
        )
        sending = self._up.begin(
            senders=senders,
            weights=q,
            otherwise=np.zeros_like(self.weights) if config.upload == "update" else self.weights,
            context=context,
        )
        seen, sent = RoundTally(num_values=self.model.num_parameters), 0
        for rows in self._blocks(len(who.devices)):
            trained, numbers = self._train(who, rows, start, round_index=round_index)
            mine = slice(sent, sent + len(numbers))
            seen.note(trained, numbers, weights=q[mine], samples=self._sizes[who.devices[rows]])
            sending.add(self._attackers.updates(numbers, devices=senders[mine], context=context))
            sent = mine.stop
        collected = sending.collected()
        self.weights = self.weights + collected.result if config.upload == "update" else collected.result
        failure = None
        try:
            check_finite(self.weights[None], devices=None)
        except DivergedError as error:
            failure = str(error)
        seat = self._slots.seat(senders)
        return RoundReport(
            rounds={
                **seen.told(),
                "num_active": float(collected.num_heard),
                **collected.spent,
                **collected.told,
                **self._attackers.told(senders),
                **({} if failure else self._aggregation_error(seen, collected.result)),
            },
            devices={name: self._slots.place(values, seat, senders) for name, values in collected.observed.items()},
            link=self._slots.link_series(collected.heard, seat, senders),
            bursts=collected.heard.bursts,
            failure=failure,
        )

    def _blocks(self, count: int) -> Iterator[slice]:
        """Devices whose updates are in memory at once: as many as fit, or all where they have to meet."""
        meet = not self._up.in_blocks or self._attackers.meet
        step = max(count, 1) if meet else devices_in_a_block(self.model.num_parameters)
        for first in range(0, max(count, 1), step):
            yield slice(first, min(first + step, count))

    def _train(
        self, who: Participants, rows: slice, start: NDArray[np.float32], *, round_index: int
    ) -> tuple[Trained, NDArray[np.float32]]:
        """Train some of the devices: what is to be told of them, and the numbers `[S, M]` of those who send.

        Raises LearningError for a model that is not finite.
        """
        config, devices, sends = self._config, who.devices[rows], who.sends[rows]
        late = config.participation.straggling > 0.0
        trained = self._trainer.train(
            start if start.ndim == 1 else start[rows],
            devices=devices,
            round_index=round_index,
            steps=who.steps[rows] if late else None,
        )
        if config.upload == "update":
            base = start if start.ndim == 1 else start[rows]
            squares, numbers = checked_updates_from(trained.weights, base, devices=devices)
        else:
            squares, numbers = check_finite(trained.weights, devices=devices), trained.weights
        if self.personal is not None:
            self.personal.keep(trained.weights, devices=devices)
        told = Trained(loss=trained.loss, clipped_share=trained.clipped_share, squares=squares[sends])
        return told, numbers if sends.all() else numbers[sends]

    def spent_up(self, round_index: int) -> bool:
        """Whether one of those who would send in this round has nothing left of the budget for the run."""
        return self.allowance.spent_up(self._drawn(round_index))

    def _drawn(self, round_index: int) -> Participants:
        config = self._config
        return draw_participants(
            config.participation,
            num_devices=config.num_devices,
            steps=config.local.steps,
            seed=self._seed,
            trial=self._trial,
            round_index=round_index,
        )

    def _aggregation_error(self, seen: RoundTally, found: NDArray[np.float32]) -> dict[str, float]:
        """How far the server's update is from the mean of those that devices computed, Lang et al. 2023, Section V.

        Empty where models are sent, NaN where nobody sent anything.
        """
        if self._config.upload != "update":
            return {}
        exact = seen.mean()
        places = [piece.place for piece in self.model.pieces]
        return {
            "aggregation_snr_db": aggregation_snr_db(exact, found, places=places),
            "aggregation_snr_20log_db": coded_snr_db(exact, found, places=places),
            "aggregation_mse": float(np.mean((exact.astype(np.float64) - found) ** 2)) if seen.any else float("nan"),
        }

    def _hear_the_model(self, devices: NDArray[np.int64], round_index: int) -> NDArray[np.float32]:
        """The server's model as every device has it: `[M]` over an ideal downlink, else `[K', M]`."""
        if self._down is None or self._copies is None:
            return self.weights
        seat = self._slots.seat(devices)
        heard = self._down.carry(
            np.tile(self.weights, (self._slots.count, 1)),
            devices=self._slots.owners(devices),
            context=UplinkContext(seed=downlink_seed(self._seed), trials=(self._trial,), round_index=round_index),
        )
        config = self._config
        check_range(
            heard.observed["clipped_values"][seat[:1]] / self.model.num_parameters,
            None,
            codec=config.downlink_codec or config.codec,
            key="codec" if config.downlink_codec is None else "downlink_codec",
        )
        got = heard.values[seat].astype(np.float32)
        if heard.known is not None:
            # What did not arrive stays as the device last had it.
            got = np.where(np.broadcast_to(heard.known, heard.values.shape)[seat], got, self._copies[devices])
        self._copies[devices] = got
        return np.asarray(got)

    def test(self) -> tuple[float, float]:
        """Mean cross-entropy and accuracy of the server's model on the test set."""
        return self._measure(self.data.x_test, self.data.y_test)

    def validate(self) -> tuple[float, float] | None:
        """The same on the images held out for validation; None where there are none."""
        return self._measure(self.data.x_validation, self.data.y_validation) if len(self.data.y_validation) else None

    def _measure(self, x: NDArray[np.uint8], y: NDArray[np.int64]) -> tuple[float, float]:
        return evaluate(self.model, self.weights, x, y, scale=self.data.scale, shift=self.data.shift)


def _placed(link: LinkConfig, *, config: FedAvgConfig, seed: int, trial: int) -> LinkConfig:
    """A downlink whose devices stand where they stand on the way up: its own streams would place them anew."""
    if link.channel.cell is None:
        return link
    gains = device_gains(link.channel, num_devices=config.num_devices, seed=seed, trials=(trial,))[0]
    channel = link.channel.model_copy(update={"gain": tuple(float(gain) for gain in gains), "cell": None})
    return link.model_copy(update={"channel": channel})


def downlink_seed(seed: int) -> int:
    """Seed of the downlink's channel, noise and rounding: streams of their own beside those of the uplink."""
    return int(np.random.SeedSequence(entropy=seed, spawn_key=(0xD0,)).generate_state(1, np.uint64)[0])
