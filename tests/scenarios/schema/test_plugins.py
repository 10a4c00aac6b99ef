"""Plug-ins: found beside the scenario, imported with permission, part of the identity, kept with the run."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path

import pytest
from learning_run import run_scenario

from fl.schemes.codecs.codec import codecs
from phy.config.registry import registries
from scenarios.cli.check import check_scenario
from scenarios.cli.new import KINDS, THINGS, write_new
from scenarios.contracts import broken_checks
from scenarios.engine.options import RunOptions
from scenarios.files.plain_files import RESOLVED
from scenarios.plan.identity import physics_json
from scenarios.plan.plan import expand
from scenarios.report.check import check_figures
from scenarios.schema import plugins
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.schema.permission import code_allowed
from scenarios.studies.folders import study_in
from scenarios.studies.tables import export

PLUGIN = """\
from typing import Literal

import numpy as np

from fl.schemes.codecs.partwise import Uniform
from fl.schemes.codecs.codec import codecs


@codecs.register
class Halved(Uniform):
    \"\"\"Uniform codes of half the values.\"\"\"

    name: Literal["halved"] = "halved"

    def encode(self, values, *, keys):
        return super().encode(values * np.float32(0.5), keys=keys)

    def decode(self, payload, *, num_values):
        return 2 * super().decode(payload, num_values=num_values)
"""

SCENARIO = """\
name: own
plugins: [halved.py]
trials: 1
link: {power: {policy: fixed, snr_max_db: 20}}
learning:
  algorithm: fedavg
  data: {name: digits, train_samples: 60}
  codec: {name: halved, bound: 2.0}
  num_devices: 3
  rounds: 4
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the file of a scenario beside the plug-in that it names."""
    (tmp_path / "halved.py").write_text(PLUGIN)
    (tmp_path / "own.yaml").write_text(SCENARIO)
    return tmp_path / "own.yaml"


def load(path: Path, *overrides: str) -> LoadedScenario:
    with code_allowed():
        return load_scenario(path, overrides=overrides)


def sentence_of(path: Path, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load(path, *overrides)
    return str(caught.value).replace(str(path.parent), "HERE")


def identity_of(loaded: LoadedScenario) -> str:
    return physics_json(expand(loaded).points[0].scenario)


def test_a_plugin_is_not_imported_without_permission(written: Path) -> None:
    (written.parent / "halved.py").write_text("open('imported', 'w').close()\n")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(written)
    assert str(caught.value) == (
        f"{written}:2: plugins: the scenario names halved.py, Python code that runs with your rights; read it, and if "
        "you trust it and all that it imports, add --allow-code."
    )


def test_what_a_plugin_registers_can_be_named_with_its_parameters(written: Path) -> None:
    codec = load(written).scenario.learning.codec  # type: ignore[union-attr]
    assert (codec.name, codec.bound, codec.bits) == ("halved", 2.0, 8)
    assert "did you mean learning.codec.bound" in sentence_of(written, "learning.codec.bond=1")


def test_figures_may_draw_what_a_scheme_of_a_plugin_says_that_it_measures(written: Path) -> None:
    measured = 'measured = Measured(per_round=("residual",), per_trial=("rank",))'
    (written.parent / "halved.py").write_text(
        "from typing import Literal\nfrom fl.base.measured import Measured\n"
        "from fl.schemes.scheme import schemes\nfrom fl.schemes.mean import MeanScheme\n\n\n"
        f'@schemes.register\nclass Own(MeanScheme):\n    name: Literal["own"] = "own"\n    {measured}\n'
    )
    own = ("learning.codec=binary32", "learning.aggregation=own")
    for x, y in (("round", "residual"), ("link.power.snr_max_db", "rank")):
        check_figures(load(written, *own, f"report.figures=[{{x: {x}, y: {y}}}]"))
    with pytest.raises(ScenarioError, match="names nothing that is measured"):
        check_figures(load(written, *own, "report.figures=[{x: round, y: leftover}]"))


def test_a_scenario_without_the_plugin_does_not_know_its_words(written: Path) -> None:
    load(written)
    load_scenario("fedavg-digits")
    with code_allowed():
        assert "halved" in sentence_of(written, "plugins=[]")
    assert "halved" not in codecs.words()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def (\n", "HERE/halved.py:1: the plug-in failed with SyntaxError: invalid syntax; correct it."),
        (PLUGIN + "1 / 0\n", "HERE/halved.py:20: the plug-in failed with ZeroDivisionError: division by zero; correct"),
        ("x = 1\n", "HERE/halved.py: the plug-in registers nothing; decorate a class with"),
        (
            PLUGIN.replace('"halved"', '"uniform"'),
            "halved.py:9: codec uniform is taken by Uniform of partwise.py; choose",
        ),
        (
            "import nowhere\n",
            "halved.py:1: the plug-in failed with ModuleNotFoundError: No module named",
        ),
        ("raise SystemExit(3)\n", "HERE/halved.py:1: the plug-in failed with SystemExit: 3; correct it."),
        ("while True:\n    pass\n", "the plug-in was still being imported after 0.2 s; end the loop there."),
    ],
)
def test_a_plugin_that_cannot_be_imported_gets_one_sentence_with_its_line(
    written: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.setattr(plugins, "IMPORT_S", 0.2)
    (written.parent / "halved.py").write_text(text)
    assert sentence in sentence_of(written)
    (written.parent / "halved.py").write_text(PLUGIN)
    assert load(written).scenario.plugins == ("halved.py",)


@pytest.mark.parametrize("word", ["nowhere.py", "fl", "scenarios.plan", "../halved.py", "/tmp/halved.py", "not a name"])
def test_only_files_beside_the_scenario_and_installed_modules_are_plugins(written: Path, word: str) -> None:
    assert "none is installed" in sentence_of(written, f"plugins=['{word}']")


def test_a_package_of_the_users_own_may_have_the_name_of_one_of_ours(written: Path) -> None:
    package = written.parent / "fl"
    package.mkdir()
    (package / "__init__.py").write_text("from .codecs import Halved\n")
    (package / "codecs.py").write_text(PLUGIN)
    loaded = load(written, "plugins=[fl]")
    before = identity_of(loaded)
    (package / "codecs.py").write_text(PLUGIN + "# changed\n")
    assert identity_of(load(written, "plugins=[fl]")) != before


def test_the_source_of_a_plugin_is_part_of_the_identity_of_tasks(written: Path) -> None:
    before = identity_of(load(written))
    assert identity_of(load(written)) == before
    (written.parent / "halved.py").write_text(PLUGIN.replace("0.5)", "0.25)"))
    assert identity_of(load(written)) != before
    assert identity_of(load(written, "plugins=[]", "learning.codec={name: uniform, bound: 2.0}")) != before


def test_a_plugin_that_changed_since_its_digest_was_written_is_refused(written: Path) -> None:
    digest = load(written).scenario.code["halved.py"]
    written.write_text(SCENARIO + f"code: {{halved.py: {digest}}}\n")
    load(written)
    (written.parent / "halved.py").write_text(PLUGIN + "# changed\n")
    assert "leave code: out to compute every trial anew" in sentence_of(written)


def table(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of an exported table, without computing times."""
    with code_allowed():
        export(study_in(folder), folder, folder / "csv", tables=["metrics", "rounds"])
    rows = list(csv.DictReader((folder / "csv" / name).open()))
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_a_run_folder_keeps_the_plugin_that_made_it(written: Path) -> None:
    folder = written.parent / "run"
    with code_allowed():
        assert run_scenario(str(written), out=folder) == 0
    (written.parent / "halved.py").unlink()
    assert (folder / "halved.py").read_text() == PLUGIN
    assert table(folder, "metrics.csv")[0].keys() >= {"test_accuracy", "upload_bits"}
    with pytest.raises(ScenarioError, match="add --allow-code"):
        study_in(folder)
    with code_allowed():
        assert run_scenario(str(folder / RESOLVED), out=folder) == 0


