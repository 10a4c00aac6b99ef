"""What trials side by side have in common is computed once: delta per round, accounts, rows of the store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from privacy.config import PrivacyConfig
from privacy.mechanisms.amplitude_privacy import RoundPrivacy
from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store
from scenarios.store.trials import SERIES_TABLES, account_text

ROUNDS = 40


def test_trials_at_the_same_amplitudes_spend_what_each_spends_alone() -> None:
    one, other = np.full(ROUNDS, 0.3), np.linspace(0.0, 3.0, ROUNDS)
    rows = np.stack([one, one, other, one, other, other])
    for kind in ("analog", "digital"):
        bound = RoundPrivacy(
            config=PrivacyConfig(epsilon=5.0, delta=0.01),
            kind=kind,
            dimension=5,
            gradient_bound=30.0,
            quantizer_slope=0.05,
            num_devices=20,
            noise_power=1.0,
        )
        alone = np.stack([bound.delta_spent(row) for row in rows])
        assert bound.delta_spent(rows).tobytes() == alone.tobytes()
        assert np.ptp(alone) > 0.0


def test_what_is_kept_of_a_task_does_not_depend_on_the_tasks_beside_it(tmp_path: Path) -> None:
    shared, counts = np.full(ROUNDS, 0.5), np.arange(8).reshape(4, 2)
    results = {
        f"task {trial}": TrialResult(
            trial=trial,
            metrics={"mse": trial / 7.0},
            rounds={"same": shared, "drawn": np.random.default_rng(trial).standard_normal(ROUNDS)},
            link={"bits": counts if trial % 2 else counts + 1},
        )
        for trial in range(4)
    }
    with Store.open(tmp_path / "together", scenario_name="demo") as store:
        store.write(results, physics={}, seconds=4.0)
    with Store.open(tmp_path / "alone", scenario_name="demo") as store:
        for task_id, result in results.items():
            store.write({task_id: result}, physics={}, seconds=1.0)
    assert kept(tmp_path / "together", [*results]) == kept(tmp_path / "alone", [*results])


def kept(folder: Path, ids: list[str]) -> dict[str, object]:
    with Store.open_existing(folder) as store:
        found: dict[str, object] = {"metrics": store.read_metrics(ids)}
        for table in SERIES_TABLES:
            for task_id, arrays in store.read_series(ids, table).items():
                found |= {f"{task_id} {table} {name}": one.tobytes() for name, one in arrays.items()}
        return found


@pytest.mark.parametrize("fading", ["awgn", "rayleigh"])
def test_an_account_of_several_trials_is_that_of_each_alone(fading: str) -> None:
    scenario = expand(load_scenario("flmc-snr")).points[0].scenario
    changes = {} if fading == "awgn" else {"fading": fading, "coherence": "round"}
    channel = scenario.link.channel.model_copy(update=changes)
    given = {
        "link": scenario.link.model_copy(update={"channel": channel}),
        "privacy": scenario.privacy,
        "seed": scenario.seed,
    }
    learning = scenario.learning.model_copy(update={"rounds": 6, "burn_in": 3})
    together = run_trials(learning, trials=(0, 1, 2), **given)
    accounts = [one.account for one in together]
    assert all(account is not None for account in accounts)
    assert (accounts[0] is accounts[2]) == (fading == "awgn")
    for one in together:
        (alone,) = run_trials(learning, trials=(one.trial,), **given)
        assert account_text(one.account) == account_text(alone.account)
        assert one.account.ledger.parameter.tobytes() == alone.account.ledger.parameter.tobytes()
