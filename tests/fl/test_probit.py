"""PRoBit: what the server estimates and how well, what liars can do, and that bits keep the promise of epsilon."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.bit_flips import flip_bits
from fl.config.scheme import ProbitScheme
from fl.one_bit import stochastic_bits as kernels
from fl.one_bit.base import Senders
from fl.one_bit.probit import Probit, build_probit, dp_bound, first_bound, probit_problem
from fl.one_bit.probit_bound import NOISE_TO_SIGNAL, SMALLEST_SHARE, adapted_bound, privacy_loss
from fl.one_bit.probit_theory import error_bound, estimate_variance, influence_bound, printed_error
from fl.tasks.base import LearningError
from phy.channels import UplinkContext
from phy.random import Purpose, threefry

CONTEXT = UplinkContext(seed=8, trials=(1,), round_index=4)
DEVICES = np.array([7, 0, 4_000_000, 3, 12])
MANY = 200_000
"""Numbers that stand for as many draws of one."""

Array = NDArray[Any]


def equal(count: int) -> Array:
    return np.full(count, 1.0 / count)


def some_updates(count: int, num_values: int, *, size: float = 0.05, seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-size, size, (count, num_values)).astype(np.float32)


def oracle_bits(updates: Array, *, bounds: Array, limits: Array, devices: Array, context: UplinkContext) -> Array:
    """Bits `[K, M]`, number by number: 23 upper bits of the word of (position, device) against (1 + delta / b) / 2."""
    key = context.keys(Purpose.ROUNDING)[0]
    out = np.zeros(updates.shape, np.uint8)
    for row, device in enumerate(devices):
        for column in range(updates.shape[1]):
            block, within = divmod(column, 64)
            half, lane = divmod(within, 32)
            counter = (np.uint32(32 * block + lane), np.uint32(device))
            with np.errstate(over="ignore"):
                word = int(threefry((key[0], key[1]), counter)[half])
            signed = word - (1 << 32) if word >= 1 << 31 else word
            uniform = ((signed >> 9) + 0.5) / 2.0**22
            delta = min(max(float(updates[row, column]), -limits[row]), limits[row])
            out[row, column] = uniform < delta / bounds[row]
    return out


@pytest.mark.parametrize("num_values", [1, 63, 64, 200])
def test_bits_are_those_of_a_slow_oracle_for_any_number_of_a_device(num_values: int) -> None:
    updates = some_updates(5, num_values, size=0.08)
    scheme = Probit(num_values=num_values, b=0.05)
    found = scheme.encode(updates, devices=DEVICES, context=CONTEXT)
    expected = oracle_bits(updates, bounds=np.full(5, 0.05), limits=np.full(5, 0.05), devices=DEVICES, context=CONTEXT)
    np.testing.assert_array_equal(np.unpackbits(found[0], axis=1, count=num_values), expected)
    assert found.shape == (1, 5, -(-num_values // 8))
    if num_values % 8:
        assert not (found[..., -1] & (0xFF >> num_values % 8)).any()


@pytest.mark.parametrize("with_gaps", [False, True])
def test_the_aggregate_is_that_of_a_slow_oracle_with_weights_factors_and_gaps(with_gaps: bool) -> None:
    rng = np.random.default_rng(3)
    num_values, b = 77, 0.05
    bits = rng.integers(0, 2, (5, num_values), dtype=np.uint8)
    weights, factor = rng.dirichlet(np.ones(5)), rng.uniform(0.3, 1.0, 5)
    known = rng.random((5, num_values)) < 0.6 if with_gaps else None
    if known is not None:
        known[:, 10] = False
    expected = np.zeros(num_values)
    for column in range(num_values):
        heard = [k for k in range(5) if known is None or known[k, column]]
        if heard:
            votes = [weights[k] * b / factor[k] * (2 * int(bits[k, column]) - 1) for k in heard]
            expected[column] = sum(votes) / sum(weights[k] for k in heard)
    found = Probit(num_values=num_values, b=b).aggregate(
        np.packbits(bits, axis=1)[None],
        Senders(devices=DEVICES, context=CONTEXT, weights=weights, factor=factor, known=known),
    )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_equal_devices_give_the_maximum_likelihood_estimate_as_printed() -> None:
    bits = np.random.default_rng(2).integers(0, 2, (12, 40), dtype=np.uint8)
    ones = bits.sum(axis=0)
    found = Probit(num_values=40, b=0.3).aggregate(
        np.packbits(bits, axis=1)[None],
        Senders(devices=np.arange(12), context=CONTEXT, weights=equal(12), factor=np.ones(12)),
    )
    np.testing.assert_allclose(found, (2.0 * ones - 12) / 12 * 0.3, rtol=1e-6, atol=1e-9)


def test_neither_chunks_nor_company_change_a_bit_or_the_aggregate(monkeypatch: pytest.MonkeyPatch) -> None:
    num_values = 700
    updates = some_updates(5, num_values)
    scheme = Probit(num_values=num_values, b=0.06)
    weights, factor = np.random.default_rng(1).dirichlet(np.ones(5)), np.array([1.0, 0.9, 0.77, 0.6, 0.3])

    def outcome() -> tuple[Array, Array]:
        sent = scheme.encode(updates, devices=DEVICES, context=CONTEXT)
        mean = scheme.aggregate(sent, Senders(devices=DEVICES, context=CONTEXT, weights=weights, factor=factor))
        return sent, mean

    sent, mean = outcome()
    monkeypatch.setattr(kernels, "_CELLS_AT_ONCE", 300)
    monkeypatch.setattr(kernels, "_MOST_COLUMNS", 128)
    again, mean_again = outcome()
    np.testing.assert_array_equal(again, sent)
    np.testing.assert_array_equal(mean_again, mean)
    order = np.array([4, 2, 0])
    few = scheme.encode(updates[order], devices=DEVICES[order], context=CONTEXT)
    np.testing.assert_array_equal(few[0], sent[0, order])
    later = UplinkContext(seed=8, trials=(1,), round_index=5)
    other = np.bitwise_count(scheme.encode(updates, devices=DEVICES, context=later) ^ sent).sum()
    assert other > 5 * num_values // 4


@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_the_estimate_has_the_mean_and_the_variance_of_the_closed_form(flip: float) -> None:
    b, levels = 0.05, np.array([0.04, -0.05, 0.0, 0.013, 0.031])
    updates = np.repeat(levels[:, None], MANY, axis=1).astype(np.float32)
    weights, factor = np.array([0.4, 0.1, 0.2, 0.1, 0.2]), np.full(5, 1.0 - 2.0 * flip)
    scheme = Probit(num_values=MANY, b=b)
    sent = scheme.encode(updates, devices=DEVICES, context=CONTEXT)
    heard = flip_bits(sent, probability=np.full((1, 5), flip), num_bits=MANY, keys=CONTEXT.keys(Purpose.BIT_FLIPS))
    found = scheme.aggregate(heard, Senders(devices=DEVICES, context=CONTEXT, weights=weights, factor=factor)).astype(
        float
    )
    variance = float(estimate_variance(updates[:, :1], b=b, weights=weights, factor=factor)[0])
    deviation = found - weights @ levels
    assert abs(deviation.mean()) < 4.0 * np.sqrt(variance / MANY)
    squares = deviation**2
    assert abs(squares.mean() - variance) < 4.0 * squares.std() / np.sqrt(MANY)


def test_the_error_of_fixed_updates_is_b_squared_less_their_mean_square_over_the_devices() -> None:
    updates, b = some_updates(40, 3000, seed=6), 0.05
    closed = (b**2 - np.mean(updates.astype(float) ** 2, axis=0)).sum() / 40
    assert estimate_variance(updates, b=b).sum() == pytest.approx(closed, rel=1e-9)
    scheme = Probit(num_values=3000, b=b)
    errors = []
    for index in range(12):
        context = UplinkContext(seed=1, trials=(0,), round_index=index)
        given: Any = {"devices": np.arange(40), "context": context}
        sent = scheme.encode(updates, **given)
        found = scheme.aggregate(sent, Senders(weights=equal(40), factor=np.ones(40), **given))
        errors.append(np.sum((found - updates.mean(axis=0, dtype=float)) ** 2))
    assert abs(np.mean(errors) - closed) < 4.0 * np.std(errors, ddof=1) / np.sqrt(12)
    # What is printed takes the deltas for draws around their mean: too large by their spread.
    assert printed_error(updates.mean(axis=0), b=b, num_devices=40) > closed + 10 * 4.0 * np.std(errors) / np.sqrt(12)
    norms = np.sqrt(errors)
    assert norms.mean() < error_bound(b, num_devices=40, num_values=3000)


def test_lemma_2_as_printed_fails_where_b_is_larger_than_privacy_asks_for() -> None:
    num_values, count, epsilon, sensitivity = 400, 20, 1.0, 0.01
    b = 40 * sensitivity
    scheme = Probit(num_values=num_values, b=b)
    given: Any = {"devices": np.arange(count), "context": CONTEXT}
    sent = scheme.encode(np.zeros((count, num_values), np.float32), **given)
    error = np.linalg.norm(scheme.aggregate(sent, Senders(weights=equal(count), factor=np.ones(count), **given)))
    printed = np.sqrt(2.0 * b * num_values / count * (1.0 + 1.0 / epsilon) * sensitivity)
    # ||b|| / sqrt(M) exceeds it by sqrt(b / (2 (1 + 1/eps) Delta_1)) = 3.2.
    assert error > 2.5 * printed
    assert error < 1.2 * error_bound(b, num_devices=count, num_values=num_values)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_no_bits_of_a_share_of_devices_move_a_number_by_more_than_twice_share_and_b(share: float) -> None:
    count, num_values, b = 20, 300, 0.05
    rng = np.random.default_rng(4)
    scheme = Probit(num_values=num_values, b=b)
    given: Any = {"devices": np.arange(count), "context": CONTEXT, "weights": equal(count), "factor": np.ones(count)}
    liars = slice(0, int(share * count))
    limit = influence_bound(share, b=b)
    assert limit == pytest.approx(2.0 * share * b)
    for updates in (some_updates(count, num_values), np.full((count, num_values), -b, np.float32)):
        honest = scheme.encode(updates, devices=np.arange(count), context=CONTEXT)
        before = scheme.aggregate(honest, Senders(**given))
        moved = []
        for lie in (honest[:, liars] ^ 0xFF, np.full_like(honest[:, liars], 0xFF), rng.bytes(honest[:, liars].size)):
            sent = honest.copy()
            sent[:, liars] = (
                np.frombuffer(lie, np.uint8).reshape(sent[:, liars].shape) if isinstance(lie, bytes) else lie
            )
            moved.append(np.abs(scheme.aggregate(sent, Senders(**given)) - before).max())
        assert max(moved) <= limit * (1.0 + 1e-5)
        # Inverted bits reach it wherever honest bits agree.
        assert max(moved) == pytest.approx(float(limit), rel=1e-5) or np.abs(updates).max() < b


BALLS = [
    {"l1_clip": 0.2, "clip": None},
    {"l1_clip": 0.2, "clip": 0.1},
    {"l1_clip": 0.2, "clip": 0.08},
]


def in_ball(rng: np.random.Generator, num_values: int, *, l1_clip: float, clip: float | None) -> Array:
    update = rng.dirichlet(np.full(num_values, 0.4)) * rng.choice([-1.0, 1.0], num_values) * l1_clip
    return update if clip is None else np.clip(update, -clip, clip)


def worst_loss(one: Array, other: Array, *, b: float, flip: float) -> float:
    """Largest ln of the ratio of probabilities, over all words of bits."""
    plus = [(1.0 - flip) * (b + d) / (2.0 * b) + flip * (b - d) / (2.0 * b) for d in (one, other)]
    worst = -np.inf
    for word in itertools.product([0, 1], repeat=len(one)):
        sent = np.array(word, bool)
        first, second = (np.where(sent, p, 1.0 - p).prod() for p in plus)
        worst = max(worst, np.log(first) - np.log(second))
    return float(worst)


def extremes(num_values: int, *, l1_clip: float, clip: float | None) -> tuple[Array, Array]:
    """An update spread evenly, and one of the other sign on as few entries as can be."""
    largest = l1_clip if clip is None else clip
    spread = np.full(num_values, min(l1_clip / num_values, largest))
    packed = np.zeros(num_values)
    rest = l1_clip
    for place in range(num_values):
        packed[place] = -min(largest, rest)
        rest = max(rest + packed[place], 0.0)
    return spread, packed


@pytest.mark.parametrize("ball", BALLS)
@pytest.mark.parametrize("flip", [0.0, 0.12])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("form", ["printed", "exact"])
def test_the_likelihood_ratio_of_any_two_updates_is_at_most_e_to_the_epsilon(
    ball: dict[str, Any], flip: float, epsilon: float, form: Any
) -> None:
    num_values = 4
    b = float(dp_bound(epsilon=epsilon, flip_rate=flip, form=form, num_values=num_values, **ball))
    rng = np.random.default_rng(12)
    pairs = [(in_ball(rng, num_values, **ball), in_ball(rng, num_values, **ball)) for _ in range(60)]
    found = [worst_loss(one, other, b=b, flip=flip) for one, other in pairs]
    extreme = worst_loss(*extremes(num_values, **ball), b=b, flip=flip)
    assert max(found) < epsilon
    assert extreme <= epsilon * (1.0 + 1e-9)
    assert extreme == pytest.approx(privacy_loss(b, flip_rate=flip, num_values=num_values, **ball), rel=1e-9)
    assert max(found) <= extreme
    if form == "exact" and b > (ball["clip"] or ball["l1_clip"]) * 1.001:
        assert extreme == pytest.approx(epsilon, rel=1e-6)
    else:
        assert extreme < epsilon


def test_the_printed_bound_spends_about_half_of_what_it_may() -> None:
    printed, exact = (float(dp_bound(epsilon=1.0, l1_clip=1.0, form=form)) for form in ("printed", "exact"))
    # C / b - ln(1 - C / b) = 1 has the solution C / b = 1 - W(1), W(1) = 0.567143 of Lambert.
    assert printed == 5.0
    assert exact == pytest.approx(1.0 / (1.0 - 0.567143), rel=1e-5)
    assert privacy_loss(printed, l1_clip=1.0) == pytest.approx(0.2 - np.log(0.8))


def test_flips_of_the_channel_let_b_be_smaller_by_their_factor_and_no_smaller_than_updates() -> None:
    asked = float(dp_bound(epsilon=1.0, l1_clip=0.1))
    np.testing.assert_allclose(
        dp_bound(epsilon=1.0, l1_clip=0.1, flip_rate=np.array([0.0, 0.1, 0.3, 0.5])),
        [asked, 0.8 * asked, 0.4 * asked, 0.1],
    )
    scheme = Probit(num_values=3, b=asked, epsilon=1.0, l1_clip=0.1)
    native = scheme.over_channel(np.array([0.0, 0.1, 0.5]))
    np.testing.assert_allclose(native.device_bounds(3), [asked, 0.8 * asked, 0.1])
    with pytest.raises(LearningError, match="2 devices send, and 3 channels"):
        native.device_bounds(2)


@pytest.mark.parametrize("flip", [0.0, 0.04])
def test_bits_that_devices_really_send_over_the_channel_keep_epsilon(flip: float) -> None:
    epsilon, ball = 2.0, {"l1_clip": 0.2, "clip": 0.15}
    count = MANY
    b = float(dp_bound(epsilon=epsilon, form="exact", num_values=2, **ball))
    scheme = Probit(num_values=2, b=b, epsilon=epsilon, form="exact", **ball).over_channel(np.full(count, flip))
    probabilities = []
    # Both are longer than the clips allow, and must be cut to the extremes of the ball.
    for update in ([7.0, 7.0], [-0.45, -0.15 / 2.25]):
        updates = np.tile(np.array(update, np.float32), (count, 1))
        sent = scheme.encode(updates, devices=np.arange(count), context=CONTEXT)
        heard = flip_bits(sent, probability=np.full((1, count), flip), num_bits=2, keys=CONTEXT.keys(Purpose.BIT_FLIPS))
        words = heard[0, :, 0] >> 6
        probabilities.append(np.bincount(words, minlength=4) / count)
    ratio = np.log(probabilities[0] / probabilities[1])
    error = np.sqrt(((1.0 / probabilities[0]) + (1.0 / probabilities[1])) / count)
    assert np.all(np.abs(ratio) <= epsilon + 4.0 * error)
    shares = np.array([0.15, 0.15 / 2.25]) * 0.2 / max(0.15 + 0.15 / 2.25, 0.2)
    expected = worst_loss(np.array([0.1, 0.1]), -shares, b=b, flip=0.0)
    assert (1.0 - 2.0 * flip) * b > 0.15
    assert abs(ratio.max() - expected) < 4.0 * error.max()
    assert expected > 0.8 * epsilon


def test_crediting_the_channel_makes_the_estimate_better_than_ignoring_it() -> None:
    count, flip, epsilon = 50, 0.2, 1.0
    num_values = 4000
    rng = np.random.default_rng(3)
    updates = rng.normal(size=(count, num_values)).astype(np.float32) * 1e-4
    plain = build_probit(
        ProbitScheme(name="probit", bound="adaptive", b=1e-9, epsilon=epsilon, l1_clip=0.05), num_values=num_values
    )
    errors = []
    for scheme in (plain, plain.over_channel(np.full(count, flip))):
        given: Any = {"devices": np.arange(count), "context": CONTEXT}
        sent = scheme.encode(updates, **given)
        heard = flip_bits(
            sent, probability=np.full((1, count), flip), num_bits=num_values, keys=CONTEXT.keys(Purpose.BIT_FLIPS)
        )
        found = scheme.aggregate(heard, Senders(weights=equal(count), factor=np.full(count, 1.0 - 2.0 * flip), **given))
        errors.append(np.mean(found.astype(float) ** 2))
    # The same b' for an observer, and 1 / (1 - 2 p)^2 = 2.78 times the variance; 4 standard errors of a ratio.
    assert errors[0] / errors[1] == pytest.approx(1.0 / 0.6**2, rel=4.0 * np.sqrt(4.0 / num_values))


def test_the_exact_bound_of_a_scenario_spends_its_epsilon_and_is_refused_below() -> None:
    config = ProbitScheme(name="probit", bound="adaptive", b=1e-9, epsilon=1.0, l1_clip=0.1, form="exact")
    exact = build_probit(config, num_values=10)
    printed = build_probit(config.model_copy(update={"form": "printed"}), num_values=10)
    assert exact.exact_epsilon == pytest.approx(1.0, rel=1e-6)
    assert (printed.exact_epsilon or 1.0) < 0.5
    assert exact.b < 0.5 * printed.b
    # What the adaptive rule may not fall below is the same b.
    quiet = exact.after(np.full(10, 1e-9), weights=equal(4), factor=np.ones(4))
    assert quiet.b == exact.b
    fixed = config.model_copy(update={"bound": "fixed", "b": 0.99 * exact.b})
    assert "raise b to that" in (probit_problem(fixed, num_values=10) or "")
    assert probit_problem(fixed.model_copy(update={"b": exact.b}), num_values=10) is None
    # Of more numbers an update may be spread over more of them: more b is asked for, most where none is known.
    assert exact.b < first_bound(config, num_values=10_000) < first_bound(config, num_values=None)


def test_b_below_what_privacy_asks_for_is_refused_in_one_sentence() -> None:
    config = ProbitScheme(name="probit", b=0.05, epsilon=1.0, l1_clip=0.1)
    with pytest.raises(LearningError, match=r"b 0\.05 is below 0\.5, .* raise b to that"):
        build_probit(config, num_values=10)
    assert "is below 0.5" in (probit_problem(config, num_values=10) or "")
    assert probit_problem(config.model_copy(update={"b": 0.5}), num_values=10) is None
    assert build_probit(config.model_copy(update={"b": 0.5}), num_values=10).b == 0.5
    raised = build_probit(config.model_copy(update={"bound": "adaptive"}), num_values=10)
    assert raised.b == raised.largest == pytest.approx(0.5)
    clipped = ProbitScheme(name="probit", bound="clip", clip=0.02, epsilon=1.0, l1_clip=0.1)
    assert build_probit(clipped, num_values=10).b == pytest.approx(0.42)
    assert build_probit(ProbitScheme(name="probit", bound="clip", clip=0.02), num_values=10).b == 0.02


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dp_bound(epsilon=0.0, l1_clip=0.1), "epsilon is 0.0"),
        (lambda: dp_bound(epsilon=1.0, l1_clip=-0.1), "l1_clip is -0.1"),
        (lambda: dp_bound(epsilon=1.0, l1_clip=0.1, clip=0.0), "clip is 0.0"),
        (lambda: dp_bound(epsilon=1.0, l1_clip=0.1, flip_rate=0.6), "flip rate"),
        (lambda: Probit(num_values=3, b=0.0), "b is 0.0"),
        (lambda: Probit(num_values=3, b=1.0, epsilon=1.0), "set l1_clip"),
        (lambda: Probit(num_values=3, b=1.0).over_channel(np.array([0.7])), "flip rate"),
        (lambda: influence_bound(1.5, b=1.0), "share of 1.5"),
        (lambda: estimate_variance(np.ones((2, 3)), b=0.5), "update 0 has entries beyond b"),
        (lambda: adapted_bound(np.ones(3), b=1.0, noise_power=0.0, largest=1.0), "noise_power is 0.0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(call: Any, sentence: str) -> None:
    with pytest.raises(LearningError, match=sentence):
        call()


def test_an_update_that_is_not_a_number_names_its_device() -> None:
    updates = some_updates(5, 30)
    updates[2, 7] = np.nan
    with pytest.raises(LearningError, match="device 4000000"):
        Probit(num_values=30, b=0.05).encode(updates, devices=DEVICES, context=CONTEXT)


def test_a_round_of_which_nothing_arrived_moves_nothing_and_teaches_nothing() -> None:
    scheme = Probit(num_values=30, b=0.05, largest=0.05)
    given: Any = {"weights": equal(5), "factor": np.ones(5), "known": np.zeros((5, 30), bool)}
    sent = scheme.encode(some_updates(5, 30), devices=DEVICES, context=CONTEXT)
    found = scheme.aggregate(sent, Senders(devices=DEVICES, context=CONTEXT, **given))
    np.testing.assert_array_equal(found, 0.0)
    assert scheme.after(found, **given).b == 0.05


def ran(scheme: Probit, updates: Array, *, rounds: int, lie: bool = False) -> list[float]:
    """b of every round in which devices send the same updates, three tenths of them nothing but ones where they lie."""
    count = len(updates)
    bounds = []
    for index in range(rounds):
        given: Any = {"devices": np.arange(count), "context": UplinkContext(seed=2, trials=(0,), round_index=index)}
        sent = scheme.encode(updates, **given)
        if lie:
            sent[:, : 3 * count // 10] = 0xFF
        estimate = scheme.aggregate(sent, Senders(weights=equal(count), factor=np.ones(count), **given))
        scheme = scheme.after(estimate, weights=equal(count), factor=np.ones(count))
        bounds.append(scheme.b)
    return bounds


def test_the_adaptive_b_goes_where_noise_is_four_times_the_signal_from_above_and_below() -> None:
    count, num_values, size = 40, 20_000, 0.003
    rng = np.random.default_rng(5)
    updates = np.tile(size * rng.choice([-1.0, 1.0], num_values), (count, 1)).astype(np.float32)
    expected = NOISE_TO_SIGNAL * size * np.sqrt(count)
    # v sqrt(2 / M) is the error of the power, which is v / 16: 64 % of it at four errors, and b goes with the root.
    for start in (1.0, expected / 8.0):
        scheme = Probit(num_values=num_values, b=start, largest=1.0)
        assert ran(scheme, updates, rounds=10)[-1] == pytest.approx(expected, rel=0.4)


def test_the_adaptive_b_never_passes_its_largest_value_nor_what_privacy_asks_for() -> None:
    updates = some_updates(20, 2000, size=1e-3)
    lying = ran(Probit(num_values=2000, b=0.01, largest=0.05), updates, rounds=8, lie=True)
    assert max(lying) == lying[-1] == 0.05
    nothing = ran(Probit(num_values=2000, b=0.05, largest=0.05), np.zeros_like(updates), rounds=40)
    assert nothing[-1] == pytest.approx(0.05 * SMALLEST_SHARE)
    needed = float(dp_bound(epsilon=1.0, l1_clip=0.001))
    private = Probit(num_values=2000, b=0.05, largest=0.05, epsilon=1.0, l1_clip=0.001)
    assert ran(private, np.zeros_like(updates), rounds=20)[-1] == pytest.approx(needed)


def test_what_is_really_spent_is_told_beside_what_was_asked() -> None:
    scheme = Probit(num_values=50, b=0.5, epsilon=1.0, l1_clip=0.1)
    assert scheme.exact_epsilon == pytest.approx(50 * np.log1p(0.1 / 50 / 0.5) - np.log(0.8))
    assert Probit(num_values=50, b=0.5).exact_epsilon is None
    assert scheme.flip_target is None
    assert scheme.num_bits == 50
