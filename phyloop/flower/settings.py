"""Settings of an `AirGrid`, checked as the sections of a scenario are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.learning import Learning
from fl.base.errors import LearningError
from fl.base.words import plural
from phy.config import LinkConfig
from phy.config.conflict import Conflict
from phy.engines.choice import with_engine
from phy.links.conflicts import link_conflicts
from privacy.config import Mechanism
from scenarios.schema.consistency.conflicts import check_consistency
from scenarios.schema.errors import Mark, ScenarioError
from scenarios.schema.loader import find_source, validate
from scenarios.schema.schema import Scenario
from scenarios.schema.yaml_marks import read_yaml
from scenarios.studies.flower.store import AppConfig
from scenarios.studies.folders import OF_APPS

LinkSource = str | Path | Mapping[str, Any] | LinkConfig
"""A file with a `link:` section or its keys alone, a library scenario, the keys themselves, or a configuration."""

TOGETHER = "decides on the bits of all clients together, but a Flower strategy aggregates one update per client"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked settings: `root` are those written, as plain data of a scenario; `samples` of each client, or of all."""

    root: dict[str, Any]
    lost: Literal["drop", "previous"]
    samples: int | Sequence[int] | None

    @cached_property
    def scenario(self) -> Scenario:
        """The settings as a scenario."""
        return validate(self.root, marks={(): Mark("AirGrid", None)})

    @property
    def kept(self) -> dict[str, Any]:
        """What the run folder keeps of the settings."""
        return {**self.root, OF_APPS: {"lost": self.lost}}

    @property
    def link(self) -> LinkConfig:
        """The uplink with access, modulation and engine named."""
        return with_engine(self.scenario.link.resolve_digital())

    @property
    def privacy(self) -> Mechanism | None:
        """The privacy mechanism, None without one."""
        return self.scenario.mechanism

    def config(self, *, num_devices: int, num_values: int) -> AppConfig:
        """Return the settings of learning for so many clients and values; ScenarioError where settings conflict."""
        if isinstance(self.samples, Sequence) and len(self.samples) != num_devices:
            raise ScenarioError(
                key="samples",
                problem=f"lists {plural(len(self.samples), 'client')}, the link has {num_devices}",
                remedy="list one number per client, or give one number for all",
            )
        config = self._app_config(num_devices=num_devices, values_per_client=num_values)
        check_consistency(self.scenario, where=lambda _: None, conflicts=self._conflicts(config))
        return config.settled(link=self.link, privacy=self.privacy)

    def refuse_conflicts(self) -> None:
        """Raise ScenarioError for settings that exclude each other, whatever the numbers of clients and values."""
        conflicts = self._app_config(values_per_client=None).conflicts(link=self.link, privacy=self.privacy)
        check_consistency(self.scenario, where=lambda _: None, conflicts=conflicts)

    def _app_config(self, **numbers: int | None) -> AppConfig:
        return AppConfig.of(cast(FedAvgConfig, self.scenario.learning), **numbers)

    def refuse_beyond(self, round_index: int) -> None:
        """Raise LearningError for a round beyond those that the privacy mechanism was asked to protect."""
        rounds: int = getattr(self.scenario.learning, "rounds", 0)
        if self.privacy is not None and round_index >= rounds:
            raise LearningError(
                f"privacy protects {plural(rounds, 'round')}, and the app sends another",
                "raise rounds in learning, or run fewer",
            )

    def _conflicts(self, config: AppConfig) -> Iterator[Conflict]:
        yield from config.conflicts(link=self.link, privacy=self.privacy)
        links = {"link": self.link, **config.links()}
        for path, link in links.items():
            bits = config.payload_bits() if path == "link" else config.downlink_bits()
            assert bits is not None  # AppConfig knows the number of values
            for conflict in link_conflicts(link, num_devices=config.num_devices, payload_bits=bits):
                yield conflict.under(path)


def read_settings(
    *,
    link: LinkSource,
    codec: str | Mapping[str, Any] | None,
    scheme: str | Mapping[str, Any] | None,
    privacy: Mapping[str, Any] | None,
    learning: Mapping[str, Any] | None,
    samples: int | Sequence[int] | None,
    downlink: LinkSource | None,
    lost: Literal["drop", "previous"],
    seed: int,
) -> Settings:
    """Return checked settings. ScenarioError for a wrong one, and for a scheme or mechanism that cannot serve."""
    if lost not in ("drop", "previous"):
        raise ScenarioError(key="lost", value=lost, problem="must be drop or previous", remedy="write lost='drop'")
    _refuse_no_samples(samples)
    written = {
        "codec": codec,
        "aggregation": scheme,
        "downlink": None if downlink is None else _section(downlink),
    }
    section: dict[str, Any] = {"algorithm": "fedavg", "codec": "binary32", **(learning or {})}
    section |= {key: _plain(value) for key, value in written.items() if value is not None}
    root = {"name": "flower", "seed": seed, "link": _section(link), "learning": section}
    settings = Settings(
        root=root if privacy is None else {**root, "privacy": dict(privacy)}, lost=lost, samples=samples
    )
    _refuse_unfit(settings.scenario.learning, settings)
    settings.refuse_conflicts()
    return settings


def _refuse_unfit(learning: Learning, settings: Settings) -> None:
    assert isinstance(learning, FedAvgConfig)
    scheme, privacy = learning.aggregation, settings.privacy
    if "aggregation" in settings.root["learning"] and (scheme.uses_codec or scheme.joint):
        raise ScenarioError(
            key="scheme",
            value=scheme.name,
            problem=TOGETHER,
            remedy="choose jopeq, laplace, mvu, probit or sign with vote mean, or leave scheme out",
        )
    if privacy is not None and privacy.budget is not None and not privacy.calibrated:
        raise ScenarioError(
            key="privacy.budget.calibrate",
            value=False,
            problem="a budget that only watches cannot keep a client of a Flower app from sending",
            remedy="leave calibrate out, so that the budget sets the protection of every round",
        )
    if privacy is not None and privacy.for_uploads is not None and settings.samples is None:
        raise ScenarioError(
            key="samples",
            problem=f"mechanism {privacy.mechanism} needs the number of samples of each client",
            remedy="give samples=100, or a list with one number per client",
        )


def _refuse_no_samples(samples: int | Sequence[int] | None) -> None:
    for count in [] if samples is None else np.atleast_1d(samples).tolist():
        if type(count) is not int or count < 1:
            raise ScenarioError(
                key="samples",
                value=count,
                problem="must be a whole number of at least 1 for every client",
                remedy="leave clients without samples out of the app",
            )


def _section(link: LinkSource) -> dict[str, Any]:
    match link:
        case LinkConfig():
            return link.model_dump(mode="json", exclude_unset=True)
        case str() | Path():
            data = read_yaml(find_source(link)).data
            return dict(data.get("link", data))
        case _:
            return dict(link)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
