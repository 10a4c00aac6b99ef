"""One random sign over the superposition: closed form, worst case, limits, and its sum against the paper's (16)."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erfc
from scipy.stats import binom, norm

from privacy.errors import PrivacyError
from privacy.events.events import Event, NoRelease
from privacy.events.superposed import SuperposedBit, analog_noise_multiplier
from privacy.mechanisms.flmc_analog import analog_amplitude_cap, analog_delta
from privacy.mechanisms.flmc_digital import digital_amplitude_cap, digital_delta, digital_loss_bound

Floats = NDArray[np.float64]

PAPER = {"dimension": 5, "gradient_bound": 30.0, "quantizer_slope": 0.05, "num_devices": 20, "noise_power": 1.0}
BOUND = 1.5  # a l of the paper
Y = np.linspace(-26.0, 26.0, 20_001)


def law(likely: float, amplitude: float, y: Floats = Y, *, shift: float = 0.0) -> Floats:
    """Density of +-A, + with probability `likely`, plus N(shift, 1), at y."""
    up, down = (np.exp(-0.5 * (y - shift - sign * amplitude) ** 2) for sign in (1.0, -1.0))
    return np.asarray((likely * up + (1.0 - likely) * down) / math.sqrt(2.0 * math.pi))


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    """The divergence of two densities on Y by its definition, a sum over the grid."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * (Y[1] - Y[0]))


def keep(bound: float = BOUND) -> float:
    return 1.0 / (1.0 + math.exp(-bound))


def composed_delta(epsilon: Floats, *, amplitude: float, bound: float, count: int, cells: int = 3000) -> Floats:
    """`[2, ...]` lower and upper limit of delta of `count` entries, from the loss law by folding it with itself.

    The loss of an entry is put into cells of width 2 b / cells, with its lower or its upper edge: no event is asked.
    """
    edges = np.linspace(-bound, bound, cells + 1)
    inner = edges[1:-1]
    with np.errstate(divide="ignore"):
        x = np.log(np.expm1(bound + inner)) - np.log(np.exp(bound) - np.exp(inner))
    t = x / (2.0 * amplitude)
    below = keep(bound) * norm.cdf(t - amplitude) + (1.0 - keep(bound)) * norm.cdf(t + amplitude)
    mass = np.diff(np.concatenate([[0.0], below, [1.0]]))
    total = np.array([1.0])
    for _ in range(count):
        total = np.convolve(total, mass)
    width = 2.0 * bound / cells
    limits = []
    for edge in (0, 1):
        loss = -count * bound + width * (np.arange(total.size) + edge * count)
        kept = np.maximum(-np.expm1(np.minimum(epsilon[:, None] - loss, 0.0)), 0.0)
        limits.append(kept @ total)
    return np.array(limits)


def test_the_event_implements_the_interface() -> None:
    event = SuperposedBit(amplitude=0.2, entry_bound=BOUND)
    assert isinstance(event, Event)
    assert event.repeated(0) == NoRelease()
    assert event.repeated(1) == event
    assert event.repeated(5) is None
    assert event.delta(np.zeros((2, 3))).shape == (2, 3)
    assert event.renyi(np.full((2, 3), 2.0)).shape == (2, 3)


@pytest.mark.parametrize("amplitude", [1e-6, 1e-3, 0.04, 0.06, 0.19, 1.0, 5.0, 40.0])
def test_delta_is_the_difference_of_two_tails_to_twelve_digits(amplitude: float) -> None:
    from mpmath import mp, mpf

    with mp.workdps(60):
        for bound, share in itertools.product((1e-6, 0.01, 1.5, 12.0), (0.0, 1e-6, 0.3, 0.9, 0.999999)):
            A, b, eps = mpf(amplitude), mpf(bound), mpf(share * bound)
            q = 1 / (1 + mp.e**-b)
            t = mp.log((mp.e ** (eps + b) - 1) / (mp.e**b - mp.e**eps)) / (2 * A)
            near, far = mp.erfc((t - A) / mp.sqrt(2)) / 2, mp.erfc((t + A) / mp.sqrt(2)) / 2
            exact = q * near + (1 - q) * far - mp.e**eps * ((1 - q) * near + q * far)
            found = SuperposedBit(amplitude=amplitude, entry_bound=bound).delta(np.array(share * bound))
            if exact > 1e-290:
                assert abs(mpf(float(found)) / exact - 1) < 1e-12
            else:
                assert found < 1e-280


