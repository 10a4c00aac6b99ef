"""Choice of the engine of a link, and the error for an unsupported link."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from radio import link_config

from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.engines import choice as engines
from phy.links.conflicts import link_conflicts
from phy.links.link import LinkError

WITHOUT: dict[str, dict[str, Any]] = {
    "long list": {"coding": {"code": "polar5g", "list_size": 32, "standard": "sionna"}},
    "clipped carriers of NOMA": {"access": "noma", "ofdm": {}, "impairments": {"clipping_db": 3.0}},
    "late samples of NOMA": {
        "access": "noma",
        "ofdm": {"domain": "time", "cyclic_prefix_length": 0},
        "channel": {"model": "tdl-a"},
    },
    "pilots of NOMA": {"access": "noma", "ofdm": {}, "csi": {"estimator": "ls"}},
    "filters of NOMA": {"access": "noma", "noma": {"detector": "lmmse"}, "receiver": {"num_antennas": 2}},
    "error free": {"error_model": "error_free"},
}
SUM = {"access": "superposition", "modulation": "analog"}
SUMS_WITHOUT: dict[str, dict[str, Any]] = {
    "impaired": {"impairments": {"phase_error_deg": 5.0}},
    "in samples": {"ofdm": {"domain": "time"}},
    "estimated": {"ofdm": {}, "csi": {"estimator": "ls"}},
    "over clusters": {"ofdm": {}, "channel": {"model": "cdl-a"}},
    "noiseless": {"error_model": "error_free"},
}


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with vector instructions and no GPU."""
    engines._vectors_or_say.cache_clear()
    monkeypatch.setattr(engines, "sees_gpu", lambda: False)
    monkeypatch.setattr(engines, "has_vectors", lambda: True)


def link(engine: str = "auto", **changes: Any) -> LinkConfig:
    return LinkConfig.model_validate({"access": "orthogonal", "modulation": "qpsk", "engine": engine, **changes})


def test_auto_is_fused_where_there_are_kernels_and_sionna_elsewhere() -> None:
    assert engines.engine_of(link()) == "fused"
    assert engines.engine_of(link("sionna")) == "sionna"
    for changes in WITHOUT.values():
        assert engines.engine_of(link(**changes)) == "sionna"


def test_superposition_is_fused_over_known_channels_with_ideal_transmitters() -> None:
    assert engines.engine_of(link(**SUM)) == "fused"
    assert engines.engine_of(link(**SUM, ofdm={}, channel={"model": "tdl-d", "speed_m_s": 3.0})) == "fused"
    for changes in SUMS_WITHOUT.values():
        assert engines.engine_of(link(**SUM, **changes)) == "sionna"


@pytest.mark.parametrize("which", [name for name in SUMS_WITHOUT if name != "noiseless"])
def test_fused_refuses_an_unsupported_superposition(which: str) -> None:
    config = link("fused", **SUM, **SUMS_WITHOUT[which])
    with pytest.raises(LinkError, match="this link only engine sionna has; write engine: sionna"):
        compile_air(config, num_devices=2, num_symbols=8)


def test_auto_is_sionna_where_tensorflow_has_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "sees_gpu", lambda: True)
    assert engines.engine_of(link()) == "sionna"
    assert engines.engine_of(link("fused")) == "fused"


@pytest.mark.filterwarnings("always:this processor")
def test_a_processor_without_vector_instructions_falls_back_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "has_vectors", lambda: False)
    with pytest.warns(UserWarning, match="this processor has no avx2.*computed by Sionna") as said:
        assert [engines.engine_of(link()) for _ in range(3)] == ["sionna"] * 3
    assert len(said) == 1
    assert engines.engine_of(link("fused")) == "fused"


@pytest.mark.parametrize("which", [name for name in WITHOUT if name != "error free"])
def test_fused_refuses_an_unsupported_link(which: str) -> None:
    config = link("fused", **WITHOUT[which])
    with pytest.raises(LinkError, match="this link only engine sionna has; write engine: sionna") as refused:
        compile_digital(config, num_devices=2, num_bits=800)
    assert "\n" not in str(refused.value)
    found = [one for one in link_conflicts(config, num_devices=2, payload_bits=800) if one.keys == ("engine",)]
    assert len(found) == 1


def test_settings_left_at_auto_are_not_checked() -> None:
    assert not list(link_conflicts(LinkConfig(engine="fused"), num_devices=2, payload_bits=800))


def test_a_named_engine_is_used() -> None:
    from phy.engines.fused.flat.link import FusedChain
    from phy.engines.sionna.flat import SionnaChain

    for engine, chain in (("sionna", SionnaChain), ("fused", FusedChain), ("auto", FusedChain)):
        uplink = compile_digital(link_config(engine=engine), num_devices=1, num_bits=8)
        assert isinstance(uplink._chain, chain)


def test_neither_phy_nor_a_checked_scenario_imports_numba() -> None:
    script = (
        "import sys, phy.compile, phy.engines.choice, scenarios.schema.loader, scenarios.plan.plan\n"
        "loaded = scenarios.schema.loader.load_scenario('flmc-snr')\n"
        "scenarios.plan.plan.expand(loaded)\n"
        "print('numba' in sys.modules)\n"
    )
    root = Path(__file__).parents[3]
    told = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False"]


@pytest.mark.parametrize(
    ("engines_of_links", "told"),
    [
        (["fused", "fused"], "fused kernels"),
        (["sionna"], "Sionna under XLA"),
        (["fused", "sionna", "fused"], "2 of 3 links by fused kernels, 1 of 3 links by Sionna under XLA"),
        ([], None),
    ],
)
def test_check_names_the_engine(engines_of_links: list[str], told: str | None) -> None:
    from scenarios.report.settings import computed_by

    assert computed_by(link(engine) for engine in engines_of_links) == told
