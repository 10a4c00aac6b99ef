"""The compressed private aggregation that the configuration names, for one round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fl.config.scheme import CpaScheme
from fl.schemes.cpa.codebooks import MOST_POINTS, Codebook
from fl.schemes.cpa.cpa import Cpa
from fl.schemes.quantizers import Quantizer, build_quantizer
from fl.tasks.base import LearningError


class Placed(Protocol):
    """A tensor of the model, such as `fl.models.federated.Piece`."""

    @property
    def place(self) -> slice:
        """Where it lies in the flat vector."""
        ...


def build_cpa(
    config: CpaScheme,
    *,
    num_values: int,
    pieces: Sequence[Placed] = (),
    round_index: int = 0,
    scales: NDArray[np.float64] | None = None,
) -> Cpa:
    """CPA of one round for models of `num_values` numbers.

    The radius is gamma (`fixed`), gamma gamma_decay^round (`decaying`), or gamma times the tensor's scale (`scaled`).
    `scales` `[len(pieces)]` are public: the server finds them by `radius.next_scales` from what it heard and
    sends them down with the model; no device sends any. Raises LearningError for scales that are missing, not positive,
    or do not fit `pieces`, and as the quantisers and the codebook do.
    """
    gamma = config.gamma * (config.gamma_decay**round_index if config.radius == "decaying" else 1.0)
    radius = np.full(num_values, gamma, np.float32)
    if config.radius == "scaled":
        if config.form == "printed" and config.rate_bits == 1 and config.dimension == 1:
            raise LearningError(
                "a scaled radius is found from how large quantised numbers are, and the printed form with rate_bits 1 "
                "has two levels of one size; use form coded, or rate_bits 2"
            )
        if scales is None or len(scales) != len(pieces) or not (np.isfinite(scales) & (scales > 0.0)).all():
            raise LearningError(
                f"a scaled radius needs one positive scale for each of {len(pieces)} tensors, and got {scales}; start "
                "with fl.schemes.cpa.radius.first_scales"
            )
        for piece, scale in zip(pieces, scales, strict=True):
            radius[piece.place] *= np.float32(scale)
    if not (radius >= np.finfo(np.float32).tiny).all():
        raise LearningError(
            f"gamma has come down to {gamma:g} in round {round_index}, which single precision does not hold; raise "
            "gamma_decay"
        )
    quantizers: list[Quantizer] = []
    reach = 1.0
    for _ in range(config.stages):
        quantizers.append(
            build_quantizer(gamma=reach, rate_bits=config.rate_bits, form=config.form, dimension=config.dimension)
        )
        reach = quantizers[-1].spacing / 2.0
    num_points = len(quantizers[0].points)
    if num_points > MOST_POINTS:
        raise LearningError(
            f"a hexagonal lattice of rate_bits {config.rate_bits} has {num_points} points in its ball, and codewords "
            f"have at most {MOST_POINTS} entries; write rate_bits: 4 or less, or dimension: 1"
        )
    return Cpa(
        quantizers=tuple(quantizers),
        codebook=Codebook(num_points=num_points, balanced=config.codewords == "balanced"),
        radius=radius,
        epsilon=config.epsilon,
        decode=config.decode,
        negative_bins=config.negative_bins,
        dither=config.dither,
    )
