"""Values to bits and back."""

from fl.codecs.base import Codec, Encoded
from fl.codecs.binary32 import Binary32
from fl.codecs.build import build_codec
from fl.codecs.fixed_point import FixedPoint
from fl.codecs.one_bit import StochasticOneBit
from fl.codecs.uniform import Uniform

__all__ = ["Binary32", "Codec", "Encoded", "FixedPoint", "StochasticOneBit", "Uniform", "build_codec"]
