"""Arguments of another type, and errors in the words of a call, not of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import phyloop

FEW = {"name": "few", "learning": {"rounds": 3, "burn_in": 1}, "trials": 1}

WRONG_TYPES: list[tuple[Callable[[], object], str]] = [
    (lambda: phyloop.run("flmc-snr", set="a=1"), "set = a=1: must be Mapping or None, not str; see help(phyloop.run)"),
    (lambda: phyloop.run("flmc-snr", trials=2.5), "trials = 2.5: must be int or None, not float"),
    (lambda: phyloop.run("flmc-snr", trials=True), "trials = true: must be int or None, not bool"),
    (lambda: phyloop.run("flmc-snr", tials=2), "run() got an unexpected keyword argument 'tials'"),
    (lambda: phyloop.check(3), "scenario = 3: must be str, Path or Mapping, not int"),
    (lambda: phyloop.epsilon(3), "run = 3: must be Run, str or Path, not int"),
    (lambda: phyloop.epsilon("x", accountants="basic"), "accountants = basic: must be Sequence of str, not str"),
    (lambda: phyloop.epsilon("x", accountants=[1]), "accountants = [1]: must be Sequence of str, not list"),
    (lambda: phyloop.compare(["a", "b"], y="mse", x="round"), "runs = [a, b]: must be Mapping of Run, not list"),
    (lambda: phyloop.compare({"a": "b"}, y="mse", x="round"), "runs = {a: b}: must be Mapping of Run, not dict"),
    (lambda: phyloop.load(3), "folder = 3: must be str, Path, list of str, list of Path or tuple of str or Path"),
    (lambda: phyloop.load([3]), "folder = [3]: must be str, Path, list of str"),
    (lambda: phyloop.Link(num_bits="8"), 'num_bits = "8": must be int, not str; see help(phyloop.Link)'),
    (lambda: phyloop.Link(num_bits=8).send([0] * 8, seed="x"), "seed = x: must be int, not str"),
    (lambda: phyloop.Air(num_devices=1, num_symbols=1, max_amplitude="1"), 'max_amplitude = "1": must be float'),
]


@pytest.mark.parametrize(("call", "words"), WRONG_TYPES, ids=[words for _, words in WRONG_TYPES])
def test_an_argument_of_another_type_is_refused_in_one_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError, match="^" + re.escape(words)) as caught:
        call()
    assert "\n" not in str(caught.value)


WRONG_VALUES: list[tuple[Callable[[], object], str]] = [
    (
        lambda: phyloop.run("flmc-snr", set={"learning.roundss": 3}),
        "argument set: learning.roundss: the override names",
    ),
    (lambda: phyloop.run("flmc-snr", trials=0), "argument trials: trials = 0: must be at least 1"),
    (lambda: phyloop.run("flmc-snr", seed=-1), "argument seed: seed = -1: must be at least 0"),
    (lambda: phyloop.run("flmc-snr", workers=0), "workers = 0: must lie between"),
    (lambda: phyloop.run("flmc-snr", workers=0), "; write workers=1, or use a cluster with scheduler."),
    (lambda: phyloop.run("flmc-snr", memory_limit="ten"), "memory_limit = ten: must be a number of bytes"),
    (lambda: phyloop.run("flmc-snr", memory_limit="10MB"), "or give it memory_limit='0."),
    (lambda: phyloop.run("flmc-snr", out="/proc/phyloop"), "choose another disk with out"),
    (lambda: phyloop.run("link-uncoded"), "use phyloop.link_study, or add learning:"),
    (lambda: phyloop.run({**FEW, "plugins": ["x.py"]}), "add allow_code=True"),
    (lambda: phyloop.link_study("flmc-snr"), "or use phyloop.run."),
    (lambda: phyloop.audit("flmc-snr", games=3), "games = 3: an audit needs"),
    (lambda: phyloop.audit("flmc-snr", attack="guess"), "attack = guess: there is no such attack"),
    (lambda: phyloop.compare({}, y="mse", x="round"), "runs: is empty"),
]


@pytest.mark.parametrize(("call", "words"), WRONG_VALUES, ids=[words for _, words in WRONG_VALUES])
def test_errors_name_arguments_in_place_of_options(
    call: Callable[[], object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the folder of a finished run is not refused
    with pytest.raises(phyloop.ScenarioError, match=re.escape(words)) as caught:
        call()
    assert "--" not in str(caught.value)


def test_options_of_epsilon_are_named_as_arguments(tmp_path: Path) -> None:
    phyloop.run(FEW, out=tmp_path, progress=False)
    for wrong, words in (({"relation": "both"}, "relation = both"), ({"delta": 2}, "delta = 2: is no probability")):
        with pytest.raises(phyloop.ScenarioError, match=words) as caught:
            phyloop.epsilon(tmp_path, **wrong)
        assert "--" not in str(caught.value)
    assert len(phyloop.epsilon(str(tmp_path)))


def test_a_check_names_arguments() -> None:
    found = phyloop.check("flmc-snr", set={"learning.rounds": -1}, trials=0)
    assert [str(error.file) for error in found.errors] == ["argument set", "argument trials"]


def test_numbers_of_numpy_fit() -> None:
    link = phyloop.Link(num_devices=np.int64(2), num_bits=np.uint8(8))
    assert repr(link) == "<Link of 2 devices, 8 bits each: qpsk, channel constant, power fixed, 20 dB>"
    air = phyloop.Air(num_devices=2, num_symbols=4, max_amplitude=np.float32(1.0), channel={"fading": "rayleigh"})
    assert repr(air) == "<Air of 2 devices, 4 symbols each: analog, channel rayleigh, power inversion, 20 dB>"
