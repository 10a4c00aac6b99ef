"""Importing the room is cheap and pulls in no other room."""

from __future__ import annotations

import subprocess
import sys

import privacy


def test_privacy_loads_no_tensorflow_no_sionna_and_no_other_package() -> None:
    code = (
        "import sys, privacy\n"
        "heavy = ('tensorflow', 'sionna', 'phy', 'fl', 'scenarios', 'scipy', 'pydantic')\n"
        "assert not [name for name in heavy if name in sys.modules], sorted(sys.modules)\n"
        "from privacy import *\n"
        "analog_amplitude_cap(5, 0.01, dimension=5, gradient_bound=30.0, noise_power=1.0)\n"
        "assert not [name for name in heavy[:5] if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_public_name_can_be_imported() -> None:
    for name in privacy.__all__:
        assert getattr(privacy, name) is not None
