"""Coverage-guided fuzzing of the loader with atheris: `python tests/fuzz/fuzz_scenarios.py CORPUS -max_total_time=300`.

An input that breaks the law of `law.py` ends the run and is written beside it, as `crash-...`. Not a test by itself:
`test_coverage.py` runs it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "helpers"), str(HERE.parents[1])]

with atheris.instrument_imports(include=["scenarios", "yaml", "fl", "privacy.config", "phy.config"]):
    from law import outcome, read_scenario
    from mutations import key_names, library

FOLDER = Path(tempfile.mkdtemp())
FILE = FOLDER / "s.yaml"


def one_input(raw: bytes) -> None:
    """The law for one file, or, behind a zero byte, for one override."""
    words: list[str] = []
    if raw[:1] == b"\0":
        words = [raw[1:].decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()]
        raw = library()[0].encode()
    FILE.write_bytes(raw)
    outcome(lambda: read_scenario(FILE, words))


def write_dictionary(path: Path) -> None:
    """Words that the mutator may write, in the format of libFuzzer."""
    words = {word for name in key_names() for word in (name, f"{name}: ") if word.isascii()}
    path.write_text("".join(f'"{word}"\n' for word in sorted(words)))


if __name__ == "__main__":
    os.environ["PHYLOOP_DATA"] = str(FOLDER)  # no data set but the bundled one
    write_dictionary(FOLDER / "words")
    corpus = Path(sys.argv[1])
    for number, text in enumerate(library()):
        (corpus / f"library-{number}.yaml").write_text(text)
    atheris.Setup([*sys.argv, f"-dict={FOLDER / 'words'}", "-rss_limit_mb=700", "-max_len=20000"], one_input)
    atheris.Fuzz()
