"""From a configuration to a running uplink: the one place where the error model's word is read."""

from __future__ import annotations

from phy.config import LinkConfig
from phy.config.conflicts import engine_conflicts, link_conflicts
from phy.engines.choice import engine_of
from phy.engines.sionna.air import SionnaAir
from phy.engines.sionna.flat import SionnaChain
from phy.links.air_chain import AirChain
from phy.links.error_models import ErrorFreeUplink, IndependentFlips, NoiselessAir
from phy.links.flat_chain import FlatChain
from phy.links.link import AirUplink, DigitalUplink, LinkError
from phy.links.orthogonal import OrthogonalLink
from phy.links.packets import PacketLink
from phy.links.superposition import SuperpositionLink
from phy.links.superposition_ofdm import OfdmSuperposition


def compile_digital(config: LinkConfig, *, num_devices: int, num_bits: int) -> DigitalUplink:
    """Uplink that carries `num_bits` of each device per round on its own resource.

    Raises LinkError where the configuration leaves access or modulation open or asks for amplitudes.
    """
    config = config.resolve_mcs()
    if config.modulation in ("auto", "analog") or config.access not in ("orthogonal", "noma"):
        raise LinkError(
            f"orthogonal access and noma carry bits, the link says access {config.access}, modulation "
            f"{config.modulation}; name access: orthogonal or noma and a modulation from bpsk to 256qam"
        )
    if config.error_model == "error_free":
        return ErrorFreeUplink(config, num_devices=num_devices, num_bits=num_bits)
    for conflict in engine_conflicts(config):
        raise LinkError(f"{conflict.problem}; {conflict.remedy}")
    link: OrthogonalLink | PacketLink
    if config.plain:
        link = OrthogonalLink(config, num_devices=num_devices, num_bits=num_bits, chain=_flat_chain(config))
    else:
        link = PacketLink(config, num_devices=num_devices, num_bits=num_bits)
    return link if config.error_model == "measured" else IndependentFlips(link)


def _flat_chain(config: LinkConfig) -> FlatChain:
    if engine_of(config) == "sionna":
        return SionnaChain(config)
    # Here, because numba takes a while to import and few who import phy compile a link.
    from phy.engines.fused.flat.link import FusedChain

    return FusedChain(config)


def compile_air(config: LinkConfig, *, num_devices: int, num_symbols: int, payload_bound: float = 1.0) -> AirUplink:
    """Uplink over which `num_symbols` of each device per round add up; `payload_bound` as in `SuperpositionLink`.

    Raises LinkError where modulation or error model have no meaning for a sum, or parts of the link exclude each other.
    """
    if config.modulation not in ("bpsk", "analog") or config.access != "superposition":
        raise LinkError(
            f"superposition adds BPSK symbols or amplitudes, the link says access {config.access}, modulation "
            f"{config.modulation}; name access: superposition and modulation bpsk or analog"
        )
    if config.error_model == "error_free":
        return NoiselessAir(config, num_devices=num_devices, num_symbols=num_symbols)
    if config.error_model != "measured":
        raise LinkError(
            f"error model {config.error_model} flips bits, but superposition detects no device's bits; "
            "use measured or error_free, or orthogonal access"
        )
    for conflict in link_conflicts(config, num_devices=num_devices, payload_bits=num_symbols):
        raise LinkError(f"{conflict.problem}; {conflict.remedy}")
    if config.ofdm != "none":
        return OfdmSuperposition(config, num_devices=num_devices, num_symbols=num_symbols, payload_bound=payload_bound)
    return SuperpositionLink(
        config,
        num_devices=num_devices,
        num_symbols=num_symbols,
        chain=_air_chain(config),
        payload_bound=payload_bound,
    )


def _air_chain(config: LinkConfig) -> AirChain:
    if engine_of(config) == "sionna":
        return SionnaAir(config)
    from phy.engines.fused.flat.air import FusedAir

    return FusedAir(config)