def test_workers_compute_with_the_plugin_what_one_process_computes(written: Path) -> None:
    tables = []
    for name, options in (("one", RunOptions()), ("two", RunOptions(workers=2))):
        with code_allowed():
            assert run_scenario(str(written), out=written.parent / name, options=options) == 0
        tables.append(table(written.parent / name, "rounds.csv"))
    assert tables[0] == tables[1]


def test_a_plugin_that_fails_in_a_round_loses_no_other_result(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = PLUGIN.replace("    def decode", "    rounds = []\n\n    def decode").replace(
        "        return super().encode",
        "        self.rounds.append(1)\n        if self.bits == 4 and len(self.rounds) >= 7:\n"
        "            raise ValueError('broken')\n        return super().encode",
    )
    (written.parent / "halved.py").write_text(
        broken.replace("    rounds = []", "    rounds: ClassVar[list] = []").replace(
            "from typing import Literal", "from typing import ClassVar, Literal"
        )
    )
    folder = written.parent / "run"
    with code_allowed():
        assert run_scenario(str(written), out=folder, overrides=("sweep={learning.codec.bits: [8, 4]}",)) == 1
    assert "unexpected ValueError: broken (at halved.py:18)" in capsys.readouterr().err
    assert [row["learning.codec.bits"] for row in table(folder, "metrics.csv")] == ["8"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_scenario_is_valid_as_it_stands(kind: str, tmp_path: Path) -> None:
    paths = write_new("my_idea", kind=kind, folder=tmp_path)
    with code_allowed():
        check_scenario(str(paths[-1]), overrides=(), trials=None, seed=None)
    with pytest.raises(ScenarioError, match="this file exists"):
        write_new(paths[0].name, kind=kind, folder=tmp_path)  # the same with its ending


def test_a_new_plugin_can_be_of_every_kind_that_has_a_registry() -> None:
    assert set(THINGS.values()) == registries().keys() - {"algorithm", "reference check"}
    with pytest.raises(ScenarioError, match="quantum is no kind of plug-in; write one of scheme, codec"):
        write_new("my_idea", kind="plugin", of="quantum", folder=Path())
    with pytest.raises(ScenarioError, match="--of codec is the kind of a plug-in, and --kind is link"):
        write_new("my_idea", kind="link", of="codec", folder=Path())


@pytest.mark.parametrize("of", THINGS)
def test_a_new_plugin_of_every_kind_passes_its_own_test_and_its_scenario_is_valid(
    of: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The file of the test is executed as it was written: pytest would start it in the same way."""
    _, test, scenario = write_new("my_idea", kind="plugin", of=of, folder=tmp_path)
    request.addfinalizer(lambda: plugins.import_plugins({}))  # its keys are unknown to other tests
    written = runpy.run_path(str(test))
    tests = [one for name, one in written.items() if name.startswith("test_")]
    assert len(tests) == 1
    tests[0]()
    assert "my_idea" in registries()[THINGS[of]].words()
    with code_allowed():
        check_scenario(str(scenario), overrides=(), trials=None, seed=None)


def test_a_plugin_that_breaks_the_contract_is_told_how(tmp_path: Path) -> None:
    (tmp_path / "halved.py").write_text(PLUGIN.replace("return 2 *", "return 3 *"))
    (broken,) = broken_checks(tmp_path / "halved.py")
    assert broken.startswith("codec halved: ")
