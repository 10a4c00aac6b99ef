"""What is learnt: a posterior, its local gradients, and how to know the truth."""

from fl.tasks.base import Posterior, PosteriorTask
from fl.tasks.build import build_task

__all__ = ["Posterior", "PosteriorTask", "build_task"]
