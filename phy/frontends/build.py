"""Build the front-end that a link configuration describes."""

from __future__ import annotations

from phy.config import CsiEstimation, LinkConfig
from phy.fading.build import build_propagation
from phy.frontends.ofdm import FrequencyDomain, OfdmFrontend
from phy.frontends.ofdm_time import TimeDomain
from phy.frontends.resource_grid import Grid
from phy.frontends.single_carrier import SingleCarrier
from phy.stages import Frontend, Propagation


def build_frontend(
    config: LinkConfig,
    *,
    num_users: int,
    num_symbols: int,
    num_devices: int = 1,
    propagation: Propagation | None = None,
) -> Frontend:
    """Front-end for packets of `num_symbols` symbols from each of `num_users` devices on the same resources.

    Under `multiplexing: ofdma` the carriers of the grid are split between `num_devices` devices. `propagation`
    replaces that of `config.channel`. Gains, amplitudes and noise power come with every `Launch`; other values need no
    new compilation.

    Raises ValueError for several delays or channel estimation on a single carrier, estimation without pilots, and more
    devices than carriers.
    """
    if num_symbols < 1:
        raise ValueError(f"a packet of {num_symbols} symbols carries nothing; send at least one")
    if propagation is None:
        propagation = build_propagation(config.channel, num_antennas=config.receiver.num_antennas)
    estimated = isinstance(config.csi, CsiEstimation)
    if config.ofdm == "none":
        if len(propagation.delays_s) > 1:
            raise ValueError(
                f"{config.channel.model} has {len(propagation.delays_s)} delays, a single carrier can undo one; add an "
                "ofdm: section, or write model: flat"
            )
        if estimated:
            raise ValueError("channel estimation works on the pilots of an OFDM grid; add ofdm:, or write csi: perfect")
        return SingleCarrier(config, num_users=num_users, num_symbols=num_symbols, propagation=propagation)
    if estimated and not config.ofdm.pilot_symbols:
        raise ValueError("channel estimation needs pilots and pilot_symbols is empty; name one, or write csi: perfect")
    grid = Grid.of(
        config.ofdm,
        num_users=num_users,
        num_symbols=num_symbols,
        num_blocks=num_devices if config.multiplexing == "ofdma" else 1,
    )
    domain = FrequencyDomain if config.ofdm.domain == "frequency" else TimeDomain
    return OfdmFrontend(
        config,
        grid=grid,
        propagation=propagation,
        domain=domain(config.ofdm, channel=config.channel, grid=grid, propagation=propagation),
    )
