"""From the `aggregation:` of a scenario to its uplink."""

from __future__ import annotations

from fl.codecs import build_codec
from fl.config import FedAvgConfig
from fl.config.scheme import AggregatorConfig, CpaScheme, ProbitScheme, SignScheme
from fl.models.federated import FederatedModel
from fl.schemes.rounds import CpaRounds, EveryRound, ProbitRounds, SchemeRounds
from fl.schemes.scheme_uplink import SchemeUplink
from fl.schemes.sign import build_sign
from fl.schemes.values.build_values import build_baseline
from fl.uplink.channel_credit import errors_arrive, errors_together
from fl.uplink.numbers import DeviceAttack, NumberUplink, Uplink
from fl.uplink.protection import NoProtection, Protection, RandomizedResponse
from fl.uplink.senders import SenderIndex
from fl.uplink.transport import BitTransport, NumberTransport
from phy.config import LinkConfig


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
    on_air = link.resolve_digital()
    if isinstance(config.aggregation, AggregatorConfig):
        transport = NumberTransport(
            on_air,
            codec=build_codec(config.codec),
            protection=protection,
            num_devices=index.count,
            num_values=model.num_parameters,
            receiver_limit=config.receiver_limit,
        )
        return NumberUplink(transport, index=index, codec=config.codec, aggregator=config.aggregation, attack=attack)
    scheme = build_rounds(config, model=model)
    bits = BitTransport(
        on_air,
        protection=build_response(config, scheme=scheme, link=link),
        num_devices=index.count,
        num_bits=scheme.num_bits,
    )
    return SchemeUplink(scheme, transport=bits, index=index, attack=attack)


def build_rounds(config: FedAvgConfig, *, model: FederatedModel) -> SchemeRounds:
    """The one-bit scheme, or its rival, that the configuration names. Raises LearningError as its parts do."""
    scheme, num_values = config.aggregation, model.num_parameters
    if isinstance(scheme, CpaScheme):
        return CpaRounds(scheme, num_values=num_values, pieces=model.pieces)
    if isinstance(scheme, ProbitScheme):
        return ProbitRounds(scheme, num_values=num_values)
    if isinstance(scheme, SignScheme):
        return EveryRound(build_sign(scheme, num_values=num_values))
    if isinstance(scheme, AggregatorConfig):
        raise TypeError(f"{scheme.name} goes through a codec and has no bits of its own")
    return EveryRound(build_baseline(scheme, pieces=model.pieces, receiver_limit=config.receiver_limit))


def build_response(config: FedAvgConfig, *, scheme: SchemeRounds, link: LinkConfig) -> Protection:
    """Randomized response of the schemes that ask for it or undo what the channel does; nothing for the others."""
    settings = config.aggregation
    if not isinstance(settings, CpaScheme | ProbitScheme | SignScheme):
        return NoProtection()
    if scheme.flip_target is None and settings.channel == "agnostic":
        return NoProtection()
    return RandomizedResponse(
        scheme.flip_target,
        channel=settings.channel,
        confidence=settings.confidence,
        probe_bits=link.probe_bits,
        errors_arrive=errors_arrive(link),
        errors_together=errors_together(link),
    )
