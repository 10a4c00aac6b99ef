"""Partitions of plug-ins: what they deal is what devices hold, and what is no partition is refused in one sentence."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.base.errors import LearningError
from fl.data.data_set import PartitionConfig, PartitionRule, partitions
from fl.data.partition.split import partition
from phy.config import LinkConfig
from phy.config.registry import RegistryError
from scenarios.contracts import partition as contract


class ByBrightness(PartitionRule):
    """Device 0 has the darkest samples, the last one the brightest, `skew` times as many."""

    kind: Literal["by-brightness"] = "by-brightness"
    skew: float = 3.0
    fault: str = ""

    def deal(self, labels: Any, *, features: Any, owner: Any, num_devices: int, generator: Any) -> Any:
        """Cut the samples in the order of their brightness."""
        del owner
        order = np.argsort(features.reshape(len(labels), -1).mean(axis=1), kind="stable")
        ends = np.cumsum(np.linspace(1.0, self.skew, num_devices))
        cut = np.split(order, np.round(ends[:-1] / ends[-1] * len(labels)).astype(int))
        match self.fault:
            case "few":
                return cut[1:]
            case "empty":
                return [cut[0][:0], *cut[1:]]
            case "beyond":
                return [cut[0] + len(labels), *cut[1:]]
            case "twice":
                return [np.tile(cut[0], 2), *cut[1:]]
            case "masks":
                return [np.isin(np.arange(len(labels)), one) for one in cut]
            case "unseeded":
                return [np.random.default_rng().permutation(one) for one in cut]
        return [generator.permutation(one) for one in cut]


@pytest.fixture
def registered() -> Any:
    """Register the partition as a plug-in would, and forget it."""
    partitions.register(ByBrightness)
    yield
    partitions.forget(__name__)


@pytest.mark.usefixtures("registered")
def test_devices_hold_what_a_plug_in_deals() -> None:
    config = FedAvgConfig.model_validate(
        {"num_devices": 5, "rounds": 1, "data": "digits", "partition": {"kind": "by-brightness", "skew": 2.0}}
    )
    link = LinkConfig.model_validate({"error_model": "error_free", "modulation": "qpsk"})
    federation = Federation(config, link=link, privacy=None, seed=3, trial=0)
    held, images = federation.partition, federation.data.x_train
    assert sorted(np.concatenate(held.devices)) == list(range(len(images)))
    assert held.sizes[-1] == pytest.approx(2.0 * held.sizes[0], abs=2)
    means = [images[own].mean() for own in held.devices]
    assert means == sorted(means)
    assert held.label_counts().sum() == len(images)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("few", "deals to 3 devices, num_devices is 4"),
        ("empty", "gives device 0 int64 of shape"),
        ("beyond", "gives device 0 sample"),
        ("twice", "gives device 0 a sample twice"),
        ("masks", "gives device 0 bool of shape"),
    ],
)
def test_what_is_no_partition_is_refused_in_one_sentence(fault: str, words: str) -> None:
    labels, features = np.arange(40) % 4, np.arange(40.0)[:, None]
    generator = np.random.default_rng(1)
    rule = ByBrightness(fault=fault)
    with pytest.raises(LearningError, match=f"partition by-brightness {words}"):
        partition(labels, config=rule, num_devices=4, num_classes=4, generator=generator, features=features)
    with pytest.raises(AssertionError, match="partition by-brightness"):
        contract.every_device_has_samples(rule)


def test_a_partition_keeps_the_contract_and_a_random_one_of_its_own_breaks_it() -> None:
    for check in contract.CHECKS:
        check(ByBrightness())
    with pytest.raises(AssertionError, match="other samples when they are dealt again"):
        contract.random_numbers_come_from_the_generator(ByBrightness(fault="unseeded"))


def test_partitions_of_the_library_are_read_as_before_and_a_rule_must_deal() -> None:
    assert partitions.words() == ("dirichlet", "given", "iid", "labels")
    assert partitions.read({}) == partitions.read("iid") == PartitionConfig()
    assert partitions.read({"kind": "dirichlet", "alpha": 0.3}) == PartitionConfig(kind="dirichlet", alpha=0.3)

    class Idle(PartitionRule):
        kind: Literal["idle"] = "idle"

    with pytest.raises(RegistryError, match="partition idle lacks deal"):
        partitions.register(Idle)
