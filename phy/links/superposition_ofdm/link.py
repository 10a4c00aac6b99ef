"""Over-the-air aggregation over the carriers of an OFDM grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import CsiEstimation, LinkConfig
from phy.config.levels import sent_watts
from phy.fading.block_taps import UplinkContext
from phy.fading.gains import BlockGains, arrival_gains, check_gains
from phy.frontends import air
from phy.links.jamming import on_air, own_amplitude
from phy.links.link import Superposition, check_payload
from phy.links.packets.layout import fold, impairment_keys, split_time
from phy.links.power import decide_amplitude, decide_sum, depends_on_payload
from phy.links.superposition import clipping_reference
from phy.links.superposition_ofdm.layout import Layout
from phy.links.superposition_ofdm.sums import SumEngine, SumInputs, Who
from phy.numerics.random import Purpose
from phy.traces.clock import TraceClock, trace_in, users_of


class OfdmSuperposition:
    """Sums of amplitudes or BPSK symbols on the resource elements of whole slots; see `layout` and `chain`.

    Every device inverts its channel estimate on every resource element. The estimate is perfect, has an error of given
    variance (per coherence block, and per carrier if the channel has several paths), or comes from its own pilots.
    Pilots are sent at amplitude sqrt(P0) before the data, free of impairments, which model the residue of
    synchronisation. Coherence `packet` and `round` are the same here. `run` and `doppler` keep their realisation over
    rounds, and time advances by the duration of a round. The airtime of a device is that of the whole round, all pilot
    slots included.

    `payload_bound` as in `SuperpositionLink`; `sums_of` builds the chain of an engine. `config` has none of
    `phy.links.conflicts`. Raises ValueError for a device without a gain.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        num_devices: int,
        num_symbols: int,
        sums_of: Callable[[LinkConfig, Layout], SumEngine],
        payload_bound: float = 1.0,
    ) -> None:
        assert config.ofdm != "none"
        check_gains(config, num_devices=num_devices)
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self.config = config
        self._payload_bound = payload_bound
        estimated = isinstance(config.csi, CsiEstimation)
        self.layout = Layout(ofdm=config.ofdm, num_devices=num_devices, num_symbols=num_symbols, pilots=estimated)
        self._sums = sums_of(config, self.layout)
        coherence = config.channel.coherence
        self._same_every_round = coherence in ("run", "doppler")
        self._gains_never_change = (
            (self._same_every_round or not config.channel.fades)
            and air.motion(config.channel) == "still"
            and (config.csi == "perfect" or (self._same_every_round and not estimated))
        )
        self._by_payload = depends_on_payload(config)
        self._last: tuple[tuple[object, ...], BlockGains] | None = None

    def superpose(
        self,
        payload: NDArray[Any],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        jammers: NDArray[np.bool_] | None = None,
        max_power: NDArray[np.float64] | None = None,
    ) -> Superposition:
        """See `AirUplink.superpose`. Raises LinkError for a wrong shape, and for a jammer with too much power."""
        num_trials, analog = len(context.trials), self.config.modulation == "analog"
        width = self.num_symbols if analog else -(-self.num_symbols // 8)
        check_payload(payload, expected=(num_trials, self.num_devices, width), dtype="fc" if analog else "u")
        who = self._who(context)
        gains = self._block_gains(who, context).without(context.silent)
        bound = self._payload_bound**2
        if self._by_payload or max_power is not None:
            decision = decide_sum(self.config, gains, payload, payload_power=bound, caps=caps, max_power=max_power)
        else:
            decision = decide_amplitude(gains, max_power=self.config.max_power, payload_power=bound, caps=caps)
        own = own_amplitude(
            payload, jammers, max_power=self.config.max_power, silent=context.silent, clipped=decision.clipped
        )
        layout, impairments = self.layout, self.config.impairments
        reference = clipping_reference(payload, gains, decision, impairments=impairments, own=own)
        on_grid = self.num_symbols / (layout.used_ofdm_symbols * layout.ofdm.num_subcarriers)
        sending = SumInputs(
            level=decision.level.astype(np.float32),
            noise_key=context.keys(Purpose.NOISE),
            impairment_key=impairment_keys(context, num_devices=self.num_devices),
            # Mean over all samples of the OFDM symbols in use, whose energy is that of the elements in use.
            sample_power=reference * np.float32(on_grid),
            own=own,
        )
        sums = payload.astype(np.complex64, copy=False) if analog else payload
        added = self._sums.carry(sums, who, sending)
        pilots = np.ones((num_trials, self.num_devices))
        pilots[:, list(context.silent)] = 0.0
        sent = added.energy + pilots * (layout.pilot_elements * self.config.max_power)
        sent = sent * sent_watts(self.config, self.num_devices)
        return Superposition(
            received=added.received,
            num_active=added.num_active,
            decision=decision,
            noise_power=self.config.channel.noise_power * added.noise_gain,
            airtime_s=np.where(on_air(decision, jammers), layout.airtime_s, pilots * layout.pilots_s),
            energy_j=sent * (layout.ofdm.prefix_share * layout.ofdm.sample_s),
        )

    def _who(self, context: UplinkContext) -> Who:
        device = np.arange(self.num_devices)[None, :]
        gain = arrival_gains(self.config, num_devices=self.num_devices, seed=context.seed, trials=context.trials)
        if self.config.combines:
            gain = gain.copy()
            gain[:, list(context.silent)] = 0.0
        lasting, num_trials = self._same_every_round, len(context.trials)
        elapsed_s = np.array(context.round_index * self.layout.airtime_s if lasting else 0.0)
        recorded = self._recorded_keys(context, elapsed_s=float(elapsed_s))
        epoch, start_s = split_time(elapsed_s, doppler_hz=self.config.channel.max_doppler_hz)

        def keys(purpose: Purpose, *, lasting: bool) -> NDArray[np.uint32]:
            of_trial = context.keys(purpose, same_every_round=lasting)
            return fold(of_trial[:, None], device, np.full_like(device, epoch))

        starts_s = np.full(num_trials, start_s, np.float32)
        return Who(
            channel_key=keys(Purpose.CHANNEL, lasting=lasting) if recorded is None else recorded[0],
            csi_key=keys(Purpose.CSI, lasting=lasting),
            pilot_noise_key=keys(Purpose.PILOT_NOISE, lasting=False),
            gain=gain,
            start_s=starts_s if recorded is None else recorded[1].astype(np.float32),
        )

    def _recorded_keys(
        self, context: UplinkContext, *, elapsed_s: float
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64]] | None:
        """(user and snapshot `[trials, devices, 2]`, time since the snapshot `[trials]` [s]) of a recorded channel."""
        channel = self.config.channel
        trace = trace_in(channel)
        if trace is None:
            return None
        trials = tuple(context.trials)
        return TraceClock(channel=channel, trace=trace).keys(
            np.full(len(trials), 0 if channel.coherence == "run" else context.round_index, np.int64),
            users_of(channel, num_devices=self.num_devices, seed=context.seed, trials=trials),
            seconds=np.full(len(trials), elapsed_s),
            seed=context.seed,
            trials=np.array(trials),
        )

    def _block_gains(self, who: Who, context: UplinkContext) -> BlockGains:
        round_index = 0 if self._gains_never_change else context.round_index
        which = (context.seed, context.trials, round_index, context.silent if self.config.combines else ())
        if self._last is None or self._last[0] != which:
            power, reached, active, peak, arrival = self._sums.measure(who)
            gains = BlockGains(
                weight_power=power / self.num_symbols,
                gain_sum=reached,
                gain_peak=peak,
                arrival_peak=arrival,
                active_symbols=active,
            )
            self._last = (which, gains)
        return self._last[1]
