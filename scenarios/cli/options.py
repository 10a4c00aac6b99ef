"""Arguments and options that several commands share."""

from __future__ import annotations

import errno
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Level(StrEnum):
    """The words of --log-level: keys of `scenarios.files.log.LEVELS`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def named(text: str) -> Path:
    """Path of a named folder or file; empty text, as of a shell variable that is not set, is refused."""
    if not text:
        raise typer.BadParameter("no text names no folder; name one, or leave the option out")
    try:
        (Path(text) / "results.damaged-1.phyloop").lstat()  # as long as any name in a run folder
    except OSError as error:  # the caller that uses the path reports other errors
        if error.errno == errno.ENAMETOOLONG:
            raise typer.BadParameter(f"{len(text)} characters are more than a name may have; name another") from error
    return Path(text)


ScenarioArgument = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A YAML file, or the name of a library scenario.")
]
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", parser=named, help="The folder of a run.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        parser=named,
        help="Folder for the results [default: runs/NAME, runs/NAME-audit for an audit].",
    ),
]
TrialsOption = Annotated[int | None, typer.Option("--trials", metavar="N", help="Trials per point.")]
SeedOption = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of every random draw.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one key, e.g. link.power.snr_max_db=20, or what is swept, sweep.link.power.snr_max_db=[0, 10]; "
        "repeatable.",
    ),
]
AllowCodeOption = Annotated[
    bool,
    typer.Option("--allow-code", help="Run plug-ins: this code has all your rights."),
]
MemoryOption = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="SIZE", help="Memory of all processes, e.g. 4GB [default: what is free]."),
]
LevelOption = Annotated[
    Level,
    typer.Option(
        "--log-level",
        help="What log.jsonl keeps and standard error shows: debug all, warning no progress, error no warnings.",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"phyloop {version('phyloop')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
]
