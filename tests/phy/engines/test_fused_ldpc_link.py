"""Coded links of both engines: what goes on the air is one, and the fused decoder loses no more blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from radio import ERRORS_OF_A_CHECK, context, link_config, random_payload

from phy.compile import compile_digital
from phy.config import CodingConfig
from phy.engines.choice import engine_of
from phy.links.conflicts import link_conflicts
from phy.links.link import Reception

BLOCK_BYTES, BLOCKS = 20, 400


def sent_by(engine: str, *, snr_max_db: float, **coding: Any) -> Reception:
    config = link_config(
        "qpsk",
        snr_max_db=snr_max_db,
        coding=CodingConfig(code="ldpc5g", rate=0.5, standard="sionna", **coding),
        packet_size_bytes=BLOCK_BYTES,
        engine=engine,
    )
    num_bits = 8 * BLOCK_BYTES * BLOCKS
    link = compile_digital(config, num_devices=1, num_bits=num_bits)
    return link.send(random_payload(1, 1, num_bits), context=context(1), caps={})


def test_both_engines_have_the_same_channel_and_fused_loses_no_more_blocks() -> None:
    fused, sionna = (sent_by(engine, snr_max_db=4.2) for engine in ("fused", "sionna"))
    raw = [one.counts.raw_bit_errors.sum() / one.counts.raw_bits.sum() for one in (fused, sionna)]
    error = np.sqrt(raw[1] * (1 - raw[1]) * 2 / sionna.counts.raw_bits.sum())
    assert abs(raw[0] - raw[1]) < ERRORS_OF_A_CHECK * error
    payload = random_payload(1, 1, 8 * BLOCK_BYTES * BLOCKS).reshape(BLOCKS, BLOCK_BYTES)
    wrong = [(one.payload.reshape(BLOCKS, BLOCK_BYTES) != payload).any(axis=1).mean() for one in (fused, sionna)]
    assert 0.02 < wrong[1] < 0.4
    assert wrong[0] - wrong[1] < ERRORS_OF_A_CHECK * np.sqrt(2 * wrong[1] * (1 - wrong[1]) / BLOCKS)


def coded_link(check_update: str, engine: str) -> Any:
    coding = CodingConfig.model_validate(
        {"code": "ldpc5g", "rate": 0.5, "check_update": check_update, "standard": "sionna"}
    )
    return link_config("qpsk", coding=coding, engine=engine)


@pytest.mark.parametrize("check_update", ["boxplus", "boxplus-phi"])
def test_auto_takes_kernels_where_checks_are_box_plus(check_update: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phy.engines.choice.sees_gpu", lambda: False)
    monkeypatch.setattr("phy.engines.choice.has_vectors", lambda: True)
    assert engine_of(coded_link(check_update, "auto")) == "fused"


@pytest.mark.parametrize("check_update", ["minsum", "offset-minsum"])
def test_min_sum_stays_with_sionna(check_update: str) -> None:
    link = coded_link(check_update, "fused")
    assert engine_of(link.model_copy(update={"engine": "auto"})) == "sionna"
    said = [conflict.problem for conflict in link_conflicts(link, num_devices=1, payload_bits=800)]
    assert any("engine fused has" in problem and "boxplus" in problem for problem in said)
