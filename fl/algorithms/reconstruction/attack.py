"""An attack that a reader can see: images rebuilt from what the server received, and members told from others.

Every device of a round is a game. A fair coin says whether its target image is among those it holds; it computes the
update of one step, and sends it by the functions and over the link that learning itself uses. The server
- inverts what it received, `invert_linear`;
- scores the target by <received update, update of the target alone> over the length of the latter, and ranks the games
  by that: a member stands out where the update is still there, Dwork et al. 2015.
An attack that fails proves nothing: a better one may not.

Of one image x the gradient of any loss of the logits W x + b is g_b = dL/db and g_W,c = g_b,c x for every class c: a
layer with bias gives its input away (Geiping et al. 2020, Proposition 3.1; without a closed form, by optimisation, Zhu,
Liu and Han 2019). What arrives is noisy; the x that minimises sum_c ||g_W,c - g_b,c x||^2 is

    x = sum_c g_b,c g_W,c / sum_c g_b,c^2,

whatever factor the update has. Of several images it is a mean of them, image i weighted by <g_b, g_b,i>.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.account import fedavg_account
from fl.algorithms.fedavg.upload import upload_plan
from fl.attacks.attacks import Attackers
from fl.base.arrays import F32, F64, I64, Bools
from fl.base.checkpoints import State, Trials
from fl.base.errors import LearningError
from fl.base.recorder import Recorder, link_columns
from fl.base.results import PrivacyAccount, TrialResult
from fl.base.words import plural
from fl.data.arrays import ImageData
from fl.data.images import load_images
from fl.data.partition.split import Partition
from fl.local.trainer import LocalTrainer
from fl.models.build import build_model
from fl.models.kinds.networks import ModelConfig
from fl.uplink.build import build_protection, build_uplink
from fl.uplink.senders import SenderIndex
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, generator
from privacy.audit.roc import area_under_curve, true_positive_rate
from privacy.config import BitFlippingConfig, GaussianConfig, Mechanism

if TYPE_CHECKING:
    from fl.algorithms.reconstruction.config import ReconstructionConfig

PICTURES = 10
"""Images of a trial that are kept beside their reconstructions, one of each label as far as there are any."""

ONE_UPLOAD = "every upload is that of a first round, with images drawn anew: uploads are not added up"

_GREYS = 255
_ROUNDING = 2.0**-24
"""Of single precision: squared errors below its square are not told apart."""


@dataclass(frozen=True, kw_only=True)
class Games:
    """What every device of every round holds; positions in the training set.

    `targets` `[R, K]`, `held` `[R, K, n]`, `member` bool `[R, K]`: whether the target is `held[..., 0]`.
    """

    targets: I64
    held: I64
    member: Bools


def deal(config: ReconstructionConfig, *, num_images: int, seed: int, trial: int) -> Games:
    """Images of a round are all different, those of another round drawn anew; the coin is fair and of its own stream.

    Raises LearningError where there are too few images.
    """
    count, per_game = config.num_devices, config.samples_per_device + 1
    if count * per_game > num_images:
        raise LearningError(
            f"{plural(count, 'device')} with {plural(config.samples_per_device, 'image')} and a target each need "
            f"{count * per_game} images, there are {num_images}",
            "lower num_devices",
        )
    drawn = generator(seed, trial, Purpose.PARTITION)
    dealt = np.stack([drawn.permutation(num_images)[: count * per_game] for _ in range(config.rounds)])
    dealt = dealt.reshape(config.rounds, count, per_game)
    member = generator(seed, trial, Purpose.ATTACK).integers(0, 2, (config.rounds, count)).astype(np.bool_)
    held = dealt[..., 1:].copy()
    held[..., 0] = np.where(member, dealt[..., 0], held[..., 0])
    return Games(targets=dealt[..., 0], held=held, member=member)


class Reconstruction(Trials):
    """One trial of the attack, see `fl.base.checkpoints.Trials`: every upload is attacked, and nobody learns."""

    def __init__(
        self,
        config: ReconstructionConfig,
        *,
        link: LinkConfig,
        privacy: BitFlippingConfig | GaussianConfig | None,
        seed: int,
        trial: int,
    ) -> None:
        self._config, self._link, self._privacy, self._seed, self._trial = config, link, privacy, seed, trial
        data: ImageData = load_images(config.data, seed=seed, trial=trial)
        games = deal(config, num_images=len(data.y_train), seed=seed, trial=trial)
        shape, num_classes = data.image_shape, data.num_classes
        self._data, self._games = data, games
        self._model = build_model(
            ModelConfig(name="linear"), image_shape=shape, num_classes=num_classes, seed=seed, trial=trial
        )
        self._weights = self._model.initial_weights()
        devices = (*games.held.reshape(-1, config.samples_per_device), *games.targets.reshape(-1, 1))
        partition = Partition(devices=devices, labels=data.y_train, num_classes=num_classes)
        self._trainer = LocalTrainer(
            self._model, config=config.local, data=data, partition=partition, seed=seed, trial=trial
        )
        plan = upload_plan(config.played)
        protection, self._budget = build_protection(
            privacy,
            plan=plan,
            sizes=np.full(config.num_devices, float(config.samples_per_device)),
            link=link.resolve_digital(),
            local_models=lambda: self._updates(np.arange(min(config.num_devices, 4))),
            seed=seed,
            trial=trial,
        )
        index = SenderIndex(plan, link=link)
        self._uplink = build_uplink(
            plan,
            link=link,
            model=self._model,
            index=index,
            protection=protection,
            attackers=Attackers.drawn(None, num_devices=config.num_devices, seed=seed, trial=trial),
        )
        # What pixels are to the server: from 0 to 1.
        self._images = self._data.x_train.reshape(len(self._data.y_train), -1) / np.float64(
            config.data.described().largest_pixel
        )
        self._record = Recorder(config.rounds, num_devices=config.num_devices)
        self._pictures: dict[str, I64] = {}

    def _updates(self, devices: I64) -> F32:
        """Of devices of the partition: games first, then targets on their own."""
        return self._trainer.train(self._weights, devices=devices, round_index=0).weights - self._weights

    def round(self, index: int) -> None:
        """Play the games of one round. Raises LearningError for updates too far beyond the codec."""
        games, count = self._games, self._config.num_devices
        devices = np.arange(count) + index * count
        context = UplinkContext(seed=self._seed, trials=(self._trial,), round_index=index)
        received, reception, observed = self._uplink.receive(self._updates(devices), context=context)
        rebuilt = self._invert(received)
        alike = likeness(rebuilt, held=games.held[index], images=self._images)
        alone = self._updates(games.member.size + devices).astype(np.float64)
        length = np.linalg.norm(alone, axis=1)
        score = np.einsum("km,km->k", received, alone) / np.where(length > 0.0, length, 1.0)
        if index == 0 and self._trial == 0:
            self._keep_pictures(rebuilt)
        self._record.note(
            index,
            rounds={
                "mean_correlation": float(alike.correlation.mean()),
                "recognised_share": float(alike.recognised.astype(np.int64).mean()),
                "psnr_db": psnr_db(alike.squared_error),
                **self._uplink.transport.spent(reception, np.arange(count)),
            },
            link=link_columns(reception.counts),
            devices={
                **observed,
                "correlation": alike.correlation,
                "pixel_error": alike.squared_error,
                "recognised": alike.recognised.astype(np.int64),
                "membership_score": score,
                "member": games.member[index].astype(np.int64),
            },
        )
        self._record.finish(index)

    def _invert(self, updates: F32) -> F64:
        """Images `[K, D]` in [0, 1] from updates `[K, M]`."""
        kernel, bias = self._model.unflatten(updates)
        inputs = invert_linear(kernel, bias)
        largest = self._data.scale * self._config.data.described().largest_pixel
        return np.clip((inputs - self._data.shift) / largest, 0.0, 1.0)

    def _keep_pictures(self, rebuilt: F64) -> None:
        # The first image held is the same at every point of a sweep, whatever the server made of it.
        own = self._games.held[0, :, 0]
        _, first = np.unique(self._data.y_train[own], return_index=True)
        chosen = first[:PICTURES]
        for name, images in (("original", self._images[own]), ("rebuilt", rebuilt)):
            grey = np.rint(_GREYS * images[chosen]).astype(np.int64)
            self._pictures[name] = grey.reshape(len(chosen), *self._data.image_shape)

    def state(self) -> State:
        """Return the records, for nobody learns, and what the radio keeps."""
        link = self._uplink.transport.link.state()
        return {"record": self._record.state(), "pictures": self._pictures, "link": link}

    def restore(self, state: State) -> None:
        self._record.restore(state["record"])
        self._pictures = {name: np.array(pictures, np.int64) for name, pictures in state["pictures"].items()}
        self._uplink.transport.link.restore(state["link"])

    def results(self, failure: str | None) -> list[TrialResult]:
        metrics = {} if failure else self._metrics(self._record.of_trial("devices"))
        size = self._model.num_parameters
        account = partial(reconstruction_account, self._config, link=self._link, privacy=self._privacy, num_values=size)
        (result,) = self._record.results((self._trial,), metrics=(metrics,), failures=(failure,), account=account)
        return [replace(result, pictures=self._pictures)]

    def _metrics(self, games: dict[str, NDArray[Any]]) -> dict[str, float]:
        """Of all games of the trial; limits of the membership attack are those of this trial alone, at 95 %."""
        found = {
            "mean_correlation": float(games["correlation"].mean()),
            "recognised_share": float(games["recognised"].mean()),
            "psnr_db": psnr_db(games["pixel_error"]),
        }
        member, score = games["member"].ravel() == 1, games["membership_score"].ravel()
        if member.any() and not member.all():
            for name, one in (
                ("membership_auc", area_under_curve(score, member)),
                ("true_positive_rate", true_positive_rate(score, member)),
            ):
                found |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
        return found | self._budget


def reconstruction_account(
    config: ReconstructionConfig,
    result: TrialResult,
    *,
    link: LinkConfig,
    privacy: Mechanism | None,
    num_values: int,
) -> PrivacyAccount | None:
    """Return the ledger of one round in which every upload of the trial is a device, `[1, num_rounds num_devices]`.

    Every upload is a release of its own, added to none. None if nothing was sent.
    """
    counts = result.link.get("bits")
    if counts is None or not len(counts):
        return None
    link_counts, devices = (
        {name: np.asarray(values).reshape(1, -1) for name, values in columns.items()}
        for columns in (result.link, result.devices)
    )
    uploads = replace(result, rounds={"train_loss": np.zeros(1)}, link=link_counts, devices=devices)
    found = fedavg_account(config.played, uploads, link=link, privacy=privacy, num_values=num_values)
    if found is None:
        return None
    ledger = replace(found.ledger, assumptions=(*found.ledger.assumptions, ONE_UPLOAD))
    return replace(found, ledger=ledger)


def invert_linear(kernel: NDArray[Any], bias: NDArray[Any]) -> F64:
    """Inputs x `[K, D]` float64 from gradients, or updates, `kernel` `[K, D, C]` and `bias` `[K, C]`.

    Zeros where the bias has no gradient at all.
    """
    along = np.einsum("kdc,kc->kd", kernel, bias, dtype=np.float64)
    power = np.einsum("kc,kc->k", bias, bias, dtype=np.float64)[:, None]
    return np.asarray(np.divide(along, power, out=np.zeros_like(along), where=power > 0.0))


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """How like its original each of K reconstructions is, `[K]`.

    - `correlation`: Pearson's with the most similar of the device's n images; 0 where an image has one grey alone;
    - `squared_error`: mean over pixels in [0, 1];
    - `recognised`: of all images of the set one of the device's is the most correlated one.
    """

    correlation: F64
    squared_error: F64
    recognised: Bools


def likeness(rebuilt: NDArray[Any], *, held: I64, images: NDArray[Any]) -> Likeness:
    """Compare `rebuilt` `[K, D]` with the images `held` `[K, n]` of the whole set `images` `[N, D]`, all in [0, 1]."""
    matches = _standardised(rebuilt) @ _standardised(images).T
    own = np.take_along_axis(matches, held, axis=1)
    best = own.argmax(axis=1)
    correlation = own.max(axis=1)
    # Of equal images, and of nothing at all, none is recognised by its place in the set.
    recognised = (correlation >= matches.max(axis=1)) & (correlation > 0.0)
    original = images[np.take_along_axis(held, best[:, None], axis=1)[:, 0]]
    squared_error = ((rebuilt - original) ** 2).mean(axis=1)
    return Likeness(correlation=correlation, squared_error=squared_error, recognised=recognised)


def psnr_db(squared_error: NDArray[Any]) -> float:
    """-10 log10 of the mean squared error of pixels in [0, 1]; at most 144.5 dB, where single precision ends."""
    return float(-10.0 * np.log10(max(float(np.mean(squared_error)), _ROUNDING**2)))


def _standardised(images: NDArray[Any]) -> F64:
    """Mean 0 and length 1; an image of one grey becomes zeros."""
    centred = images - images.mean(axis=1, keepdims=True, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12))
