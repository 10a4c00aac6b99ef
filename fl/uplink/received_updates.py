"""What the server holds of each device's update before it makes one of all: the attacker's view of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fl.models.federated import FederatedModel
from fl.schemes.coders.coder import Senders
from fl.tasks.base import LearningError
from fl.uplink.build import build_response
from fl.uplink.numbers import check_range
from fl.uplink.protection import Protection
from fl.uplink.transport import BitTransport, NumberTransport
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig

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
    if config.aggregation.uses_codec:
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
            codec=config.codec,
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
        scheme = config.aggregation
        self._name, self._devices = scheme.name, np.arange(config.num_devices)
        self._coder = scheme.build(pieces=model.pieces)
        self.transport = BitTransport(
            link.resolve_digital(),
            protection=build_response(config.aggregation, link=link),
            num_devices=config.num_devices,
            num_bits=scheme.upload_bits(model.num_parameters),
        )

    def send(self, updates: NDArray[np.float32], *, context: UplinkContext) -> Received:
        """See `Receiver.send`. Raises LearningError for a scheme that an attacker cannot read upload by upload."""
        devices, transport = self._devices, self.transport
        count, plan = len(devices), transport.begin(context)
        flip_rate = plan.observed.get("probed_low", np.zeros(count))
        self._coder.begin(context, devices=devices, flip_rate=flip_rate)
        payload = self._coder.encode(updates, devices=devices, context=context)
        received, reception = transport.send(payload, plan=plan, context=context)
        known = transport.known(reception, bits_per_value=1)
        if known is not None:
            known = np.broadcast_to(known, (count, transport.num_bits))
        factor = np.ones(count) if plan.factor is None else plan.factor
        weights = np.full(count, 1.0 / count)
        values = self._coder.read(
            received, Senders(devices=devices, context=context, weights=weights, factor=factor, known=known)
        )
        if values is None:
            raise LearningError(f"the updates behind single uploads of scheme {self._name} cannot be read")
        return _finite(values), reception, plan.observed


def _finite(values: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), np.float32)
