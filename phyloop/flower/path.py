"""Uploads of clients over a link: a codec or a scheme, privacy, and the radio, each client's update kept apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.upload import upload_plan
from fl.base.recorder import link_columns
from fl.models.federated import Piece
from fl.schemes.codecs.codec import Codec
from fl.schemes.coders.coder import Coder, Senders
from fl.uplink.build import build_protection, build_response, check_range
from fl.uplink.protection import Protection, RoundPlan
from fl.uplink.transport import BitTransport, believe
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception
from phy.numerics.random import Purpose
from phyloop.flower.settings import Settings
from scenarios.studies.flower.store import AppConfig

Numbers = NDArray[np.floating[Any]]


class ArrivedUpdates(NamedTuple):
    """What the receiver has of the numbers of S clients.

    - `values` `[S, M]`, of any value where not known; `known` `[S, M]` or `[S, 1]` bool: those that arrived and are
      believed; None: all;
    - `lost` `[S]` bool: a packet of the client is missing, or the client was silent;
    - `link`, `devices`: measured numbers `[S]` by name;
    - `numbers` of the transmission: latency `airtime_s` [s], `energy_j` [J], and those of the privacy mechanism.
    """

    values: Numbers
    known: NDArray[np.bool_] | None
    lost: NDArray[np.bool_]
    link: Mapping[str, NDArray[Any]]
    devices: Mapping[str, NDArray[Any]]
    numbers: Mapping[str, float]


class _Received(NamedTuple):
    payload: NDArray[np.uint8]
    known: NDArray[np.bool_] | None
    link: dict[str, NDArray[Any]]
    spent: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Radio:
    """The link of all clients, over which some of them send."""

    bits: BitTransport

    def send(
        self,
        payload: NDArray[np.uint8],
        at: NDArray[np.int64],
        *,
        plan: RoundPlan,
        context: UplinkContext,
        bits_per_value: int,
    ) -> _Received:
        """Send packed bits `[1, S, num_bytes]` of the senders with index `at` `[S]`, ascending."""
        bits, link = self.bits, self.bits.link
        if bits.parted:
            parts = [
                (*bits.send(payload[:, rows], plan=plan, context=context, first_device=int(at[rows.start])), rows)
                for rows in _runs(at)
            ]
            masks = [_mask(bits.known(reception, bits_per_value=bits_per_value), rows) for _, reception, rows in parts]
            received = np.concatenate([part for part, _, _ in parts], axis=1)
            reception, mine = bits.joined([one for _, one, _ in parts]), np.arange(len(at))
            known = None if all(one.all() for one in masks) else np.concatenate(masks)
        else:
            everyone = np.zeros((1, link.num_devices, payload.shape[-1]), np.uint8)
            everyone[:, at] = payload
            absent = np.setdiff1d(np.arange(link.num_devices), at)
            context = replace(context, silent=tuple(absent.tolist()))
            received, reception = bits.send(everyone, plan=plan, context=context)
            received, mine = received[:, at], at
            found = bits.known(reception, bits_per_value=bits_per_value)
            known = None if found is None or found[at].all() else found[at]
        return _Received(received, known, _columns(reception, mine), bits.spent(reception, mine))


class CodecPath:
    """The way of numbers `[S, M]` through a codec, a protection and the radio."""

    def __init__(
        self, codec: Codec, *, receiver_limit: float | None, radio: Radio, privacy: Mapping[str, float] | None = None
    ) -> None:
        self._codec, self._limit, self._radio, self._privacy = codec, receiver_limit, radio, privacy or {}

    def send(
        self, updates: Numbers, at: NDArray[np.int64], *, nodes: Sequence[int], context: UplinkContext
    ) -> ArrivedUpdates:
        """Send updates of the `nodes`, the senders with index `at`.

        Raises LearningError where the codec clips too many values of a node.
        """
        codec, bits = self._codec, self._radio.bits
        plan = bits.begin(context)
        noisy = bits.protection.perturb(updates, devices=at, context=context)
        encoded = codec.encode(noisy[None], keys=context.keys(Purpose.ROUNDING))
        check_range(encoded.clipped[0] / updates.shape[1], nodes, codec=codec, key="codec", noun="node")
        payload, known, link, spent = self._radio.send(
            encoded.payload, at, plan=plan, context=context, bits_per_value=codec.bits_per_value
        )
        decoded = codec.decode(payload, num_values=updates.shape[1])[0]
        lost = _lost(known, at)
        decoded, known = believe(decoded, known, self._limit)
        values = bits.protection.recover(decoded, plan=_of(plan, at))
        devices = {**{name: column[at] for name, column in plan.observed.items()}, "clipped_values": encoded.clipped[0]}
        return ArrivedUpdates(values, known, lost, link, devices, {**spent, **self._privacy})


class SchemePath:
    """The way of updates `[S, M]` to the server through a scheme with bits of its own.

    The scheme decodes each client as if no other had sent. The mean of these updates is the scheme's own aggregate.
    """

    def __init__(self, coder: Coder, *, radio: Radio) -> None:
        self._coder, self._radio = coder, radio

    def send(
        self, updates: Numbers, at: NDArray[np.int64], *, nodes: Sequence[int], context: UplinkContext
    ) -> ArrivedUpdates:
        """Send updates of the `nodes`, the senders with index `at`."""
        del nodes  # a scheme clips by its own rules
        coder, bits = self._coder, self._radio.bits
        plan = bits.begin(context)
        coder.begin(context, devices=at, flip_rate=plan.observed.get("probed_low", np.zeros(bits.link.num_devices))[at])
        reported = coder.metrics()
        encoded = coder.encode(updates.astype(np.float32, copy=False), devices=at, context=context)
        payload, known, link, spent = self._radio.send(encoded, at, plan=plan, context=context, bits_per_value=1)
        if known is not None:
            known = np.broadcast_to(known, (len(at), bits.num_bits))
        factor = np.ones(len(at)) if plan.factor is None else plan.factor[at]

        def decoded(rows: slice) -> NDArray[np.float32]:
            own, share = at[rows], np.full(len(at[rows]), 1.0 / len(at[rows]))
            held = None if known is None else known[rows]
            senders = Senders(devices=own, context=context, weights=share, factor=factor[rows], known=held)
            return coder.aggregate(payload[:, rows], senders)

        state, values = coder.state(), []
        for row in range(len(at)):
            values.append(decoded(slice(row, row + 1)))
            coder.restore(state)
        decoded(slice(0, len(at)))  # what the scheme learns for its next round comes from all clients
        lost = _lost(known, at)
        devices = {name: column[at] for name, column in plan.observed.items()}
        return ArrivedUpdates(np.stack(values), None, lost, link, devices, {**spent, **reported})


Path = CodecPath | SchemePath


def build_path(settings: Settings, *, config: AppConfig, pieces: tuple[Piece, ...], updates: Numbers) -> Path:
    """Return the uplink for updates of `pieces`; `updates` are those of the first round, to measure kappa on.

    Raises as `Settings.config`, and PrivacyError for a budget that holds nothing.
    """
    link, scheme = settings.link, config.aggregation
    if scheme.uses_codec:
        protection, numbers = build_protection(
            settings.privacy,
            plan=upload_plan(config),
            sizes=np.broadcast_to(
                np.asarray(1 if settings.samples is None else settings.samples, np.float64), config.num_devices
            ),
            link=link,
            local_models=lambda: updates[:4].astype(np.float32),
            seed=settings.scenario.seed,
            trial=0,
        )
        radio = Radio(bits=_transport(config, settings, protection, num_values=updates.shape[1]))
        return CodecPath(config.codec, receiver_limit=config.receiver_limit, radio=radio, privacy=numbers)
    coder = scheme.build(pieces=pieces, receiver_limit=config.receiver_limit)
    transport = _transport(config, settings, build_response(scheme, link=link), num_values=updates.shape[1])
    return SchemePath(coder, radio=Radio(bits=transport))


def _transport(config: AppConfig, settings: Settings, protection: Protection, *, num_values: int) -> BitTransport:
    return BitTransport(
        settings.link,
        protection=protection,
        num_devices=config.num_devices,
        num_bits=config.upload_bits(num_values),
    )


def _runs(at: NDArray[np.int64]) -> Iterator[slice]:
    """Rows whose indices follow each other."""
    ends = [*(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        yield slice(first, last)


def _mask(known: NDArray[np.bool_] | None, rows: slice) -> NDArray[np.bool_]:
    return np.ones((rows.stop - rows.start, 1), bool) if known is None else known


def _lost(known: NDArray[np.bool_] | None, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.zeros(len(at), bool) if known is None else np.asarray(~known.all(axis=1))


def _of(plan: RoundPlan, at: NDArray[np.int64]) -> RoundPlan:
    return plan if plan.factor is None else replace(plan, factor=plan.factor[at])


def _columns(reception: Reception, at: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    columns = link_columns(reception.counts, power_db=reception.power_db)
    return {name: column[0, at] for name, column in columns.items()}
