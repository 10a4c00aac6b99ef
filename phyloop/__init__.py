"""phyloop in Python: run and load studies, send bits and amplitudes over a simulated radio, account for privacy.

    import phyloop

    run = phyloop.run("flmc-snr", trials=5, set={"learning.num_devices": 50}, workers=2)
    run.plot("mse", x="link.power.snr_max_db", series="learning.scheme")

These names are stable under semantic versioning. Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from phyloop.packages import refuse_overwritten

if TYPE_CHECKING:
    from phy.inspection import Inspection
    from phy.links.link import LinkError
    from phyloop.comparison import Comparison, compare
    from phyloop.links import Air, Link
    from phyloop.received import Received, Superposed
    from phyloop.recorded import Channel
    from phyloop.results import Run, load
    from phyloop.studies import audit, check, epsilon, link_study, run, tune
    from scenarios.schema.errors import ScenarioError
    from scenarios.studies.check import Check

__all__ = [
    "Air",
    "Channel",
    "Check",
    "Comparison",
    "Inspection",
    "Link",
    "LinkError",
    "Received",
    "Run",
    "ScenarioError",
    "Superposed",
    "audit",
    "check",
    "compare",
    "epsilon",
    "link_study",
    "load",
    "run",
    "tune",
]

_HOMES = {
    "phyloop.comparison": ("Comparison", "compare"),
    "phyloop.links": ("Air", "Link"),
    "phyloop.received": ("Received", "Superposed"),
    "phyloop.recorded": ("Channel",),
    "phyloop.results": ("Run", "load"),
    "phyloop.studies": ("audit", "check", "epsilon", "link_study", "run", "tune"),
    "phy.inspection": ("Inspection",),
    "phy.links.link": ("LinkError",),
    "scenarios.schema.errors": ("ScenarioError",),
    "scenarios.studies.check": ("Check",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

refuse_overwritten()


def __getattr__(name: str) -> Any:
    """Import a public name (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'phyloop' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
