"""What the server holds of each device's update before it makes one of all: the attacker's view of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.codecs import build_codec
from fl.config import CpaScheme, FedAvgConfig, ProbitScheme, SignScheme
from fl.config.scheme import AggregatorConfig
from fl.models.federated import FederatedModel
from fl.schemes.build import build_response
from fl.schemes.cpa.codebooks import codewords, shared_uniforms
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.cpa.cpa_build import build_cpa
from fl.schemes.cpa.cpa_theory import decode_scale
from fl.schemes.probit.probit import Probit, build_probit
from fl.schemes.rounds import EveryRound
from fl.schemes.sign import build_sign
from fl.schemes.values.build_values import build_baseline
from fl.schemes.values.value_scheme import ValueScheme
from fl.uplink.numbers import check_range
from fl.uplink.protection import Protection
from fl.uplink.transport import BitTransport, NumberTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception
from phy.numerics.random import Purpose

Received = tuple[NDArray[np.float32], Reception, Mapping[str, NDArray[Any]]]
"""Updates `[K, M]`, finite, 0 where nothing arrived; what the link measured; numbers `[K]` that the round reports."""


class Receiver(Protocol):
    """Sends updates as learning does, and keeps what arrives apart by device."""

    transport: BitTransport

    def send(self, updates: NDArray[np.float32], *, context: UplinkContext) -> Received:
        """Send `updates` `[K, M]` of devices 0 to K - 1. Raises LearningError as encoding does."""
        ...


def build_receiver(
    config: FedAvgConfig, *, link: LinkConfig, model: FederatedModel, protection: Protection
) -> Receiver:
    """Return the uplink of `config`, every upload of which is looked at; `protection` is that of plain numbers."""
    if isinstance(config.aggregation, AggregatorConfig):
        return _Numbers(config, link=link, model=model, protection=protection)
    return _Bits(config, link=link, model=model)


class _Numbers:
    """Numbers through a codec."""

    def __init__(
        self, config: FedAvgConfig, *, link: LinkConfig, model: FederatedModel, protection: Protection
    ) -> None:
        self._codec, self._devices = config.codec, np.arange(config.num_devices)
        self._numbers = NumberTransport(
            link.resolve_digital(),
            codec=build_codec(config.codec),
            protection=protection,
            num_devices=config.num_devices,
            num_values=model.num_parameters,
            receiver_limit=config.receiver_limit,
        )
        self.transport = self._numbers.bits

    def send(self, updates: NDArray[np.float32], *, context: UplinkContext) -> Received:
        """See `Receiver.send`."""
        values, known, reception, observed = self._numbers.send(updates, devices=self._devices, context=context)
        share = observed["clipped_values"] / updates.shape[1]
        check_range(share, self._devices, codec=self._codec, key="codec")
        return _finite(values if known is None else np.where(known, values, 0.0)), reception, observed


class _Bits:
    """Schemes with bits of their own, in their first round."""

    def __init__(self, config: FedAvgConfig, *, link: LinkConfig, model: FederatedModel) -> None:
        settings, num_values = config.aggregation, model.num_parameters
        self._devices = np.arange(config.num_devices)
        self._scheme: Any
        if isinstance(settings, CpaScheme):
            self._scheme = build_cpa(settings, num_values=num_values, pieces=model.pieces)
        elif isinstance(settings, ProbitScheme):
            self._scheme = build_probit(settings, num_values=num_values)
        elif isinstance(settings, SignScheme):
            self._scheme = build_sign(settings, num_values=num_values)
        else:
            assert not isinstance(settings, AggregatorConfig)
            self._scheme = build_baseline(settings, pieces=model.pieces)
        self._native = isinstance(settings, ProbitScheme) and settings.channel == "native"
        self.transport = BitTransport(
            link.resolve_digital(),
            protection=build_response(config, scheme=EveryRound(self._scheme), link=link),
            num_devices=config.num_devices,
            num_bits=self._scheme.num_bits,
        )

    def send(self, updates: NDArray[np.float32], *, context: UplinkContext) -> Received:
        """See `Receiver.send`."""
        plan, scheme = self.transport.begin(context), self._scheme
        if self._native and "probed_low" in plan.observed:
            scheme = scheme.over_channel(plan.observed["probed_low"])
        payload = scheme.encode(updates, devices=self._devices, context=context)
        received, reception = self.transport.send(payload, plan=plan, context=context)
        known = self.transport.known(reception, bits_per_value=1)
        if known is not None:
            known = np.broadcast_to(known, (len(self._devices), scheme.num_bits))
        factor = np.ones(len(self._devices)) if plan.factor is None else plan.factor
        values = read_updates(scheme, received, devices=self._devices, context=context, factor=factor, known=known)
        return _finite(values), reception, plan.observed


def read_updates(
    scheme: Any,
    payload: NDArray[np.uint8],
    *,
    devices: NDArray[np.int64],
    context: UplinkContext,
    factor: NDArray[np.float64],
    known: NDArray[np.bool_] | None,
) -> NDArray[np.float32]:
    """The update `[K, M]` of each device that `scheme.aggregate` would make of its bits alone; majorities aside.

    Arguments as in `fl.schemes.base.Scheme.aggregate`, for all devices at once.
    """
    if isinstance(scheme, ValueScheme):
        values = scheme.decode(payload, devices=devices, context=context)
        return values if known is None else values * _whole(scheme, known, num_values=values.shape[1])
    bits = np.unpackbits(payload[0], axis=1, count=scheme.num_bits)
    signs = 2.0 * bits.astype(np.float32) - 1.0
    if known is not None:
        signs *= known
    signs /= np.maximum(factor, SMALLEST_DEBIAS_FACTOR).astype(np.float32)[:, None]
    if isinstance(scheme, Cpa):
        return _of_codewords(scheme, signs, devices=devices, context=context, known=known)
    if isinstance(scheme, Probit):
        return np.asarray(signs * scheme.device_bounds(len(devices))[:, None], np.float32)
    return np.asarray(signs * scheme.step, np.float32)


def _of_codewords(
    cpa: Cpa,
    signs: NDArray[np.float32],
    *,
    devices: NDArray[np.int64],
    context: UplinkContext,
    known: NDArray[np.bool_] | None,
) -> NDArray[np.float32]:
    """Points that the codewords of each device stand for, with their signs, Lang et al. 2023 (13), (14) and (17)."""
    key, blocks = context.keys(Purpose.CODEBOOK)[0], cpa.num_blocks
    scale = decode_scale(cpa.codebook, decode=cpa.decode, epsilon=cpa.epsilon)
    total = np.zeros((len(devices), blocks, cpa.dimension))
    for stage, quantizer in enumerate(cpa.quantizers):
        words = codewords(cpa.codebook, key=key, devices=devices, num_blocks=blocks, stage=stage)
        bins = scale * signs[:, stage * blocks : (stage + 1) * blocks, None] * words
        if cpa.decode == "unbiased":
            bins -= scale * cpa.codebook.correlation
        if cpa.negative_bins == "zero":
            np.maximum(bins, 0.0, out=bins)
        if known is not None:
            bins *= known[:, stage * blocks : (stage + 1) * blocks, None]
        total += bins @ quantizer.points
    if cpa.dither:
        drawn = cpa.quantizers[-1].dither(
            shared_uniforms(key=key, devices=devices, num_blocks=blocks, dimension=cpa.dimension)
        )
        total -= cpa.gain * (drawn if known is None else drawn * known[:, -blocks:, None])
    return np.asarray(total.reshape(len(devices), -1)[:, : cpa.num_values] * cpa.radius, np.float32)


def _whole(scheme: ValueScheme, known: NDArray[np.bool_], *, num_values: int) -> NDArray[np.bool_]:
    """Which numbers `[K, num_values]` arrived with all their bits."""
    whole = known.reshape(len(known), -1, scheme.code.bits_per_block).all(axis=-1)
    return np.repeat(whole, scheme.code.block, axis=1)[:, :num_values]


def _finite(values: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), np.float32)
