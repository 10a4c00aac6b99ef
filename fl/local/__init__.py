"""What the devices do between two uploads: many devices, or many samples of one, in each compiled call."""

from fl.local.evaluation import evaluate
from fl.local.trainer import LocalOutcome, LocalTrainer

__all__ = ["LocalOutcome", "LocalTrainer", "evaluate"]
