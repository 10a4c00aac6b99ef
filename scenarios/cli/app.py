"""The command `phyloop`. Exit codes: 0 done, 1 a task failed, 2 bad input, 130 interrupted."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import click
import typer

from fl.base.words import plural
from scenarios.cli.options import (
    AllowCodeOption,
    AtOption,
    DebugOption,
    FolderArgument,
    InspectOption,
    LevelOption,
    MemoryOption,
    MinutesOption,
    OutOption,
    PacketsOption,
    RoundsOption,
    ScenarioArgument,
    SchedulerOption,
    SecondsOption,
    SeedOption,
    SetOption,
    TableOption,
    TrialsOption,
    VersionOption,
    WorkersOption,
    flag,
    let_all_trace,
    named,
    option,
)
from scenarios.engine.interruption import interruptible
from scenarios.schema.errors import ScenarioError
from scenarios.schema.permission import code_allowed

INTERRUPTED = 130
PAPER_FORMATS = click.Choice(["pdf", "pgf", "png", "svg"])

app = typer.Typer(
    name="phyloop",
    no_args_is_help=True,
    suggest_commands=False,  # click suggests them, too
    epilog="Exit codes: 0 done; 1 a task failed, or an unexpected error; 2 bad input, or a folder or disk that cannot "
    "be used (also one that runs full); 130 stopped by Ctrl-C or SIGTERM: the same command goes on.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(version: VersionOption = False) -> None:
    """Wireless PHY-in-the-loop simulator for federated learning: every bit is carried, every rate measured."""


@app.command()
def run(
    scenario: ScenarioArgument,
    out: OutOption = None,
    trials: TrialsOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    checkpoint_rounds: RoundsOption = None,
    checkpoint_minutes: MinutesOption = 1.0,
    memory_limit: MemoryOption = None,
    allow_code: AllowCodeOption = False,
    retry_failed: Annotated[bool, flag("--retry-failed", "Compute tasks again that are stored as failed.")] = False,
    log_level: LevelOption = "info",
    debug: DebugOption = False,
) -> None:
    """Run a scenario; what is already computed in the folder is not computed again."""
    from scenarios.cli.command import carry_out
    from scenarios.engine.options import RunOptions
    from scenarios.studies import prepare

    options = RunOptions(
        workers=workers,
        scheduler=scheduler,
        checkpoint_rounds=checkpoint_rounds,
        checkpoint_minutes=checkpoint_minutes,
        memory_limit=memory_limit,
    )
    changes = {"overrides": overrides or (), "trials": trials, "seed": seed}
    make = partial(prepare.learning, scenario, out=out, options=options, **changes)
    code = carry_out(make, log_level=log_level, debug=debug, retry_failed=retry_failed, allow_code=allow_code)
    raise typer.Exit(code)


@app.command()
def link(
    scenario: ScenarioArgument,
    out: OutOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    max_seconds: SecondsOption = None,
    inspect: InspectOption = False,
    at: AtOption = None,
    packets: PacketsOption = None,
    allow_code: AllowCodeOption = False,
    log_level: LevelOption = "info",
    debug: DebugOption = False,
) -> None:
    """Measure error rates of a link over Eb/N0, Es/N0 or SNR; goes on from what is in the folder."""
    from scenarios.cli.command import carry_out, print_inspection
    from scenarios.studies import prepare

    make = partial(prepare.link, scenario, out=out, max_seconds=max_seconds, overrides=overrides or (), seed=seed)
    if inspect or at or packets:
        print_inspection(make, at=at or (), packets=packets or 32, allow_code=allow_code)
        return
    code = carry_out(make, log_level=log_level, debug=debug, allow_code=allow_code)
    raise typer.Exit(code)


@app.command()
def tune(
    scenario: ScenarioArgument,
    out: OutOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    memory_limit: MemoryOption = None,
    allow_code: AllowCodeOption = False,
    log_level: LevelOption = "info",
    debug: DebugOption = False,
) -> None:
    """Search for the values of the keys in tune:, on validation data and other seeds; goes on where it was stopped."""
    from scenarios.cli.command import carry_out_search
    from scenarios.engine.options import RunOptions
    from scenarios.studies.tune.search import Search

    options = RunOptions(workers=workers, memory_limit=memory_limit)
    make = partial(Search, scenario, out=out, options=options, overrides=overrides or (), seed=seed)
    raise typer.Exit(carry_out_search(make, log_level=log_level, debug=debug, allow_code=allow_code))


@app.command()
def audit(
    scenario: ScenarioArgument,
    games: Annotated[int, option("--games", "N", "Games per point, half of them to judge by.")] = 100_000,
    delta: Annotated[
        float | None, option("--delta", "D", "delta of the bound (default: the scenario's own, or 0 where pure).")
    ] = None,
    confidence: Annotated[float, option("--confidence", "C", "Confidence of each lower bound.")] = 0.999,
    attack: Annotated[
        str | None,
        option("--attack", "lr|classifier", "Likelihood ratio or a trained classifier (default: lr if known)."),
    ] = None,
    rounds: Annotated[int, option("--rounds", "R", "Rounds that one game lasts.")] = 1,
    out: OutOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    allow_code: AllowCodeOption = False,
    debug: DebugOption = False,
) -> None:
    """Attack what the server receives: lower bounds on epsilon beside the claimed ones, for every point."""
    from scenarios.cli.command import carry_out
    from scenarios.studies import prepare
    from scenarios.studies.audit.plan import AuditOptions

    # Other words for an attack are refused there.
    options = AuditOptions(games=games, delta=delta, confidence=confidence, attack=attack, rounds=rounds)  # type: ignore[arg-type]
    changes = {"overrides": overrides or (), "seed": seed}
    make = partial(prepare.audit, scenario, out=out, options=options, **changes)
    code = carry_out(make, debug=debug, retry_failed=True, allow_code=allow_code)
    raise typer.Exit(code)


@app.command()
def verify(
    fast: Annotated[bool, flag("--fast", "Coarser intervals and fewer checks: a minute or two.")] = False,
    only: Annotated[
        list[str] | None, option("--only", "NAME", "One reference check, or a file of one; repeatable.")
    ] = None,
    listed: Annotated[bool, flag("--list", "Show the claim of each reference check, run none.")] = False,
    seed: SeedOption = None,
    out: Annotated[Path | None, option("--out", "DIR", "Folder for verify.csv (default: none).", parser=named)] = None,
    debug: DebugOption = False,
) -> None:
    """Measure reference checks, scenarios with known answers: exit code 1 if one is off."""
    from scenarios.cli.command import carry_out
    from scenarios.cli.library import list_cards
    from scenarios.studies import prepare

    if listed:
        list_cards()
        return
    make = partial(prepare.verify, only=only or (), fast=fast, seed=seed, out=out, debug=debug)
    code = carry_out(make, debug=debug, retry_failed=True)
    raise typer.Exit(code)


@app.command()
def check(
    scenario: ScenarioArgument,
    trials: TrialsOption = None,
    overrides: SetOption = None,
    seed: SeedOption = None,
    memory_limit: MemoryOption = None,
    everything: Annotated[bool, flag("--all", "Long tables of all sweep points, too.")] = False,
    timed: Annotated[bool, flag("--time", "Run two rounds of the first sweep point, and time the second.")] = False,
    allow_code: AllowCodeOption = False,
) -> None:
    """Validate a scenario and show its cost and the limits that will bind, without running it."""
    from scenarios.cli.check import check_scenario

    with code_allowed(allow_code):
        changes = {"overrides": overrides or (), "trials": trials, "seed": seed, "memory_limit": memory_limit}
        check_scenario(scenario, everything=everything, timed=timed, **changes)


channel_app = typer.Typer(name="channel", no_args_is_help=True, help="Look at the file of a recorded channel.")
app.add_typer(channel_app)

ChannelArgument = Annotated[
    Path, typer.Argument(metavar="FILE", parser=named, help="The file of a recorded channel, .npz or .h5.")
]


@channel_app.command(name="check")
def check_channel(file: ChannelArgument) -> None:
    """Print what a file of a recorded channel holds, and a sentence for each defect."""
    from scenarios.cli.channel import check_channel as check_file

    if not check_file(file):
        raise typer.Exit(2)


@channel_app.command(name="show")
def show_channel(
    file: ChannelArgument,
    out: Annotated[Path | None, option("--out", "F", "Name of the page and the pictures, without its ending.")] = None,
) -> None:
    """Write a page on a recorded channel: gain, map, power over delay, spreads, coherence, correlation."""
    from scenarios.cli.channel import show_channel as show_file

    show_file(file, out)


@channel_app.command(name="import")
def import_channel(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", parser=named, help="A data set of DeepMIMO, .sigmf-meta, .mat, or QuaDRiGa-lib's arrays."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", parser=named, help="The file to write, .npz.")],
    names: Annotated[
        list[str] | None, option("--name", "ARRAY=VARIABLE", "The variable of an array, such as h=H_ul; repeatable.")
    ] = None,
    snapshot_s: Annotated[float | None, option("--snapshot-s", "S", "Time from one snapshot to the next.")] = None,
    carrier_hz: Annotated[float | None, option("--carrier-hz", "HZ", "Carrier frequency.")] = None,
    num_taps: Annotated[int | None, option("--taps", "N", "Samples of an impulse response in a recording.")] = None,
    server: Annotated[int, option("--server", "N", "Number of the transmitter that is the server (DeepMIMO).")] = 0,
    devices: Annotated[
        Literal["receivers", "transmitters"], option("--devices", "ENDS", "The ends that are devices (QuaDRiGa-lib).")
    ] = "receivers",
) -> None:
    """Write channels of DeepMIMO, QuaDRiGa-lib, SigMF, MATLAB or NumPy as a recorded channel, and check it."""
    from phy.traces.foreign import Asked
    from scenarios.cli.channel import import_channel as import_file
    from scenarios.cli.channel import named_arrays

    asked = Asked(
        names=named_arrays(names or ()),
        snapshot_s=snapshot_s,
        carrier_frequency_hz=carrier_hz,
        num_taps=num_taps,
        server=server,
        devices=devices,
    )
    if not import_file(file, out, asked):
        raise typer.Exit(2)


@app.command(name="list")
def list_scenarios(
    words: Annotated[
        str | None, typer.Argument(metavar="WORDS", help="Part of a name or description, such as flmc.")
    ] = None,
) -> None:
    """List the scenarios of the library, by system."""
    from scenarios.cli.library import list_library

    list_library(words)


@app.command()
def show(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="A kind, such as scheme, a name, such as cpa, a key, or a scenario."),
    ] = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Show what a scenario may name, with its parameters; or a scenario with every default written out."""
    from scenarios.cli.library import is_scenario, show_scenario
    from scenarios.cli.words.show import show as show_registry

    what = " ".join(words or ())
    with code_allowed(allow_code):
        show_scenario(what) if is_scenario(what) else show_registry(what or None)


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the scenario or plug-in, and of its files.")],
    kind: Annotated[str, typer.Option("--kind", help="fedavg, flmc, link, or plugin.")] = "fedavg",
    of: Annotated[
        str | None,
        typer.Option(
            "--of",
            help="Kind of a plug-in: scheme (the default), codec, attack, fading, power, model, data, partition, "
            "mechanism, channel, selection, or flmc-scheme.",
        ),
    ] = None,
) -> None:
    """Write a commented scenario, or a plug-in with a test, that runs as it stands."""
    from scenarios.cli.new import print_new

    print_new(name, kind=kind, of=of)


