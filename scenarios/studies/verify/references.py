"""From what a card expects of a link to reference error rates at a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from phy.config import BITS_PER_SYMBOL, CRC_BITS, LinkConfig
from scenarios.studies.link.closed_form import theory
from scenarios.studies.verify.bounds import best_packet_error_rate, log_linear, union_bound
from scenarios.studies.verify.check import Reference
from scenarios.studies.verify.config import (
    Cancellation,
    ClosedForm,
    FiniteLength,
    InterferenceFloor,
    Published,
    Quantity,
    Retransmission,
    UnionBound,
)

if TYPE_CHECKING:
    from scenarios.studies.link.plan import Curve, LinkPoint

LinkExpectation = ClosedForm | Published | FiniteLength | UnionBound | Cancellation | Retransmission | InterferenceFloor
SHORT: dict[Quantity, str] = {"bit_error_rate": "BER", "packet_error_rate": "PER"}


def references(expected: LinkExpectation, curve: Curve, point: LinkPoint) -> Iterator[Reference]:
    """What the error rates at a point should be. ValueError where an expectation does not fit the link."""
    if isinstance(expected, Cancellation):
        yield from _cancellation(curve, point)
        return
    packets = expected.quantity == "packet_error_rate" if isinstance(expected, ClosedForm | Published) else not (
        isinstance(expected, UnionBound | InterferenceFloor)
    )  # fmt: skip
    better, worse = 0.0, 0.0
    if isinstance(expected, Published | InterferenceFloor):
        better = worse = expected.tolerance_db
    elif isinstance(expected, UnionBound):
        better = expected.within_db
    elif isinstance(expected, FiniteLength):
        worse = expected.within_db
    elif isinstance(expected, ClosedForm):
        worse = expected.worse_db
    what = {"finite-length": "PER, best code", "union-bound": "BER, union bound"}.get(
        expected.kind, SHORT["packet_error_rate" if packets else "bit_error_rate"]
    )
    yield Reference(what=what, packets=packets, rate=_rate(expected, curve, point), better_db=better, worse_db=worse)


def _rate(expected: LinkExpectation, curve: Curve, point: LinkPoint) -> Callable[[float], float]:
    link, esno_db = curve.link, point.esno_db
    if isinstance(expected, ClosedForm):
        like, quantity = as_if(curve, expected.as_if), expected.quantity

        def closed(shift_db: float) -> float:
            found = theory(like, quantity, esno_db + shift_db)
            if found is None:
                raise ValueError(f"no closed form of the {quantity} is known for {curve.label}")
            return float(found)

        return closed
    if isinstance(expected, Published):
        points = [(p.value_db, p.errors / p.observations) for p in expected.points]
        if not points[0][0] <= point.value_db <= points[-1][0]:
            raise ValueError(f"nothing is published at {point.value_db:g} dB")
        return lambda shift_db: log_linear(point.value_db + shift_db, points)
    if isinstance(expected, Retransmission):
        return lambda shift_db: _residual(link, esno_db + shift_db)
    if isinstance(expected, InterferenceFloor):
        return lambda shift_db: _floor(link, esno_db, shift_db)
    coded_bit = 2.0 / BITS_PER_SYMBOL[link.modulation]
    if link.bits_per_symbol > 2 or link.channel.fades:
        raise ValueError("bounds of codes are for BPSK and QPSK over AWGN")
    if isinstance(expected, UnionBound):
        distance, weights = expected.free_distance, expected.bit_weights
        return lambda shift_db: union_bound(
            coded_bit * _linear(esno_db + shift_db), free_distance=distance, bit_weights=weights
        )
    assert isinstance(expected, FiniteLength)
    coded_bits, information_bits = _sizes(link)
    return lambda shift_db: best_packet_error_rate(
        coded_bit * _linear(esno_db + shift_db), coded_bits=coded_bits, information_bits=information_bits
    )


def as_if(curve: Curve, changes: dict[str, Any]) -> Curve:
    """The same curve with keys of its link replaced."""
    if not changes:
        return curve
    written: dict[str, Any] = curve.link.model_dump(mode="json", exclude_none=True)
    for key, value in changes.items():
        written[key] = {**written[key], **value} if isinstance(value, dict) else value
    link = LinkConfig.model_validate(written)
    scenario = curve.point.scenario.model_copy(update={"link": link})
    return replace(curve, point=replace(curve.point, scenario=scenario))


def _cancellation(curve: Curve, point: LinkPoint) -> Iterator[Reference]:
    from phy.measure.theory import sic_bit_error_rates

    link = curve.link
    if curve.num_devices != 2 or link.access != "noma" or link.noma.detector != "sic" or link.channel.fades:
        raise ValueError("the exact rates of cancellation are those of two users over AWGN, detected by sic")
    shares = np.array(link.noma.power_shares)

    def rate(device: int) -> Callable[[float], float]:
        def shifted(shift_db: float) -> float:
            energies = _linear(point.esno_db + shift_db) * shares
            return float(sic_bit_error_rates(*energies, bits_per_symbol=link.bits_per_symbol)[device])

        return shifted

    for device in range(2):
        yield Reference(what=f"BER of device {device + 1}", packets=False, rate=rate(device), device=device)


def _residual(link: LinkConfig, esno_db: float) -> float:
    from phy.measure.theory import awgn_bit_error_rate

    if link.coding != "none" or link.channel.fades or link.bits_per_symbol > 2 or link.packets.policy != "retransmit":
        raise ValueError("PER^(n+1) holds for uncoded BPSK and QPSK packets over AWGN under policy retransmit")
    payload_bits = 8 * link.packet_size_bytes
    crc = link.packets.crc_name(payload_bits)
    bits = payload_bits + (CRC_BITS[crc] if crc else 0)
    wrong = awgn_bit_error_rate(_linear(esno_db), bits_per_symbol=link.bits_per_symbol)
    once = -np.expm1(bits * np.log1p(-wrong))
    return float(once ** (1 + link.packets.max_retransmissions))


def _floor(link: LinkConfig, esno_db: float, shift_db: float) -> float:
    from phy.config.delays import interference_share, power_delay_profile
    from phy.measure.theory import fading_bit_error_rate

    if link.ofdm == "none" or not link.channel.selective:
        raise ValueError("interference between symbols needs OFDM over a channel with delays")
    delays, powers = power_delay_profile(link.channel.model)
    useful_s = 1.0 / link.ofdm.subcarrier_spacing_hz
    share = interference_share(
        delays * link.channel.delay_spread_s, powers, prefix_s=link.ofdm.prefix_s, useful_s=useful_s
    )
    esno = _linear(shift_db) / (1.0 / _linear(esno_db) + share)
    return float(fading_bit_error_rate(esno, bits_per_symbol=link.bits_per_symbol))


def _sizes(link: LinkConfig) -> tuple[int, int]:
    """Bits on the air and information bits of one packet."""
    from phy.coding.plan import plan_packet

    payload_bits = 8 * link.packet_size_bytes
    crc = link.packets.crc_name(payload_bits)
    plan = plan_packet(link.coding, payload_bits=payload_bits, bits_per_symbol=link.bits_per_symbol, crc=crc)
    return plan.coded_bits, payload_bits + plan.crc_bits


def _linear(decibels: float) -> float:
    return float(10.0 ** (decibels / 10.0))
