"""What privacy does to an upload on its way: noise on the numbers, flips and ciphers on the bits.

A round asks a `Protection` in this order: `begin` (probe, decide), `perturb` (numbers), `cover` (bits, before the
radio), `uncover` (bits, after it), `recover` (numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U8
from fl.base.errors import of_shape
from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.scheme import Response
from fl.uplink.channel_credit import errors_arrive, errors_together
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import DigitalUplink
from phy.numerics.bit_flips import flip_bits
from phy.numerics.draws import round_generator
from phy.numerics.random import Purpose
from privacy.ciphers import Cipher, build_cipher
from privacy.config import FlippedBits, StatedNoise
from privacy.mechanisms.bit_flipping import AES_BLOCK_BITS, aes_plaintext_rate, recovered_factor
from privacy.mechanisms.flip_plans import FlipPlan, plan_flips


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """What was decided for one round, per device.

    - `flip_probability` `[K]`: of bits flipped on purpose, or None;
    - `factor` `[K]`: what flips in all leave of a number's mean, 1 - 2 p, to divide by, or None;
    - `observed`: numbers `[K]` worth keeping;
    - `first_device`: whose numbers come first.
    """

    flip_probability: F64 | None = None
    factor: F64 | None = None
    observed: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    first_device: int = 0

    def of(self, devices: slice) -> RoundPlan:
        """The plan with the flips of some devices alone."""
        flips = self.flip_probability
        return replace(self, flip_probability=None if flips is None else flips[devices], first_device=devices.start)

    def rows(self, devices: I64) -> RoundPlan:
        """The plan of `devices`, row by row."""
        flips, factor = (None if one is None else one[devices] for one in (self.flip_probability, self.factor))
        observed = {name: one[devices] for name, one in self.observed.items()}
        return RoundPlan(flip_probability=flips, factor=factor, observed=observed)


class Protection:
    """Privacy protection of an upload. The base class only flips bits as planned.

    `plan`: what a base decides in every round; `block_bits`: bits on the air that stand or fall together, 1 without a
    block cipher.
    """

    block_bits = 1

    def __init__(self, plan: RoundPlan | None = None) -> None:
        self._plan = plan or RoundPlan()

    def air_bytes(self, num_bytes: int) -> int:
        """Return the bytes on the air for a payload of `num_bytes`."""
        return num_bytes

    def begin(self, uplink: DigitalUplink, *, context: UplinkContext) -> RoundPlan:
        """Decide for this round, from known bits over the channel that the payload will meet."""
        return self._plan

    def perturb(self, values: F32, *, devices: I64, context: UplinkContext) -> F32:
        """Return the numbers `[K, M]` that become bits."""
        return values

    def cover(self, payload: U8, *, plan: RoundPlan, context: UplinkContext) -> U8:
        """Return packed bits `[1, K, air_bytes]` to send in place of `[1, K, num_bytes]`, flipped as planned."""
        if plan.flip_probability is None:
            return payload
        return flip_bits(
            payload,
            probability=plan.flip_probability[None],
            num_bits=8 * payload.shape[-1],
            keys=context.keys(Purpose.PRIVACY),
            first_device=plan.first_device,
        )

    def uncover(self, payload: U8, *, num_bytes: int, context: UplinkContext) -> U8:
        """Return packed bits `[1, K, num_bytes]` of what was received."""
        return payload

    def recover(self, values: NDArray[Any], *, plan: RoundPlan) -> NDArray[Any]:
        """Return the numbers `[K, M]` that the server works with."""
        return values


class NoiseOnNumbers(Protection):
    """The Gaussian mechanism: w~ = w + N(0, sigma_n^2 I) on every device, Li et al. 2025 (23).

    `sigma` `[num_devices]`: noise of every device; `by_round` `[num_rounds]`: what it is multiplied by, None: nothing.
    """

    def __init__(self, sigma: F64, *, by_round: F64 | None = None) -> None:
        super().__init__()
        self._sigma, self._by_round = sigma.astype(np.float32), by_round

    def perturb(self, values: F32, *, devices: I64, context: UplinkContext) -> F32:
        drawn = round_generator(context.seed, context.trials[0], Purpose.PRIVACY, context.round_index)
        noise = drawn.standard_normal(values.shape, dtype=np.float32)
        noise *= self._sigma[devices, None]
        if self._by_round is not None:
            noise *= np.float32(self._by_round[context.round_index])
        noise += values
        return noise


class ClippedNoise(NoiseOnNumbers):
    """The Gaussian mechanism on updates scaled to an l2 norm of `clip` at most; `sigma` `[num_rounds]`."""

    def __init__(self, sigma: F64, *, clip: float, num_devices: int) -> None:
        super().__init__(np.ones(num_devices), by_round=sigma)
        self._clip = clip

    def perturb(self, values: F32, *, devices: I64, context: UplinkContext) -> F32:
        return super().perturb(within_norm(values, norm="l2", clip=self._clip), devices=devices, context=context)


class OwnNoise(Protection):
    """Noise of a plug-in on updates scaled to the norm `clip` of its mechanism.

    `strengths` `[num_rounds]`: what a budget for the run sets; None: 1, the parameters as written.
    """

    def __init__(self, mechanism: StatedNoise, *, strengths: F64 | None) -> None:
        super().__init__()
        self._mechanism, self._strengths = mechanism, strengths

    def perturb(self, values: F32, *, devices: I64, context: UplinkContext) -> F32:
        drawn = round_generator(context.seed, context.trials[0], Purpose.PRIVACY, context.round_index)
        strength = 1.0 if self._strengths is None else float(self._strengths[context.round_index])
        clipped = within_norm(values, norm=self._mechanism.norm, clip=self._mechanism.clip)
        noisy = self._mechanism.perturb(clipped, strength=strength, generator=drawn)
        whose = f"perturb of mechanism {self._mechanism.mechanism}"
        return np.asarray(of_shape(noisy, values.shape, whose=whose), np.float32)


def within_norm(values: F32, *, norm: str, clip: float) -> F32:
    """Return `values` `[K, M]` with the l1, l2 or linf norm of every row at most `clip`."""
    if norm == "linf":
        return np.clip(values, np.float32(-clip), np.float32(clip))
    sizes = np.abs(values).sum(axis=1, dtype=np.float64)
    if norm == "l2":
        sizes = np.sqrt(np.einsum("km,km->k", values, values, dtype=np.float64))
    return np.asarray(values * (clip / np.maximum(sizes, clip)).astype(np.float32)[:, None])


class BitFlipping(Protection):
    """Bit-flipping DP, Li et al. 2025: devices add the flips that the channel does not surely make.

    `target`, one or `[num_rounds]`, is the end-to-end bit error rate p of Theorem 1 on the numbers' own bits; a block
    cipher changes what that asks of the bits on the air, Remark 3. `link` names its modulation. Where the server keeps
    no packet with errors, debiasing divides by the device's own flips alone.
    """

    def __init__(self, config: FlippedBits, *, target: float | F64, link: LinkConfig) -> None:
        self._config, self._targets, self._link = config, np.atleast_1d(target), link
        self._cipher: Cipher = build_cipher(config.cipher)
        self.block_bits = AES_BLOCK_BITS if config.cipher == "aes" else 1

    def air_bytes(self, num_bytes: int) -> int:
        return self._cipher.payload_bytes(num_bytes)

    def begin(self, uplink: DigitalUplink, *, context: UplinkContext) -> RoundPlan:
        config, link = self._config, self._link
        target = float(self._targets[context.round_index if self._targets.size > 1 else 0])
        asked = {"target": target, "channel": config.channel, "confidence": config.level, "cipher": config.cipher}
        flips = probed_flips(uplink, link=link, context=context, **asked)
        wrong, factor = flips.expected, None
        if not errors_arrive(link):
            own = flips.flip_probability
            wrong = aes_plaintext_rate(own) if config.cipher == "aes" else own
        if config.debias:
            factor = np.maximum(recovered_factor(wrong), SMALLEST_DEBIAS_FACTOR)
        return RoundPlan(flip_probability=flips.flip_probability, factor=factor, observed=flips.series())

    def cover(self, payload: U8, *, plan: RoundPlan, context: UplinkContext) -> U8:
        encrypted = self._cipher.encrypt(payload, keys=context.keys(Purpose.CIPHER))
        return super().cover(encrypted, plan=plan, context=context)

    def uncover(self, payload: U8, *, num_bytes: int, context: UplinkContext) -> U8:
        return self._cipher.decrypt(payload, keys=context.keys(Purpose.CIPHER))[..., :num_bytes]

    def recover(self, values: NDArray[Any], *, plan: RoundPlan) -> NDArray[Any]:
        """Divide by 1 - 2 p of the rates that acted, where the mechanism debiases."""
        return values if plan.factor is None else np.asarray(values / plan.factor[:, None].astype(values.dtype))


class RandomizedResponse(Protection):
    """Every bit is wrong with the `flip_target` 1 / (1 + e^eps) of `response` in the end, Warner 1965.

    Channel `native` counts the bit errors that the channel surely makes, (11) of Li et al. 2025 with the lower
    confidence limit of a probe; `debias` adds the whole response and only divides by what the channel takes off the
    mean; `agnostic` knows nothing of it. The plan's `factor` is what is left of the mean by the point estimate; the
    channel's part is kept above `SMALLEST_DEBIAS_FACTOR`. Errors that the server never gets do not count.
    """

    def __init__(self, response: Response, *, link: LinkConfig) -> None:
        self._target, self._confidence, self._link = response.flip_target or 0.0, response.confidence, link
        self._channel = response.channel if errors_arrive(link) else "agnostic"

    def begin(self, uplink: DigitalUplink, *, context: UplinkContext) -> RoundPlan:
        if self._channel == "agnostic":
            return own_flips(self._target, num_devices=uplink.num_devices)
        channel = "native" if self._channel == "native" else "agnostic"
        asked = {"target": self._target, "channel": channel, "confidence": self._confidence}
        plan = probed_flips(uplink, link=self._link, context=context, **asked)
        # The response is known and may leave next to nothing at a small eps; only what is measured needs a floor.
        floor = SMALLEST_DEBIAS_FACTOR * recovered_factor(plan.flip_probability)
        factor = np.maximum(recovered_factor(plan.expected), floor)
        return RoundPlan(flip_probability=plan.flip_probability, factor=factor, observed=plan.series())


def probed_flips(uplink: DigitalUplink, *, link: LinkConfig, context: UplinkContext, **asked: Any) -> FlipPlan:
    """Return what devices flip beside the errors of a probe of the channel; `asked`: arguments of `plan_flips`."""
    probed = uplink.probe(link.probe_bits, context=context, caps={}, again=True)
    bits, errors = probed.bits[0], probed.bit_errors[0]
    return plan_flips(probed_bits=bits, probed_errors=errors, errors_together=errors_together(link), **asked)


def own_flips(probability: float, *, num_devices: int) -> RoundPlan:
    """Return the plan of devices that flip with one probability and know nothing of the channel."""
    flips = np.full(num_devices, probability)
    return RoundPlan(flip_probability=flips, factor=recovered_factor(flips), observed={"flip_probability": flips})
