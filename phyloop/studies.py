"""Studies from Python: what the commands `run`, `link`, `tune`, `audit`, `check` and `privacy` do, as functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from phyloop.arguments import checked, name_arguments
from phyloop.progress import shown
from phyloop.results import Run
from scenarios.engine.interruption import interruptible
from scenarios.engine.options import RunOptions
from scenarios.engine.run import run_study
from scenarios.engine.study import Study
from scenarios.files.log import telling
from scenarios.report.claims import strongest
from scenarios.schema.errors import ScenarioError, told_by
from scenarios.schema.loader import Source, plain
from scenarios.schema.permission import code_allowed
from scenarios.studies import prepare
from scenarios.studies.accounts import account
from scenarios.studies.audit.plan import AuditOptions
from scenarios.studies.check import Check
from scenarios.studies.check import check as check_all
from scenarios.studies.tables import claims_frame


@checked
def run(
    scenario: Source,
    *,
    trials: int | None = None,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    memory_limit: str | None = None,
    allow_code: bool = False,
    retry_failed: bool = False,
    progress: bool = True,
) -> Run:
    """Run a scenario; what is already computed in the folder is not computed again.

    Ctrl-C raises KeyboardInterrupt and keeps every finished trial: the same call goes on.

    Args:
        scenario: name of a scenario of the library, path of a YAML file, or a dictionary with its keys.
        trials: trials per sweep point in place of the scenario's.
        seed: seed of all random draws in place of the scenario's.
        set: dotted paths and values, which win over the scenario and its sweep.
        out: folder of the results; the default is `runs/NAME`.
        workers: number of processes that compute; the default is this process, on all cores.
        scheduler: address of a running dask scheduler, `tcp://HOST:PORT`, whose workers compute instead.
        memory_limit: memory of all processes, such as `4GB`; the default is what is free.
        allow_code: run plug-ins and models that the scenario names. This code has all your rights.
        retry_failed: compute again what is stored as failed.
        progress: show a progress bar.

    Returns:
        The run, with its tables, curves and figures.

    Raises:
        ScenarioError: the scenario is wrong, or the folder or the memory does not suffice; `errors` has all errors.

    Example:
        >>> import phyloop
        >>> settings = {"learning.num_devices": 50, "learning.rounds": 20, "learning.burn_in": 10}
        >>> run = phyloop.run("flmc-snr", trials=2, set=settings, out="runs/x")
        >>> run
        <phyloop run flmc-snr in runs/x: 172 of 172 trials done>
    """
    options = RunOptions(workers=workers, scheduler=scheduler, memory_limit=memory_limit)
    changes = {"overrides": _overrides(set), "trials": trials, "seed": seed}
    study, folder = _compute(
        lambda: prepare.learning(scenario, out=_path(out), options=options, **changes),
        allow_code=allow_code,
        retry_failed=retry_failed,
        progress=progress,
    )
    return Run(folder=folder, study=study)


@checked
def link_study(
    scenario: Source,
    *,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    max_seconds: float | None = None,
    allow_code: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Measure error rates of links over Eb/N0, Es/N0 or SNR; goes on from what is in the folder.

    Args:
        scenario: as in `run`, with a section `measure`.
        seed: as in `run`.
        set: as in `run`.
        out: as in `run`.
        max_seconds: computing time of a point at most [s].
        allow_code: as in `run`.
        progress: as in `run`.

    Returns:
        A row per point of each curve, and per device where there are several: the swept settings, `curve` (its label),
        `ebno_db`, `esno_db` and `snr_db` [dB], `device` (from 0, or `all`), counts, `bit_error_rate` and
        `packet_error_rate` with `..._low`, `..._high` and the closed form `..._theory`, and why the point ended.

    Raises:
        ScenarioError: as in `run`.

    Example:
        >>> import phyloop
        >>> study = phyloop.link_study(
        ...     {
        ...         "name": "bpsk",
        ...         "link": {"modulation": "bpsk", "power": {"policy": "fixed"}},
        ...         "measure": {"values": [0, 4], "stop": {"bit_errors": 1000}},
        ...     }
        ... )
        >>> study[["ebno_db", "bit_error_rate", "bit_error_rate_theory"]].round(3)
           ebno_db  bit_error_rate  bit_error_rate_theory
        0      0.0           0.079                  0.079
        1      4.0           0.012                  0.013
    """
    study, folder = _compute(
        lambda: prepare.link(scenario, out=_path(out), max_seconds=max_seconds, overrides=_overrides(set), seed=seed),
        allow_code=allow_code,
        progress=progress,
    )
    return Run(folder=folder, study=study).link


