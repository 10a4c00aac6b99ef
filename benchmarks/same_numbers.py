"""Compare the numbers of two versions of phyloop, bit for bit.

`record FOLDER --source TREE` runs every scenario of TREE's library, shortened, and keeps all exported tables.
`compare BEFORE AFTER` compares two such folders and exits with 1 on any difference.
Every step is a public command; only the task identities at full size need functions inside, found by their names.
"""

import argparse
import ast
import csv
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

NOT_COMPARED = {"seconds": "computing time"}  # columns that differ between two runs of one version, and why
WORDS = ("series", "panel", "claim", "source", "assumptions", "standing", "what", "curve")  # columns of sentences

ROUNDS = {  # settings that shorten every scenario of an algorithm
    "fedavg": ["learning.rounds=3", "learning.test_every=1"],
    "flmc": ["learning.rounds=20", "learning.burn_in=10"],
    "reconstruction": ["learning.rounds=2", "learning.num_devices=20"],
    "flip-moments": ["learning.draws=100"],
    "bit-distance": ["learning.num_pairs=4"],
}
FEW = ["learning.num_devices=20"]
LARGE = ["learning.rounds=1", "learning.local.steps=1", "learning.num_devices=2", "link.channel.gain=1"]
LARGE += ["learning.partition={kind: iid, samples_per_device: 4}"]
SHORTER = {  # further settings of single scenarios, which then get one trial; the last setting of a path counts
    "bitflip-epochs": ["sweep={zip: {learning.local.steps: [1, 5], learning.rounds: [5, 2]}, privacy.epsilon: [20]}"],
    "bitflip-epochs-paper": [*LARGE, "sweep={privacy.epsilon: [20]}"],
    "bitflip-mechanisms-paper": LARGE,
    "cpa-table4": ["learning.num_devices=1000"],
    "probit-attacks-cnn2": ["learning.num_devices=10", "learning.attack={kind: sign-flip, share: 0.2}"],
    "probit-attacks-mlp": ["learning.attack={kind: sign-flip, share: 0.2}"],
    "probit-devices": FEW,
    "probit-epsilon": ["learning.num_devices=300"],
}
LINK = ["measure.stop={bit_errors: 20, packet_errors: 20, max_bits: 60000}", "measure.values=[5, 15]"]
LEFT_OUT = {"bitflip-resnet-paper": "CIFAR-100 is not among the data, and ResNet-18 takes minutes to compile"}
"""Scenarios that are not run, and why. Their identities and the numbers of `check` are compared all the same."""
CARDS = ("awgn-uncoded", "rayleigh-packets", "flmc-caps-analog", "flmc-caps-digital", "superposition-sums")
VERIFY = ["verify", "--fast", "--out", "run", *(f"--only={card}" for card in CARDS)]
AUDIT = ["audit", "flmc-epsilon", "--out", "run", "--games=2000", "--set", "sweep={privacy.epsilon: [5]}"]
OTHERS = {"verify": [VERIFY], "audit": [AUDIT]}

IDENTITIES = r"""
import hashlib, importlib, re, sys
from pathlib import Path
source, *names = sys.argv[1:]
def find(name):
    for path in sorted(Path(source, "scenarios").rglob("*.py")):
        if re.search(rf"^def {name}\(", path.read_text(), re.M):
            module = importlib.import_module(".".join(path.relative_to(source).with_suffix("").parts))
            assert Path(module.__file__) == path, f"{module.__file__} was imported instead of {path}"
            return getattr(module, name)
    sys.exit(f"no function {name} in {source}/scenarios")
load, expand, expand_link = map(find, ("load_scenario", "expand", "expand_link"))
physics, task_ids = map(find, ("physics_json", "task_ids"))
for loaded in map(load, names):
    if loaded.scenario.measure is not None:
        ids = [point.point_id for curve in expand_link(loaded).curves for point in curve.points]
    else:
        plan = expand(loaded)
        ids = [one for p in plan.points for one in task_ids(physics(p.scenario), trials=range(plan.trials))]
    print(len(ids), hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest())
"""


