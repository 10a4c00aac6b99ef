"""Pages of the documentation are true: scenarios are valid, commands exist, generators miss no key and no name."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import shlex
import shutil
from operator import attrgetter
from pathlib import Path

import pytest
import typer
import typer.core
import yaml
from command import phyloop as run_command

import phyloop
from docs.generators import api, gallery, keys, links
from docs.generators.claims import claims_of
from docs.generators.crossrefs import page_of
from docs.generators.equations import svg
from phyloop.flower import AirGrid
from scenarios.cli.app import app
from scenarios.report.library import library_scenario
from scenarios.report.published import read_reference
from scenarios.schema.loader import LIBRARY, library_names
from scenarios.schema.schema_keys import schema_keys

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "papers").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- base: (\S+) -->\n\n)?```(\w+)\n(.*?)```", re.DOTALL)
"""A block of code with its language, and the scenario of the library that a fragment is to be written on top of."""


def blocks(path: Path, language: str) -> list[tuple[str, str]]:
    """The blocks of a page in a language, each with its base or an empty word."""
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [(base, text) for base, its_language, text in found if its_language == language]


def commands(text: str) -> list[list[str]]:
    """The words of each line that runs phyloop, without the name of the program."""
    lines = (shlex.split(line, comments=True) for line in text.splitlines())
    lines = ([word for word in line if not re.fullmatch(r"[A-Z_]+=.*", word)] for line in lines)
    return [line[1:] for line in lines if line[:1] == ["phyloop"]]


def write_files(page: Path, folder: Path) -> None:
    """Write the files of the user that a page takes for granted: those that its Python makes, and the traced street."""
    shutil.copy(LIBRARY / "site.npz", folder)
    if page.stem == "own-data":
        with contextlib.chdir(folder):
            for _, text in blocks(page, "python"):
                exec(text, {})


SCENARIOS = [(path, base, text) for path in PAGES for base, text in blocks(path, "yaml")]


@pytest.mark.parametrize(("path", "base", "text"), SCENARIOS, ids=[f"{one[0].stem}" for one in SCENARIOS])
def test_a_scenario_of_a_page_is_valid(path: Path, base: str, text: str, tmp_path: Path) -> None:
    if "my_idea.py" in text:  # the plug-in that the page has just made
        assert run_command("new", "my_idea", "--kind", "plugin", cwd=tmp_path).returncode == 0
    write_files(path, tmp_path)
    data = {"name": path.stem, **({"base": base} if base else {}), **yaml.safe_load(text)}
    file = tmp_path / "snippet.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    checked = phyloop.check(file, allow_code=True)
    assert checked.ok, checked


def test_every_command_of_a_page_has_its_options() -> None:
    group, names = typer.main.get_command(app), dict(library_names())
    seen = 0
    for path in PAGES:
        inline = re.findall(r"`(phyloop [a-z][^`]*)`", path.read_text(encoding="utf-8").replace("\n", " "))
        for line in [one for _, text in blocks(path, "bash") for one in commands(text)] + commands("\n".join(inline)):
            command = group.commands.get(line[0])
            assert command is not None, (path, line)
            if isinstance(command, typer.core.TyperGroup) and line[1:]:
                command = command.commands[line[1]]
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
            assert [word for word in line if word.startswith("--") and word.split("=")[0] not in known] == [], path
            if line[0] in ("run", "link", "audit") and re.fullmatch(r"[a-z0-9-]+", line[1] if line[1:] else "."):
                assert line[1] in names, (path, line)
            seen += 1
    assert seen > 60


@pytest.mark.parametrize(("page", "scenario"), [("README.md", "fading.yaml"), ("docs/start.md", "my-study.yaml")])
def test_the_first_steps_run_as_written(
    page: str, scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two rounds in place of 50."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    file = tmp_path / scenario
    if page == "README.md":
        ((_, text),) = blocks(ROOT / page, "yaml")
        file.write_text(text)
    for _, text in blocks(ROOT / page, "bash"):
        for line in commands(text):
            if file.exists():
                file.write_text(re.sub(r"\brounds: \d+", "rounds: 2", file.read_text()))
            result = run_command(*line, cwd=tmp_path)
            assert result.returncode == 0, (line, result.stdout, result.stderr)
    for _, text in blocks(ROOT / page, "python"):
        exec(text, {})


NOT_RUN = {
    "verify": "`make verify` runs it, for minutes",
    "scheduler": "needs a dask scheduler; tests/scenarios/engine/test_cluster.py starts one",
    "cpa-": "needs MNIST",
    "my-classifier": "needs MNIST",
}
SHORT = {
    "run": ("--trials", "1", "--workers", "1"),
    "audit": ("--games", "200", "--set", "sweep.privacy.epsilon=[5]"),
    "tune": ("--set", "learning.rounds=2"),
    "link": ("--max-seconds", "0.1"),
}
"""What makes a command short; the last value of an option counts."""
TWO_RUNS = ("run my-study.yaml --out runs/ten --seed 1", "run my-study.yaml --out runs/fifty --seed 2")
FIRST = {
    "runs/flmc-snr": ("run flmc-snr --trials 1",),
    "runs/flmc-epsilon": ("run flmc-epsilon --trials 1",),
    "my-study": ("new my-study --kind fedavg",),
    "runs/ten": ("new my-study --kind fedavg", *TWO_RUNS),
}
"""What a page takes for granted."""
OTHERS = [page for page in PAGES if page.name not in ("README.md", "start.md") and blocks(page, "bash")]


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write_files(page, tmp_path)
    for _, text in blocks(page, "yaml"):
        if name := yaml.safe_load(text).get("name"):
            (tmp_path / f"{name}.yaml").write_text(text)
    lines = [line for _, text in blocks(page, "bash") for line in commands(text)]
    known = [line for line in lines if not any(part in word for word in line for part in NOT_RUN)]
    needed = [need for name, need in FIRST.items() if any(word.startswith(name) for line in known for word in line)]
    group = typer.main.get_command(app)
    for line in [*(one.split() for need in needed for one in need), *known]:
        assert group.main([*line, *SHORT.get(line[0], ())], standalone_mode=False) in (None, 0), line
        if (study := tmp_path / "my-study.yaml").exists():
            study.write_text(re.sub(r"\brounds: \d+", "rounds: 2", study.read_text()))


def test_python_of_pages_is_valid_and_names_arguments_that_exist() -> None:
    """The lines of README, start.md and python.md run; a notebook runs those of flower.md. SLURM is none of ours."""
    calls = [
        one
        for page in PAGES
        for _, text in blocks(page, "python")
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "AirGrid"
    ]
    assert calls
    for call in calls:
        assert {one.arg for one in call.keywords} <= inspect.signature(AirGrid).parameters.keys()


def test_the_reference_has_every_key_and_says_what_it_means(tmp_path: Path) -> None:
    keys.write(tmp_path)
    lines = [line for file in tmp_path.glob("*.md") for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [re.split(r"(?<!\\)\|", line) for line in lines if line.startswith("| `")]
    names = {path.rpartition(".")[2] for path in schema_keys()}
    tags = {"name", "kind"}  # a heading for each value takes their place
    assert names - {row[1].strip(" `") for row in rows} - tags == set()
    assert [row for row in rows if len(row) != 7 or not row[5].strip()] == []


def test_the_reference_has_unit_default_limits_and_source_of_a_key(tmp_path: Path) -> None:
    keys.write(tmp_path)
    assert (
        "| `delay_spread_s` | s | `1e-07` | number from 0 to 0.0001 | RMS delay spread of a tdl or cdl model; 1e-7: "
        "nominal delay spread of TR 38.901 Table 7.7.3-1 |\n"
    ) in (tmp_path / "link.md").read_text(encoding="utf-8")


def test_the_python_page_has_every_public_name_with_its_docstring(tmp_path: Path) -> None:
    api.write(tmp_path)
    text = (tmp_path / "api.md").read_text(encoding="utf-8")
    functions, classes = api.public_names()
    assert {f"phyloop.{name}" for name in phyloop.__all__} <= {*functions, *classes}
    for name in [*functions, *classes]:
        thing = attrgetter(name.removeprefix("phyloop."))(phyloop)
        assert re.search(rf"^\.\. auto(function|class):: {re.escape(name)}$", text, re.MULTILINE)
        assert inspect.getdoc(thing)
        methods = vars(thing).items() if inspect.isclass(thing) and name.startswith("phyloop.") else ()
        public = [value for one, value in methods if not one.startswith("_") and inspect.isfunction(value)]
        assert [one for one in public if not inspect.getdoc(one)] == []


@pytest.mark.parametrize(
    ("name", "figures"), [("cpa-table6", 2), ("fedavg-bursts", 3), ("flmc-bursts", 3), ("link-uncoded", 2)]
)
def test_a_page_of_the_gallery_draws_stored_results(name: str, figures: int, tmp_path: Path) -> None:
    text = scenario_page(name, tmp_path)
    stored = read_reference(name)
    assert len(list(tmp_path.rglob("*.svg"))) == figures
    assert stored[0]["source"] in text
    assert ("| ours" in text) == (name == "cpa-table6")
    if rates := [one for one in stored if one["metric"] == "bit_error_rate"]:
        counts = f"| {int(rates[0]['errors']):,} of {int(rates[0]['total']):,} |"
        assert counts in text  # of the table
    if name == "link-uncoded":
        (data,) = tmp_path.rglob("01-bit_error_rate.csv")
        drawn = [line for line in data.read_text().splitlines() if ",bit_error_rate," in line]
        assert len(drawn) == len(rates)


def test_a_page_without_stored_results_says_so_and_gives_an_estimate_apart_from_measured_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "read_reference", lambda _: [])
    time = gallery.Time(None, 36.0, 21, "1 task", "Not run: the time.", "AMD EPYC", "2026-11-24")
    monkeypatch.setattr(gallery, "time_of", lambda _: time)
    text = scenario_page("cpa-table6", tmp_path)
    assert "No results of this scenario are stored" in text
    assert not list(tmp_path.rglob("*.svg"))
    # 21 tasks of 36 s.
    assert "Processor time: about 36 s for a task (from 1 task; AMD EPYC, 2026-11-24), about 13 min for all 21" in text
    assert "at least 6.3 min on two cores" in text
    assert "- Not run: the time." in text
    row = gallery.write_scenario("cpa-table6", tmp_path)
    assert row[2:] == ("none", "about 13 min", "about 6.3 min")


def test_the_gallery_has_a_page_and_a_row_per_scenario_and_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["bitflip-moments", "cpa-table6", "link-uncoded"]
    monkeypatch.setattr(gallery, "library_names", lambda: [(name, "") for name in names])
    told: list[str] = []
    gallery.write(tmp_path, told.append)
    assert told == ["gallery: 3 of 3 scenarios"]
    rows = [one for one in (tmp_path / "index.md").read_text().splitlines() if one.startswith("| [`")]
    assert sorted(row.split("`")[1] for row in rows) == names
    assert all((tmp_path / f"{name}.md").exists() for name in names)


def test_a_page_has_the_search_for_its_settings_with_a_choice_per_scheme(tmp_path: Path) -> None:
    text = scenario_page("cpa-convergence-mlp", tmp_path).partition("## Search for its settings")[2]
    assert "`phyloop tune cpa-convergence-mlp`" in text
    rows = [line for line in text.splitlines() if line.startswith("| CPA, γ = 0.05 | CPA |")]
    assert ["| 3 | yes |" in row for row in rows] == [True, False, False]
    assert "| 0.181 [0.0500, 0.312] | -0.140 [-0.307, 0.0268] |" in rows[1]


def scenario_page(name: str, folder: Path) -> str:
    loaded = library_scenario(name)
    assert loaded is not None
    return "\n".join(gallery.scenario_page(name, loaded, folder=folder))


def test_a_page_of_the_gallery_has_the_claims_whose_row_names_the_scenario() -> None:
    assert [(one.paper, one.item) for one in claims_of("cpa-table6")] == [("lang-2023", "Table VI, linear")]
    literal, refusing, packets = claims_of("bitflip-mechanisms")
    assert (literal.item, refusing.item, packets.item) == (
        "Fig. 4, baseline taken literally",
        "Fig. 4, receiver that refuses impossible values",
        "Fig. 5",
    )
    assert literal.here.startswith("**the ranking stands as printed** at reduced size")
    assert claims_of("cpa-table") == claims_of("link-uncoded") == []


def test_every_scenario_has_the_time_of_a_run_or_of_a_task_with_the_reason() -> None:
    names = dict(library_names())
    assert gallery.rows().keys() == names.keys()
    for name, time in zip(names, map(gallery.time_of, names), strict=True):
        assert (time.run_s is None) == (time.task_s > 0) == bool(time.measured) == bool(time.why), name
        assert time.run_s is not None or time.tasks > 1


def test_pages_of_papers_name_scenarios_and_tests_that_exist() -> None:
    known = dict(library_names())
    for path in (ROOT / "docs" / "papers").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        words = re.findall(r"`((?:flmc|bitflip|cpa|probit|one-bit)-[a-z0-9-]+)`", text)
        assert words
        assert [word for word in words if word not in known and not word.startswith("flmc-caps")] == []
        assert [one for one in re.findall(r"`(tests/\S+)`", text) if not (ROOT / one).exists()] == []


def test_names_of_scenarios_and_keys_lead_to_their_pages() -> None:
    assert page_of("cpa-table5") == ("generated/gallery/cpa-table5", "")
    assert page_of("link.channel.speed_m_s") == ("generated/keys/link", "#link-channel")
    assert page_of("link.channel.fading") == ("generated/keys/link", "#link-channel-fading")
    assert [page_of(name) for name in ("epsilon", "link", "no.such.key", "learning.downlink.csi")] == [None] * 4


def test_a_broken_link_and_a_host_are_faults_of_a_site(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="b.html#there"></a><a href="c.html"></a><a href="https://doi.org/1"></a>'
        '<script src="https://cdn.example/x.js"></script><img src="data:image/png;base64,AA==">'
    )
    assert links.faults(tmp_path) == [
        "a.html links to b.html#there, and the page has no such place",
        "a.html links to c.html, which does not exist",
        "a.html loads https://cdn.example/x.js",
    ]


def test_an_equation_is_drawn_in_the_colour_of_the_text_or_refused() -> None:
    drawn, depth = svg(r"\frac{1}{K} \sum_k g_k", "block")
    assert drawn.startswith("<svg")
    assert "currentColor" in drawn
    assert depth > 5
    with pytest.raises(ValueError, match="Unknown symbol"):
        svg(r"\nosuchcommand", "inline")