@pytest.mark.parametrize(("amplitude", "bound"), [(0.001, 0.01), (0.06, 1.5), (1.0, 1.5), (1.0, 12.0)])
def test_renyi_is_the_quadrature_of_its_definition_and_errs_to_the_careful_side(amplitude: float, bound: float) -> None:
    from mpmath import mp, mpf

    with mp.workdps(25):
        A, q = mpf(amplitude), 1 / (1 + mp.e ** -mpf(bound))

        def density(y: object, likely: object) -> object:
            return (likely * mp.npdf(y, A, 1)) + (1 - likely) * mp.npdf(y, -A, 1)

        def integrand(y: object, power: object) -> object:
            return density(y, q) ** power * density(y, 1 - q) ** (1 - power)

        for order in (1.01, 30.0):
            reach = amplitude + min(2 * order * amplitude * math.tanh(bound / 2), (bound + 60) / (2 * amplitude)) + 11
            points = [mpf(y) for y in np.linspace(-amplitude - 11, reach, 30)]
            power = mpf(order)
            integral = mp.quad(partial(integrand, power=power), points)
            exact = mp.log(integral) / (mpf(order) - 1)
            found = mpf(float(SuperposedBit(amplitude=amplitude, entry_bound=bound).renyi(np.array(order))))
            assert 0 <= found / exact - 1 < 3e-10


@pytest.mark.parametrize("order", [25.0, 60.0, 1000.0])
@pytest.mark.parametrize("amplitude", [1e-6, 3e-8])
def test_renyi_of_next_to_no_signal_keeps_its_digits_at_large_orders(amplitude: float, order: float) -> None:
    """There the loss is 2 A tanh(b/2) y + O(A^2), so that the divergence is o (2 A tanh(b/2))^2 / 2, to O(o^2 A^2).

    Ten million releases add up ten million rounding errors: a divergence below its value would be a false proof.
    """
    found = float(SuperposedBit(amplitude=amplitude, entry_bound=1.5).renyi(np.array(order)))
    small = order * (2.0 * amplitude * math.tanh(0.75)) ** 2 / 2.0
    assert found == pytest.approx(small, rel=max(3.0 * (order * amplitude) ** 2, 1e-9))


def test_no_pair_of_gradients_within_the_clip_tells_more_than_the_two_ends_of_it() -> None:
    amplitude, low = 0.8, 1.0 - keep()
    event = SuperposedBit(amplitude=amplitude, entry_bound=BOUND)
    inside = np.linspace(low, keep(), 7)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        worst = float(event.delta(np.array(epsilon)))
        pairs = [
            hockey_stick(law(one, amplitude), law(other, amplitude), epsilon)
            for one, other in itertools.product(inside, inside)
        ]
        assert max(pairs) <= worst * (1 + 1e-6)
        # The ends themselves reach it, hence it is no loose bound.
        assert max(pairs) == pytest.approx(worst, rel=1e-5)
    # A gradient outside the clip does tell more: the comparison can fail.
    assert hockey_stick(law(keep() + 0.05, amplitude), law(low, amplitude), 0.5) > float(event.delta(np.array(0.5)))


@pytest.mark.parametrize("others", [1, 4, 19])
def test_the_others_sum_known_shifts_and_unknown_hides(others: int) -> None:
    amplitude, low = 0.8, 1.0 - keep()
    event = SuperposedBit(amplitude=amplitude, entry_bound=BOUND)
    sums = amplitude * (2.0 * np.arange(others + 1) - others)
    for epsilon, likely in itertools.product((0.0, 0.4, 1.2), (0.2, 0.5, 0.8)):
        worst = float(event.delta(np.array(epsilon)))
        for shift in (sums[0], sums[-1]):
            known = hockey_stick(law(keep(), amplitude, shift=shift), law(low, amplitude, shift=shift), epsilon)
            assert known == pytest.approx(worst, rel=1e-5)
        weights = binom.pmf(np.arange(others + 1), others, likely)
        mixtures = [
            sum(w * law(own, amplitude, shift=s) for w, s in zip(weights, sums, strict=True)) for own in (keep(), low)
        ]
        assert hockey_stick(mixtures[0], mixtures[1], epsilon) <= worst * (1 + 1e-6)


def test_both_directions_leak_alike() -> None:
    first, second = law(keep(), 0.5), law(1.0 - keep(), 0.5)
    for epsilon in (0.0, 0.3, 1.0):
        assert hockey_stick(first, second, epsilon) == pytest.approx(hockey_stick(second, first, epsilon), rel=1e-9)


