"""Importing the package loads no other package."""

from __future__ import annotations

import subprocess
import sys


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
