"""The contract of selections. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from fl.uplink.selection import RoundKnowledge, Selection

_DEVICES = 12


def _known(selection: Selection, *, seed: int = 1) -> RoundKnowledge:
    """Return knowledge of 12 devices, with NaN for what the selection does not ask for."""
    drawn = np.random.default_rng(seed)
    rows = {name: drawn.exponential(size=_DEVICES) for name in ("snr_db", "served", "loss", "update_norm")}
    asked = {*selection.asks, *(["served"] if selection.by_channel else [])}
    rows = {name: values if name in asked else np.full(_DEVICES, np.nan) for name, values in rows.items()}
    age = drawn.integers(1, 9, _DEVICES).astype(np.float64)
    return RoundKnowledge(
        round_index=7, num_chosen=4, samples=drawn.integers(1, 99, _DEVICES).astype(np.float64), age=age, **rows
    )


def every_device_has_a_score(selection: Selection) -> None:
    """Every device has a score, a number or infinity."""
    scores = np.asarray(selection.scores(_known(selection)))
    assert scores.shape == (_DEVICES,), f"{_DEVICES} devices have scores of shape {scores.shape}"
    missing = np.flatnonzero(np.isnan(scores.astype(np.float64)))
    assert not len(missing), f"devices {missing.tolist()} have NaN as a score; asks names what scores reads"


def the_first_rounds_have_scores(selection: Selection) -> None:
    """Devices have scores before the first probe has arrived and before they have reported anything."""
    unknown = np.full(_DEVICES, np.nan)
    known = replace(_known(selection), round_index=0, snr_db=unknown, loss=unknown, update_norm=unknown)
    scores = np.asarray(selection.scores(replace(known, served=np.zeros(_DEVICES))), np.float64)
    assert not np.isnan(scores).any(), "a score is NaN while nothing is known of a device"


def the_same_knowledge_gives_the_same_scores(selection: Selection) -> None:
    """The same knowledge gives the same scores, and choosing leaves it as it was."""
    known = _known(selection)
    first = np.array(selection.scores(known))
    assert np.array_equal(first, selection.scores(known)), "the scores differ when they are computed again"
    like = _known(selection)
    changed = [
        one.name
        for one in fields(like)
        if not np.array_equal(getattr(known, one.name), getattr(like, one.name), equal_nan=True)
    ]
    assert not changed, f"scores changes {' and '.join(changed)} of what is known"


CHECKS = (every_device_has_a_score, the_first_rounds_have_scores, the_same_knowledge_gives_the_same_scores)
