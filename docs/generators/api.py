"""The pages of the Python interface and of the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup

import phyloop
import phyloop.flower
from docs.generators.markdown import code, page, table
from scenarios.cli.app import app


def public_names() -> tuple[list[str], list[str]]:
    """Return the functions and the classes that `phyloop` and `phyloop.flower` offer."""
    things: dict[str, object] = {f"phyloop.{name}": getattr(phyloop, name) for name in phyloop.__all__}
    things["phyloop.flower.AirGrid"] = phyloop.flower.AirGrid
    functions = [name for name, thing in things.items() if inspect.isfunction(thing)]
    return functions, [name for name in things if name not in functions]


def write(folder: Path) -> None:
    """Write `api.md` and `commands.md`."""
    (folder / "api.md").write_text(page(*_api()), encoding="utf-8")
    (folder / "commands.md").write_text(page(*_commands()), encoding="utf-8")


def _api() -> Iterator[str]:
    functions, classes = public_names()
    yield "# Python"
    yield (
        "`import phyloop` has these names. They are stable under semantic versioning; the packages `phy`, `fl`, "
        "`privacy` and `scenarios` are not. [phyloop in Python](../python.md) shows them at work."
    )
    for title, directive, names in (("Functions", "autofunction", functions), ("Classes", "autoclass", classes)):
        yield f"## {title}"
        for name in names:
            options = "" if directive == "autofunction" else "   :members:\n"
            yield f"### `{name}`"
            yield "```{eval-rst}\n" + f".. {directive}:: {name}\n{options}" + "```\n"


def _commands() -> Iterator[str]:
    """Every command with its usage, arguments and options, as its `--help` has them."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    yield "# Commands"
    yield str(group.epilog)
    yield from _commands_of(group, typer.Context(group, info_name="phyloop"))


def _commands_of(group: TyperGroup, context: typer.Context) -> Iterator[str]:
    """Every command of a group, and those of groups within it."""
    for name, command in group.commands.items():
        inside = typer.Context(command, info_name=name, parent=context)
        if isinstance(command, TyperGroup):
            yield from _commands_of(command, inside)
            continue
        yield f"## `{inside.command_path}`"
        yield str(command.help)
        yield code(" ".join(command.get_usage(inside).split()[1:]), "text")
        records = (one.get_help_record(inside) for one in command.get_params(inside))
        rows = [(f"`{one[0]}`", one[1]) for one in records if one and "--help" not in one[0]]
        yield table(("option", "effect"), rows)
