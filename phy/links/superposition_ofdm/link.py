"""Over-the-air aggregation over the carriers of an OFDM grid."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import CsiError, CsiEstimation, LinkConfig
from phy.fading.block_taps import CHUNK_SYMBOLS, UplinkContext
from phy.fading.build import build_propagation
from phy.fading.gains import BlockGains, check_gains, device_gains
from phy.frontends import air
from phy.links.jamming import on_air, own_amplitude
from phy.links.link import Superposition, check_payload
from phy.links.packets.layout import fold, impairment_keys, split_time
from phy.links.power import decide_amplitude, decide_sum, depends_on_payload, may_clip
from phy.links.superposition import clipping_reference
from phy.links.superposition_ofdm.chain import Chain, Sending, compiled_chain
from phy.links.superposition_ofdm.knowledge import ChainSpec, Csi, Who
from phy.links.superposition_ofdm.layout import Layout
from phy.numerics.random import Purpose
from phy.numerics.streaming import Cut
from phy.stages import Propagation


class OfdmSuperposition:
    """Sums of amplitudes or BPSK symbols on the resource elements of whole slots; see `layout` and `chain`.

    Every device inverts its channel estimate on every resource element. The estimate is perfect, has an error of given
    variance (per coherence block, and per carrier if the channel has several paths), or comes from its own pilots.
    Pilots are sent at amplitude sqrt(P0) before the data, free of impairments, which model the residue of
    synchronisation. Coherence `packet` and `round` are the same here. `run` and `doppler` keep their realisation over
    rounds, and time advances by the duration of a round. The airtime of a device is that of the whole round, all pilot
    slots included.

    `payload_bound` as in `SuperpositionLink`; `propagation` replaces that of the channel. `config` has none of
    `phy.links.conflicts`. Raises ValueError for a device without a gain.
    """

    def __init__(
        self,
        config: LinkConfig,
        *,
        num_devices: int,
        num_symbols: int,
        payload_bound: float = 1.0,
        propagation: Propagation | None = None,
    ) -> None:
        assert config.ofdm != "none"
        check_gains(config.channel, num_devices=num_devices)
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self.config = config
        self._payload_bound = payload_bound
        estimated = isinstance(config.csi, CsiEstimation)
        self.layout = Layout(ofdm=config.ofdm, num_devices=num_devices, num_symbols=num_symbols, pilots=estimated)
        self._propagation = propagation
        coherence = config.channel.coherence
        self._same_every_round = coherence in ("run", "doppler")
        self._gains_never_change = (
            (self._same_every_round or not config.channel.fades)
            and air.motion(config.channel) == "still"
            and (config.csi == "perfect" or (self._same_every_round and not estimated))
        )
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
        adapts = depends_on_payload(self.config, max_power)
        chain, cut = self._chain(
            num_trials, own=may_clip(self.config, max_power) or jammers is not None or bool(context.silent)
        )
        who = self._who(context)
        gains = self._block_gains(chain, cut, who, context).without(context.silent)
        bound = self._payload_bound**2
        if adapts:
            decision = decide_sum(self.config, gains, payload, payload_power=bound, caps=caps, max_power=max_power)
        else:
            decision = decide_amplitude(gains, max_power=self.config.max_power, payload_power=bound, caps=caps)
        own = own_amplitude(
            payload, jammers, max_power=self.config.max_power, silent=context.silent, clipped=decision.clipped
        )
        layout, impairments = self.layout, self.config.impairments
        reference = clipping_reference(payload, gains, decision, impairments=impairments, own=own)
        on_grid = self.num_symbols / (layout.used_ofdm_symbols * layout.ofdm.num_subcarriers)
        sending = Sending(
            level=decision.level.astype(np.float32),
            noise_key=context.keys(Purpose.NOISE),
            impairment_key=impairment_keys(context, num_devices=self.num_devices),
            # Mean over all samples of the OFDM symbols in use, whose energy is that of the elements in use.
            sample_power=reference * np.float32(on_grid),
            own=np.zeros((num_trials, 1), np.float32) if own is None else own,
        )
        received, active, energy, after, noise_gain = chain.carry(
            cut.chunks(
                payload.astype(np.complex64) if analog else payload, cut.columns if analog else cut.columns // 8
            ),
            cut.block(),
            cut.start(),
            cut.valid(),
            tuple(cut.by_row(array) for array in (*who, *sending)),
            np.uint32(0),
            self._numbers(),
        )
        num_active = cut.join(np.asarray(active)).astype(np.int64)
        pilots = np.ones((num_trials, self.num_devices))
        pilots[:, list(context.silent)] = 0.0
        sent = cut.add_up(np.asarray(energy)).T + pilots * (layout.pilot_elements * self.config.max_power)
        return Superposition(
            received=_joined(cut, np.asarray(received), np.asarray(after))[:, : self.num_symbols],
            num_active=num_active[:, : self.num_symbols if self.config.control.silences else 1],
            decision=decision,
            noise_power=self.config.channel.noise_power * cut.add_up(np.asarray(noise_gain))[0] / self.num_symbols,
            airtime_s=np.where(on_air(decision, jammers), layout.airtime_s, pilots * layout.pilots_s),
            energy_j=sent * (layout.ofdm.prefix_share * layout.ofdm.sample_s),
        )

    def _chain(self, num_trials: int, *, own: bool = False) -> tuple[Chain, Cut]:
        config, layout, antennas = self.config, self.layout, self.config.receiver.num_antennas
        carriers = layout.ofdm.num_carriers
        per_symbol = self.num_devices * layout.ofdm.num_subcarriers
        if air.motion(config.channel) != "still" or layout.pilots:
            per_symbol *= antennas
        # Packed bits come in bytes.
        step = 1 if config.modulation == "analog" else 8 // gcd(carriers, 8)
        wanted = -(-layout.used_ofdm_symbols // step) * step
        ofdm_symbols = min(wanted, max(CHUNK_SYMBOLS // per_symbol // step, 1) * step)
        spec = ChainSpec(
            layout=layout,
            modulation=config.modulation,
            policy=config.control.compiled,
            csi=_csi(config),
            motion=air.motion(config.channel),
            max_doppler_hz=config.channel.max_doppler_hz,
            impairments=config.impairments,
            propagation=self._propagation or build_propagation(config.channel, num_antennas=antennas),
            own=own,
            combining=config.receiver.combining if config.combines else None,
            trials=max(CHUNK_SYMBOLS // (per_symbol * ofdm_symbols), 1),
            ofdm_symbols=ofdm_symbols,
        )
        cut = Cut(
            rows=num_trials, symbols=self.num_symbols, rows_per_chunk=spec.trials, columns=ofdm_symbols * carriers
        )
        return compiled_chain(spec), cut

    def _who(self, context: UplinkContext) -> Who:
        device = np.arange(self.num_devices)[None, :]
        gain = device_gains(self.config.channel, num_devices=self.num_devices, seed=context.seed, trials=context.trials)
        if self.config.combines:
            gain = gain.copy()
            gain[:, list(context.silent)] = 0.0
        lasting, num_trials = self._same_every_round, len(context.trials)
        elapsed_s = np.array(context.round_index * self.layout.airtime_s if lasting else 0.0)
        epoch, start_s = split_time(elapsed_s, doppler_hz=self.config.channel.max_doppler_hz)

        def keys(purpose: Purpose, *, lasting: bool) -> NDArray[np.uint32]:
            of_trial = context.keys(purpose, same_every_round=lasting)
            return fold(of_trial[:, None], device, np.full_like(device, epoch))

        return Who(
            channel_key=keys(Purpose.CHANNEL, lasting=lasting),
            csi_key=keys(Purpose.CSI, lasting=lasting),
            pilot_noise_key=keys(Purpose.PILOT_NOISE, lasting=False),
            gain=gain,
            start_s=np.full(num_trials, start_s, np.float32),
        )

    def _numbers(self) -> NDArray[np.float32]:
        config = self.config
        cutoff = 10.0 ** (config.power.cutoff_db / 10.0)
        values = (cutoff, 2.0 * config.channel.noise_power, config.csi_error_variance**0.5, config.max_power**0.5)
        return np.array(values, np.float32)

    def _block_gains(self, chain: Chain, cut: Cut, who: Who, context: UplinkContext) -> BlockGains:
        round_index = 0 if self._gains_never_change else context.round_index
        which = (context.seed, context.trials, round_index, context.silent if self.config.combines else ())
        if self._last is None or self._last[0] != which:
            self._last = (which, self._measure_gains(chain, cut, who))
        return self._last[1]

    def _measure_gains(self, chain: Chain, cut: Cut, who: Who) -> BlockGains:
        (measured,) = chain.measure(
            np.zeros(len(cut.start()), np.float32),
            cut.block(),
            cut.start(),
            cut.valid(),
            tuple(cut.by_row(array) for array in who),
            np.uint32(0),
            self._numbers(),
        )
        # [row blocks, column blocks, 5, trials of a chunk, devices]
        parts = np.asarray(measured, float).reshape(cut.row_blocks, cut.column_blocks, 5, -1, self.num_devices)
        found = np.concatenate([parts[:, :, :3].sum(axis=1), parts[:, :, 3:].max(axis=1)], axis=1)
        rows = np.moveaxis(found, 1, 0).reshape(5, -1, self.num_devices)[:, : cut.rows]
        power, reached, active, peak, arrival = rows
        return BlockGains(
            weight_power=power / self.num_symbols,
            gain_sum=reached,
            gain_peak=peak,
            arrival_peak=arrival,
            active_symbols=active,
        )


def _joined(cut: Cut, received: NDArray[np.complex64], after: NDArray[np.complex64]) -> NDArray[np.complex64]:
    """Received `[trials, n]` of chunks, each of which ends in the first OFDM symbol of the next one."""
    if after.shape[2]:
        received = received.copy()
        chunks, late = (part.reshape(cut.row_blocks, cut.column_blocks, *part.shape[1:]) for part in (received, after))
        chunks[:, 1:, :, : after.shape[3]] += late[:, :-1, :, 0]
    return cut.join(received)


def _csi(config: LinkConfig) -> Csi:
    if isinstance(config.csi, CsiEstimation):
        return config.csi.estimator
    return "given" if isinstance(config.csi, CsiError) and config.csi.error_variance > 0.0 else "perfect"
