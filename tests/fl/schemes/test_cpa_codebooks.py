"""Codewords from the shared seed: their law, that both sides draw the same, and that all others differ."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from oracles import loop_cpa

from fl.schemes.coders.quantizers import ScalarQuantizer
from fl.schemes.cpa.codebooks import UNHEARD, Codewords, shared_uniforms
from fl.schemes.cpa.cpa_theory import Codebook
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose
from phy.numerics.workers import THREADS_VARIABLE

DEVICES = np.array([7, 0, 900_001], np.int64)
EVERY = [
    *(Codebook(num_points=n) for n in (2, 3, 7, 19, 65)),
    *(Codebook(num_points=n, balanced=False) for n in (3, 33)),
]


def key(*, round_index: int = 0, seed: int = 5) -> np.ndarray:
    return UplinkContext(seed=seed, trials=(1,), round_index=round_index).keys(Purpose.CODEBOOK)[0]


def words_of(codebook: Codebook, *, devices: np.ndarray = DEVICES, stage: int = 0) -> Codewords:
    return Codewords(codebook=codebook, key=key(), devices=devices, stage=stage)


def draw(
    codebook: Codebook, *, num_blocks: int = 2000, round_index: int = 0, stage: int = 0, seed: int = 5
) -> np.ndarray:
    drawn = Codewords(codebook=codebook, key=key(round_index=round_index, seed=seed), devices=DEVICES, stage=stage)
    return drawn.entries(num_blocks)


@pytest.mark.parametrize("codebook", EVERY, ids=str)
def test_codewords_are_those_of_a_draw_one_by_one(codebook: Codebook) -> None:
    found = draw(codebook, stage=2)
    for row, device in enumerate(DEVICES):
        for block in (0, 63, 64, 127, 128, 1999):
            expected = loop_cpa.codeword(
                key(),
                num_points=codebook.num_points,
                balanced=codebook.balanced,
                stage=2,
                block=block,
                device=int(device),
            )
            np.testing.assert_array_equal(found[row, block], expected)


@pytest.mark.parametrize("codebook", EVERY, ids=str)
def test_balanced_words_have_fixed_weight_and_entries_correlate_as_told(codebook: Codebook) -> None:
    n = codebook.num_points
    words = draw(codebook).reshape(-1, n).astype(float)
    if codebook.balanced:
        assert np.all((words == 1).sum(axis=1) == (n + 1) // 2)
    num = len(words)
    # Entries are exchangeable: each has the mean of all, each pair the same correlation. 5 standard errors of +-1.
    mean = (n % 2) / n if codebook.balanced else 0.0
    assert np.all(np.abs(words.mean(axis=0) - mean) < 5 / np.sqrt(num))
    products = words.T @ words / num
    off = products[~np.eye(n, dtype=bool)]
    assert np.all(np.abs(off - codebook.correlation) < 5 / np.sqrt(num))


@pytest.mark.parametrize("num_points", [2, 3, 4, 5])
def test_all_balanced_words_are_equally_likely(num_points: int) -> None:
    words = draw(Codebook(num_points=num_points), num_blocks=10_000).reshape(-1, num_points)
    numbers = (words == 1) @ (1 << np.arange(num_points))
    wanted = [sum(1 << p for p in word) for word in combinations(range(num_points), (num_points + 1) // 2)]
    counts = np.array([(numbers == one).sum() for one in wanted])
    share = 1 / len(wanted)
    assert counts.sum() == len(words)
    assert np.all(np.abs(counts - len(words) * share) < 4 * np.sqrt(len(words) * share * (1 - share)))


def test_device_and_server_draw_the_same_words_whoever_else_is_in_the_list() -> None:
    codebook = Codebook(num_points=3)
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 3, (3, 500)).astype(np.uint16)
    sent = words_of(codebook, stage=1).bits(levels)
    for row in range(3):
        alone = words_of(codebook, devices=DEVICES[row : row + 1], stage=1).entries(2000)[0, :500]
        np.testing.assert_array_equal(2 * sent[row].astype(int) - 1, alone[np.arange(500), levels[row]])
    shuffled = words_of(codebook, devices=DEVICES[::-1], stage=1).bits(levels[::-1])
    np.testing.assert_array_equal(shuffled, sent[::-1])


def test_words_differ_between_devices_rounds_blocks_stages_and_seeds() -> None:
    codebook = Codebook(num_points=3)
    base = draw(codebook, num_blocks=2000)
    others = {
        "device": np.roll(base, 1, axis=0),
        "block": np.roll(base, 1, axis=1),
        "block, half a group on": np.roll(base, 64, axis=1),
        "round": draw(codebook, num_blocks=2000, round_index=1),
        "stage": draw(codebook, num_blocks=2000, stage=1),
        "seed": draw(codebook, num_blocks=2000, seed=6),
    }
    # Two independent words of three are equal with probability 1/3.
    num = base[..., 0].size
    for name, other in others.items():
        equal = (base == other).all(axis=-1).mean()
        assert abs(equal - 1 / 3) < 4 * np.sqrt(2 / 9 / num), name


def histogram(words: Codewords, received: np.ndarray, *, worth: np.ndarray) -> np.ndarray:
    out = np.zeros((words.codebook.num_points, received.shape[1]))
    words.add_histogram(received, heard=received != UNHEARD, worth=worth, out=out)
    return out


@pytest.mark.parametrize("codebook", EVERY, ids=str)
def test_the_histogram_is_the_sum_over_written_out_words(codebook: Codebook) -> None:
    rng = np.random.default_rng(4)
    received = rng.integers(0, 3, (3, 2000)).astype(np.uint8)
    worth = rng.normal(size=3).astype(np.float32)
    found = histogram(words_of(codebook, stage=2), received, worth=worth)
    sign = np.select([received == 1, received == 0], [1.0, -1.0], 0.0)
    assert np.any(received == UNHEARD)
    expected = np.einsum("k,kb,kbn->nb", worth.astype(float), sign, draw(codebook, stage=2).astype(float))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("num_points", [3, 9, 33])
@pytest.mark.parametrize("unheard", [False, True])
def test_devices_of_equal_worth_are_counted_however_many_there_are(num_points: int, unheard: bool) -> None:
    codebook, devices = Codebook(num_points=num_points), np.arange(600)
    received = np.random.default_rng(6).integers(0, 2 + unheard, (600, 130)).astype(np.uint8)
    drawn = words_of(codebook, devices=devices)
    found = histogram(drawn, received, worth=np.full(600, 0.25, np.float32))
    sign = np.select([received == 1, received == 0], [1, -1], 0)
    # Quarters of whole numbers: no rounding anywhere.
    np.testing.assert_array_equal(found, 0.25 * np.einsum("kb,kbn->nb", sign, drawn.entries(130).astype(int)))


@pytest.mark.parametrize("num_points", [3, 65])
def test_words_and_sums_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, num_points: int) -> None:
    codebook, rng = Codebook(num_points=num_points), np.random.default_rng(5)
    levels = rng.integers(0, num_points, (3, 2000)).astype(np.uint16)
    received = rng.integers(0, 3, (3, 2000)).astype(np.uint8)
    worth = rng.normal(size=3).astype(np.float32)

    def both() -> tuple[np.ndarray, np.ndarray]:
        return words_of(codebook).bits(levels), histogram(words_of(codebook), received, worth=worth)

    found = {}
    for threads in (1, 2, 3):
        monkeypatch.setenv(THREADS_VARIABLE, str(threads))
        found[threads] = both()
    for one, other in zip(found[1] * 2, (*found[2], *found[3]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_pass_from_updates_to_payload_is_quantising_drawing_and_packing() -> None:
    rng = np.random.default_rng(8)
    for rate_bits, form in ((1, "coded"), (1, "printed"), (3, "coded"), (6, "coded")):
        quantizer = ScalarQuantizer(gamma=1.0, rate_bits=rate_bits, form=form)
        codebook = Codebook(num_points=len(quantizer.points))
        updates = rng.normal(scale=0.04, size=(3, 1301)).astype(np.float32)
        radius = rng.uniform(0.03, 0.1, 1301).astype(np.float32)
        updates[:, :4] = [0.0, -0.0, 1e30, -1e30]
        # Where levels meet: halves of a spacing, to the last bit on either side.
        updates[1, 4:900] = np.nextafter(radius[4:900] * np.float32(quantizer.spacing / 2), rng.choice([-1, 1], 896))
        levels = quantizer.indices((updates / radius)[..., None])
        bits = words_of(codebook).bits(levels)
        found, finite = words_of(codebook).payload(updates, quantizer=quantizer, radius=radius)
        np.testing.assert_array_equal(found, np.packbits(bits, axis=1))
        assert finite.all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_one_pass_tells_whose_numbers_are_not_finite(number: float) -> None:
    quantizer, updates = ScalarQuantizer(gamma=1.0, rate_bits=1, form="coded"), np.zeros((3, 1301), np.float32)
    updates[1, 1300] = number
    _, finite = words_of(Codebook(num_points=3)).payload(updates, quantizer=quantizer, radius=np.ones(1301, np.float32))
    assert finite.tolist() == [True, False, True]


def test_shared_uniforms_are_uniform_and_no_codeword_depends_on_them() -> None:
    drawn = shared_uniforms(key=key(), devices=DEVICES, num_blocks=10_000, dimension=2).astype(float)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    num = drawn[..., 0].size
    assert np.all(np.abs(drawn.mean(axis=(0, 1)) - 0.5) < 4 * np.sqrt(1 / 12 / num))
    assert np.all(np.abs(drawn.var(axis=(0, 1)) - 1 / 12) < 4 * np.sqrt(1 / 180 / num))
    assert abs(np.corrcoef(drawn[..., 0].ravel(), drawn[..., 1].ravel())[0, 1]) < 4 / np.sqrt(num)
    words = draw(Codebook(num_points=2), num_blocks=10_000)[..., 0].ravel()
    assert abs(np.corrcoef(drawn[..., 0].ravel(), words)[0, 1]) < 4 / np.sqrt(num)
