"""From the `aggregation:` of a scenario to its uplink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl.config.scheme import Scheme
from fl.models.federated import FederatedModel
from fl.uplink.channel_credit import errors_arrive, errors_together
from fl.uplink.numbers import DeviceAttack, NumberUplink, Uplink
from fl.uplink.protection import Protection, RandomizedResponse
from fl.uplink.scheme_uplink import SchemeUplink
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import BitTransport, NumberTransport
from phy.config import LinkConfig

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig


def build_uplink(
    config: FedAvgConfig,
    *,
    link: LinkConfig,
    model: FederatedModel,
    index: SenderIndex,
    protection: Protection,
    attack: DeviceAttack,
) -> Uplink:
    """Return the uplink for updates of `model` over `link`; `protection` is that of plain numbers.

    Raises LearningError for a scheme that cannot be built for the model.
    """
    on_air, scheme = link.resolve_digital(), config.aggregation
    if scheme.uses_codec:
        transport = NumberTransport(
            on_air,
            codec=config.codec,
            protection=protection,
            num_devices=index.count,
            num_values=model.num_parameters,
            receiver_limit=config.receiver_limit,
        )
        return NumberUplink(transport, index=index, codec=config.codec, scheme=scheme, attack=attack)
    bits = BitTransport(
        on_air,
        protection=build_response(config.aggregation, link=link),
        num_devices=index.count,
        num_bits=scheme.upload_bits(model.num_parameters),
    )
    coder = scheme.build(pieces=model.pieces, receiver_limit=config.receiver_limit)
    return SchemeUplink(coder, transport=bits, index=index, attack=attack, in_blocks=scheme.in_blocks)


def build_response(scheme: Scheme, *, link: LinkConfig) -> Protection:
    """Return the randomized response of a scheme that flips bits or undoes the channel's flips; else no protection."""
    response = scheme.response
    if response is None or (response.flip_target is None and response.channel == "agnostic"):
        return Protection()
    return RandomizedResponse(
        response.flip_target,
        channel=response.channel,
        confidence=response.confidence,
        probe_bits=link.probe_bits,
        errors_arrive=errors_arrive(link),
        errors_together=errors_together(link),
    )
