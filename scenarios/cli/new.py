"""`phyloop new` and `phyloop check-plugin`: a first scenario or plug-in of one's own."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from scenarios.schema.errors import ScenarioError

TEMPLATES = Path(__file__).parents[1] / "templates"
KINDS = {
    "fedavg": {"fedavg.yaml": "{name}.yaml"},
    "flmc": {"flmc.yaml": "{name}.yaml"},
    "link": {"link.yaml": "{name}.yaml"},
    "plugin": {"plugin.py.txt": "{name}.py", "test_plugin.py.txt": "test_{name}.py", "plugin.yaml": "{name}.yaml"},
}


def write_new(name: str, *, kind: str, folder: Path) -> list[Path]:
    """Write the files of a new scenario or plug-in. ScenarioError for a bad name, and for files that are there."""
    if kind not in KINDS:
        raise ScenarioError(file="--kind", problem=f"{kind} is no kind", remedy=f"write one of {', '.join(KINDS)}")
    name = name.removesuffix(".py" if kind == "plugin" else ".yaml")
    pattern, words = (
        (r"[A-Za-z_]\w*", "a name of Python") if kind == "plugin" else (r"[A-Za-z0-9][\w.-]*", "a file name")
    )
    if not re.fullmatch(pattern, name):
        raise ScenarioError(file=name, problem=f"this is not {words}", remedy="write for example my_idea")
    paths = {source: folder / target.format(name=name) for source, target in KINDS[kind].items()}
    for path in paths.values():
        if path.exists():
            raise ScenarioError(file=path, problem="this file exists", remedy="choose another name, or remove it")
    for source, path in paths.items():
        text = (TEMPLATES / source).read_text(encoding="utf-8")
        path.write_text(re.sub(r"\bNAME\b|(?<=test_)NAME", name, text), encoding="utf-8")
    return list(paths.values())


def print_new(name: str, *, kind: str) -> None:
    """`phyloop new`."""
    paths = write_new(name, kind=kind, folder=Path())
    for path in paths:
        print(path)
    scenario = paths[-1]
    steps = {
        "link": [f"phyloop link {scenario}"],
        "plugin": [f"phyloop check-plugin {paths[0]}", f"phyloop run {scenario} --allow-code"],
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
