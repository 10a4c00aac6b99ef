"""Conflict: a combination of valid keys that cannot be simulated."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Conflict:
    """A combination of keys, in `listed` separated by spaces. The error names the first key that the user wrote."""

    listed: str
    problem: str
    remedy: str

    @property
    def keys(self) -> tuple[str, ...]:
        """Dotted paths, the likeliest to be wrong first."""
        return tuple(self.listed.split())

    def under(self, path: str, others: str = "") -> Conflict:
        """The conflict with its keys below `path`, and `others` after them, which the remedy names in full."""
        keys, remedy = " ".join(f"{path}.{key}" for key in self.keys), self.remedy
        for other in others.split():
            remedy = re.sub(rf"(?<![\w.]){other.rpartition('.')[2]}: ", f"{other}: ", remedy)
        return Conflict(f"{keys} {others}".strip(), self.problem, remedy)

    @staticmethod
    def of(keys: str, sentence: object, *, usual: str = "change one of them") -> Conflict:
        """The conflict of a sentence `problem; remedy`; `usual` is the remedy of a sentence without one."""
        return Conflict(keys, *problem_and_remedy(sentence, usual=usual))


def problem_and_remedy(sentence: object, *, usual: str = "change one of them") -> tuple[str, str]:
    """The two parts of a sentence `problem; remedy`; `usual` is the remedy of a sentence without one."""
    problem, _, remedy = str(sentence).partition("; ")
    return problem, remedy.removesuffix(".") or usual