@app.command(name="check-plugin")
def check_plugin(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=named, help="The Python file of the plug-in.")],
) -> None:
    """Import a plug-in, and check what it registers against the contract of its kind."""
    from scenarios.cli.new import print_checks

    if not print_checks(file):
        raise typer.Exit(1)


@app.command()
def status(
    folder: FolderArgument,
    as_json: Annotated[bool, flag("--json", "As one JSON object, for scripts.")] = False,
) -> None:
    """Show the progress of a run: done, failed, left, rate, time left, last failure, and its process."""
    from scenarios.cli.status import show_status

    show_status(folder, as_json=as_json)


@app.command()
def report(
    folder: FolderArgument,
    paper: Annotated[
        str | None,
        option("--paper", "F", "Also write the figures for a paper: pdf, pgf, png or svg.", click_type=PAPER_FORMATS),
    ] = None,
    columns: Annotated[int, option("--columns", "N", "Columns of the paper that a figure spans.", min=1, max=2)] = 1,
    allow_code: AllowCodeOption = False,
) -> None:
    """Draw the figures and the report page of a run again."""
    from scenarios.cli.command import draw_again

    with code_allowed(allow_code):
        draw_again(folder, paper=paper, columns=columns)


@app.command()
def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN..", parser=named, help="The folders of two runs or more.")
    ],
    by: Annotated[
        str | None, option("--by", "KEY", "Axis of the figures, a key that all sweep, or round (default: the first).")
    ] = None,
    out: Annotated[Path, option("--out", "FILE", "Where the page goes.", parser=named)] = Path("compare.html"),
    allow_code: AllowCodeOption = False,
) -> None:
    """Compare runs: settings that differ, paired differences where the seeds agree, curves of all runs."""
    from scenarios.cli.several import print_comparison
    from scenarios.studies.comparing import compare_folders

    with code_allowed(allow_code):
        print_comparison(compare_folders(folders, by=by), out=out)