def python(source: Path, code: str, arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code that imports the packages of a source tree."""
    env = os.environ | {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "1", "COLUMNS": "1000"}
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=cwd, env=env, capture_output=True, text=True)


def read(path: Path) -> dict[str, Any]:
    """Return a library scenario with what it takes from its base; of sections both have, `learning` alone is merged."""
    own: dict[str, Any] = yaml.safe_load(path.read_text())
    base = read(path.with_name(Path(own["base"]).stem + ".yaml")) if "base" in own else {"learning": {}}
    return base | own | {"learning": base["learning"] | own.get("learning", {})}


def cut(path: str, values: Any) -> Any:
    """Keep the first and the last value of an axis of numbers in a sweep; lists that are zipped stay whole."""
    return [values[0], values[-1]] if path != "zip" and values[2:] and isinstance(values[0], int | float) else values


def commands(name: str, document: dict[str, Any]) -> list[list[str]]:
    """Return the commands for one scenario; `run` is the folder of its results and `csv` that of its tables."""
    if name in LEFT_OUT:
        return [["check", name]]
    study, settings, claims = ["link"], LINK, []
    if "measure" not in document:
        study, claims = ["run", f"--trials={2 - (name in SHORTER)}"], [["privacy", "run", "--csv", "csv/claims.csv"]]
        blocks = document["sweep"] if isinstance(document["sweep"], list) else [document["sweep"]]
        short = [{path: cut(path, values) for path, values in block.items()} for block in blocks]
        usual = ROUNDS[document["learning"].get("algorithm", "flmc")] + (FEW if name.startswith("cpa-") else [])
        settings = [f"sweep={json.dumps(short, ensure_ascii=False)}", *usual, *SHORTER.get(name, [])]
    study += [part for setting in ["report.figures=[]", *settings] for part in ("--set", setting)]
    return [["check", name], [*study, "--out", "run", name], ["export", "run", "--out", "csv", "--table=all"], *claims]


def record_one(source: Path, name: str, steps: list[list[str]], out: Path) -> str:
    """Run the commands for one name, keep all tables as CSV in `out`, and return one line about them."""
    entry = tomllib.loads((source / "pyproject.toml").read_text())["project"]["scripts"]["phyloop"].split(":")
    door = f"import sys, {entry[0]} as door; sys.argv[0] = 'phyloop'; sys.exit(door.{entry[1]}())"
    start, failures, rows = time.perf_counter(), [], ["command,exit code,numbers"]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        for step in steps:
            done = python(source, door, step, cwd=Path(scratch))
            failures += [f"{step[0]}: {done.stderr.strip().splitlines()[-1:]}"] if done.returncode else []
            # `check` writes estimates of time and memory before the first empty line, exact numbers after it.
            lines = done.stdout.replace(",", "").partition("\n\n")[2].splitlines() if step[0] == "check" else []
            found = [" ".join(re.findall(r"(?<![\w.])-?\d[\d.e+-]*", line)) for line in lines]
            rows += [f"{step[0]},{done.returncode},{numbers}" for numbers in ["", *filter(None, found)]]
        for path in Path(scratch).rglob("*.csv"):
            (out / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    (out / "commands.csv").write_text("\n".join(rows))
    return f"{name:28} {time.perf_counter() - start:6.1f} s  {LEFT_OUT.get(name, '; '.join(failures))}"


def record(folder: Path, source: Path, only: list[str], jobs: int) -> int:
    """Record the numbers of a source tree; names that the folder holds already are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    scenarios = {path.stem: read(path) for path in sorted((source / "scenarios" / "library").glob("*.yaml"))}
    steps = {name: commands(name, document) for name, document in scenarios.items()} | OTHERS
    done = python(source, IDENTITIES, [str(source), *scenarios], cwd=folder)
    if done.returncode:
        sys.exit(f"task identities cannot be computed: {done.stderr}")
    table = dict(zip(scenarios, done.stdout.splitlines(), strict=True))
    (folder / "identities.json").write_text(json.dumps(table, indent=1))
    with ThreadPoolExecutor(jobs) as pool:
        for line in pool.map(lambda name: record_one(source, name, steps[name], folder / name), only or steps):
            print(line, flush=True)
    print(f"{sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) / 60:.1f} minutes of processor time")
    return 0


def compare(before: Path, after: Path, *, left_out: set[str], only: list[str]) -> int:
    """Print a table of all scenarios and return 1 if anything differs."""
    print("not compared:", ", ".join(f"{column} ({why})" for column, why in NOT_COMPARED.items()))
    print(f"\n{'scenario':28} {'files':>5} {'rows':>8}  result")
    different = []
    for name in only or sorted({path.parent.name for folder in (before, after) for path in folder.glob("*/*.csv")}):
        files = sorted({path.name for folder in (before, after) for path in (folder / name).glob("*.csv")})
        results = [first_difference(before / name / file, after / name / file, left_out) for file in files]
        found = [f"{file} {text}" for file, (_, text) in zip(files, results, strict=True) if text]
        found += [] if files else ["nothing was recorded"]
        different += [name] if found else []
        print(f"{name:28} {len(files):5} {sum(rows for rows, _ in results):8}  {'; '.join(found) or 'equal'}")
    old, new = (json.loads((folder / "identities.json").read_text()) for folder in (before, after))
    changed = [name for name in sorted(old | new) if old.get(name) != new.get(name)]
    tasks = sum(int(entry.split()[0]) for entry in old.values())
    print(f"\ntask identities of {len(old)} scenarios, {tasks} tasks: {', '.join(changed) or 'equal'}")
    print(f"tables: {', '.join(different) or 'all equal, bit for bit'}")
    return 1 if different or changed else 0


def read_rows(path: Path, left_out: set[str]) -> list[list[str]]:
    """Return the rows of a table, the header first, without the columns left out; none if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    return [[cell for name, cell in zip(head, row, strict=True) if name not in left_out] for row in [head, *rows]]


def plain(cell: str) -> Any:
    """Return a cell, and a mapping of settings in a cell as a mapping: the order of its keys is no number."""
    try:
        return ast.literal_eval(cell) if cell.startswith("{") else cell
    except (ValueError, SyntaxError):
        return cell


def first_difference(before: Path, after: Path, left_out: set[str]) -> tuple[int, str]:
    """Return the number of rows and the first difference, empty if there is none; row 0 is the header."""
    old, new = read_rows(before, left_out), read_rows(after, left_out)
    for number, (left, right) in enumerate(zip_longest(old, new)):
        for name, one, other in zip_longest((old or new)[0], left or (), right or (), fillvalue="nothing"):
            if plain(one) != plain(other):
                return len(old), f"row {number}, {name}: {one} before, {other} after"
    return len(old), ""


def main() -> int:
    """Read the command line and run `record` or `compare`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("folder", type=Path, help="folder of recorded tables")
    parser.add_argument("after", type=Path, nargs="?", help="the folder to compare it with")
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1], help="source tree of phyloop")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="library scenarios, `verify` or `audit`")
    parser.add_argument("--jobs", type=int, default=1, help="scenarios at a time")
    parser.add_argument("--no-words", action="store_true", help=f"leave out the columns {', '.join(WORDS)}")
    given = parser.parse_args()
    if given.command == "record":
        return record(given.folder.resolve(), given.source.resolve(), given.only, given.jobs)
    after = given.after or parser.error("compare takes two folders, and only one is given; add the other one")
    left_out = {*NOT_COMPARED, *(WORDS if given.no_words else ())}
    return compare(given.folder, after, left_out=left_out, only=given.only)


if __name__ == "__main__":
    sys.exit(main())