@checked
def tune(
    scenario: Source,
    *,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    memory_limit: str | None = None,
    allow_code: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Search for the values of keys on validation data and other seeds; goes on from what is in the folder.

    Args:
        scenario: as in `run`, with a section `tune`.
        seed: as in `run`.
        set: as in `run`.
        out: as in `run`; the default is `runs/NAME-tune`. The tuned scenario is written there as `tuned.yaml`.
        workers: as in `run`.
        memory_limit: as in `run`.
        allow_code: as in `run`.
        progress: as in `run`.

    Returns:
        A row per choice, stage and candidate, best first: the swept settings that the choice was made per, the tuned
        keys, `rounds` of the stage, `mean` of the metric with `low`, `high` and `n`, its paired `difference` from the
        best with limits, and `chosen`.

    Raises:
        ScenarioError: as in `run`; there is no section `tune`; or no candidate of a choice has a result.

    Example:
        >>> import phyloop
        >>> settings = {"tune.keys": {"learning.step_size": [1e-5, 1e-4]}, "sweep": {"learning.scheme": ["noiseless"]},
        ...             "learning.rounds": 40, "learning.burn_in": 20, "learning.step_size": 1e-4, "privacy": "none"}
        >>> found = phyloop.tune("flmc-snr", set=settings, out="runs/step")
        >>> found.loc[found["chosen"], "learning.step_size"].tolist()
        [0.0001]
    """
    from scenarios.studies.tune.search import Search

    options = RunOptions(workers=workers, memory_limit=memory_limit)
    with code_allowed(allow_code):
        search = Search(scenario, out=_path(out), options=options, overrides=_overrides(set), seed=seed)

        def in_folder(study: Study) -> tuple[Study, Path]:
            return study, search.folder

        for study in search.studies():
            _compute(partial(in_folder, study), allow_code=allow_code, progress=progress)
        what = str(scenario) if isinstance(scenario, Path) else scenario
        search.write(command=f"phyloop.tune({what!r}, seed={seed!r}, set={set!r}, out={str(search.folder)!r})")
    return pd.DataFrame(list(search.result.rows()))


@checked
def audit(
    scenario: Source,
    *,
    games: int = 100_000,
    delta: float | None = None,
    confidence: float = 0.999,
    attack: Literal["lr", "classifier"] | None = None,
    rounds: int = 1,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    allow_code: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Attack what the server receives: lower bounds on epsilon beside the claimed ones, for every sweep point.

    Args:
        scenario: as in `run`.
        games: games per sweep point; half of them judge the attack.
        delta: delta of the bound; the default is the scenario's own, or 0 where a pure epsilon is claimed.
        confidence: confidence of each lower bound.
        attack: likelihood ratio or a trained classifier; the default is `lr` where the law is known.
        rounds: rounds that one game lasts.
        seed: as in `run`.
        set: as in `run`.
        out: as in `run`; the default is `runs/NAME-audit`.
        allow_code: as in `run`.
        progress: as in `run`.

    Returns:
        A row per lower bound (`bound` is `lower`) and per claim (`claimed`, with its `verdict`): the swept settings,
        `epsilon`, `delta`, `confidence`, the attack and the counts of its errors.

    Raises:
        ScenarioError: as in `run`; or no sweep point can be audited.

    Example:
        >>> import phyloop
        >>> audits = phyloop.audit("flmc-snr", games=2000, set={"sweep": {"learning.scheme": ["digital"]},
        ...                        "privacy": {"epsilon": 5, "delta": 0.01}, "learning.step_size": 8.28e-3})
        >>> audits["bound"].tolist()[0], "refuted" in audits["verdict"].tolist()
        ('lower', False)
    """
    options = AuditOptions(games=games, delta=delta, confidence=confidence, attack=attack, rounds=rounds)
    study, folder = _compute(
        lambda: prepare.audit(scenario, out=_path(out), options=options, overrides=_overrides(set), seed=seed),
        allow_code=allow_code,
        retry_failed=True,
        progress=progress,
    )
    return Run(folder=folder, study=study).privacy


@checked
def check(
    scenario: Source,
    *,
    trials: int | None = None,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    memory_limit: str | None = None,
    allow_code: bool = False,
) -> Check:
    """Validate a scenario and estimate its cost, without running it.

    Args:
        scenario: as in `run`.
        trials: as in `run`.
        seed: as in `run`.
        set: as in `run`.
        memory_limit: as in `run`.
        allow_code: import plug-ins that the scenario names. This code has all your rights.

    Returns:
        The verdict of `phyloop check`: `ok`, `verdict`, `errors` (all at once), `warnings`, `plan`, `cost`.

    Example:
        >>> import phyloop
        >>> phyloop.check("fedavg-digits")
        fedavg-digits is valid: 16 points x 5 trials = 80 tasks, seed 2025
        >>> wrong = phyloop.check("fedavg-digits", set={"learning.rounds": -1, "trials": 0})
        >>> wrong.ok, [error.key for error in wrong.errors]
        (False, ['trials', 'learning.rounds'])
    """
    with code_allowed(allow_code):
        found = check_all(scenario, overrides=_overrides(set), trials=trials, seed=seed, memory_limit=memory_limit)
    name_arguments(found.errors)
    return found


@checked
def epsilon(
    run: Run | str | Path,
    *,
    delta: float | None = None,
    accountants: Sequence[str] = (),
    relation: Literal["replace-one", "add-or-remove-one"] | None = None,
    everything: bool = False,
) -> pd.DataFrame:
    """Compute the privacy loss of all rounds of a run from its ledgers; nothing is run again.

    Args:
        run: a learning run, or its folder.
        delta: delta of the whole run; the default is the scenario's, or 1e-5.
        accountants: `basic`, `advanced`, `renyi`, `pld`, `exact`; the default is all.
        relation: relation of neighbouring data sets; the default is that of each ledger.
        everything: keep the claims of every accountant, not those of the strongest alone.

    Returns:
        A row per claim, for the worst device of all trials: the swept settings, `scope`, `epsilon` (inf: no guarantee),
        `delta`, `accountant`, `standing` (published, proved, ...), `source`, `assumptions`, `trials`.

    Raises:
        ScenarioError: the run released nothing, or an option is not known.

    Example:
        >>> import phyloop
        >>> settings = {"sweep": {"learning.scheme": ["analog"]}, "privacy": {"epsilon": 5, "delta": 0.01},
        ...             "learning.rounds": 20, "learning.burn_in": 10}
        >>> run = phyloop.run("flmc-snr", trials=1, set=settings, out="runs/private")
        >>> claims = phyloop.epsilon(run, delta=1e-3)
        >>> claims["scope"].unique().tolist()
        ['round', 'run']
    """
    folder = run.folder if isinstance(run, Run) else Path(run)
    accounts = account(folder, delta=delta, accountants=accountants, relation=relation)
    if not everything:
        claims = tuple(replace(one, claims=strongest(one.claims)) for one in accounts.claims)
        accounts = replace(accounts, claims=claims)
    return claims_frame(accounts)


def _compute(
    make: Callable[[], tuple[Any, Path]], *, allow_code: bool, retry_failed: bool = False, progress: bool
) -> tuple[Any, Path]:
    """Run the study that `make` returns in its folder; returns both."""
    with code_allowed(allow_code), telling(), interruptible():
        study, folder = make()
        try:
            with shown(study, quiet=not progress) as shown_to:
                run_study(study, folder=folder, progress=shown_to, retry_failed=retry_failed)
        except KeyboardInterrupt as stop:
            stop.add_note(f"Everything finished is kept in {folder}: the same call goes on.")
            raise
        except Exception as error:
            # As the command, which prints such a sentence: data that are missing, a link that cannot be simulated.
            if type(error).__module__.split(".")[0] not in ("phy", "fl", "privacy"):
                raise
            problem, remedy = told_by(error)
            raise ScenarioError(problem=problem, remedy=remedy, file=folder) from error
    return study, folder


def _overrides(settings: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Settings as `--set` takes them: JSON is YAML."""
    return tuple(f"{path}={json.dumps(value, default=plain)}" for path, value in (settings or {}).items())


def _path(out: str | Path | None) -> Path | None:
    return None if out is None else Path(out)
