"""Size and memory of one trial of federated Langevin Monte Carlo."""

from __future__ import annotations

from fl.config.flmc import FlmcConfig, GaussianLinearConfig
from phy.config import LinkConfig

_LOGISTIC_SAMPLES, _LOGISTIC_DIMENSION = 569, 31
_SERIES = 12
_LINK_SERIES = 12


def dimension(config: FlmcConfig) -> int:
    """Number of parameters m."""
    task = config.task
    return task.dimension if isinstance(task, GaussianLinearConfig) else _LOGISTIC_DIMENSION


def probes_per_run(config: FlmcConfig, link: LinkConfig) -> int:
    """Number of channel probes in one trial."""
    if config.scheme != "digital-orthogonal" or link.error_model == "error_free":
        return 0
    wanted = (link.error_model == "iid") + config.debias
    changes = (link.channel.fades or link.csi_error_variance > 0) and link.channel.coherence != "run"
    return wanted * (config.rounds if changes else 1)


def bytes_per_trial(config: FlmcConfig, link: LinkConfig) -> int:
    """Memory that one more trial in a batch takes, data, radio and records together [B]."""
    m, devices = dimension(config), config.num_devices
    if isinstance(config.task, GaussianLinearConfig):
        data = 2 * 8 * devices * m * (m + 1)
    else:
        data = 2 * 8 * _LOGISTIC_SAMPLES * (_LOGISTIC_DIMENSION + 2)
    records = 8 * config.rounds * (_SERIES + (_LINK_SERIES * devices if config.scheme == "digital-orthogonal" else 0))
    radio = devices * m * (64 * config.uses_radio + 48 * (config.attack is not None))
    probe = devices * link.probe_bits // 2 if probes_per_run(config, link) else 0
    samples = 8 * config.rounds * m if config.scheme == "exact" else 0
    return data + 2 * records + radio + probe + samples
