"""Every bad input ends in one sentence: file, line, key, value, what is allowed, what to do."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentences import sentence_about

from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError, shorten
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema_keys import schema_keys
from scenarios.schema.yaml_marks import MAX_BYTES, parse_yaml

BILLION_LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

TOO_LARGE = (
    "more than 50000 values once aliases are written out, or more than 32 levels; shorten the file, or flatten it."
)
NO_MAPPING = "s.yaml: the file is empty, or no mapping; write key: value lines, such as name: my-study."
NO_KEY = "a key must be text of at most 200 characters; write a name before the colon."
SENTENCES = {
    "an unknown key": (
        "name: a\nlink:\n  power:\n    snr_db: 3\n",
        "s.yaml:4: link.power.snr_db = 3: unknown key; did you mean link.power.snr_max_db (10 log10(P0 / N0) "
        "[dB], N0 per real dimension: 3 dB above the received SNR).",
    ),
    "a key in the wrong place": (
        "name: a\nlearning:\n  num_samples: 3\n",
        "s.yaml:3: learning.num_samples = 3: unknown key; did you mean learning.task.num_samples.",
    ),
    "a key like no other": (
        "name: a\nlink:\n  power:\n    zzz: 3\n",
        "s.yaml:4: link.power.zzz = 3: unknown key; leave it out: the keys of link.power are policy, "
        "snr_max_db, transmit_power_dbm, noise_figure_db, cutoff_db, loop and budget.",
    ),
    "a key of another task": (
        "name: a\nlearning:\n  task: {name: logistic, dimension: 3}\n",
        "s.yaml:3: learning.task.dimension = 3: unknown key; it belongs to learning.task gaussian-linear only: "
        "leave it out, or change learning.task.",
    ),
    "dots in the file": (
        "name: a\nlink.channel.gain: 2\n",
        "s.yaml:2: link.channel.gain = 2: unknown key; nest it instead of dots: link: {channel: {gain: 2}}.",
    ),
    "a number in quotes": (
        'name: a\nlink: {power: {snr_max_db: "20"}}\n',
        's.yaml:2: link.power.snr_max_db = "20": must be a number, not text; write 20 without quotes.',
    ),
    "a boolean as a number": (
        "name: a\nlink: {power: {snr_max_db: true}}\n",
        "s.yaml:2: link.power.snr_max_db = true: must be a number; write for example 20.0.",
    ),
    "a number as a boolean": (
        "name: a\nlearning: {debias: 1}\n",
        "s.yaml:2: learning.debias = 1: must be true or false; write for example false.",
    ),
    "yes as a boolean": (
        "name: a\nlearning: {debias: yes}\n",
        "s.yaml:2: learning.debias = yes: must be true or false; write true.",
    ),
    "a fractional count": (
        "name: a\nlearning: {num_devices: 2.5}\n",
        "s.yaml:2: learning.num_devices = 2.5: must be a whole number; write 2.",
    ),
    "a count as a float": (
        "name: a\ntrials: 1e3\n",
        "s.yaml:2: trials = 1000.0: must be a whole number; write 1000.",
    ),
    "a number as a name": ("name: 2022\n", 's.yaml:1: name = 2022: must be text; put it in quotes: "2022".'),
    "no name": (
        "seed: 1\n",
        "s.yaml:1: name: the key is missing; add name at the top: write for example name: my-study.",
    ),
    "no epsilon": (
        "name: a\nprivacy:\n  delta: 0.1\n",
        "s.yaml:2: privacy.epsilon: the key is missing; add epsilon under privacy: write for example epsilon: 5.",
    ),
    "a negative noise power": (
        "name: a\nlink:\n  channel:\n    noise_power: -1\n",
        "s.yaml:4: link.channel.noise_power = -1: must be above 1e-30; write for example 1.0.",
    ),
    "NaN": (
        "name: a\nlink: {channel: {noise_power: .nan}}\n",
        "s.yaml:2: link.channel.noise_power = nan: must be a finite number; write for example 1.0.",
    ),
    "infinity": (
        "name: a\nlink: {power: {snr_max_db: -.inf}}\n",
        "s.yaml:2: link.power.snr_max_db = -inf: must be a finite number; write for example 20.0.",
    ),
    "no trials": (
        "name: a\ntrials: 0\n",
        "s.yaml:2: trials = 0: must be at least 1; write 1 or more.",
    ),
    "an unknown word": (
        "name: a\nlearning: {scheme: analogue}\n",
        "s.yaml:2: learning.scheme = analogue: must be analog, digital, digital-orthogonal, exact or noiseless; "
        "did you mean analog.",
    ),
    "a wrong privacy": (
        "name: a\nprivacy: foo\n",
        "s.yaml:2: privacy = foo: must be none or a mapping with epsilon; write for example "
        "{epsilon: 5, delta: 0.01}, or none.",
    ),
    "a wrong csi": (
        "name: a\nlink: {csi: foo}\n",
        "s.yaml:2: link.csi = foo: must be perfect or a mapping with error_variance or estimator; write for "
        "example {error_variance: 0.01}, or perfect.",
    ),
    "a negative gain": (
        "name: a\nlink: {channel: {gain: -1}}\n",
        "s.yaml:2: link.channel.gain = -1: must be above 1e-09; write for example 0.04.",
    ),
    "a negative gain in a list": (
        "name: a\nlink:\n  channel:\n    gain:\n    - 1\n    - -1\n",
        "s.yaml:6: link.channel.gain[1] = -1: must be above 1e-09; write for example 0.04.",
    ),
    "a wrong step size": (
        "name: a\nlearning: {step_size: fast}\n",
        "s.yaml:2: learning.step_size = fast: must be a number above 0, or auto; write for example 0.0001, or auto.",
    ),
    "a wrong task": (
        "name: a\nlearning: {task: foo}\n",
        "s.yaml:2: learning.task = foo: must be gaussian-linear or logistic; write for example gaussian-linear.",
    ),
    "keys that exclude each other": (
        "name: a\nlearning:\n  rounds: 100\n",
        "s.yaml:3: learning.rounds = 100: burn_in 200 of 100 rounds leaves fewer than 2 to evaluate; write burn_in: "
        "20, or rounds: 202 or more.",
    ),
    "three errors, sorted by line": (
        "name: a\nlink: {bogus_: 1}\ntrials: 0\nseed: -1\n",
        "s.yaml:2: link.bogus_ = 1: unknown key; leave it out: the keys of link are access, modulation, mcs, "
        "coding, packets, channel, ofdm, csi, receiver, noma, multiplexing, impairments, power, error_model, "
        "engine, bandwidth_hz, packet_size_bytes and probe_bits.\n"
        "s.yaml:3: trials = 0: must be at least 1; write 1 or more.\n"
        "s.yaml:4: seed = -1: must be at least 0; write 0 or more.",
    ),
    "conflicts of learning and of the link": (
        "name: a\nlearning: {num_devices: 570, task: logistic}\nlink:\n  csi: {estimator: ls}\n",
        "s.yaml:2: learning.num_devices = 570: 570 devices cannot share 569 samples of logistic; write "
        "num_devices: 569.\n"
        "s.yaml:4: link.csi.estimator = ls: estimator ls works on the pilots of an OFDM grid, the link has none; "
        "write ofdm: {num_subcarriers: 72}, or csi: perfect.",
    ),
    "values of one sweep that are wrong for different reasons": (
        "name: a\nsweep:\n  learning.num_devices:\n    - 0\n    - 5\n    - many\n",
        "s.yaml:4: learning.num_devices = 0: must be at least 1; write 1 or more.\n"
        "s.yaml:6: learning.num_devices = many: must be a whole number; write for example 20.",
    ),
    "one mistake at every sweep point": (
        "name: a\nlink: {csi: {estimator: ls}}\nsweep: {learning.num_devices: [3, 5]}\n",
        "s.yaml:2: link.csi.estimator = ls: estimator ls works on the pilots of an OFDM grid, the link has none; "
        "write ofdm: {num_subcarriers: 72}, or csi: perfect.",
    ),
    "a section that is no mapping": (
        "name: a\nlink: 5\n",
        "s.yaml:2: link = 5: must be a mapping of keys to values; write key: value pairs below it.",
    ),
    "a null": (
        "name: a\nlearning:\n  lmc_cap: ~\n",
        "s.yaml:3: learning.lmc_cap: the key has no value; leave the key out to get its default, or write a value.",
    ),
    "a swept key of a section without its kind": (
        "name: a\nlink: {modulation: qpsk}\nlearning: {algorithm: fedavg}\nsweep:\n  link.coding.rate: [1/3, 1/2]\n",
        "s.yaml:5: link.coding.code: the key is missing; add code: repetition, convolutional, turbo, polar5g or "
        "ldpc5g under link.coding.",
    ),
    "a sweep over a missing path": (
        "name: a\nsweep:\n  learning.schem: [digital]\n",
        "s.yaml:3: learning.schem: the sweep names a path that does not exist; did you mean learning.scheme.",
    ),
    "a sweep that is no mapping": (
        "name: a\nsweep: 5\n",
        "s.yaml:2: sweep = 5: must be a mapping of dotted paths to lists, or a list of such mappings; write for "
        "example {link.power.snr_max_db: [0, 10, 20]}.",
    ),
    "a swept value out of range": (
        "name: a\nsweep:\n  link.channel.noise_power:\n  - 1\n  - -1\n",
        "s.yaml:5: link.channel.noise_power = -1: must be above 1e-30; leave this value out of the list.",
    ),
    "a swept value that another key excludes": (
        "name: a\nlearning: {rounds: 300}\nsweep:\n  learning.rounds: [300, 100]\n",
        "s.yaml:4: learning.rounds = 100: burn_in 200 of 100 rounds leaves fewer than 2 to evaluate; write burn_in: "
        "20, or rounds: 202 or more.",
    ),
    "analog amplitudes with explicit QAM": (
        "name: a\nlearning: {scheme: analog}\nlink:\n  modulation: 16qam\n",
        "s.yaml:4: link.modulation = 16qam: scheme analog sends amplitudes that add up, which 16qam cannot carry; "
        "write modulation: auto.",
    ),
    "one-bit FLMC by superposition with 16-QAM": (
        "name: a\nlink: {modulation: 16qam}\n",
        "s.yaml:2: link.modulation = 16qam: scheme digital sends one-bit gradients that add up, which 16qam cannot "
        "carry; write modulation: auto.",
    ),
    "an empty file": ("", NO_MAPPING),
    "a comment only": ("# soon\n", NO_MAPPING),
    "a list at the top": ("- 1\n", NO_MAPPING),
    "billion laughs": (
        BILLION_LAUGHS,
        f"s.yaml:1: {TOO_LARGE}",
    ),
    "deep nesting": (
        "name: a\nx: " + "[" * 50_000,
        f"s.yaml:2: {TOO_LARGE}",
    ),
    "an alias inside its own anchor": (
        "x: &a [*a]\n",
        f"s.yaml:1: {TOO_LARGE}",
    ),
    "bytes that are not UTF-8": (
        b"name: a\nlabel: caf\xe9\n",
        "s.yaml:2: not valid YAML: incomplete UTF-8 octet sequence; leave this character out, or save the file as "
        "UTF-8.",
    ),
    "a key written twice": (
        "name: a\nlink:\n  access: auto\n  access: auto\n",
        "s.yaml:4: link.access: the key is written twice, first on line 3; keep one of them.",
    ),
    "a tag that builds objects": (
        "x: !!python/object/apply:os.system [ls]\n",
        "s.yaml:1: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed; leave the tag out.",
    ),
    "a key that is a number": ("1: a\n", f"s.yaml:1: {NO_KEY}"),
    "a merge key": (
        "name: a\nreport: &x {notes: b}\nlearning: {<<: *x}\n",
        f"s.yaml:3: learning: {NO_KEY}",
    ),
    "two documents": (
        "name: a\n---\nname: b\n",
        "s.yaml:2: not valid YAML: expected a single document in the stream, but found another document; check "
        "indentation, colons and quotes.",
    ),
    "a base that is itself": (
        "name: a\nbase: s.yaml\n",
        "s.yaml:2: base = s.yaml: the bases form a circle, s.yaml -> s.yaml; remove one of these base: lines.",
    ),
    "a base that is missing": (
        "name: a\nbase: nowhere.yaml\n",
        "s.yaml:2: base = nowhere.yaml: neither a file beside this one nor a scenario of the library; see phyloop "
        "list.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case.replace(" ", "_"))
def test_bad_input_raises_one_sentence(case: str, tmp_path: Path) -> None:
    text, sentence = SENTENCES[case]
    assert sentence_about(text, tmp_path) == sentence


@pytest.mark.parametrize(
    "text",
    [
        "a: [1\n",
        "a: b: c\n",
        "\ta: 1\n",
        'a: "x\n',
        "a: \x07\n",
        "? [\n",
        "a: &x\nb: *y\n",
        "%YAML 9\n",
        "a: '\\ud800'x",
    ],
)
def test_broken_yaml_names_the_file(text: str, tmp_path: Path) -> None:
    assert sentence_about(text, tmp_path).startswith("s.yaml")


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    assert sentence_about("name: a\nlink: }\n", tmp_path).startswith("s.yaml:2: not valid YAML: ")


def test_a_cycle_of_bases_names_the_files(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("base: s.yaml\n")
    assert sentence_about("name: a\nbase: other.yaml\n", tmp_path) == (
        "other.yaml:1: base = s.yaml: the bases form a circle, s.yaml -> other.yaml -> s.yaml; "
        "remove one of these base: lines."
    )


def test_an_error_in_a_base_names_the_base(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("name: b\nseed: -1\n")
    assert sentence_about("base: other.yaml\nname: a\n", tmp_path) == (
        "other.yaml:2: seed = -1: must be at least 0; write 0 or more."
    )


def test_missing_files_directories_and_huge_files_are_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    for path, words in (
        (tmp_path, "directory"),
        (tmp_path / "no.yaml", "No such file"),
        (huge, "larger than"),
    ):
        with pytest.raises(ScenarioError, match=words):
            load_scenario(path)
    with pytest.raises(ScenarioError, match="larger than"):
        load_scenario("/dev/zero")
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_scenario("a\0b.yaml")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "learning.rounds",
            "--set: learning.rounds: the override has no value; write dotted.path=value, for example "
            "learning.rounds=500.",
        ),
        ("=3", "--set: the override names no key; write dotted.path=value, for example learning.rounds=500."),
        (
            "learning.round=3",
            "--set: learning.round: the override names an unknown key; did you mean learning.rounds.",
        ),
        (
            "learning.rounds=",
            "--set: learning.rounds: the override has no value; write learning.rounds=value.",
        ),
        (
            'learning.rounds="9"',
            '--set: learning.rounds = "9": must be a whole number, not text; write 9 without quotes.\n'
            "--set: learning.rounds = 9: burn_in 200 of 9 rounds leaves fewer than 2 to evaluate; write burn_in: 1, "
            "or rounds: 202 or more.",
        ),
        (
            "learning.rounds=[",
            "--set: learning.rounds = [: not valid YAML: did not find expected node content; check indentation, "
            "colons and quotes.",
        ),
    ],
)
def test_a_bad_override_raises_one_sentence(override: str, sentence: str, tmp_path: Path) -> None:
    assert sentence_about("name: a\n", tmp_path, overrides=(override,)) == sentence


def test_an_error_survives_pickling_between_processes() -> None:
    error = ScenarioError(problem="p", remedy="r", file=Path("f"), line=3, key="k", value=1)
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "f:3: k = 1: p; r."


def test_long_values_are_cut() -> None:
    assert len(shorten("x" * 1000)) == 60


def complaint(file: Path, raw: bytes) -> str:
    """What loading and planning the bytes says, empty if nothing; any other exception fails the test."""
    file.write_bytes(raw)
    try:
        expand(load_scenario(file))
    except ScenarioError as error:
        return str(error)
    return ""


@given(raw=st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_random_bytes_raise_nothing_but_scenario_errors(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "garbage.yaml"
    assert complaint(file, raw).startswith(str(file))


@given(text=st.text(alphabet=st.sampled_from(list("ab:-[]{},\n #&*!|>'\"%@`~?0.1e\\xu\0\u2028")), max_size=60))
@settings(max_examples=300, deadline=None)
def test_random_yaml_raises_nothing_but_scenario_errors(text: str) -> None:
    with suppress(ScenarioError):
        parse_yaml(text, file="garbage")


_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "zip", "a"]), inner),
    max_leaves=5,
)


@given(path=st.sampled_from(sorted(schema_keys())), value=_VALUES, swept=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_at_any_key_is_accepted_or_refused(
    path: str, value: object, swept: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "values.yaml"
    written = shorten(value, 10_000)
    *parents, leaf = path.split(".")
    text = "".join(f"{part}: {{" for part in parents) + f"{leaf}: {written}" + "}" * len(parents)
    if swept:
        text = f"name: a\nsweep:\n  {path}: [{written}]\n"
    said = complaint(file, text.encode())
    assert said == "" or said.startswith(str(file))
