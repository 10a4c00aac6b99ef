"""Bits that a device sends under each aggregation scheme."""

from __future__ import annotations

from fl.config.fedavg import FedAvgConfig
from fl.config.scheme import AggregatorConfig, CpaScheme, JopeqScheme, LaplaceScheme, MvuScheme


def upload_bits(config: FedAvgConfig, *, num_values: int) -> int:
    """Bits per device and round for `num_values` numbers M, before ciphers and channel coding.

    One bit per block of L numbers and stage for CPA, one per number for PRoBit and signSGD, as many as the table's
    symbols take for MVU and the lattice's points for JoPEQ, binary32 for Laplace; else what the codec takes.
    """
    scheme = config.aggregation
    if isinstance(scheme, AggregatorConfig):
        return num_values * config.codec.bits_per_value
    if isinstance(scheme, CpaScheme):
        return scheme.stages * -(-num_values // scheme.dimension)
    if isinstance(scheme, LaplaceScheme):
        return 32 * num_values
    if isinstance(scheme, JopeqScheme):
        return -(-num_values // scheme.dimension) * jopeq_bits(scheme)
    return num_values * scheme.output_bits if isinstance(scheme, MvuScheme) else num_values


def jopeq_bits(scheme: JopeqScheme) -> int:
    """ceil(log2 n) of the n points that JoPEQ's quantiser has within its ball; any radius gives as many."""
    from fl.schemes.quantizers import build_quantizer

    points = build_quantizer(gamma=1.0, rate_bits=scheme.rate_bits, form="coded", dimension=scheme.dimension).points
    return max(len(points) - 1, 1).bit_length()
