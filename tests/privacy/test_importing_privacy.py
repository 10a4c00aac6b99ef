"""Importing the package loads no other package, and finds every mechanism of its folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import privacy

OWN_MECHANISM = """\
from typing import Literal

from privacy.config.clipped_update import ClippedUpdate


class OwnNoise(ClippedUpdate):
    protects = "numbers"
    mechanism: Literal["own-noise"]
"""


def test_privacy_loads_no_tensorflow_no_sionna_and_no_other_package() -> None:
    code = (
        "import sys, pkgutil, importlib, privacy\n"
        "for module in pkgutil.walk_packages(privacy.__path__, 'privacy.'):\n"
        "    importlib.import_module(module.name)\n"
        "from privacy.mechanisms.flmc_analog import analog_amplitude_cap\n"
        "analog_amplitude_cap(5, 0.01, dimension=5, gradient_bound=30.0, noise_power=1.0)\n"
        "heavy = ('tensorflow', 'sionna', 'phy', 'fl', 'scenarios')\n"
        "assert not [name for name in heavy if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_mechanism_in_one_new_file_can_be_written_in_a_scenario(tmp_path: Path) -> None:
    shutil.copytree(Path(privacy.__file__).parent, tmp_path / "privacy", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "privacy" / "config" / "own_noise.py").write_text(OWN_MECHANISM)
    code = (
        "from privacy.config import MECHANISMS, key_of_mechanism\n"
        "read = {'mechanism': 'own-noise', 'epsilon': 5, 'clip': 1}\n"
        "found = MECHANISMS[key_of_mechanism(read)].model_validate(read)\n"
        "assert type(found).__module__ == 'privacy.config.own_noise'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path, env={"PYTHONPATH": "."})
