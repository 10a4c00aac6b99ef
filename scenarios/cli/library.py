"""`phyloop list`, `phyloop verify --list`, and `phyloop show` of a scenario."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import shorten

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phy.config.conflict import listing
from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import as_yaml, library_names, load_scenario, resolved_root

SYSTEMS = {
    "flmc": "Federated Langevin Monte Carlo (FLMC), analog and quantized",
    "bitflip": "Channel-native bit-flipping privacy",
    "cpa": "Compressed private aggregation (CPA)",
    "probit": "One-bit aggregation (PRoBit, sign)",
    "one-bit": "One-bit aggregation (PRoBit, sign)",
    "fedavg": "Federated averaging",
    "aircomp": "Federated averaging over the air (AirComp)",
    "site": "Recorded channels: measured, recorded or ray-traced",
    "attack": "Attacks on what devices send",
    "link": "Links without learning: phyloop link",
}
"""First word of a scenario's name -> heading in the list."""


def list_library(words: str | None = None) -> None:
    """Print the scenarios whose name, system or description has `words`, a line each, by system."""
    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in SYSTEMS.values()}
    names = library_names()
    for name, description in names:
        title = next((title for first, title in SYSTEMS.items() if name.startswith(first)), "Other")
        if words is None or words.lower() in f"{name} {title} {description}".lower():
            groups.setdefault(title, []).append((name, description))
    if not any(groups.values()):
        near = get_close_matches(str(words), [name for name, _ in names])
        raise ScenarioError(
            problem=f"no scenario has {words} in its name, system or description",
            remedy=f"did you mean {listing(near)}" if near else "see phyloop list",
        )
    console, width = Console(highlight=False), max(len(name) for name, _ in names)
    for title, entries in groups.items():
        if not entries:
            continue
        console.print(f"[bold]{title}[/bold]")
        for name, description in entries:
            line = shorten(description, console.width - width - 4, placeholder=" …")
            console.print(f"  {name:<{width}}  {escape(line)}")
    console.print("\nphyloop show NAME prints one in full, with every default written out.")


def show_scenario(name: str) -> None:
    """Print a scenario as YAML with every default written out; what is printed runs as it stands."""
    loaded = load_scenario(name)
    swept = () if loaded.scenario.measure is not None else expand(loaded).swept_paths
    print(as_yaml(resolved_root(loaded, swept_paths=swept)), end="")


def is_scenario(name: str) -> bool:
    """Return True for a YAML file and for a name of the library."""
    return name.endswith((".yaml", ".yml")) or name in dict(library_names())


def list_cards() -> None:
    """`phyloop verify --list`: the claim of each reference check, and its source."""
    from scenarios.studies.verify.cards import CARDS, card_names, load_card

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    for name in card_names():
        card = load_card(name)
        table.add_row(f"[bold]{name}[/bold]", f"{card.config.claim.strip()}\n[dim]{card.config.source.strip()}[/dim]")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\nEach is a scenario, to read and to copy, in {CARDS}", highlight=False, soft_wrap=True)
