"""A small OFDM grid over which devices add up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from radio import context, link_config

from phy.compile import compile_air
from phy.config import CsiEstimation, LinkConfig, OfdmConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import Superposition
from phy.links.superposition_ofdm.chunks import SionnaSums
from phy.links.superposition_ofdm.link import OfdmSuperposition
from phy.stages import Propagation

OFDM = OfdmConfig(
    num_subcarriers=24, guard_carriers=(2, 1), dc_null=True, num_symbols=7, pilot_symbols=(1, 5), cyclic_prefix_length=4
)
"""20 carriers, 100 data elements in a slot."""

QUIET = {"noise_power": 1e-10}
"""With snr_max_db = 100 the power is P0 = 1 and the noise 1e-5 per dimension."""

TDL = {"model": "tdl-a", "delay_spread_s": 1e-6}
"""24 carriers of 15 kHz span 0.36 MHz: several coherence bandwidths."""


def air(modulation: str = "analog", *, csi: Any = "perfect", ofdm: OfdmConfig = OFDM, **link: Any) -> LinkConfig:
    config = link_config(modulation, access="superposition", ofdm=ofdm, **{"policy": "inversion", **link})
    return config if csi == "perfect" else config.model_copy(update={"csi": CsiEstimation(estimator=csi)})


def superpose(config: LinkConfig, payload: NDArray[Any], *, where: UplinkContext | None = None) -> Superposition:
    """Amplitudes `[num_trials, num_devices, num_symbols]` through the air."""
    uplink = compile_air(config, num_devices=payload.shape[1], num_symbols=payload.shape[2])
    return uplink.superpose(payload, context=where or context(len(payload)), caps={})


def link_over(config: LinkConfig, propagation: Propagation, *, num_devices: int, num_symbols: int) -> OfdmSuperposition:
    """The link of a configuration over a channel of the test's own."""
    return OfdmSuperposition(
        config,
        num_devices=num_devices,
        num_symbols=num_symbols,
        sums_of=lambda link, layout: SionnaSums(link, layout, propagation=propagation),
    )


def amplitudes(num_trials: int, num_devices: int, num_symbols: int, *, seed: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (num_trials, num_devices, num_symbols))


def recovered(heard: Superposition) -> NDArray[np.complex128]:
    return heard.received.astype(complex) / heard.decision.amplitude[:, None]
