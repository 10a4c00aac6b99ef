"""An attack on the uploads of federated averaging."""

from fl.algorithms.reconstruction.config import ReconstructionConfig

__all__ = ["ReconstructionConfig"]
