"""Uplink of federated averaging whose devices add up in the air: access superposition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.attacks.attacks import Attackers
from fl.base.arrays import F32, F64, I64, U8, Bools
from fl.base.checkpoints import Kept
from fl.base.errors import LearningError
from fl.base.recorder import Recorder, amplitude_columns
from fl.schemes.coders.air import Heard, SentAmplitudes, parts, qpsk_symbols
from fl.schemes.coders.coder import Senders
from fl.schemes.coders.stochastic_bits import SignSums
from fl.uplink.energy import EnergyLeft
from fl.uplink.plan import UploadPlan
from fl.uplink.protection import Protection, RoundPlan, own_flips
from fl.uplink.receiver_noise import NoiseOfSum
from fl.uplink.senders import SenderIndex
from phy.compile import compile_air
from phy.config import LinkConfig
from phy.links.link import Superposition
from privacy.config import Mechanism, ReceiverNoise

_LIMITED = ("peak_amplitude", "active_cap")
_ROUNDING = 1e-6
"""Relative error of gains in float32: devices are aligned where they differ by less."""


@dataclass(frozen=True, kw_only=True)
class Transmitted:
    """A round on the air: what `who` sent, as a `payload` and as `symbols` by index, and what was `found` of it.

    `silent`: indices of senders that had spent their energy.
    """

    who: Senders
    sent: SentAmplitudes
    payload: NDArray[Any]
    symbols: NDArray[Any]
    found: Superposition
    silent: list[int]


class SuperposedUplink(Kept):
    """Symbols of all senders at once, and one update of their sum; attributes as of `fl.uplink.build.NumberUplink`.

    Power control has the senders of a round in view, whose weakest holds the others down under policy `inversion`.
    Where a policy silences K - K_a devices on a symbol, the others stand for them. `protection` acts on numbers; bits
    are flipped as the scheme's response asks. Every round reports the receive amplitude A, and of votes how many came
    out wrong.
    """

    in_blocks = False
    kept = ("_coder", "_energy")

    def __init__(
        self,
        plan: UploadPlan,
        *,
        link: LinkConfig,
        num_values: int,
        index: SenderIndex,
        protection: Protection,
        attackers: Attackers,
        privacy: Mechanism | None = None,
    ) -> None:
        """Of `privacy` the receiver's noise acts here. Raises LearningError for a scheme that needs single uploads."""
        scheme, response = plan.scheme, plan.scheme.response
        form = scheme.over_air(num_values)
        if form is None:
            raise LearningError(f"aggregation {scheme.name} needs what every device sends", "write access: orthogonal")
        link = link.resolve(access="superposition", modulation=scheme.air_modulations[0])
        self._noise = None
        if isinstance(privacy, ReceiverNoise):
            form = form.clipped(privacy.clip)
        self._form, self._coder, self._index, self._protection = form, form.coder, index, protection
        self._attackers, self._num_values = attackers, num_values
        # Symbols of jammers, and pairs of signs, travel as the amplitudes that they are.
        self._per_symbol = 2 if link.modulation == "qpsk" else 1
        self._packed = form.bits and link.modulation == "bpsk" and not attackers.jam
        num_symbols = -(-num_values // self._per_symbol) if form.bits else form.num_symbols
        self._air = compile_air(
            link if self._packed else link.model_copy(update={"modulation": "analog"}),
            num_devices=index.count,
            num_symbols=num_symbols,
        )
        if isinstance(privacy, ReceiverNoise):
            self._noise = NoiseOfSum(plan, num_symbols, link=link, privacy=privacy, distance=form.distance)
        budget, self._energy = link.power.budget, None
        if budget is not None and link.error_model != "error_free":
            num_devices, num_rounds = plan.num_devices, plan.num_rounds
            self._energy = EnergyLeft(
                budget, link=link, num_symbols=num_symbols, num_devices=num_devices, num_rounds=num_rounds
            )
        known = link.combines or (link.steady and link.csi == "perfect")
        self._combines = link.combines
        self._foreseen = known and link.impairments.none and link.error_model == "measured" and not attackers.jam
        flip_target = None if response is None else response.flip_target
        self._plan = RoundPlan() if flip_target is None else own_flips(flip_target, num_devices=index.count)
        self.upload_bits = num_values if form.bits else None
        self.facts: Mapping[str, float] = {"upload_symbols": float(num_symbols)}

    def send(self, blocks: Iterable[F32], senders: Senders, *, otherwise: F32, record: Recorder) -> F32:
        """See `NumberUplink.send`; `context.silent` has the places of all who do not send."""
        (numbers,) = blocks
        index, devices, at = self._index, senders.devices, self._index.of(senders.devices)
        out = self.transmit(numbers, senders)
        sent, payload, found, silent = out.sent, out.payload, out.found, out.silent
        heard = self._heard(found, count=len(devices))
        known, z, columns = heard is not None, self.multiplier(found), amplitude_columns(found.decision)
        sending = np.ones(index.count, bool)
        sending[silent] = False
        record.note(
            senders.context.round_index,
            rounds={
                "num_active": float(found.num_active.mean()) if known else 0.0,
                "amplitude": float(columns["amplitude"][0]),
                **_spent(found),
                **(self._votes(payload[:, at], heard) if heard is not None and self._form.bits else {}),
                **({} if self._coder is None else self._coder.metrics()),
                **self._expected(out, heard, at=at),
                **({} if self._energy is None else {"num_spent": float(len(silent))}),
                **({} if self._noise is None else {name: float(columns[name][0]) for name in _LIMITED}),
            },
            devices={
                "sent_symbols": index.place("sent_symbols", np.where(sending, self._air.num_symbols, 0), devices),
                **self._spend(found, at, devices),
                **({} if z is None else {"noise_multiplier": index.place("noise_multiplier", z, devices)}),
                **{name: index.place(name, values, devices) for name, values in self._plan.observed.items()},
            },
        )
        return otherwise if heard is None else sent.read(heard)

    def transmit(self, numbers: F32, senders: Senders) -> Transmitted:
        """Put the updates `numbers` `[K, M]` of `senders` on the air."""
        at, factor = self._index.of(senders.devices), self._plan.factor
        weights, context = senders.weights, senders.context
        if not self._form.bits:
            numbers = self._protection.perturb(numbers, devices=senders.devices, context=context)
        shares = weights / max(weights.sum(), np.finfo(float).tiny)
        who = replace(senders, weights=shares, factor=senders.factor if factor is None else factor[at])
        sent = self._form.send(numbers, who, cover=lambda bits: self._covered(bits, at, who))
        payload = self._index.spread(sent.payload, at)[None]
        symbols, jammers = self._symbols(payload, at, who)
        silent, max_power = self._limits(at, who, size=sent.size)
        on_air = replace(context, silent=(*context.silent, *silent)) if silent else context
        caps = {} if self._noise is None else {"privacy": float(self._noise.caps[context.round_index])}
        found = self._air.superpose(symbols, context=on_air, caps=caps, jammers=jammers, max_power=max_power)
        return Transmitted(who=who, sent=sent, payload=payload, symbols=symbols, found=found, silent=silent)

    def multiplier(self, found: Superposition) -> F64 | None:
        """Noise multiplier of every index `[count]` where the receiver's noise protects, else None."""
        return None if self._noise is None else self._noise.multiplier(found.decision)

    def _covered(self, bits: U8, at: I64, who: Senders) -> U8:
        """Bits of senders, flipped and forged as they must be."""
        covered = self._protection.cover(self._index.spread(bits, at)[None], plan=self._plan, context=who.context)
        forged = self._attackers.bits(covered, devices=self._index.owners(who.devices), context=who.context)
        return np.asarray(forged[0, at])

    def _symbols(self, payload: NDArray[Any], at: I64, who: Senders) -> tuple[NDArray[Any], Bools | None]:
        """What the link takes, and who jams."""
        if self._form.bits and not self._packed:
            if self._per_symbol == 2:
                payload = qpsk_symbols(payload, num_bits=self._num_values)
            else:
                payload = 1.0 - 2.0 * np.unpackbits(payload, axis=-1, count=self._num_values).astype(np.float32)
        if not self._attackers.jam:
            return payload, None
        jammers = np.zeros((1, self._index.count), bool)
        jammers[0, at] = self._attackers.who[who.devices]
        if jammers.any():
            payload = self._attackers.symbols(payload, jammers=jammers, context=who.context)
        return payload, jammers

    def _limits(self, at: I64, who: Senders, *, size: float) -> tuple[list[int], F64 | None]:
        """Indices of senders that have spent their energy, and the power that it leaves the others."""
        if self._energy is None:
            return [], None
        allowed = self._energy.max_power(who.context.round_index, size=size)[who.devices]
        obeys = ~self._attackers.who[who.devices] if self._attackers.jam else np.ones(len(at), bool)
        max_power = np.zeros((1, self._index.count))
        max_power[0, at] = allowed
        return at[obeys & (allowed == 0.0)].tolist(), max_power

    def _spend(self, found: Superposition, at: I64, devices: I64) -> dict[str, F64]:
        """Take off what senders have spent; what every device has left, `[num_devices]` [J]."""
        if self._energy is None or found.energy_j is None:
            return {}
        self._energy.spend(devices, found.energy_j[0, at])
        return {"energy_left_j": self._energy.left_j}

    def _expected(self, out: Transmitted, heard: Heard | None, *, at: I64) -> dict[str, float]:
        """Error that channel and power control let expect of amplitudes x_k, given these and the channel.

        With device k at r_k of the amplitude that the divisor stands for, the mean square error of a number is that of
        sum_k (r_k - 1) x_k, `alignment_mse`, and the noise; sum_k w_k r_k - 1 is what becomes of an update that all
        devices have in common, `aggregation_bias`.
        """
        sent, found, decision = out.sent, out.found, out.found.decision
        arrival = found.arrival if self._combines else decision.arrival
        if heard is None or sent.gain is None or arrival is None or not self._foreseen:
            return {}
        stand_for = len(at) / float(found.num_active[0].mean()) if decision.mmse_scale is None else 1.0
        off = stand_for * arrival[0, at] / decision.scale[0] - 1.0
        alignment = 0.0
        if np.abs(off).max() > _ROUNDING:
            if self._combines:
                wrong = (off.astype(np.complex64) @ sent.payload).view(np.float32)[: self._num_values]
            else:
                wrong = (off.astype(np.float32) @ sent.payload.view(np.float32))[: self._num_values]
            alignment = float(np.mean(wrong**2, dtype=np.float64)) * sent.gain**2
        return {
            "alignment_mse": alignment,
            "expected_mse": alignment + heard.noise_power * sent.gain**2,
            "aggregation_bias": float(out.who.weights @ off.real),
        }

    def _heard(self, found: Superposition, *, count: int) -> Heard | None:
        """The estimate of the sum of all senders; None where nobody was on the air.

        Those on the air stand for all, but the divisor with the smallest mean square error leaves others at zero.
        """
        divisor, active = float(found.decision.scale[0]), found.num_active[0]
        if not divisor > 0.0 or not active.any():
            return None
        all_of = np.where(active > 0, count / np.maximum(active, 1), 0.0)
        scale = (all_of if found.decision.mmse_scale is None else np.ones(1)) / divisor
        return Heard(
            total=found.received[0].astype(np.complex128) * scale,
            noise_power=float(found.noise_power[0] * (scale**2).mean()),
        )

    def _votes(self, payload: U8, heard: Heard) -> dict[str, float]:
        """Bits on which the sum of all senders is not tied, and those of them whose received sum says the opposite."""
        each = np.ones(payload.shape[1])
        sums = SignSums(num_values=self._num_values, weights=each, worth=each, update_of=np.asarray)
        sums.add(payload, known=None)
        # The bit 1 counts as +1 there, and is sent as -1.
        true, received = sums.update(), -parts(heard.total, of_bits=self._num_values)
        return {"votes": float((true != 0.0).sum()), "wrong_votes": float((true * received < 0.0).sum())}


def _spent(found: Superposition) -> dict[str, float]:
    """Latency [s] and energy of all devices [J] of the round; nothing without a radio."""
    if found.airtime_s is None or found.energy_j is None:
        return {}
    return {"airtime_s": float(found.airtime_s.max()), "energy_j": float(found.energy_j.sum())}
