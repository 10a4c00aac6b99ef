"""Minimum-variance unbiased private tables, Chaudhuri, Guo and Rabbat 2022 ("Privacy-aware compression for federated
data analysis"), one of the baselines of Lang et al. 2023.

A number on a grid of [0, 1] is sent as one of few symbols, drawn from a row of P; the server reads symbol j as alpha_j.
P and alpha have the least variance among those that are unbiased and eps-private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError, require_count, require_positive

_MOST_BITS = 4
_LARGEST_EPSILON = 20.0
_GRID_HALF = 80
_REACH = 2.0
_UNUSED = 1e-7
_FEASIBLE = 1e-9


@dataclass(frozen=True, kw_only=True)
class MvuTable:
    """A table of symbols and their probabilities.

    - `probabilities` P `[n_in, n_out]`: rows are the grid points x_i = i / (n_in - 1) of [0, 1], and sum to 1;
    - `symbols` alpha `[n_out]`: sum_j P_ij alpha_j = x_i. A symbol that is never sent has a column of zeros.
    """

    probabilities: NDArray[np.float64]
    symbols: NDArray[np.float64]

    @property
    def grid(self) -> NDArray[np.float64]:
        """x `[n_in]`."""
        return np.linspace(0.0, 1.0, len(self.probabilities))

    def variances(self) -> NDArray[np.float64]:
        """sum_j P_ij (alpha_j - x_i)^2, `[n_in]`."""
        return np.asarray((self.probabilities * (self.symbols - self.grid[:, None]) ** 2).sum(axis=1))

    def epsilon(self) -> float:
        """max ln(P_ij / P_i'j): what the table gives by enumeration."""
        used = self.probabilities[:, self.probabilities.any(axis=0)]
        with np.errstate(divide="ignore"):
            return float(np.log(used.max(axis=0) / used.min(axis=0)).max())


def randomized_response(*, epsilon: float, num_inputs: int = 2, num_symbols: int = 2) -> MvuTable:
    """The closed form with two symbols, alpha = {-1, e^eps} / (e^eps - 1), P_i1 = (1 + (e^eps - 1) x_i) / (e^eps + 1).

    Unbiased on any grid, since P_i1 is linear in x_i. Symbols beyond two are never sent. Raises PrivacyError for values
    out of range.
    """
    require_positive(epsilon=epsilon)
    x = np.linspace(0.0, 1.0, num_inputs)
    excess, half = math.expm1(epsilon), math.tanh(epsilon / 2.0)
    up = 0.5 * (1.0 - half) + half * x
    table = np.zeros((num_inputs, num_symbols))
    table[:, 0], table[:, -1] = 1.0 - up, up
    symbols = np.full(num_symbols, 0.5)
    symbols[0], symbols[-1] = -1.0 / excess, 1.0 + 1.0 / excess
    return MvuTable(probabilities=table, symbols=symbols)


@lru_cache(maxsize=64)
def mvu_table(*, epsilon: float, input_bits: int, output_bits: int) -> MvuTable:
    """P `[2^input_bits, 2^output_bits]` and alpha with the least sum_i Var_i that we find, as read-only arrays.

    minimise sum_ij P_ij (alpha_j - x_i)^2  subject to  sum_j P_ij = 1, sum_j P_ij alpha_j = x_i, P_ij <= e^eps P_i'j.

    For given alpha that is a linear program in P. With one bit in or out the closed form is the optimum. Else alpha
    starts from the program over a fine grid of symbols, the bound for any number of them, whose support is gathered
    into as many as there are; then alpha descends along the gradient that the program's dual prices give. The
    problem is not convex in alpha, so this is a local optimum; it is never worse than the closed form. Raises
    PrivacyError for values out of range (epsilon up to 20, 1 to 4 bits).
    """
    require_positive(epsilon=epsilon)
    require_count(input_bits=input_bits, output_bits=output_bits)
    if max(input_bits, output_bits) > _MOST_BITS:
        raise PrivacyError(f"{max(input_bits, output_bits)} bits per number exceed {_MOST_BITS}", "use fewer, or JoPEQ")
    if epsilon > _LARGEST_EPSILON:
        raise PrivacyError(
            f"epsilon is {epsilon}, but it must be at most {_LARGEST_EPSILON:g}", "give a smaller epsilon"
        )
    num_inputs, num_symbols = 1 << input_bits, 1 << output_bits
    best = randomized_response(epsilon=epsilon, num_inputs=num_inputs, num_symbols=num_symbols)
    if min(input_bits, output_bits) > 1:
        found = _descend(epsilon, num_inputs, num_symbols)
        if found is not None and found.variances().sum() < best.variances().sum():
            best = found
    best.probabilities.setflags(write=False)
    best.symbols.setflags(write=False)
    return best


def _descend(epsilon: float, num_inputs: int, num_symbols: int) -> MvuTable | None:
    from scipy.optimize import minimize

    reach = 0.5 / math.tanh(epsilon / 2.0)
    half = np.linspace(0.0, _REACH * reach, _GRID_HALF + 1)
    fine = _Program(epsilon, num_inputs, 2 * len(half)).solve(half)
    if fine is None:
        return None
    program = _Program(epsilon, num_inputs, num_symbols)
    start = _gather(half, fine.table[:, len(half) :].sum(axis=0), num_symbols // 2)

    def cost(offsets: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        solved = program.solve(offsets)
        # Symbols too close together allow no unbiased table: go back.
        return (solved.cost, solved.gradient) if solved is not None else (1e6, np.zeros_like(offsets))

    minimum = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    solved = program.solve(minimum.x)
    return None if solved is None else _cleaned(epsilon, solved.table, _symmetric(minimum.x))


@dataclass(frozen=True, kw_only=True)
class _Solved:
    cost: float
    gradient: NDArray[np.float64]
    table: NDArray[np.float64]


class _Program:
    """The linear program in P for symbols 1/2 -+ offsets. Variables: P row by row, then the least of every column."""

    def __init__(self, epsilon: float, num_inputs: int, num_symbols: int) -> None:
        from scipy import sparse

        self._shape = (num_inputs, num_symbols)
        size = num_inputs * num_symbols
        same, column = sparse.identity(size), sparse.kron(np.ones((num_inputs, 1)), sparse.identity(num_symbols))
        self._bounds = sparse.vstack(
            [sparse.hstack([-same, column]), sparse.hstack([same, -math.exp(epsilon) * column])]
        ).tocsr()
        self._grid = np.linspace(0.0, 1.0, num_inputs)

    def solve(self, offsets: NDArray[np.float64]) -> _Solved | None:
        """The best P, with the cost's gradient in `offsets` `[num_symbols / 2]`; None where none is unbiased."""
        from scipy import sparse
        from scipy.optimize import linprog

        (num_inputs, num_symbols), x = self._shape, self._grid
        symbols = _symmetric(offsets)
        squares = (symbols - x[:, None]) ** 2
        sums = sparse.kron(sparse.identity(num_inputs), np.ones((1, num_symbols)))
        means = sparse.kron(sparse.identity(num_inputs), symbols[None])
        nothing = sparse.csr_matrix((2 * num_inputs, num_symbols))
        result: Any = linprog(
            np.concatenate([squares.ravel(), np.zeros(num_symbols)]),
            A_ub=self._bounds,
            b_ub=np.zeros(self._bounds.shape[0]),
            A_eq=sparse.hstack([sparse.vstack([sums, means]), nothing]).tocsr(),
            b_eq=np.concatenate([np.ones(num_inputs), x]),
            method="highs",
            options={"primal_feasibility_tolerance": _FEASIBLE, "dual_feasibility_tolerance": _FEASIBLE},
        )
        if result.status != 0:
            return None
        table = result.x[: num_inputs * num_symbols].reshape(num_inputs, num_symbols)
        prices = result.eqlin.marginals[num_inputs:]
        slope = (table * (2.0 * (symbols - x[:, None]) - prices[:, None])).sum(axis=0)
        return _Solved(
            cost=float(result.fun), gradient=slope[num_symbols // 2 :] - slope[: num_symbols // 2][::-1], table=table
        )


def _symmetric(offsets: NDArray[np.float64]) -> NDArray[np.float64]:
    """1/2 -+ offsets: the mirror image of a table is as good as itself."""
    return np.concatenate([0.5 - offsets[::-1], 0.5 + offsets])


def _gather(offsets: NDArray[np.float64], mass: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Centres `[count]` of the weighted points, by k-means on the line from quantiles of the mass."""
    used = mass > _UNUSED
    offsets, mass = offsets[used], mass[used]
    if len(offsets) < count:
        # Spare symbols lie in between, without an effect.
        spare = np.linspace(offsets[0], offsets[-1], count + 2 - len(offsets))[1:-1]
        return np.sort(np.concatenate([offsets, spare]))
    share = (np.cumsum(mass) - mass / 2.0) / mass.sum()
    centres = np.interp((np.arange(count) + 0.5) / count, share, offsets)
    for _ in range(50):
        nearest = np.abs(offsets[:, None] - centres).argmin(axis=1)
        total = np.bincount(nearest, mass, minlength=count)
        mean = np.bincount(nearest, mass * offsets, minlength=count)
        centres = np.where(total > 0.0, mean / np.where(total > 0.0, total, 1.0), centres)
    # The outermost symbols must lie far enough out for an unbiased table.
    return np.asarray(centres * offsets[-1] / centres[-1])


def _cleaned(epsilon: float, table: NDArray[np.float64], symbols: NDArray[np.float64]) -> MvuTable:
    """Remove rounding errors of the solver: rows sum to 1, ratios lie within e^eps, the table is unbiased."""
    table = np.maximum(0.5 * (table + table[::-1, ::-1]), 0.0)
    table[:, table.max(axis=0) < _UNUSED] = 0.0
    table /= table.sum(axis=1, keepdims=True)
    # A small part of the mean row corrects the ratios; symbols scaled about their mean remove its bias.
    common = table.mean(axis=0)
    for blend in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        mixed = (1.0 - blend) * table + blend * common
        read = (symbols - blend * (common @ symbols)) / (1.0 - blend)
        found = MvuTable(probabilities=mixed, symbols=read)
        if found.epsilon() <= epsilon:
            break
    return found
