"""Arguments and options that several commands share."""

from __future__ import annotations

import errno
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from click import Choice
from typer.core import TyperCommand, TyperOption


def flag(name: str, words: str) -> Any:
    """An option without a value, and its help."""
    return typer.Option(name, help=words)


def option(name: str, metavar: str, words: str, **more: Any) -> Any:
    """An option with a value, how the help writes the value, and the help."""
    return typer.Option(name, metavar=metavar, help=words, **more)


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
    option("--out", "DIR", "Folder for the results (default: runs/NAME, runs/NAME-audit for an audit).", parser=named),
]
TrialsOption = Annotated[int | None, option("--trials", "N", "Trials per point.")]
SeedOption = Annotated[int | None, option("--seed", "N", "Seed of every random draw.")]
SetOption = Annotated[
    list[str] | None,
    option(
        "--set",
        "PATH=VALUE",
        "Override one key, e.g. link.power.snr_max_db=20, or what is swept, sweep.PATH=[0, 10]; repeatable.",
    ),
]
WorkersOption = Annotated[
    int | None, option("--workers", "N", "Compute in N processes (default: in this one, on all cores).")
]
AllowCodeOption = Annotated[bool, flag("--allow-code", "Run plug-ins: this code has all your rights.")]
MemoryOption = Annotated[
    str | None, option("--memory-limit", "SIZE", "Memory of all processes, e.g. 4GB (default: what is free).")
]
LevelOption = Annotated[
    str,
    typer.Option(
        "--log-level",
        click_type=Choice(("debug", "info", "warning", "error")),
        help="What log.jsonl keeps and standard error shows: debug all, warning no progress, error no warnings.",
    ),
]
SchedulerOption = Annotated[
    str | None, option("--scheduler", "ADDRESS", "Compute on the workers of a dask scheduler, tcp://HOST:PORT.")
]
RoundsOption = Annotated[
    int | None, option("--checkpoint-rounds", "N", "Keep the state of a task every N rounds, too.", min=1)
]
MinutesOption = Annotated[
    float, option("--checkpoint-minutes", "T", "Keep the state of a task every T minutes; 0: never.", min=0.0)
]
SecondsOption = Annotated[
    float | None, option("--max-seconds", "S", "Computing time per point at most [s].", min=0.001)
]
InspectOption = Annotated[
    bool,
    flag(
        "--inspect",
        "Measure nothing: send the first packets of one point again, and draw error positions, constellation and "
        "channel.",
    ),
]
AtOption = Annotated[
    list[str] | None,
    option(
        "--at",
        "KEY=VALUE",
        "The point that --inspect shows, e.g. snr_db=6 or link.modulation=qpsk [default: the bit error rate nearest to "
        "1e-2]; repeatable.",
    ),
]
PacketsOption = Annotated[
    int | None, option("--packets", "N", "Packets of each device that --inspect shows; 32 if left out.", min=1)
]
TableOption = Annotated[
    list[str] | None,
    option(
        "--table",
        "NAME",
        "metrics, curves, rounds, rates, link, devices, privacy, bursts, all; repeatable. Left out: metrics, curves.",
    ),
]
DEBUG_HELP = "Show tracebacks."
DebugOption = Annotated[bool, flag("--debug", DEBUG_HELP)]


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"phyloop {version('phyloop')}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
]


class Traced(TyperCommand):
    """A command that takes --debug and hands it to nobody: `main` reads it."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(TyperOption(param_decls=["--debug"], is_flag=True, expose_value=False, help=DEBUG_HELP))


def let_all_trace(app: typer.Typer) -> None:
    """Give --debug to the commands of `app` that do not have it."""
    for command in app.registered_commands:
        if "debug" not in signature(cast(Callable[..., object], command.callback)).parameters:
            command.cls = Traced