def test_without_noise_it_is_randomized_response_and_without_amplitude_nothing() -> None:
    epsilon = np.linspace(0.0, 3.0, 31)
    response = np.maximum(keep() - np.exp(epsilon) * (1.0 - keep()), 0.0)
    for amplitude in (40.0, 1e9, math.inf):
        event = SuperposedBit(amplitude=amplitude, entry_bound=BOUND)
        np.testing.assert_allclose(event.delta(epsilon), response, rtol=1e-12, atol=1e-16)
        at_two = math.log(keep() ** 2 / (1 - keep()) + (1 - keep()) ** 2 / keep())
        np.testing.assert_allclose(event.renyi(np.array([2.0])), at_two, rtol=1e-9)
        assert event.pure_epsilon() == BOUND
    silent = SuperposedBit(amplitude=0.0, entry_bound=BOUND)
    assert np.all(silent.delta(epsilon) == 0.0)
    assert np.all(silent.renyi(np.array([2.0, 50.0])) == 0.0)
    assert silent.pure_epsilon() == 0.0
    for tiny in (1e-320, 1e-200, 1e-12):
        assert np.all(SuperposedBit(amplitude=tiny, entry_bound=BOUND).delta(epsilon) <= tiny)


def test_a_sign_without_a_draw_is_the_gaussian_mechanism() -> None:
    event, mu = SuperposedBit(amplitude=0.3, entry_bound=math.inf), 0.6
    epsilon = np.linspace(0.0, 5.0, 11)
    gaussian = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    np.testing.assert_allclose(event.delta(epsilon), gaussian, rtol=1e-9, atol=1e-18)
    np.testing.assert_allclose(event.renyi(np.array([3.0])), 3.0 * mu**2 / 2)
    assert event.pure_epsilon() == math.inf


def test_delta_falls_in_epsilon_grows_with_both_parameters_and_never_overflows() -> None:
    epsilon = np.linspace(0.0, 1.6, 200)
    assert np.all(np.diff(SuperposedBit(amplitude=0.7, entry_bound=BOUND).delta(epsilon)) <= 0.0)
    for field, values in (("amplitude", np.geomspace(1e-3, 50, 60)), ("entry_bound", np.geomspace(0.6, 2000, 60))):
        setting = {"amplitude": 0.7, "entry_bound": BOUND}
        events = [SuperposedBit(**{**setting, field: float(value)}) for value in values]
        assert np.all(np.diff([float(event.delta(np.array(0.5))) for event in events]) >= -1e-15)
        assert np.all(np.diff([float(event.renyi(np.array(4.0))) for event in events]) >= -1e-9)
    huge = SuperposedBit(amplitude=30.0, entry_bound=5000.0)
    assert np.all(np.isfinite(huge.delta(np.array([0.0, 1500.0, 4999.0, 5000.0, 1e9]))))
    assert np.all(huge.renyi(np.array([1.001, 50.0, 1e6])) <= 5000.0)


@pytest.mark.parametrize("amplitude", [0.02, 0.0659, 0.19, 0.7, 3.0])
def test_renyi_and_delta_agree(amplitude: float) -> None:
    """E_Q[r^a] = 1 + a (a-1) int_0^inf [e^((a-1) x) + e^(-a x)] delta(x) dx for a pair of mirror images."""
    event = SuperposedBit(amplitude=amplitude, entry_bound=BOUND)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    x = 0.5 * BOUND * (nodes + 1.0)
    for order in (1.5, 2.0, 8.0):
        inside = (np.exp((order - 1.0) * x) + np.exp(-order * x)) * event.delta(x)
        moment = 1.0 + order * (order - 1.0) * 0.5 * BOUND * float(weights @ inside)
        assert float(event.renyi(np.array(order))) == pytest.approx(math.log(moment) / (order - 1.0), rel=1e-6)


@pytest.mark.parametrize("devices", [2, 20])
@pytest.mark.parametrize("amplitude", [0.02, 0.0659, 0.103, 0.19, 0.711, 4.0])
def test_the_tight_delta_of_a_round_is_never_above_that_of_16(amplitude: float, devices: int) -> None:
    epsilon = np.array([0.2, 0.5, 1.0, 2.0, 3.5, 5.0, 6.5, 7.4])
    _, upper = composed_delta(epsilon, amplitude=amplitude, bound=BOUND, count=5)
    printed = [digital_delta(float(e), amplitude=amplitude, **{**PAPER, "num_devices": devices}) for e in epsilon]
    # Both are numbers of some 1e-12; below, nothing can be told.
    assert np.all(upper <= np.array(printed) + 1e-11)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 5.0])
def test_at_its_own_cap_16_overstates_delta_a_million_times(epsilon: float) -> None:
    """The price of standing at +-A (K-1), where no listener can be: there is room for far larger amplitudes."""
    cap = digital_amplitude_cap(epsilon, 0.01, **PAPER)
    for amplitude, room in ((cap, True), (10.0 * cap, False)):
        lower, upper = composed_delta(np.array([epsilon]), amplitude=amplitude, bound=BOUND, count=5)[:, 0]
        assert 0.0 < lower <= upper
        assert (upper < 1e-6 * 0.01) == room


