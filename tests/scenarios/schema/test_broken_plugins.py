"""Plug-ins that a user may get wrong, and kinds of plug-ins that other tests do not use: one sentence, no lost run."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from learning_run import run_scenario

from scenarios.cli.new import print_checks
from scenarios.engine.options import RunOptions
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.schema.permission import code_allowed
from scenarios.schema.plugins import import_plugins
from scenarios.studies.folders import study_in
from scenarios.studies.tables import export

CODEC = """\
from typing import Literal

from fl.schemes.codecs.partwise import Uniform
from fl.schemes.codecs.codec import codecs


@codecs.register
class Own(Uniform):
    \"\"\"Uniform codes.\"\"\"

    name: Literal["own"] = "own"

    def encode(self, values, *, keys):
        encoded = super().encode(values, keys=keys)
        return encoded
"""

MODEL = """\
from typing import Literal

from fl.models.model import Model, models


@models.register
class Tiny(Model):
    \"\"\"One dense layer.\"\"\"

    name: Literal["tiny"] = "tiny"

    def network(self, *, image_shape, num_classes):
        return build(image_shape, num_classes)


def build(image_shape, num_classes):
    import keras

    layers = [keras.Input(image_shape), keras.layers.Flatten(), keras.layers.Dense(num_classes)]
    return keras.Sequential(layers)
"""

SCHEME = """\
from typing import Literal

from fl.schemes.scheme import schemes
from fl.schemes.sign import SignScheme, SignVote


class Vote(SignVote):
    def encode(self, updates, *, devices, context):
        return super().encode(updates, devices=devices, context=context)

    def _update_of(self, mean):
        return super()._update_of(mean)


@schemes.register
class Own(SignScheme):
    name: Literal["own"] = "own"

    def build(self, *, pieces, receiver_limit=None):
        return Vote(self, num_values=sum(piece.size for piece in pieces))
"""

SCENARIO = """\
name: own
plugins: [own.py]
trials: 1
link: {error_model: error_free}
learning:
  algorithm: fedavg
  data: {name: digits, train_samples: 60}
  codec: {name: own, bound: 2.0}
  num_devices: 3
  rounds: 2
