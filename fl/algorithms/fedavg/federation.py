"""Federated averaging of one trial, ready to run: data, model, trainer, radio and privacy put together.

One round, Li et al. 2025 Algorithm 1: the server's model goes down, devices train E steps, what they upload is
encoded, protected, sent, recovered, and averaged with weights q_n.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fl.algorithms.fedavg.account import fedavg_account
from fl.algorithms.fedavg.convergence import Convergence
from fl.algorithms.fedavg.footprint import devices_in_a_block
from fl.algorithms.fedavg.results import RoundTally, fedavg_result, scores_at_home
from fl.algorithms.fedavg.upload import upload_plan
from fl.attacks.attacks import Attackers
from fl.base.arrays import F32, F64, I64, U8
from fl.base.checkpoints import Trials
from fl.base.recorder import Recorder
from fl.base.results import TrialResult
from fl.data.arrays import ImageData
from fl.data.images import load_images
from fl.data.partition.split import Partition, partition
from fl.local.config import LocalConfig
from fl.local.evaluation import PersonalModels, evaluate, hold_out
from fl.local.trainer import LocalTrainer
from fl.models.build import build_model
from fl.models.federated import FederatedModel
from fl.schemes.aggregation.update_kernels import check_finite
from fl.schemes.coders.coder import Senders
from fl.schemes.cpa.cpa_theory import aggregation_snr_db, coded_snr_db
from fl.uplink.air import SuperposedUplink
from fl.uplink.budgets import UploadAllowance
from fl.uplink.build import Uplink, build_protection, build_uplink, check_range
from fl.uplink.clock import RoundClock, UpdatesUnderWay
from fl.uplink.participation import Participants, Participation
from fl.uplink.plan import UploadPlan
from fl.uplink.protection import Protection
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import NumberTransport
from phy.config import LinkConfig
from phy.config.levels import limits_db
from phy.fading.block_taps import UplinkContext
from phy.fading.gains import device_gains
from phy.links.airtime import superposed_airtime_s, upload_airtime_s
from phy.measure.counts import LinkCounts
from phy.numerics.random import Purpose, generator
from phy.numerics.workers import spans
from privacy.config import Mechanism

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

PROBE_BITS = 512
"""Known bits that show a selection the channel of a device: its power, whatever the noise on them."""
FIRST_COLUMNS = ("test_loss", "test_accuracy", "test_rmse", "test_r2", "train_loss", "clipped_gradients", "model_norm")
"""Columns of rounds that every trial has, before those of its uplink."""


class Federation(Trials):
    """One trial of federated averaging.

    `weights` `[M]` is the server's model after the last round, `record` keeps what the rounds reported. `drops`: the
    server keeps no packet that its check sum finds wrong. `ended`: one of
    those who would send in the next round has nothing left of a budget that stops the trial.
    """

    kept = ("weights", "_trainer", "personal", "allowance", "participation", "clock", "_under_way",
            "uplink", "_downlink", "_copies", "record")  # fmt: skip

    def __init__(
        self, config: FedAvgConfig, *, link: LinkConfig, privacy: Mechanism | None, seed: int, trial: int
    ) -> None:
        self._config, self._link, self._privacy, self._seed, self.trial = config, link, privacy, seed, trial
        data: ImageData = load_images(config.data, seed=seed, trial=trial)
        shape, num_classes, on_air = data.image_shape, data.num_classes, link.resolve_digital()
        self.data = data
        self.drops = link.access != "superposition" and link.packets.policy != "accept"
        self.partition: Partition = partition(
            data.y_train,
            config=config.partition,
            num_devices=config.num_devices,
            num_classes=num_classes,
            generator=generator(seed, trial, Purpose.PARTITION),
            owner=data.owner,
            num_owners=data.num_owners,
            features=data.x_train,
        )
        self.model: FederatedModel = build_model(
            config.model,
            image_shape=shape,
            num_classes=num_classes,
            seed=seed,
            trial=trial,
            predicts_numbers=data.unit is not None,
        )
        self.weights = self.model.initial_weights()
        self._attackers = Attackers.drawn(config.attack, num_devices=config.num_devices, seed=seed, trial=trial)
        local, trained_on, self.personal = self._at_home()
        labels = self._attackers.labels(data.y_train, samples=trained_on.devices, num_classes=num_classes)
        poisoned = replace(data, y_train=labels)
        self._trainer = LocalTrainer(
            self.model, config=local, data=poisoned, partition=trained_on, seed=seed, trial=trial
        )
        self._sizes = np.asarray(trained_on.sizes, np.float64)
        plan = upload_plan(config)
        self._index = SenderIndex(plan, link=link)
        self.protection, self.budget = build_protection(
            privacy,
            plan=plan,
            sizes=self._sizes,
            link=on_air,
            local_models=self._first_uploads,
            seed=seed,
            trial=trial,
        )
        target, size = self.budget.get("target_bit_error_rate"), self.model.num_parameters
        self.allowance = UploadAllowance(plan, link=on_air, privacy=privacy, num_values=size, target=target)
        self.uplink = self._uplink(plan)
        self.participation = Participation(
            config.participation,
            samples=self._sizes,
            steps=config.local.steps,
            seed=seed,
            trial=trial,
            probe=self._probe,
            snr_max_db=limits_db(link, config.num_devices),
        )
        self.clock: RoundClock | None = None
        self._under_way: UpdatesUnderWay | None = None
        if config.timing is not None:
            self.clock = RoundClock(
                config.timing,
                per_step=np.minimum(self._sizes, config.local.batch_size or np.inf),
                airtime_s=self._upload_s(on_air),
                in_turn=link.access != "superposition",
                seed=seed,
                trial=trial,
            )
            self._under_way = UpdatesUnderWay(size) if config.timing.keeps else None
        self._down = self._number_downlink()
        self._downlink = None if self._down is None else self._down.bits.link
        self._copies = np.tile(self.weights, (config.num_devices, 1)) if self._down is not None else None
        self.record = Recorder(
            config.rounds, num_devices=config.num_devices, num_senders=self._index.count, first=FIRST_COLUMNS
        )
        self.convergence: Convergence | None = None
        if config.convergence_bound:
            self.convergence = Convergence(config, federation=self, privacy=privacy)
        self._stops = privacy is not None and privacy.budget is not None and privacy.budget.action == "stop"

    def _at_home(self) -> tuple[LocalConfig, Partition, PersonalModels | None]:
        """Local training, what it is on, and the personal models, where devices keep their own."""
        config = self._config
        if config.personal is None:
            return config.local, self.partition, None
        drawn = generator(self._seed, self.trial, Purpose.PARTITION).spawn(1)[0]
        train, test = hold_out(self.partition, test_share=config.personal.test_share, generator=drawn)
        local = config.local.model_copy(update={"proximal": config.personal.lam})
        return local, train, PersonalModels(self.model, data=self.data, test=test)

    def _first_uploads(self) -> F32:
        """What a first round would upload: what (26) measures kappa on. Leaves no trace in the state."""
        state = deepcopy(self._trainer.state())
        devices = np.arange(min(self._config.num_devices, 4))
        models = self._trainer.train(self.weights, devices=devices, round_index=0).weights
        self._trainer.restore(state)
        check_finite(models, devices=devices)
        return np.asarray(models - self.weights if self._config.upload == "update" else models)

    def _uplink(self, plan: UploadPlan) -> Uplink | SuperposedUplink:
        link, privacy, model, index = self._link, self._privacy, self.model, self._index
        protection, attackers, size = self.protection, self._attackers, model.num_parameters
        if link.access != "superposition":
            return build_uplink(plan, link=link, model=model, index=index, protection=protection, attackers=attackers)
        return SuperposedUplink(
            plan, link=link, num_values=size, index=index, protection=protection, attackers=attackers, privacy=privacy
        )

    def _number_downlink(self) -> NumberTransport | None:
        config = self._config
        if config.downlink == "ideal":
            return None
        link = placed_downlink(config.downlink, num_devices=config.num_devices, seed=self._seed, trial=self.trial)
        return NumberTransport(
            link.resolve_digital(),
            codec=config.codec_down,
            protection=Protection(),
            num_devices=self._index.count,
            num_values=self.model.num_parameters,
            receiver_limit=config.receiver_limit,
        )

    def round(self, index: int) -> None:
        """Run one round and record it.

        Raises LearningError for a device's model that is not finite or lies too far beyond the codec: then nobody has
        sent; and for a server's model that is not finite in the end.
        """
        config, clock = self._config, self.clock
        trains = self.participation.of(index, busy=None if clock is None else clock.busy)
        who = self.allowance.admit(trains if clock is None else clock.begin(trains, index))
        if self._under_way is None:
            trains = who
        start = self._received_model(trains.devices, index)
        devices = who.devices[who.sends]
        weights = self._sizes[devices] if config.weighting == "samples" else np.ones(len(devices))
        aged = weights if clock is None else weights * clock.weights(devices, index)
        senders = Senders(
            devices=devices,
            context=UplinkContext(
                seed=self._seed, trials=(self.trial,), round_index=index, silent=self._index.unused(devices)
            ),
            weights=aged,
            factor=np.ones(len(devices)),
        )
        tally = RoundTally(num_values=self.model.num_parameters)
        update = self.uplink.send(
            self._updates(trains, start, senders=senders, tally=tally),
            senders,
            otherwise=np.zeros_like(self.weights) if config.upload == "update" else self.weights,
            record=self.record,
        )
        exact = tally.mean()
        if self._under_way is not None and len(devices):
            # sum_k q_k s_k x_k / sum_k q_k: old updates alone make a short step.
            step = np.float32(aged.sum() / weights.sum())
            update, exact = update * step, exact * step
        if clock is not None:
            self.record.note(index, rounds=clock.end(devices, index, airtime_s=self._measured_s(devices, index)))
        self.record.note(index, rounds={**tally.numbers(), **self._attackers.told(devices)})
        self.weights = self.weights + update if config.upload == "update" else update
        check_finite(self.weights[None], devices=None)
        self.record.note(
            index, rounds={**self._aggregation_error(tally, exact, update), **self.participation.end(who, index)}
        )
        more = self._stops and index + 1 < config.rounds
        self.ended = more and self.allowance.spent_up(self.participation.of(index + 1))
        if (index + 1) % config.test_every == 0 or index + 1 == config.rounds or self.ended:
            self._test(index)
        elif self.convergence is not None:
            self.record.note(index, rounds={"distance_sq": self.convergence.distance_sq(self.weights)})
        self.record.finish(index)

    def results(self, failure: str | None) -> list[TrialResult]:
        size = self.model.num_parameters
        account = partial(fedavg_account, self._config, link=self._link, privacy=self._privacy, num_values=size)
        return [fedavg_result(self, failure=failure, account=account)]

    def _updates(self, who: Participants, start: F32, *, senders: Senders, tally: RoundTally) -> Iterator[F32]:
        """Train the devices block by block; yield the numbers of those who send, or what attackers send instead."""
        sent, context = 0, senders.context
        if self._under_way is not None:
            for rows in self._blocks(len(who.devices)) if len(who.devices) else ():
                sends = who.devices[rows][who.sends[rows]]
                self._under_way.put(sends, self._train(who, rows, start, tally=tally, round_index=context.round_index))
            numbers = self._under_way.take(senders.devices)
            tally.add(numbers, weights=senders.weights)
            yield self._attackers.updates(numbers, devices=senders.devices, context=context)
            return
        for rows in self._blocks(len(who.devices)):
            numbers = self._train(who, rows, start, tally=tally, round_index=context.round_index)
            mine = slice(sent, sent + len(numbers))
            tally.add(numbers, weights=senders.weights[mine])
            yield self._attackers.updates(numbers, devices=senders.devices[mine], context=context)
            sent = mine.stop

    def _blocks(self, count: int) -> Iterator[slice]:
        """Devices whose updates are in memory at once: as many as fit, or all where they have to meet."""
        meet = not self.uplink.in_blocks or self._attackers.meet
        step = max(count, 1) if meet else devices_in_a_block(self.model.num_parameters)
        return spans(count, step=step) if count else iter([slice(0, 0)])

    def _train(self, who: Participants, rows: slice, start: F32, *, tally: RoundTally, round_index: int) -> F32:
        """Train a part of the devices, and return the numbers `[S, M]` of those who send."""
        config, devices, sends = self._config, who.devices[rows], who.sends[rows]
        late, base = config.participation.straggling > 0.0, start if start.ndim == 1 else start[rows]
        steps = who.steps[rows] if late else None
        trained = self._trainer.train(base, devices=devices, round_index=round_index, steps=steps)
        squares = check_finite(trained.weights, devices=devices)
        numbers = trained.weights - base if config.upload == "update" else trained.weights
        if self.personal is not None:
            self.personal.keep(trained.weights, devices=devices)
        self.participation.note(
            devices, loss=trained.loss, update_norm=lambda: np.linalg.norm(trained.weights - base, axis=1)
        )
        tally.note(trained, samples=self._sizes[devices], squares=squares[sends])
        return numbers if sends.all() else numbers[sends]

    def _upload_s(self, link: LinkConfig) -> float:
        """Airtime of one upload that is sent once [s], or of the sum of all; 0 without a radio."""
        if isinstance(self.uplink, SuperposedUplink):
            found = superposed_airtime_s(self._link, int(self.uplink.facts["upload_symbols"]), self._index.count)
        else:
            found = upload_airtime_s(link, payload_bits=self.uplink.upload_bits)
        return found or 0.0

    def _measured_s(self, devices: I64, index: int) -> F64 | None:
        """Airtime `[S]` that uploads took where packets are sent again [s]; None where it is known before."""
        if not self._link.packets.policy.startswith("retransmit"):
            return None
        found = self.record.noted("link", "airtime_s", index)
        return None if found is None else np.asarray(found[0, devices])

    def _probe(self, round_index: int) -> LinkCounts:
        """Counts of a packet of known bits that every device sends over its channel of a round, or of fewer bits."""
        assert not isinstance(self.uplink, SuperposedUplink)  # a conflict
        link, num_bits = self.uplink.transport.link, min(8 * self._link.packet_size_bytes, PROBE_BITS)
        context = UplinkContext(seed=self._seed, trials=(self.trial,), round_index=round_index)
        return link.probe(num_bits, context=context, caps={}, again=True)

    def _aggregation_error(self, tally: RoundTally, exact: F32, found: F32) -> dict[str, float]:
        """How far the server's update is from the mean of what devices computed; nothing where models are sent."""
        if self._config.upload != "update":
            return {}
        places = [piece.place for piece in self.model.pieces]
        return {
            "aggregation_snr_db": aggregation_snr_db(exact, found, places=places),
            "aggregation_snr_20log_db": coded_snr_db(exact, found, places=places),
            "aggregation_mse": float(np.mean((exact.astype(np.float64) - found) ** 2)) if tally.any else float("nan"),
        }

    def _received_model(self, devices: I64, round_index: int) -> F32:
        """The server's model as every device has it: `[M]` over an ideal downlink, else `[K', M]`."""
        if self._down is None or self._copies is None:
            return self.weights
        config, at = self._config, self._index.of(devices)
        values, known, _, observed = self._down.send(
            np.tile(self.weights, (self._index.count, 1)),
            devices=self._index.owners(devices),
            context=UplinkContext(seed=downlink_seed(self._seed), trials=(self.trial,), round_index=round_index),
        )
        check_range(
            observed["clipped_values"][at[:1]] / self.model.num_parameters,
            None,
            codec=config.codec_down,
            key="codec" if config.codec_down is config.codec else "downlink_codec",
        )
        got = values[at].astype(np.float32)
        if known is not None:
            # What did not arrive stays as the device last had it.
            got = np.where(np.broadcast_to(known, values.shape)[at], got, self._copies[devices])
        self._copies[devices] = got
        return np.asarray(got)

    def _test(self, index: int) -> None:
        """Note how the server's model does on the test set, on images held out for validation, and at home."""
        data = self.data
        rounds = self._scores("test", data.x_test, data.y_test)
        if len(data.y_validation):
            held = self._scores("validation", data.x_validation, data.y_validation)
            rounds |= {name: held[name] for name in ("validation_accuracy", "validation_rmse") if name in held}
        if self.convergence is not None:
            rounds["distance_sq"] = self.convergence.distance_sq(self.weights)
        devices = scores_at_home(self.personal, self.weights)
        rounds |= {name: float(np.mean(values)) for name, values in devices.items()}
        self.record.note(index, rounds=rounds, devices=devices)

    def _scores(self, part: str, x: U8 | F32, y: I64 | F32) -> dict[str, float]:
        """Return the loss of the server's model, and its accuracy, or the error of the numbers that it predicts.

        R^2 = 1 - mean squared error / variance of `y`; the root of the mean squared error is in the user's unit.
        """
        loss, accuracy = evaluate(self.model, self.weights, x, y, scale=self.data.scale, shift=self.data.shift)
        unit = self.data.unit
        if unit is None:
            return {f"{part}_loss": loss, f"{part}_accuracy": accuracy}
        spread = float(np.var(y, dtype=np.float64))
        explained = 1.0 - 2.0 * loss / spread if spread > 0.0 else float("nan")
        return {f"{part}_loss": loss, f"{part}_rmse": unit * (2.0 * loss) ** 0.5, f"{part}_r2": explained}


def placed_downlink(link: LinkConfig, *, num_devices: int, seed: int, trial: int) -> LinkConfig:
    """A downlink whose devices stand where they stand on the way up: its own streams would place them anew."""
    if link.channel.cell is None:
        return link
    absolute = link.power.transmit_power_dbm is not None
    gains = device_gains(link.channel, num_devices=num_devices, seed=seed, trials=(trial,), absolute=absolute)[0]
    channel = link.channel.model_copy(update={"gain": tuple(float(gain) for gain in gains), "cell": None})
    return link.model_copy(update={"channel": channel})


def downlink_seed(seed: int) -> int:
    """Seed of the downlink's channel, noise and rounding: streams of their own beside those of the uplink."""
    return int(np.random.SeedSequence(entropy=seed, spawn_key=(0xD0,)).generate_state(1, np.uint64)[0])
