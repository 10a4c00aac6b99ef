"""Uplinks of federated averaging, and their way from the `aggregation:` and `privacy:` of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.attacks.attacks import Attackers
from fl.base.arrays import F32, F64, I64, U8
from fl.base.checkpoints import Kept
from fl.base.errors import LearningError, of_shape
from fl.base.recorder import Recorder
from fl.models.federated import FederatedModel
from fl.schemes.codecs.codec import Codec
from fl.schemes.coders.coder import Senders
from fl.schemes.scheme import Scheme
from fl.uplink.budgets import multipliers, upload_parameters
from fl.uplink.plan import UploadPlan
from fl.uplink.protection import (
    BitFlipping,
    ClippedNoise,
    NoiseOnNumbers,
    OwnNoise,
    Protection,
    RandomizedResponse,
    RoundPlan,
)
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import BitTransport, NumberTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception
from phy.numerics.random import Purpose, generator
from privacy.config import DeviceNoise, FlippedBits, Mechanism, NoisyNumbers, ReceiverNoise, StatedNoise
from privacy.mechanisms.bit_distance import measure_kappa

_TINY = np.finfo(np.float64).tiny

Received = tuple[F32, Reception, Mapping[str, NDArray[Any]]]
"""Updates `[K, M]`, finite, 0 where nothing arrived; what the link measured; numbers `[K]` that the round reports."""


class NumberUplink(Kept):
    """Numbers through the codec; sum_n q_n w_n over what arrived, Li et al. 2025 (4), or a robust aggregator.

    - `in_blocks`: blocks of senders of any size give the same; where not, `send` needs all of them in one block;
    - `upload_bits` that each device sends per round, before channel coding;
    - `facts`: numbers of the uplink that hold for every round.
    """

    kept = ("_link",)
    in_blocks = False
    facts: Mapping[str, float] = {}

    def __init__(
        self,
        plan: UploadPlan,
        *,
        link: LinkConfig,
        model: FederatedModel,
        index: SenderIndex,
        protection: Protection,
        attackers: Attackers,
    ) -> None:
        self._numbers = NumberTransport(
            link,
            codec=plan.codec,
            protection=protection,
            num_devices=index.count,
            num_values=model.num_parameters,
            receiver_limit=plan.receiver_limit,
        )
        self._index, self._attackers, self._codec, self._scheme = index, attackers, plan.codec, plan.scheme
        self.transport, self.upload_bits = self._numbers.bits, self._numbers.bits.air_bits
        self._link = self.transport.link

    def send(self, blocks: Iterable[F32], senders: Senders, *, otherwise: F32, record: Recorder) -> F32:
        """Send the vectors of one round, and return what the server takes for their mean, float32 `[M]`.

        - `blocks`: vectors `[D, M]` of the `senders` `[S]`, block after block; each is asked for when it is needed;
        - `otherwise` `[M]`: the result where nothing arrives;
        - `record`: receives the number of devices of which anything arrived, what the radio spent and counted, and
          what protection and scheme report, once all have sent.

        Raises LearningError for numbers that cannot be sent, and where too many of an honest device lie beyond the
        codec.
        """
        (numbers,) = blocks
        devices, context = senders.devices, senders.context
        at, owners = self._index.of(devices), self._index.owners(devices)
        honest, alone = ~self._attackers.who[devices], self._index.alone
        # Rows of those who send alone, or of all on the link.
        rows = np.arange(len(devices)) if alone else at
        senders_of_rows = devices if alone else owners
        values, known, reception, observed = self._numbers.send(
            numbers if alone else self._index.spread(numbers, at),
            devices=senders_of_rows,
            context=context,
            attack=partial(self._attackers.bits, devices=senders_of_rows, context=context),
            admit=lambda clipped: check_range(
                clipped[rows][honest] / numbers.shape[1], devices[honest], codec=self._codec, key="codec"
            ),
            at=at if alone else None,
        )
        if known is not None:
            known = np.broadcast_to(known, values.shape)[rows]
        num_active = len(devices) if known is None else int(known.any(axis=1).sum())
        self._index.report(
            record,
            reception,
            round_index=context.round_index,
            senders=devices,
            numbers={"num_active": float(num_active), **self.transport.spent(reception, at)},
            observed=observed,
        )
        found = self._scheme.aggregate(values[rows], weights=senders.weights, known=known, otherwise=otherwise)
        return of_shape(found, otherwise.shape, whose=f"aggregation {self._scheme.name}")

    def receive(self, updates: F32, *, context: UplinkContext) -> Received:
        """Send `updates` `[K, M]` of all devices, and return what arrives of each. Raises LearningError as `send`."""
        devices = np.arange(len(updates))
        values, known, reception, observed = self._numbers.send(updates, devices=devices, context=context)
        check_range(observed["clipped_values"] / updates.shape[1], devices, codec=self._codec, key="codec")
        return _finite(values if known is None else np.where(known, values, 0.0)), reception, observed


class SchemeUplink(Kept):
    """The uplink of schemes with bits of their own, with the attributes of `NumberUplink`.

    What the randomized response leaves of the mean of a bit, `RoundPlan.factor`, is handed to the scheme to divide by.
    """

    kept = ("_coder", "_link")

    def __init__(
        self, plan: UploadPlan, *, link: LinkConfig, model: FederatedModel, index: SenderIndex, attackers: Attackers
    ) -> None:
        scheme, num_bits = plan.scheme, plan.scheme.upload_bits(model.num_parameters)
        self._coder = scheme.build(pieces=model.pieces, receiver_limit=plan.receiver_limit)
        self._index, self._attackers, self._name, self.in_blocks = index, attackers, scheme.name, scheme.in_blocks
        self.transport = BitTransport(
            link, protection=build_response(scheme, link=link), num_devices=index.count, num_bits=num_bits
        )
        self._link, self.upload_bits = self.transport.link, self.transport.air_bits

    @property
    def facts(self) -> Mapping[str, float]:
        return self._coder.facts

    def send(self, blocks: Iterable[F32], senders: Senders, *, otherwise: F32, record: Recorder) -> F32:
        """See `NumberUplink.send`: every block goes on the air as it comes, where the link takes parts."""
        coder, index, transport, context = self._coder, self._index, self.transport, senders.context
        plan, at = transport.begin(context), index.of(senders.devices)
        gathering = coder.gather(self._begun(senders, at, plan))
        owners, receptions, num_active = index.owners(senders.devices), list[Reception](), 0
        for first, place, payload in self._parts(blocks, senders):
            of_part = owners[first : first + payload.shape[1]]
            received, reception = transport.send(
                payload,
                plan=plan,
                context=context,
                attack=partial(self._attackers.bits, devices=of_part, context=context),
                first_device=first if transport.parted else None,
            )
            known = transport.known(reception, bits_per_value=1)
            own = None if known is None else np.broadcast_to(known, (len(known), transport.num_bits))[place]
            num_active += len(place) if own is None else int(own.any(axis=1).sum())
            gathering.add(received[:, place], known=own)
            receptions.append(replace(reception, payload=reception.payload[:, :0]))
        update, reception = gathering.update() if num_active else otherwise, transport.joined(receptions)
        of_shape(update, otherwise.shape, whose=f"aggregation {self._name}")
        index.report(
            record,
            reception,
            round_index=context.round_index,
            senders=senders.devices,
            numbers={"num_active": float(num_active), **transport.spent(reception, at), **coder.metrics()},
            observed=plan.observed,
        )
        return update

    def _begun(self, senders: Senders, at: I64, plan: RoundPlan) -> Senders:
        """Begin the round of the scheme; return senders with shares that sum to 1, and what flips leave of a bit."""
        low, weights = plan.observed.get("probed_low", np.zeros(self._index.count)), senders.weights
        self._coder.begin(senders.context, devices=senders.devices, flip_rate=low[at])
        factor = senders.factor if plan.factor is None else plan.factor[at]
        return replace(senders, weights=weights / max(weights.sum(), _TINY), factor=factor)

    def _parts(self, blocks: Iterable[F32], senders: Senders) -> Iterator[tuple[int, I64, U8]]:
        """Yield what goes on the air at a time: its first index, the places of senders behind that, and packed bits.

        Bits are `[1, indices, num_bytes]`, zero for an index without a sender.
        """
        coder, transport, devices = self._coder, self.transport, senders.devices
        at = self._index.of(devices)
        first = sent = encoded = 0
        waiting: list[U8] = []

        def part(last: int) -> tuple[int, I64, U8]:
            place = at[sent:encoded] - first
            payload = np.zeros((1, last - first, -(-transport.num_bits // 8)), np.uint8)
            if waiting:
                payload[:, place] = waiting[0] if len(waiting) == 1 else np.concatenate(waiting, axis=1)
            return first, place, payload

        for numbers in blocks:
            if not len(numbers):
                continue
            rows = slice(encoded, encoded + len(numbers))
            bits = coder.encode(numbers, devices=devices[rows], context=senders.context)
            stored = (1, len(numbers), -(-transport.num_bits // 8))
            waiting.append(of_shape(bits, stored, whose=f"encode of aggregation {self._name}"))
            encoded = rows.stop
            if transport.parted and encoded < len(devices):
                yield part(at[encoded])
                first, sent, waiting = at[encoded], encoded, []
        yield part(self._index.count)

    def receive(self, updates: F32, *, context: UplinkContext) -> Received:
        """See `NumberUplink.receive`; of the first round. Raises LearningError where single uploads tell no update."""
        coder, transport, devices = self._coder, self.transport, np.arange(len(updates))
        plan, ones = transport.begin(context), np.ones(len(updates))
        senders = Senders(devices=devices, context=context, weights=ones, factor=ones)
        senders = self._begun(senders, devices, plan)
        payload = coder.encode(updates, devices=devices, context=context)
        received, reception = transport.send(payload, plan=plan, context=context)
        if (known := transport.known(reception, bits_per_value=1)) is not None:
            senders = replace(senders, known=np.broadcast_to(known, (len(devices), transport.num_bits)))
        values = coder.read(received, senders)
        if values is None:
            raise LearningError(f"the updates behind single uploads of scheme {self._name} cannot be read")
        return _finite(values), reception, plan.observed


Uplink = NumberUplink | SchemeUplink


def _finite(values: NDArray[Any]) -> F32:
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), np.float32)


def check_range(
    share: F64, devices: Sequence[int] | I64 | None, *, codec: Codec, key: str, noun: str = "device"
) -> None:
    """Raise LearningError where the share of values that `devices`, or the server, had clipped exceeds the limit."""
    limit = codec.clipped_limit
    worst = int(np.argmax(share)) if len(share) else 0
    if limit is not None and len(share) and share[worst] > limit:
        bound = getattr(codec, "bound", codec.value_range)
        whose = "the server's model" if devices is None else f"{noun} {devices[worst]}"
        raise LearningError(
            f"{share[worst]:.1%} of the values of {whose} lie beyond the codec's bound {bound:g}, "
            f"more than learning.{key}.max_clipped = {limit:g}",
            "raise the bound, or the limit",
        )


def build_uplink(
    plan: UploadPlan,
    *,
    link: LinkConfig,
    model: FederatedModel,
    index: SenderIndex,
    protection: Protection,
    attackers: Attackers,
) -> Uplink:
    """Return the uplink for updates of `model` over `link`; `protection` is that of plain numbers.

    `attackers` send what they like: a codec clips it without complaint.

    Raises LearningError for a scheme that cannot be built for the model.
    """
    on_air = link.resolve_digital()
    if plan.scheme.uses_codec:
        return NumberUplink(plan, link=on_air, model=model, index=index, protection=protection, attackers=attackers)
    return SchemeUplink(plan, link=on_air, model=model, index=index, attackers=attackers)


def build_response(scheme: Scheme, *, link: LinkConfig) -> Protection:
    """Return the randomized response of a scheme that flips bits or undoes the channel's flips; else no protection."""
    response = scheme.response
    if response is None or (response.flip_target is None and response.channel == "agnostic"):
        return Protection()
    return RandomizedResponse(response, link=link)