"""


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "own.py").write_text(CODEC)
    (tmp_path / "own.yaml").write_text(SCENARIO)
    yield tmp_path / "own.yaml"
    import_plugins({})


def sentence_of(path: Path, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught, code_allowed():
        load_scenario(path, overrides=overrides)
    return str(caught.value).replace(str(path.parent.absolute()), "HERE")


def accuracies(folder: Path) -> list[dict[str, str]]:
    with code_allowed():
        export(study_in(folder), folder, folder / "csv")
    rows = csv.DictReader((folder / "csv" / "metrics.csv").open())
    return [row for row in rows if row["test_accuracy"]]


def test_a_model_of_a_plugin_trains(written: Path) -> None:
    (written.parent / "own.py").write_text(MODEL)
    with code_allowed():
        assert (
            run_scenario(
                str(written), out=written.parent / "run", overrides=("learning.model=tiny", "learning.codec=binary32")
            )
            == 0
        )
    assert len(accuracies(written.parent / "run")) == 1


@pytest.mark.parametrize("word", ["", ".", "__main__", "own.yaml"])
def test_a_word_that_names_no_python_file_is_refused(written: Path, word: str) -> None:
    assert "no Python file or package" in sentence_of(written, f"plugins=['{word}']")


def test_a_plugin_that_cannot_be_read_is_named(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert "plugins: HERE/own.py cannot be read (Permission denied); make it readable." in sentence_of(written)


def test_an_error_in_a_package_around_a_plugin_is_one_sentence(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (written.parent / "installed").mkdir()
    package = written.parent / "installed" / "broken_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise ValueError('not today')\n")
    monkeypatch.syspath_prepend(str(package.parent))
    assert "a package of broken_package.codec failed with ValueError: not today" in sentence_of(
        written, "plugins=[broken_package.codec]"
    )


def test_an_error_in_a_module_of_a_package_is_placed_there(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written.parent)
    package = written.parent / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from . import codec\n")
    (package / "codec.py").write_text("x = 1\n1 / 0\n")
    sentence = sentence_of(Path("own.yaml"), "plugins=[pkg]")
    assert "HERE/pkg/codec.py:2: the plug-in failed with ZeroDivisionError" in sentence


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("import Literal\n", "import Literal\nimport helper\n", "put modules of your own into one package"),
        ("Own(Uniform)", "Own", "Own is no codec; write class Own(Codec)."),
        ('["own"] = "own"', '["own"] = "own"\n    width: "flot" = 1', "name 'flot' is not defined"),
        ('["own"] = "own"', '["uniform"] = "uniform"', "codec uniform is taken by Uniform of partwise.py; choose"),
    ],
)
def test_a_mistake_at_import_has_its_remedy(written: Path, before: str, after: str, sentence: str) -> None:
    (written.parent / "own.py").write_text(CODEC.replace(before, after))
    assert sentence in sentence_of(written)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("open('/nowhere/at/all')", "FileNotFoundError"),
        ("import nowhere_at_all", "ModuleNotFoundError"),
        (
            "object.__setattr__(encoded, 'payload', encoded.payload[..., :-1])",
            "phyloop check-plugin tests the plug-ins",
        ),
    ],
)
def test_an_error_that_a_plugin_causes_fails_its_task_alone(
    written: Path, capsys: pytest.CaptureFixture[str], fault: str, reason: str
) -> None:
    fault = f"        if self.bits == 4:\n            {fault}\n"
    (written.parent / "own.py").write_text(CODEC.replace("        return", f"{fault}        return"))
    folder = written.parent / "run"
    with code_allowed():
        assert run_scenario(str(written), out=folder, overrides=("sweep={learning.codec.bits: [4, 8]}",)) == 1
    assert reason in capsys.readouterr().err
    assert ["8" in row.values() for row in accuracies(folder)] == [True]


@pytest.mark.parametrize(
    ("call", "cut", "problem"),
    [
        (
            "encode(updates, devices=devices, context=context)",
            "[:, 1:]",
            "encode of aggregation own gives an array of shape (1, 2, ",
        ),
        ("_update_of(mean)", "[1:]", "aggregation own gives an array of shape (649,), and (650,) is needed"),
    ],
)
def test_a_scheme_that_gives_another_shape_is_named(
    written: Path, capsys: pytest.CaptureFixture[str], call: str, cut: str, problem: str
) -> None:
    (written.parent / "own.py").write_text(SCHEME.replace(f"super().{call}", f"super().{call}{cut}"))
    overrides = ("learning.aggregation=own", "learning.codec=uniform")
    with code_allowed():
        assert run_scenario(str(written), out=written.parent / "run", overrides=overrides) == 1
    assert problem in " ".join(capsys.readouterr().err.split())


def test_a_plugin_that_is_no_utf_8_reaches_workers(written: Path) -> None:
    (written.parent / "own.py").write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + CODEC.encode())
    with code_allowed():
        assert run_scenario(str(written), out=written.parent / "run", options=RunOptions(workers=2)) == 0


def test_a_package_can_be_checked(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.engine.start.prepare_tensorflow", lambda: None)  # it sets variables of the process
    (written.parent / "pkg").mkdir()
    (written.parent / "pkg" / "__init__.py").write_text(CODEC)
    assert print_checks(written.parent / "pkg")
    assert "codec own" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "base", "registry", "body", "lacks"),
    [
        ("fl.schemes.scheme", "Scheme", "schemes", "", "scheme own lacks build and upload_bits"),
        ("fl.schemes.scheme", "Scheme", "schemes", "uses_codec = True", "scheme own lacks aggregate"),
        (
            "fl.schemes.codecs.codec",
            "Codec",
            "codecs",
            "def encode(self, values, *, keys): ...",
            "codec own lacks bits_per_value and",
        ),
        ("fl.attacks.attack", "Attack", "attacks", "", "attack own lacks acts_on"),
        ("fl.attacks.attack", "Attack", "attacks", "acts_on = 'bits'", "attack own lacks of_bits"),
        ("phy.config.fading", "FadingLaw", "fading_laws", "label = 'own'", "fading law own lacks quantile"),
        ("phy.config.power", "PowerPolicy", "power_policies", "", "power policy own lacks amplitude"),
        ("fl.models.model", "Model", "models", "", "model own lacks network"),
        ("fl.data.data_set", "DataSet", "data_sets", "", "data set own lacks facts and read"),
    ],
)
def test_a_class_that_lacks_a_method_is_refused_where_it_is_registered(
    tmp_path: Path, module: str, base: str, registry: str, body: str, lacks: str
) -> None:
    tag = "kind" if registry == "attacks" else "name"
    (tmp_path / "own.py").write_text(
        f"from typing import Literal\nfrom {module} import {base}, {registry}\n\n\n"
        f'@{registry}.register\nclass Own({base}):\n    {tag}: Literal["own"] = "own"\n    {body}\n'
    )
    (tmp_path / "s.yaml").write_text("name: s\nplugins: [own.py]\n")
    with code_allowed(), pytest.raises(ScenarioError, match=f"own.py:5: {lacks}"):
        load_scenario(tmp_path / "s.yaml")
