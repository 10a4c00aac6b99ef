"""From the scheme's configuration to what runs."""

from __future__ import annotations

from collections.abc import Sequence

from fl.config.scheme import AggregatorConfig, JopeqScheme, LaplaceScheme, MvuScheme
from fl.models.federated import Piece
from fl.schemes.values.jopeq import JopeqCode
from fl.schemes.values.laplace import LaplaceCode
from fl.schemes.values.mvu import MvuCode
from fl.schemes.values.scaling import TensorScaling
from fl.schemes.values.value_scheme import ValueScheme


def build_jopeq(config: JopeqScheme) -> JopeqCode:
    """The code of JoPEQ as configured. Raises LearningError where the quantiser errs more than the noise asked for."""
    return JopeqCode(
        epsilon=config.epsilon,
        rate_bits=config.rate_bits,
        dimension=config.dimension,
        clip=not config.as_coded,
    )


def build_baseline(
    config: LaplaceScheme | JopeqScheme | MvuScheme,
    *,
    pieces: Sequence[Piece],
    aggregator: AggregatorConfig | None = None,
    receiver_limit: float | None = None,
) -> ValueScheme:
    """The scheme for a model of `pieces`. Raises LearningError or PrivacyError for settings that cannot be."""
    num_values = sum(piece.size for piece in pieces)
    if isinstance(config, MvuScheme):
        table = MvuCode(
            epsilon=config.epsilon,
            clip=config.clip,
            input_bits=config.input_bits,
            output_bits=config.output_bits,
        )
        return ValueScheme(table, num_values=num_values, aggregator=aggregator, receiver_limit=receiver_limit)
    if isinstance(config, LaplaceScheme):
        code: LaplaceCode | JopeqCode = LaplaceCode(epsilon=config.epsilon, as_coded=config.as_coded)
    else:
        code = build_jopeq(config)
    return ValueScheme(
        code,
        num_values=num_values,
        scaling=TensorScaling(pieces),
        aggregator=aggregator,
        receiver_limit=receiver_limit,
    )
