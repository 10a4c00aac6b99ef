"""What a device sends under each aggregation, in bits, and what making and reading them costs."""

from __future__ import annotations

from fl.config.fedavg import FedAvgConfig
from fl.config.scheme import AggregatorConfig, CpaScheme, JopeqScheme, LaplaceScheme, MvuScheme

# Measured on two cores of a 2024 server processor; good to a factor of two, which is what `check` claims.
_SECONDS_PER_VALUE = {
    "mean": 6e-9,
    "median": 6e-8,
    "trimmed-mean": 6e-8,
    "geometric-median": 2e-7,
    "rsa": 1e-8,
    "cpa": 3e-9,
    "probit": 9e-9,
    "sign": 8e-9,
    "laplace": 3e-8,
    "jopeq": 5e-8,
    "mvu": 2e-8,
}


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


def seconds_per_value(config: FedAvgConfig) -> float:
    """Rough time of one number of one device, encoded and aggregated [s]."""
    scheme = config.aggregation
    stages = scheme.stages if isinstance(scheme, CpaScheme) else 1
    return _SECONDS_PER_VALUE[scheme.name] * stages
