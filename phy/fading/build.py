"""Build the small-scale fading that a channel configuration describes."""

from __future__ import annotations

from functools import lru_cache

from phy.config.channel import ChannelConfig
from phy.fading.cdl import clustered_delay_line
from phy.fading.flat import FlatFading
from phy.fading.tdl import FLAT_WAVES, TDL_WAVES, flat_profile, tapped_delay_line, tdl_profile
from phy.fading.traced import TracedFading
from phy.stages import Propagation
from phy.traces.clock import trace_in


def build_propagation(channel: ChannelConfig, *, num_antennas: int) -> Propagation:
    """Fading of unit mean power per antenna; `channel.gain`, `cell` and `noise_power` have no effect.

    - `awgn`, and `flat` that does not fade: tap 1 at every antenna;
    - `flat` of coherence `symbol`: a new draw per (key, column of the instants); `packet`, `round` and `run`: one per
      key, so the caller's choice of keys is the coherence; `doppler`: Clarke's process in time, 64 waves;
    - `trace`: the delays of a recorded channel, for estimators; kernels read its snapshots themselves;
    - `tdl-*`: sums of 20 sinusoids per tap; `cdl-*`: 20 rays per cluster; one realisation per key, moving with time.

    Every random number of a row derives from its key alone. Calls that differ only in values without effect return the
    same object, and thus the same compiled code.
    """
    return _build(channel.small_scale, num_antennas)


@lru_cache(maxsize=64)
def _build(channel: ChannelConfig, num_antennas: int) -> Propagation:
    doppler_hz = channel.max_doppler_hz
    trace = trace_in(channel)
    if trace is not None:
        delays_s, powers = trace.delay_profile
        return TracedFading(num_antennas=num_antennas, delays_s=delays_s, powers=powers)
    if channel.model.startswith("tdl"):
        return tapped_delay_line(
            tdl_profile(channel.model[-1].upper()),
            delay_spread_s=channel.delay_spread_s,
            doppler_hz=doppler_hz,
            num_waves=TDL_WAVES,
            num_antennas=num_antennas,
        )
    if channel.model.startswith("cdl"):
        return clustered_delay_line(
            channel.model[-1].upper(),
            delay_spread_s=channel.delay_spread_s,
            carrier_frequency_hz=channel.carrier_frequency_hz,
            speed_m_s=channel.speed_m_s,
            movement=channel.movement,
            num_antennas=num_antennas,
        )
    if channel.coherence == "doppler" and channel.fades:
        return tapped_delay_line(
            flat_profile(channel.law.rician_k or 0.0), delay_spread_s=0.0, doppler_hz=doppler_hz, num_waves=FLAT_WAVES,
            num_antennas=num_antennas,
        )  # fmt: skip
    return FlatFading(num_antennas=num_antennas, law=channel.law, per_instant=channel.coherence == "symbol")
