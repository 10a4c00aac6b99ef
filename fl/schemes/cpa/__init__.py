"""CPA: codebooks, quantised updates, histograms at the server."""

from fl.schemes.cpa.scheme import CpaScheme

__all__ = ["CpaScheme"]
