"""PRoBit: stochastic bits and the maximum-likelihood mean."""

from fl.schemes.probit.scheme import ProbitScheme

__all__ = ["ProbitScheme"]