def test_for_a_lone_device_16_forgets_its_own_symbol_and_is_no_bound() -> None:
    lower, _ = composed_delta(np.array([6.0]), amplitude=30.0, bound=BOUND, count=5)[:, 0]
    # Five signs without noise: all agree with probability q^5, and by (16) with 2^-5 either way.
    assert lower == pytest.approx(keep() ** 5 * (1 - math.exp(6.0 - 7.5)), rel=1e-2)
    alone, two = (digital_delta(6.0, amplitude=30.0, **{**PAPER, "num_devices": k}) for k in (1, 2))
    assert alone < lower < two


@pytest.mark.parametrize("amplitude", [0.1, 1.0, 30.0])
def test_a_round_never_leaks_more_than_seven_and_a_half_nats(amplitude: float) -> None:
    bound = digital_loss_bound(dimension=5, gradient_bound=30.0, quantizer_slope=0.05)
    event = SuperposedBit(amplitude=amplitude, entry_bound=BOUND)
    assert 5 * event.pure_epsilon() == pytest.approx(bound, rel=1e-12)
    assert np.all(
        composed_delta(np.array([bound * (1 + 1e-9), 8.0]), amplitude=amplitude, bound=BOUND, count=5)[0] == 0
    )
    assert np.all(5 * event.renyi(np.array([2.0, 100.0, 1e5])) <= bound)
    assert float(event.delta(np.array(BOUND))) == 0.0


@pytest.mark.parametrize("amplitude", [0.0659, 0.19, 0.711])
def test_the_profile_makes_a_loss_distribution_whose_sum_is_that_of_the_losses(amplitude: float) -> None:
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    cells = 1500
    grid = np.arange(-cells, cells + 1)
    epsilon = grid * (BOUND / cells)
    event = SuperposedBit(amplitude=amplitude, entry_bound=BOUND)
    ahead = event.delta(np.abs(epsilon))
    # Of mirror images the profile below 0 follows from that above: delta(-e) = 1 - e^-e + e^-e delta(e).
    both = np.where(epsilon >= 0, ahead, -np.expm1(epsilon) + np.exp(epsilon) * ahead)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(BOUND / cells, grid, np.clip(both, 0.0, 1.0))
    summed = PrivacyLossDistribution(pmf).self_compose(5)
    wanted = np.array([0.5, 2.0, 4.0, 6.0])
    found = np.asarray(summed.get_delta_for_epsilon(wanted))
    lower, upper = composed_delta(wanted, amplitude=amplitude, bound=BOUND, count=5)
    assert np.all(found >= lower - 1e-12)
    assert np.all(found <= upper + 1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 15.0])
def test_an_analog_round_is_a_gaussian_event_with_the_loss_law_of_20_and_21(epsilon: float) -> None:
    entries = {"dimension": 5, "gradient_bound": 30.0, "noise_power": 2.5}
    for amplitude in (analog_amplitude_cap(epsilon, 0.01, **entries), 0.003, 0.03):
        mu = 1.0 / analog_noise_multiplier(amplitude=amplitude, **entries)
        # Loss of N(mu, 1) against N(0, 1): N(mu^2 / 2, mu^2).
        tails = [0.5 * erfc((epsilon - sign * mu**2 / 2) / (mu * math.sqrt(2.0))) for sign in (1, -1)]
        printed = float(analog_delta(epsilon, amplitude=amplitude, **entries))
        assert sum(tails) == pytest.approx(printed, rel=1e-9)
        # Its hockey-stick is below the probability of a loss beyond epsilon.
        assert norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) <= printed
    assert analog_noise_multiplier(amplitude=0.0, **entries) == math.inf


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(PrivacyError, match=r"amplitude is -0\.1"):
        SuperposedBit(amplitude=-0.1, entry_bound=1.0)
    with pytest.raises(PrivacyError, match="entry_bound is nan"):
        SuperposedBit(amplitude=0.1, entry_bound=math.nan)
    with pytest.raises(PrivacyError, match="an epsilon is negative"):
        SuperposedBit(amplitude=0.1, entry_bound=1.0).delta(np.array([1.0, -1.0]))
    with pytest.raises(PrivacyError, match="an order is not above 1"):
        SuperposedBit(amplitude=0.1, entry_bound=1.0).renyi(np.array([2.0, 1.0]))
    with pytest.raises(PrivacyError, match="amplitude is -1"):
        analog_noise_multiplier(amplitude=-1.0, dimension=5, gradient_bound=30.0, noise_power=1.0)
