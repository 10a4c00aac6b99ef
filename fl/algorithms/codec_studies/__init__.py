"""Codecs on random numbers, without learning."""

from fl.algorithms.codec_studies.config import BitDistanceConfig, FlipMomentsConfig

__all__ = ["BitDistanceConfig", "FlipMomentsConfig"]
