"""The codec that the configuration names."""

from __future__ import annotations

from fl.codecs.base import Codec
from fl.codecs.binary32 import Binary32
from fl.codecs.fixed_point import FixedPoint
from fl.codecs.uniform import Uniform
from fl.config.codec import Binary32Config, CodecConfig, FixedPointConfig


def build_codec(config: CodecConfig) -> Codec:
    """The codec that the `codec:` section describes."""
    if isinstance(config, Binary32Config):
        return Binary32()
    if isinstance(config, FixedPointConfig):
        return FixedPoint(fraction_bits=config.fraction_bits, value_range=config.value_range)
    return Uniform(bits=config.bits, bound=config.bound, stochastic=config.stochastic)
