"""Build the uplink that a link configuration describes, with the chain of its engine.

Engines are imported when they are needed: TensorFlow and numba take a while.
"""

from __future__ import annotations

from functools import lru_cache

from phy.config import LinkConfig
from phy.config.mcs import is_by_device
from phy.engines.choice import engine_of
from phy.links.adaptation.link import AdaptedLink
from phy.links.air_chain import AirChain
from phy.links.conflicts import engine_conflicts, link_conflicts
from phy.links.error_models import ErrorFreeUplink, IndependentFlips, NoiselessAir
from phy.links.flat_chain import FlatChain
from phy.links.link import AirUplink, DigitalUplink, LinkError
from phy.links.orthogonal import OrthogonalLink
from phy.links.packets.chain import ChainSpec, PacketChain
from phy.links.packets.link import PacketLink
from phy.links.superposition import SuperpositionLink
from phy.links.superposition_ofdm.layout import Layout
from phy.links.superposition_ofdm.link import OfdmSuperposition
from phy.links.superposition_ofdm.sums import SumEngine


def compile_digital(config: LinkConfig, *, num_devices: int, num_bits: int) -> DigitalUplink:
    """Return the uplink that carries `num_bits` of each device per round, received device by device.

    Raises LinkError for access or modulation `auto`, for amplitudes, and for settings that the engine does not support.
    """
    config = config.resolve_mcs()
    if config.modulation in ("auto", "analog") or config.access not in ("orthogonal", "noma"):
        raise LinkError(
            f"orthogonal access and noma carry bits, the link says access {config.access}, "
            f"modulation {config.modulation}",
            "name access: orthogonal or noma and a modulation from bpsk to 256qam",
        )
    if config.error_model == "error_free":
        return ErrorFreeUplink(config, num_devices=num_devices, num_bits=num_bits)
    for conflict in engine_conflicts(config):
        raise LinkError(conflict)
    if is_by_device(config.mcs):
        return AdaptedLink(config, num_devices=num_devices, num_bits=num_bits, link_of=packet_link)
    link: OrthogonalLink | PacketLink
    if config.plain:
        link = OrthogonalLink(config, num_devices=num_devices, num_bits=num_bits, chain=flat_chain(config))
    else:
        link = packet_link(config, num_devices=num_devices, num_bits=num_bits)
    return link if config.error_model == "measured" else IndependentFlips(link, chain_over=flipping_chain)


def packet_link(config: LinkConfig, *, num_devices: int, num_bits: int, round_s: float | None = None) -> PacketLink:
    """Return the packet link of a configuration in the engine that it selects; `round_s` as in `PacketLink`."""
    return PacketLink(config, num_devices=num_devices, num_bits=num_bits, chain_of=packet_chain, round_s=round_s)


def flipping_chain(radio: PacketChain, spec: ChainSpec) -> PacketChain:
    """Return the chain that flips bits at given rates, with the sizes and durations of `radio`, built from `spec`."""
    from phy.engines.fused.packets.flips import FlippingChain

    return FlippingChain(radio, spec)


def flat_chain(config: LinkConfig) -> FlatChain:
    """Return the chain of a flat uncoded link in the engine that its configuration selects on this machine."""
    if engine_of(config) == "sionna":
        from phy.engines.sionna.flat import SionnaChain

        return SionnaChain(config)
    from phy.engines.fused.flat.link import FusedChain

    if config.engine == "cuda":
        from phy.engines.cuda.carry import carry
        from phy.engines.cuda.device import require_gpu
        from phy.engines.cuda.gains import sum_taps

        require_gpu()
        return FusedChain(config, carry=carry, sum_taps=sum_taps)
    return FusedChain(config)


def packet_chain(spec: ChainSpec) -> PacketChain:
    """Return the chain of a packet link in the engine that its configuration selects on this machine.

    A link without a fused chain may still have a fused code in Sionna's chain.
    """
    if engine_of(spec.config) == "sionna" or not spec.config.fusible_packets:
        from phy.engines.sionna.packets import compiled_chain

        return compiled_chain(spec)
    if spec.config.access == "noma":
        from phy.engines.fused.noma.chain import fused_noma_chain

        return fused_noma_chain(spec)
    from phy.engines.fused.packets.chain import fused_chain

    return _cuda_chain(spec) if spec.config.engine == "cuda" else fused_chain(spec)


@lru_cache(maxsize=32)
def _cuda_chain(spec: ChainSpec) -> PacketChain:
    from phy.engines.cuda.device import require_gpu
    from phy.engines.cuda.packets import CudaPacketChain
    from phy.engines.fused.packets.chain import fused_chain

    require_gpu()
    return CudaPacketChain(spec, fused_chain(spec))


def compile_air(config: LinkConfig, *, num_devices: int, num_symbols: int, payload_bound: float = 1.0) -> AirUplink:
    """Return the uplink over which `num_symbols` of each device per round add up.

    `payload_bound` as in `SuperpositionLink`. Raises LinkError for a modulation or error model without a meaning for
    sums, and for settings that exclude each other.
    """
    if config.modulation not in ("bpsk", "analog") or config.access != "superposition":
        raise LinkError(
            "superposition adds BPSK symbols or amplitudes, the link says access "
            f"{config.access}, modulation {config.modulation}",
            "name access: superposition and modulation bpsk or analog",
        )
    if config.error_model == "error_free":
        return NoiselessAir(config, num_devices=num_devices, num_symbols=num_symbols)
    if config.error_model != "measured":
        raise LinkError(
            f"error model {config.error_model} flips bits, but superposition detects no device's bits",
            "use measured or error_free, or orthogonal access",
        )
    for conflict in link_conflicts(config, num_devices=num_devices, payload_bits=num_symbols):
        raise LinkError(conflict)
    if config.ofdm != "none":
        return OfdmSuperposition(
            config, num_devices=num_devices, num_symbols=num_symbols, payload_bound=payload_bound, sums_of=_ofdm_sums
        )
    return SuperpositionLink(
        config, num_devices=num_devices, num_symbols=num_symbols, chain=_air_chain(config), payload_bound=payload_bound
    )


def _air_chain(config: LinkConfig) -> AirChain:
    if engine_of(config) == "sionna":
        from phy.engines.sionna.air import SionnaAir

        return SionnaAir(config)
    from phy.engines.fused.flat.air import FusedAir

    return FusedAir(config)


def _ofdm_sums(config: LinkConfig, layout: Layout) -> SumEngine:
    if engine_of(config) == "sionna":
        from phy.links.superposition_ofdm.chunks import SionnaSums

        return SionnaSums(config, layout)
    if config.mixes_carriers:
        from phy.engines.fused.waveform.sums import RecordedSums

        return RecordedSums(config, layout)
    from phy.engines.fused.packets.sums import FusedSums

    return FusedSums(config, layout)
