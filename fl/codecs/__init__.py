"""Values to bits and back."""

from fl.codecs.one_bit import StochasticOneBit

__all__ = ["StochasticOneBit"]
