"""What each algorithm measures: names that figures may draw, counts that make rates, and codes with their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fl.results import CAP_NAMES
from privacy.mechanisms.flip_plans import CLAMP_WORDS


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

ROUND_AXES = ("round", "elapsed_s", "spent_j", "value")
"""What x may be beside a setting: then a curve goes along the run, one spot per round."""

_SPENT = ("total_airtime_s", "total_energy_j")
_RADIO = ("airtime_s", "energy_j", "elapsed_s", "spent_j")
_KAPPA = ("kappa", "kappa_standard_error")
_AGGREGATION = ("aggregation_snr_db", "aggregation_snr_20log_db", "aggregation_mse")
_AT_HOME = ("personal_accuracy", "personal_loss", "global_accuracy_at_home")

METRICS: dict[str, tuple[str, ...]] = {
    "flmc": ("mse", "wasserstein2", "variance_ratio", "amplitude", "active_cap", *_SPENT, "rounds_sent"),
    "fedavg": (
        *(
            "test_accuracy",
            "best_accuracy",
            "validated_accuracy",
            "test_loss",
            "train_loss",
            "num_parameters",
            "upload_bits",
            "empty_rounds",
            "rounds_sent",
            *_SPENT,
        ),
        *("target_bit_error_rate", "target_unclamped", *_KAPPA, "kappa_measured", "sensitivity"),
        *("sigma", "sigma_printed", "sigma_calibrated", "epsilon_accounted", "delta"),
        *(*_AGGREGATION, *_AT_HOME),
        *("k_anonymity", "anonymity", "anonymity_printed"),
        *("strong_convexity", "smoothness", "heterogeneity", "bound_valid", "bound_contraction"),
    ),
    "flip-moments": ("largest_mean_gap", "largest_variance_gap"),
    "bit-distance": (*_KAPPA, "l1_distance"),
    "reconstruction": (
        *("mean_correlation", "recognised_share", "psnr_db"),
        *("membership_auc", "membership_auc_low", "membership_auc_high"),
        *("true_positive_rate", "true_positive_rate_low", "true_positive_rate_high"),
        *("target_bit_error_rate", "target_unclamped", *_KAPPA, "kappa_measured", "sensitivity"),
        *("sigma", "sigma_printed", "sigma_calibrated", "epsilon_accounted", "delta"),
    ),
}
"""Numbers per trial, by algorithm."""

PER_ROUND: dict[str, tuple[str, ...]] = {
    "flmc": ("squared_error", "amplitude", "peak_amplitude", "num_active", *_RADIO, "num_attackers"),
    "fedavg": (
        *(
            "test_accuracy",
            "validation_accuracy",
            "test_loss",
            "train_loss",
            "clipped_gradients",
            "num_active",
            *_RADIO,
        ),
        *("model_norm", "distance_sq", "bound"),
        *(*_AGGREGATION, "b", "num_attackers"),
    ),
    "flip-moments": (
        *("value", "recovered_mean", "recovered_variance", "lemma1_mean", "lemma1_variance"),
        *_RADIO[:2],
    ),
    "bit-distance": (),
    "reconstruction": ("mean_correlation", "recognised_share", "psnr_db", *_RADIO[:2]),
}
"""Numbers per trial and round, by algorithm."""

_LINK = ("snr_db", "power_db", "dropped", "retransmissions")
_UPLOADS = ("probed_low", "flip_probability", "target", "credited", "clipped_values")
_GAMES = ("correlation", "pixel_error", "recognised", "membership_score", "member")
DEVICES_TABLE = (*_UPLOADS, *_AT_HOME, *_GAMES)
"""Numbers per device and round that learning and privacy know, in the table `devices`."""

PER_DEVICE: dict[str, tuple[str, ...]] = {
    "flmc": _LINK,
    "fedavg": (*_LINK, *_UPLOADS, *_AT_HOME),
    "flip-moments": (*_LINK, "flip_probability"),
    "bit-distance": (),
    "reconstruction": (*_LINK, *_UPLOADS, *_GAMES),
}
"""Numbers per device and round: the mean over devices, or each device on its own."""

RATES_OF: dict[str, tuple[str, ...]] = {
    "flmc": tuple(name for name, counted in RATES.items() if counted.table == "link"),
    "fedavg": tuple(RATES),
    "flip-moments": tuple(name for name in RATES if name != "probed_error_rate"),
    "bit-distance": (),
    "reconstruction": tuple(RATES),
}
"""Rates that are counted, by algorithm."""

NEVER_NEGATIVE = (
    *("mse", "wasserstein2", "variance_ratio", "squared_error", "amplitude", "peak_amplitude", "num_active"),
    *(*_RADIO, *_SPENT, "dropped", "retransmissions", *_KAPPA, "kappa_measured", "l1_distance"),
    *("test_loss", "train_loss", "distance_sq", "recovered_variance", "largest_mean_gap", "largest_variance_gap"),
    *("clipped_values", "rounds_sent", "sigma", "aggregation_mse", "b", "num_attackers", "personal_loss"),
    *("k_anonymity", "anonymity", "anonymity_printed", "empty_rounds", "pixel_error"),
)
"""Quantities whose interval ends at zero."""

SHARES = (
    *("test_accuracy", "best_accuracy", "validated_accuracy", "validation_accuracy", "clipped_gradients"),
    *("probed_low", "flip_probability", "target", "credited", "target_bit_error_rate", "target_unclamped"),
    *("personal_accuracy", "global_accuracy_at_home", "recognised_share", "recognised", "member"),
    *("membership_auc", "membership_auc_low", "membership_auc_high"),
    *("true_positive_rate", "true_positive_rate_low", "true_positive_rate_high"),
)
"""Quantities whose interval lies within zero and one."""

CODED: dict[str, tuple[str, ...]] = {
    "active_cap": CAP_NAMES,
    "clamp": tuple(CLAMP_WORDS[code] for code in sorted(CLAMP_WORDS)),
}
"""Numbers that are codes, and the word of each code."""


def word_of(metric: str, value: float) -> str:
    """The word of a code (`active_cap` 2 is `lmc`), empty for every other value."""
    words = CODED.get(metric, ())
    return words[int(value)] if value in range(len(words)) else ""


def along(algorithm: str) -> tuple[str, ...]:
    """What x may be for a curve along a run of `algorithm`."""
    few = {"flip-moments": ("round", "value"), "bit-distance": (), "reconstruction": ("round",)}
    return few.get(algorithm, ROUND_AXES[:3])
