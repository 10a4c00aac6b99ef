"""Check that the packages beside this one are ours: PyPI has other distributions with packages of these names."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OURS = ("phy", "privacy", "fl", "scenarios")
_MARK = b"phyloop"
"""A word in the `__init__.py` of each of our packages."""


def refuse_overwritten() -> None:
    """Raise ImportError unless each of our packages lies beside this one and has our `__init__.py`; imports none.

    The command ends with the sentence instead.
    """
    beside = Path(__file__).resolve().parents[1]
    for name in OURS:
        spec = find_spec(name)
        if (spec is None or spec.origin is None) and (beside / name / "__init__.py").is_file():
            # A folder without code, such as one of scenarios, comes before packages of an editable installation.
            sys.path.insert(0, str(beside))
            spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        ours = beside / name / "__init__.py"
        if found is None or found != ours or _MARK not in found.read_bytes():
            if found is not None and found != ours:
                hiding = found.parent if found.name == "__init__.py" else found
                sentence = f"phyloop cannot start: {hiding} hides its package {name!r}; rename or uninstall it."
            else:
                where = "is missing" if found is None else f"belongs to another distribution ({found.parent})"
                sentence = (
                    f"phyloop cannot start: its package {name!r} {where}; uninstall that distribution, then reinstall "
                    "phyloop, or install phyloop into an environment of its own."
                )
            if Path(sys.argv[0]).name in ("phyloop", "-m"):
                sys.exit(sentence)  # the command shows no traceback
            raise ImportError(sentence)