@app.command()
def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", parser=named, help="A folder of run folders, such as runs.")],
) -> None:
    """Write index.html of all runs in a folder: date, state, first figure, settings that differ."""
    from scenarios.studies.index import write_index

    path, runs = write_index(folder)
    print(f"{plural(runs, 'run')}\nindex   {path}")


@app.command()
def privacy(
    folder: FolderArgument,
    delta: Annotated[float | None, option("--delta", "D", "delta of the run (default: its own, or 1e-5).")] = None,
    accountant: Annotated[
        list[str] | None, option("--accountant", "NAME", "basic, advanced, renyi, pld or exact; repeatable.")
    ] = None,
    relation: Annotated[str | None, option("--relation", "R", "replace-one or add-or-remove-one.")] = None,
    everything: Annotated[bool, flag("--all", "Every accountant, not the strongest alone.")] = False,
    by: Annotated[str | None, option("--by", "round", "The epsilon of all rounds so far, over the rounds.")] = None,
    csv: Annotated[Path | None, option("--csv", "FILE", "Write all claims to a CSV file.")] = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Compute the epsilon of all rounds of a run from its ledgers; nothing is run again."""
    from scenarios.cli.claims import account_run

    with code_allowed(allow_code):
        options = {"delta": delta, "relation": relation}
        account_run(folder, accountants=accountant or (), everything=everything, by=by, csv_file=csv, **options)


@app.command()
def export(
    folder: FolderArgument,
    out: Annotated[Path, option("--out", "FOLDER", "Where the files go.", parser=named)],
    table: TableOption = None,
    file_format: Annotated[str, option("--format", "F", "csv, parquet or netcdf.")] = "csv",
    allow_code: AllowCodeOption = False,
) -> None:
    """Write metrics and curves of a run as CSV files, or other tables and formats."""
    from scenarios.studies.folders import study_in
    from scenarios.studies.tables import export as write_tables

    with code_allowed(allow_code):
        for path in write_tables(study_in(folder), folder, out, tables=table or (), file_format=file_format):
            print(path)


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    import json

    from scenarios.schema.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2))


def main() -> None:
    """Entry point: bad input is one sentence and exit code 2, a traceback only with --debug."""
    let_all_trace(app)
    try:
        with interruptible(last=True):
            app()
    except ScenarioError as error:
        for one in error.errors:
            print(f"phyloop: {one}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nphyloop: stopped.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        from scenarios.cli.command import print_unexpected

        print_unexpected(error)
        sys.exit(1)
