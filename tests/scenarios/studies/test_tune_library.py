"""`phyloop tune` plans a search of every scenario of the library."""

from __future__ import annotations

import pytest

from scenarios.schema.loader import library_names, load_scenario
from scenarios.studies.tune.plan import plan_tuning

SEARCHED = {
    "fedavg": ("learning.rounds: [3, 4]", "train_loss"),
    "flmc": ("learning.step_size: [1.0e-4, 1.0e-3]", "mse"),
    "reconstruction": ("learning.rounds: [1, 2]", "psnr_db"),
    "bit-distance": ("learning.num_pairs: [10, 20]", "kappa"),
    "flip-moments": ("learning.draws: [100, 200]", "largest_mean_gap"),
}
"""A key and a metric of each algorithm."""


@pytest.mark.parametrize("name", [name for name, _ in library_names()])
def test_a_search_of_every_library_scenario_is_planned_on_a_seed_of_its_own(name: str) -> None:
    scenario = load_scenario(name).scenario
    key, metric = "link.packet_size_bytes: [64, 128]", "bit_error_rate"
    if scenario.measure is None:
        key, metric = SEARCHED[scenario.learning.algorithm]
    section = f"tune={{keys: {{{key}}}, metric: {metric}, better: smaller}}"
    tuning = plan_tuning(load_scenario(name, overrides=(section,)))
    assert tuning.choices
    assert len(tuning.candidates) == 2
    assert tuning.derived(tuning.first()).scenario.seed == scenario.seed + (1 << 63)


def test_blocks_that_differ_in_the_tuned_key_alone_are_searched_once() -> None:
    section = "tune={keys: {learning.local.learning_rate: [0.1, 1.0]}, metric: validation_accuracy}"
    tuning = plan_tuning(load_scenario("cpa-table5", overrides=(section,)))
    assert len(tuning.choices) == 21  # of 3 numbers of devices and 7 schemes; the block at rate 0.1 has none of its own
    assert all("learning rate" not in one.words for one in tuning.choices)


def test_steps_of_a_zip_that_differ_in_the_tuned_key_alone_are_searched_once() -> None:
    section = "tune={keys: {learning.step_size: [1.0e-4, 1.0e-3]}, metric: mse}"
    tuning = plan_tuning(load_scenario("flmc-snr", overrides=(section,)))
    # Analog and digital, which has two steps, by 2 privacies, 2 caps and 7 SNRs; without noise, and exact.
    assert len(tuning.choices) == 2 * 2 * 2 * 7 + 2
    assert all("step" not in one.words for one in tuning.choices)
