"""`phyloop new` and `phyloop check-plugin`: a first scenario or plug-in of one's own."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from scenarios.schema.errors import ScenarioError

TEMPLATES = Path(__file__).parents[1] / "templates"
KINDS = ("fedavg", "flmc", "link", "plugin")
THINGS = {
    "scheme": "scheme",
    "codec": "codec",
    "attack": "attack",
    "fading": "fading law",
    "power": "power policy",
    "model": "model",
    "data": "data set",
    "partition": "partition",
    "mechanism": "mechanism",
    "channel": "channel",
    "selection": "selection",
    "flmc-scheme": "flmc scheme",
}
"""Words of `--of`, each with files in `templates/plugins`, and the kinds of the registries."""


def write_new(name: str, *, kind: str, folder: Path, of: str | None = None) -> list[Path]:
    """Write the files of a new scenario or plug-in, the scenario last.

    ScenarioError for a bad name or kind, and for files that are there.
    """
    if kind not in KINDS:
        raise ScenarioError(file="--kind", problem=f"{kind} is no kind", remedy=f"write one of {', '.join(KINDS)}")
    if of is not None and kind != "plugin":
        problem = f"--of {of} is the kind of a plug-in, and --kind is {kind}"
        raise ScenarioError(file="--of", problem=problem, remedy="write --kind plugin")
    thing = next((word for word, long in THINGS.items() if of in (word, long)), "scheme" if of is None else "")
    if not thing:
        problem, remedy = f"{of} is no kind of plug-in", f"write one of {', '.join(THINGS)}"
        raise ScenarioError(file="--of", problem=problem, remedy=remedy)
    name = name.removesuffix(".py" if kind == "plugin" else ".yaml")
    pattern, words = (
        (r"[A-Za-z_]\w*", "a name of Python") if kind == "plugin" else (r"[A-Za-z0-9][\w.-]*", "a file name")
    )
    if not re.fullmatch(pattern, name):
        raise ScenarioError(file=name, problem=f"this is not {words}", remedy="write for example my_idea")
    sources = {f"{kind}.yaml": f"{name}.yaml"}
    if kind == "plugin":
        targets = {f"{thing}.py.txt": f"{name}.py", "test.py.txt": f"test_{name}.py", f"{thing}.yaml": f"{name}.yaml"}
        sources = {f"plugins/{source}": target for source, target in targets.items()}
    paths = {source: folder / target for source, target in sources.items()}
    for path in paths.values():
        if path.exists():
            raise ScenarioError(file=path, problem="this file exists", remedy="choose another name, or remove it")
    for source, path in paths.items():
        text = (TEMPLATES / source).read_text(encoding="utf-8")
        path.write_text(re.sub(r"\bNAME\b|(?<=test_)NAME", name, text), encoding="utf-8")
    return list(paths.values())


def print_new(name: str, *, kind: str, of: str | None = None) -> None:
    """`phyloop new`."""
    paths = write_new(name, kind=kind, folder=Path(), of=of)
    for path in paths:
        print(path)
    scenario = paths[-1]
    steps = {
        "link": [f"phyloop link {scenario}"],
        "plugin": [
            f"phyloop check-plugin {paths[0]}",
            f"phyloop {'link' if of in ('fading', 'fading law') else 'run'} {scenario} --allow-code",
        ],
    }
    print("Go on with: " + ", then ".join(steps.get(kind, [f"phyloop run {scenario}"])))


def print_checks(path: Path) -> bool:
    """`phyloop check-plugin`: print every check; return True if all are kept."""
    from scenarios.contracts import checks_of
    from scenarios.engine.start import prepare_tensorflow

    if not path.exists():
        raise ScenarioError(
            file=path, problem="there is no such file", remedy="name the file or package of the plug-in"
        )
    prepare_tensorflow()
    console, kept, last = Console(highlight=False), True, None
    for check in checks_of(path):
        if (check.kind, check.word) != last:
            console.print(f"[bold]{check.kind} {check.word}[/bold]")
            last = (check.kind, check.word)
        verdict = "skipped" if check.skipped else "ok" if check.problem is None else "BROKEN"
        why = f" Reason: {check.skipped}." if check.skipped else ""
        console.print(f"  {verdict:<7} {check.sentence}{why}", markup=False)
        if check.problem is not None:
            kept = False
            console.print(f"          {check.problem}", markup=False)
    return kept
