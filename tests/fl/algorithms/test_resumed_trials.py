"""A trial that goes on from a file ends as one that was never disturbed, bit for bit, whatever it had to remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flmc_setting import RAYLEIGH, paper_config, paper_link

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.learning import Learning
from fl.algorithms.reconstruction.config import ReconstructionConfig
from fl.algorithms.run import run_trials
from fl.base.checkpoints import Saved, State
from fl.base.results import TrialResult
from phy.config import LinkConfig
from phy.config.power import PowerConfig
from privacy.config import BitFlippingConfig, GaussianConfig, PrivacyConfig
from scenarios.store.checkpoints import read_checkpoint, write_checkpoint

SEED = 17
NO_RADIO = LinkConfig.model_validate({"error_model": "error_free"})
NOISY = LinkConfig.model_validate(
    {"access": "orthogonal", "modulation": "qpsk", "power": {"policy": "fixed", "snr_max_db": 6.0}, "probe_bits": 4000}
)
LOOPED = LinkConfig.model_validate(
    {
        "access": "orthogonal",
        "modulation": "bpsk",
        "channel": {"fading": "rayleigh", "coherence": "run", "gain": 1.0},
        "power": {
            "policy": "closed-loop",
            "snr_max_db": 14.0,
            "loop": {"target_rate": 0.05, "initial_snr_db": 2.0, "max_step_db": 2.5},
        },
    }
)
ADAPTED = LinkConfig.model_validate(
    {
        "mcs": {"adapt": "outer-loop", "candidates": [2, 8, 14], "outdated_rounds": 1, "step_db": 3.0},
        "channel": {"fading": "rayleigh"},
        "power": {"policy": "fixed", "snr_max_db": 8.0},
        "packets": {"policy": "drop"},
        "packet_size_bytes": 100,
    }
)
LOSSY = LinkConfig.model_validate(
    {
        "access": "orthogonal",
        "modulation": "qpsk",
        "power": {"policy": "fixed", "snr_max_db": 13.5},
        "packets": {"policy": "drop"},
        "packet_size_bytes": 100,
    }
)
IN_THE_AIR = LinkConfig.model_validate(
    {
        "access": "superposition",
        "modulation": "analog",
        "channel": {"fading": "rayleigh", "coherence": "run"},
        "power": {"policy": "truncated-inversion", "snr_max_db": 10.0},
    }
)


def fedavg(aggregation: Any = "mean", **changes: Any) -> FedAvgConfig:
    """Digits on four devices, linear model, updates."""
    return FedAvgConfig.model_validate(
        {
            "num_devices": 4,
            "rounds": 5,
            "partition": {"kind": "iid", "samples_per_device": 12},
            "local": {"learning_rate": 0.1, "steps": 1, "clip": 1.0},
            "codec": "binary32",
            "receiver_limit": 10.0,
            "aggregation": aggregation,
            **changes,
        }
    )


def local(optimizer: str, **changes: Any) -> dict[str, Any]:
    return {"optimizer": optimizer, "batch_size": 5, "learning_rate": 0.05, "steps": 3, **changes}


def flmc(scheme: str, **changes: Any) -> Any:
    return paper_config(scheme, **{"rounds": 8, "burn_in": 2, **changes})


def attack(kind: str) -> dict[str, Any]:
    return {"kind": kind, "devices": [1]}


def watched(epsilon: float, action: str, accountant: str = "pld") -> PrivacyConfig:
    budget = {"epsilon": epsilon, "calibrate": False, "action": action, "accountant": accountant}
    return PrivacyConfig.model_validate({"epsilon": 1.0, "budget": budget})


def spending(action: str) -> GaussianConfig:
    budget = {"epsilon": 8.0, "calibrate": False, "action": action}
    return GaussianConfig.model_validate({"mechanism": "gaussian", "epsilon": 30.0, "delta": 1e-5, "budget": budget})


FLIPS = BitFlippingConfig(mechanism="bit-flipping", epsilon=50.0, kappa=0.02, debias=True)
NOISE = GaussianConfig(mechanism="gaussian", epsilon=5.0, delta=1e-5, calibration="dp-accounting")


@dataclass(frozen=True, kw_only=True)
class Case:
    """`remembers`: a part of the state on which the rounds to come must depend."""

    learning: Learning
    link: LinkConfig = NO_RADIO
    privacy: Any = None
    trials: tuple[int, ...] = (3,)
    remembers: tuple[str, ...] = ()


TRAINER, UP = ("trainer",), ("uplink",)
CASES = {
    "plain": Case(learning=fedavg(), link=NOISY, remembers=("weights",)),
    "models, by samples": Case(learning=fedavg(upload="model", weighting="samples", test_every=3), link=LOSSY),
    "momentum": Case(learning=fedavg(local=local("sgd", momentum=0.9)), remembers=(*TRAINER, "moments", "momentum")),
    "adam": Case(
        learning=fedavg(local=local("adam", learning_rate=0.01)), remembers=(*TRAINER, "moments", "second_moment")
    ),
    "adam, steps taken": Case(learning=fedavg(local=local("adam", learning_rate=0.01)), remembers=(*TRAINER, "taken")),
    "momentum that is forgotten": Case(learning=fedavg(local=local("sgd", momentum=0.9, keep_state=False))),
    "stragglers and drop-outs": Case(
        learning=fedavg(
            local=local("sgd", momentum=0.9),
            participation={"devices_per_round": 3, "dropout": 0.3, "straggling": 0.5},
        ),
        link=NOISY,
    ),
    "noisy downlink": Case(learning=fedavg(downlink=LOSSY.model_dump()), link=NOISY, remembers=("copies",)),
    "downlink in a closed loop": Case(
        learning=fedavg(downlink=LOOPED.model_dump(), downlink_codec="fixed-point"),
        remembers=("downlink", "loop", "powers"),
    ),
    "personal models": Case(
        learning=fedavg(personal={"lam": 0.5}, local={"learning_rate": 0.1}, participation={"devices_per_round": 2}),
        remembers=("personal", "weights"),
    ),
    "adaptive PRoBit": Case(
        learning=fedavg({"name": "probit", "bound": "adaptive", "b": 0.5}),
        link=NOISY,
        remembers=(*UP, "coder", "next_b"),
    ),
    "PRoBit credited with flips": Case(
        learning=fedavg({"name": "probit", "epsilon": 1.0, "l1_clip": 0.1, "bound": "adaptive"}),
        link=NOISY,
    ),
    "CPA, scaled radius": Case(
        learning=fedavg({"name": "cpa", "radius": "scaled", "gamma": 2.0}), link=NOISY, remembers=(*UP, "coder")
    ),
    "CPA, decaying radius": Case(learning=fedavg({"name": "cpa", "radius": "decaying", "gamma_decay": 0.8})),
    "amplitudes that add up": Case(
        learning=fedavg(receiver_limit=None, participation={"devices_per_round": 3, "dropout": 0.3}), link=IN_THE_AIR
    ),
    "amplitudes within an energy budget": Case(
        learning=fedavg(receiver_limit=None, participation={"devices_per_round": 3}),
        link=IN_THE_AIR.model_copy(
            update={
                "power": PowerConfig.model_validate(
                    {
                        "policy": "mse-optimal",
                        "snr_max_db": 10.0,
                        "budget": {"energy_j": 5e-3, "spread": "convergence"},
                    }
                )
            }
        ),
        remembers=(*UP, "energy", "left_j"),
    ),
    "adaptive PRoBit that adds up": Case(
        learning=fedavg({"name": "probit", "bound": "adaptive", "b": 0.5, "channel": "agnostic"}, receiver_limit=None),
        link=IN_THE_AIR.model_copy(update={"modulation": "bpsk"}),
        remembers=(*UP, "coder", "next_b"),
    ),
    "JoPEQ": Case(learning=fedavg({"name": "jopeq", "epsilon": 5.0}), link=NOISY),
    "signs, attacked": Case(
        learning=fedavg({"name": "sign", "epsilon": 0.5, "step": 0.01}, attack=attack("invert")), link=NOISY
    ),
    "median, attacked": Case(learning=fedavg({"name": "median"}, attack=attack("gaussian")), link=NOISY),
    "flips over a probed channel": Case(
        learning=fedavg(codec="fixed-point", upload="model"),
        link=NOISY,
        privacy=FLIPS,
    ),
    "flips over a fading channel": Case(
        learning=fedavg(codec="fixed-point"),
        link=NOISY.model_copy(update={"channel": NOISY.channel.model_copy(update={"fading": "rayleigh"})}),
        privacy=FLIPS,
    ),
    "outer loop": Case(learning=fedavg(codec="fixed-point"), link=ADAPTED, remembers=(*UP, "link", "offsets", "known")),
    "closed loop": Case(learning=fedavg(codec="fixed-point"), link=LOOPED, remembers=(*UP, "link", "loop", "powers")),
    "noise": Case(learning=fedavg(), link=NOISY, privacy=NOISE),
    "a budget that stops": Case(learning=fedavg(rounds=8), privacy=spending("stop"), remembers=("allowance", "sent")),
    "a budget that silences": Case(
        learning=fedavg(rounds=8), privacy=spending("silent"), remembers=("allowance", "sent")
    ),
    "distance to the optimum": Case(
        learning=fedavg(
            convergence_bound=True,
            upload="model",
            codec="fixed-point",
            local={"learning_rate": 0.1, "clip": 1.0, "l2": 0.1},
        )
    ),
    "a trial that diverges": Case(
        learning=fedavg(rounds=9, local={"learning_rate": 3e3, "steps": 1, "l2": 1.0}, receiver_limit=None)
    ),
    "analog": Case(
        learning=flmc("analog"),
        link=paper_link("analog"),
        privacy=PrivacyConfig(epsilon=5.0),
        trials=(0, 2, 5),
        remembers=("theta",),
    ),
    "digital, jammed": Case(learning=flmc("digital", attack=attack("jam")), link=paper_link("digital"), trials=(0, 1)),
    "detected": Case(
        learning=flmc("digital-orthogonal", debias=True),
        link=paper_link("digital-orthogonal", probe_bits=500),
        trials=(0, 1),
        remembers=("algorithm", "uplink", "probe", "counts", "bit_errors"),
    ),
    "detected, independent flips": Case(
        learning=flmc("digital-orthogonal"),
        link=paper_link("digital-orthogonal", probe_bits=500, error_model="iid"),
        remembers=("algorithm", "uplink", "probe", "counts", "bit_errors"),
    ),
    "detected in a closed loop": Case(
        learning=flmc("digital-orthogonal", num_devices=4),
        link=LOOPED,
        trials=(0, 4),
        remembers=("algorithm", "uplink", "loop", "powers"),
    ),
    "noiseless": Case(learning=flmc("noiseless"), link=paper_link("digital"), remembers=("moments", "outer")),
    "exact": Case(learning=flmc("exact"), link=paper_link("digital"), trials=(0, 1)),
    "amplitudes within a budget that stops": Case(
        learning=flmc("digital", rounds=12, burn_in=0),
        link=paper_link("digital", channel=dict(RAYLEIGH)),
        privacy=watched(2.7, "stop", "renyi"),
        trials=(0, 1, 2),
        remembers=("allowance", "lost"),
    ),
    "amplitudes within a budget that silences": Case(
        learning=flmc("digital"),
        link=paper_link("digital"),
        privacy=watched(2.0, "silent"),
        remembers=("allowance", "rounds_sent"),
    ),
    "over OFDM on a channel that stays": Case(
        learning=flmc("analog", num_devices=4, rounds=5),
        link=paper_link(
            "analog",
            channel={"model": "tdl-a", "delay_spread_s": 1e-7, "coherence": "run", "gain": 0.04},
            ofdm={"num_subcarriers": 16, "num_symbols": 2, "pilot_symbols": [], "cyclic_prefix_length": 8},
        ),
    ),
    "images rebuilt": Case(
        learning=ReconstructionConfig.model_validate(
            {
                "algorithm": "reconstruction",
                "num_devices": 12,
                "rounds": 5,
                "local": {"learning_rate": 0.1, "clip": 1.0},
            }
        ),
        link=NOISY,
        trials=(0,),
        remembers=("record", "rounds", "psnr_db"),
    ),
}


class OnFile:
    """Keeps the state after some rounds in a file, and gives back what is in it."""

    def __init__(self, path: Path, *, after: int, changed: Any = None) -> None:
        self.path, self._after, self._changed = path, after, changed
        self.refused: list[str] = []

    def saved(self) -> Saved | None:
        if not self.path.exists():
            return None
        state = read_checkpoint(self.path)[1]
        return Saved(rounds_done=self._after, state=self._changed(state) if self._changed else state)

    def refuse(self, saved: Saved, why: str) -> None:
        del saved
        self.refused.append(why)

    def due(self, rounds_done: int) -> bool:
        return rounds_done == self._after

    def save(self, rounds_done: int, state: State) -> None:
        write_checkpoint(self.path, about={"rounds": rounds_done}, state=state)


def run(case: Case, checkpoints: OnFile, heard: list[int]) -> list[TrialResult]:
    return run_trials(
        case.learning,
        link=case.link,
        privacy=case.privacy,
        seed=SEED,
        trials=case.trials,
        on_round=heard.append,
        checkpoints=checkpoints,
    )


def differing(first: Any, second: Any, where: str = "result") -> list[str]:
    """Where two results are not the same to the bit, types and order included."""
    if type(first) is not type(second):
        return [where]
    if is_dataclass(first):
        return [
            at
            for one in fields(first)
            for at in differing(getattr(first, one.name), getattr(second, one.name), f"{where}.{one.name}")
        ]
    if isinstance(first, Mapping):
        if list(first) != list(second):
            return [f"{where} has {sorted(set(first) ^ set(second))} on one side alone, or in another order"]
        return [at for name in first for at in differing(first[name], second[name], f"{where}.{name}")]
    if isinstance(first, list | tuple):
        if len(first) != len(second):
            return [where]
        return [
            at for i, pair in enumerate(zip(first, second, strict=True)) for at in differing(*pair, f"{where}[{i}]")
        ]
    if isinstance(first, np.ndarray):
        same = (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())
        return [] if same else [where]
    return [] if repr(first) == repr(second) else [where]


def halfway(case: Case) -> int:
    return 3 if case.learning.rounds > 5 else 2


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[TrialResult]]]:
    """Results by case, and the file that was written on the way; filled as they are asked for."""
    return {"": (tmp_path_factory.mktemp("kept"), [])}


def of(name: str, undisturbed: dict[str, tuple[Path, list[TrialResult]]]) -> tuple[Path, list[TrialResult]]:
    if name not in undisturbed:
        path = undisturbed[""][0] / f"{len(undisturbed)}.ckpt"
        heard: list[int] = []
        undisturbed[name] = path, run(CASES[name], OnFile(path, after=halfway(CASES[name])), heard)
        assert path.exists(), "nothing was saved halfway"
    return undisturbed[name]


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_trial_equals_an_undisturbed_one_bit_for_bit(name: str, undisturbed: Any) -> None:
    path, expected = of(name, undisturbed)
    heard: list[int] = []
    checkpoints = OnFile(path, after=halfway(CASES[name]))
    found = run(CASES[name], checkpoints, heard)
    assert not checkpoints.refused
    assert heard[0] > halfway(CASES[name]), "rounds were computed again"
    assert differing(found, expected) == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.remembers])
def test_every_part_of_the_state_is_needed(name: str, undisturbed: Any) -> None:
    path, expected = of(name, undisturbed)

    def forgetful(state: State) -> State:
        return without(state, CASES[name].remembers)

    found = run(CASES[name], OnFile(path, after=halfway(CASES[name]), changed=forgetful), [])
    assert differing(found, expected)


def without(state: Any, path: tuple[str, ...]) -> Any:
    """The state with other numbers at `path`, of the same kind."""
    if path:
        return {**state, path[0]: without(state[path[0]], path[1:])}
    if isinstance(state, Mapping):
        return {name: without(part, ()) for name, part in state.items()}
    if isinstance(state, np.ndarray):
        return np.where(state == 0, 1, state * 2).astype(state.dtype) if state.any() else np.ones_like(state)
    return state * 2