def build_protection(
    privacy: Mechanism | None,
    *,
    plan: UploadPlan,
    sizes: F64,
    link: LinkConfig,
    local_models: Callable[[], F32],
    seed: int,
    trial: int,
) -> tuple[Protection, dict[str, float]]:
    """Return the protection of a trial, and its privacy numbers by name; `sizes` `[num_devices]` are |D_n|.

    `local_models()` `[n, M]`: uploads to measure kappa on. Raises LearningError without a sensitivity, and for a kappa
    that cannot be measured; PrivacyError for a budget that holds nothing.
    """
    mechanism = None if privacy is None else privacy.for_uploads
    if mechanism is None or isinstance(mechanism, ReceiverNoise):
        return Protection(), {}
    if isinstance(mechanism, DeviceNoise):
        assert mechanism.clip is not None
        sigma, numbers = mechanism.sigma(multipliers(plan, link=link, privacy=mechanism))
        return ClippedNoise(sigma, clip=mechanism.clip, num_devices=plan.num_devices), numbers
    if isinstance(mechanism, StatedNoise):
        strengths = upload_parameters(plan, link=link, privacy=mechanism)
        return OwnNoise(mechanism, strengths=strengths), {"sensitivity": 2.0 * mechanism.clip}
    training = plan.training
    if training.clip is None:
        raise LearningError(f"mechanism {mechanism.mechanism} needs a sensitivity", "set learning.local.clip")
    distance = mechanism.distance(training, num_samples=sizes)
    found = upload_parameters(plan, link=link, privacy=privacy)
    if isinstance(mechanism, NoisyNumbers):
        sigma, numbers = mechanism.noise(training, distance=distance, found=found)
        return NoiseOnNumbers(sigma, by_round=found), numbers
    assert isinstance(mechanism, FlippedBits)
    farthest, kappa = float(distance.max()), None
    fractions = plan.codec.as_fractions()
    if mechanism.pairs is not None and fractions is not None:
        kappa = measure_kappa(
            local_models(),
            sensitivity=farthest,
            num_pairs=mechanism.pairs,
            fraction_bits=fractions.fraction_bits,
            value_range=fractions.value_range,
            generator=generator(seed, trial, Purpose.BIT_DISTANCE),
        )
    target, numbers = mechanism.target(training, sensitivity=farthest, kappa=kappa, found=found)
    if target is None:
        raise LearningError("kappa can be measured on fixed-point bits only", "write codec: fixed-point, or give kappa")
    return BitFlipping(mechanism, target=target, link=link), numbers
