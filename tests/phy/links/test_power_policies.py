"""Power policies: those of the packages and one from outside, over every kind of link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from radio import context, link_config, random_payload

from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig, PowerConfig
from phy.config.power import PowerPolicy, power_policies
from phy.engines.choice import engine_of
from phy.links.conflicts import link_conflicts
from phy.links.link import LinkError

DEVICES, BITS, TRIALS = 3, 2000, 2
OFDM = {"num_subcarriers": 12, "cyclic_prefix_length": 2}


class Fractional(PowerPolicy):
    """|w| = |h^|^-alpha: fractional power control, fixed at 0 and inversion at 1."""

    name: Literal["fractional"] = "fractional"
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        del mean_gain, xp
        return gain**-self.alpha


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    power_policies.register(Fractional)
    yield
    power_policies.forget(__name__)


def fractional(alpha: float) -> Any:
    return {"name": "fractional", "alpha": alpha}


def config(policy: Any, **link: Any) -> LinkConfig:
    rest = {"fading": "rayleigh", "csi_error": 0.05, "snr_max_db": 12.0, "channel": {"gain": (0.7, 1.3, 1.0)}} | link
    written = link_config(**rest)
    return LinkConfig.model_validate(written.model_dump() | {"power": {"policy": policy, "snr_max_db": 12.0}})


def sent(policy: Any, **link: Any) -> Any:
    uplink = compile_digital(config(policy, **link), num_devices=DEVICES, num_bits=BITS)
    return uplink.send(random_payload(TRIALS, DEVICES, BITS), context=context(TRIALS), caps={})


def added(policy: Any, **link: Any) -> Any:
    uplink = compile_air(
        config(policy, access="superposition", modulation="analog", **link), num_devices=DEVICES, num_symbols=96
    )
    payload: NDArray[np.float64] = np.random.default_rng(2).uniform(-1.0, 1.0, (TRIALS, DEVICES, 96))
    return uplink.superpose(payload, context=context(TRIALS), caps={})


LINKS: dict[str, dict[str, Any]] = {
    "flat": {"coherence": "symbol"},
    "packets": {"coherence": "packet", "csi_error": 0.0, "receiver": {"num_antennas": 2}},
}


@pytest.mark.parametrize(("alpha", "policy"), [(0.0, "fixed"), (1.0, "inversion")])
@pytest.mark.parametrize("link", LINKS)
def test_a_policy_from_outside_sends_bits_as_the_built_in_one_that_it_equals(
    link: str, alpha: float, policy: str
) -> None:
    ours, own = sent(policy, **LINKS[link]), sent(fractional(alpha), **LINKS[link])
    assert np.array_equal(own.payload, ours.payload)
    np.testing.assert_allclose(own.decision.level, ours.decision.level, rtol=1e-5)
    np.testing.assert_allclose(own.counts.transmit_energy, ours.counts.transmit_energy, rtol=1e-4)
    other = sent(fractional(0.5), **LINKS[link])
    assert not np.allclose(other.decision.level, ours.decision.level, rtol=1e-2)


@pytest.mark.parametrize(("alpha", "policy"), [(0.0, "fixed"), (1.0, "inversion")])
@pytest.mark.parametrize("ofdm", ["none", OFDM])
def test_a_policy_from_outside_adds_up_as_the_built_in_one_that_it_equals(ofdm: Any, alpha: float, policy: str) -> None:
    ours, own = added(policy, ofdm=ofdm), added(fractional(alpha), ofdm=ofdm)
    scale = np.abs(ours.received).max()
    assert np.abs(own.received - ours.received).max() < 1e-5 * scale
    assert np.abs(added(fractional(0.5), ofdm=ofdm).received - ours.received).max() > 1e-2 * scale


def test_flat_links_under_a_policy_from_outside_are_computed_by_sionna() -> None:
    assert engine_of(config(fractional(0.5))) == "sionna"
    with pytest.raises(LinkError, match="this link only engine sionna has"):
        compile_digital(config(fractional(0.5), engine="fused"), num_devices=DEVICES, num_bits=BITS)
    assert config(fractional(0.5), engine="fused", receiver={"num_antennas": 2}, csi_error=0.0).fusible


def test_a_policy_without_a_closed_form_excludes_the_analytic_error_model() -> None:
    def problems(policy: Any) -> list[str]:
        link = config(policy, error_model="analytic", fading="constant", csi_error=0.0)
        return [found.problem for found in link_conflicts(link, num_devices=DEVICES, payload_bits=BITS)]

    assert problems(fractional(0.5)) == ["error model analytic has no closed form for policy fractional"]
    assert problems("inversion") == []


@pytest.mark.parametrize("word", power_policies.words())
def test_a_built_in_policy_is_kept_and_written_as_its_word(word: str) -> None:
    power = PowerConfig(policy=word, cutoff_db=-3.0)
    assert power.control_of("orthogonal").name == word
    assert power.model_dump(mode="json")["policy"] == word
    assert power.model_dump(mode="json")["cutoff_db"] == -3.0
    defaults = PowerConfig(policy=word).control_of("orthogonal")
    assert defaults == type(defaults)()


def test_auto_inverts_the_channel_only_where_amplitudes_add_up() -> None:
    link = LinkConfig()
    assert link.power.policy == "auto"
    assert link.resolve(access="superposition", modulation="bpsk").power.policy == "inversion"
    assert link.resolve_digital().power.policy == "fixed"
    named = LinkConfig.model_validate({"power": {"policy": "inversion"}})
    assert named.resolve_digital().power.policy == "inversion"


def test_flmc_is_another_word_for_inversion() -> None:
    assert PowerConfig.model_validate({"policy": "flmc"}) == PowerConfig(policy="inversion")


def test_what_names_no_policy_is_refused_with_the_words_of_all() -> None:
    for wrong in ("inverse", {"name": "inverse"}, {"alpha": 1}, 3):
        with pytest.raises(ValidationError) as error:
            PowerConfig.model_validate({"policy": wrong})
        assert all(f"'{word}'" in str(error.value) for word in ("closed-loop", "fixed", "fractional", "inversion"))


def test_policies_with_other_cutoffs_share_compiled_code() -> None:
    def control(**settings: Any) -> PowerPolicy:
        return PowerConfig(**settings).control_of("superposition")

    truncated = [control(policy="truncated-inversion", cutoff_db=cutoff) for cutoff in (-10.0, -3.0)]
    assert truncated[0] != truncated[1]
    assert truncated[0].compiled == truncated[1].compiled
    assert len({control(policy=Fractional(alpha=alpha)).compiled for alpha in (0.2, 0.3)}) == 2
