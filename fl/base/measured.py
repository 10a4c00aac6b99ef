"""Names of the numbers that algorithms and schemes record, as a report may draw them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

SPENT = ("total_airtime_s", "total_energy_j")
RADIO = ("airtime_s", "energy_j", "elapsed_s", "spent_j")
ALONG = ("round", "channel_uses", "elapsed_s", "spent_j")
"""What x of a curve along a run may be; channel uses are time on the air times bandwidth."""

TIMED = ("round_s", "wall_s", "num_late", "staleness")
"""Numbers of rounds whose devices take time to compute; `wall_s` may be x as well."""
LINK = ("snr_db", "power_db", "dropped", "retransmissions")
"""Numbers that a link records per trial, per round, and per device and round."""

LINK_RATES = ("bit_error_rate", "packet_error_rate", "raw_bit_error_rate")
MIXING = ("effective_sample_size", "split_rhat")
"""How well the chain of a trial mixes, by its worst entry."""
SAMPLE = "sample_"
"""With the number of an entry: a sample of a posterior per round, whitened, so that an exact one is N(0, I)."""
ENSEMBLE_W2 = "ensemble_wasserstein2"
"""Number of a round made from the samples of all trials, not the mean of theirs."""

RATES = (*LINK_RATES, "probed_error_rate", "end_error_rate")

UPLOADS = ("mcs", "probed_low", "flip_probability", "target", "credited", "clipped_values")
"""Numbers per device and round of uploads that a mechanism or a scheme protects."""

AT_HOME = ("personal_accuracy", "personal_loss", "global_accuracy_at_home")
"""Of personalised learning: personal models, and the global one, on the devices' own held-out samples."""

PRIVACY = (
    *("sensitivity", "kappa", "kappa_measured", "kappa_standard_error", "target_bit_error_rate", "target_unclamped"),
    *("sigma", "sigma_printed", "sigma_calibrated", "delta", "epsilon_accounted"),
)
"""Numbers per trial of a mechanism that protects uploads."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Names of recorded numbers.

    - `per_trial`, `per_round`: one number per trial, or per trial and round;
    - `per_device`: one number per device and round, those of `LINK` among them where bits are detected;
    - `rates`: error rates among `RATES`, from stored counts;
    - `axes`: x of a curve along a run.
    """

    per_trial: tuple[str, ...] = ()
    per_round: tuple[str, ...] = ()
    per_device: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()


def joined(parts: Iterable[Measured]) -> Measured:
    """Return all names of several, each once."""
    some = list(parts)
    names = {f.name: dict.fromkeys(name for one in some for name in getattr(one, f.name)) for f in fields(Measured)}
    return Measured(**{key: tuple(found) for key, found in names.items()})
