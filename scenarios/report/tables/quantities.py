"""Quantities of a study: which are rates of counts, which values each can take, and the words of codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fl.base.measured import ALONG, LINK_RATES, RADIO, SPENT, TIMED, Measured
from fl.base.results import CAP_NAMES
from privacy.mechanisms.flip_plans import CLAMP_WORDS
from scenarios.schema.schema import Axis


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Counts that make a rate: `errors` among `total`, two arrays of a table of the store."""

    table: Literal["link", "devices"]
    errors: str
    total: str
    said: str


RATES: dict[str, Counted] = {
    "bit_error_rate": Counted(table="link", errors="bit_errors", total="bits", said="bit"),
    "packet_error_rate": Counted(table="link", errors="packet_errors", total="packets", said="packet"),
    "raw_bit_error_rate": Counted(table="link", errors="raw_bit_errors", total="raw_bits", said="raw bit"),
    "probed_error_rate": Counted(table="devices", errors="probed_errors", total="probed_bits", said="probed bit"),
    "end_error_rate": Counted(table="devices", errors="end_errors", total="end_bits", said="end-to-end bit"),
}
"""Rates by name. Counts are stored, rates derived."""

ROUND_AXES = (*ALONG, "wall_s", "value")
"""What x may be beside a setting: then a curve goes along the run, one spot per round."""

LINK_STUDY = Measured(rates=LINK_RATES, per_round=("throughput",), axes=get_args(Axis))
"""What a link study measures."""

NEVER_NEGATIVE = (
    *(
        "mse",
        "wasserstein2",
        "variance_ratio",
        "squared_error",
        "amplitude",
        "peak_amplitude",
        "num_active",
        "throughput",
    ),
    *(*RADIO, *SPENT, *TIMED, "total_round_s", "dropped", "retransmissions", "l1_distance"),
    *("kappa", "kappa_standard_error", "kappa_measured", "mcs", "mean_mcs", "goodput_bps"),
    *("test_rmse", "best_rmse", "validation_rmse"),
    *("test_loss", "train_loss", "distance_sq", "recovered_variance", "largest_mean_gap", "largest_variance_gap"),
    *("clipped_values", "rounds_sent", "sigma", "energy_left_j", "b", "num_attackers", "personal_loss"),
    *("effective_sample_size", "split_rhat", "ensemble_wasserstein2"),
    "pixel_error",
)
"""Quantities whose interval ends at zero; so does that of each squared error, `..._mse`."""

SHARES = (
    *("test_accuracy", "best_accuracy", "validated_accuracy", "validation_accuracy", "clipped_gradients"),
    *("probed_low", "flip_probability", "target", "credited", "target_bit_error_rate", "target_unclamped"),
    *("personal_accuracy", "global_accuracy_at_home", "recognised_share", "recognised", "member"),
    *("vote_error_rate", "membership_auc", "membership_auc_low", "membership_auc_high"),
    *("true_positive_rate", "true_positive_rate_low", "true_positive_rate_high"),
)
"""Quantities whose interval lies within zero and one."""

LARGER_IS_BETTER = (
    *("accuracy", "accuracy_at_home", "aggregation_snr_db", "aggregation_snr_20log_db", "anonymity"),
    *("sample_size", "r2", "goodput_bps"),
)
SMALLER_IS_BETTER = (
    *("mse", "rmse", "wasserstein2", "split_rhat", "loss", "error_rate", "squared_error", "distance_sq", "l1_distance"),
)
"""Endings of the names of quantities in which one sweep point is better than another."""

EPSILON = "epsilon_proved"
"""The epsilon proved for all rounds so far: over the rounds alone, from the ledgers."""

WITHIN = " within "
"""Between the number of a round and the budget in the name of a metric of `budget_names`."""

CODED: dict[str, tuple[str, ...]] = {
    "active_cap": CAP_NAMES,
    "clamp": tuple(CLAMP_WORDS[code] for code in sorted(CLAMP_WORDS)),
}
"""Numbers that are codes, and the word of each code."""


def sense(metric: str) -> int:
    """Return 1 where larger values are better, -1 where smaller ones are, 0 where neither is."""
    quantity = metric.partition(WITHIN)[0]
    return int(quantity.endswith(LARGER_IS_BETTER)) - int(quantity.endswith(SMALLER_IS_BETTER))


def word_of(metric: str, value: float) -> str:
    """The word of a code (`active_cap` 2 is `lmc`), empty for every other value."""
    words = CODED.get(metric, ())
    return words[int(value)] if value in range(len(words)) else ""
