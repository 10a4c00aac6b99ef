"""What a trial of federated Langevin Monte Carlo costs: memory per trial of a batch, and a rough time."""

from __future__ import annotations

from fl.config.flmc import FlmcConfig, GaussianLinearConfig
from fl.footprint.radio import packet_seconds
from phy.config import LinkConfig

_LOGISTIC_SAMPLES, _LOGISTIC_DIMENSION = 569, 31
_SERIES = 12
_LINK_SERIES = 12
# Measured on two cores of a 2024 server processor; good to a factor of two, which is what `check` claims.
_SECONDS_PER_ROUND = 1.6e-3
_SECONDS_PER_SUPERPOSED_ENTRY = 1.5e-8
_SECONDS_PER_DETECTED_ENTRY = 2.5e-8
_SECONDS_PER_ONE_BIT_ENTRY = 2e-8
_SECONDS_PER_ATTACKED_ENTRY = 4e-8
_SECONDS_PER_FADE = 2e-8
_SECONDS_PER_PROBED_BIT = 2.5e-8
_SECONDS_PER_SAMPLE_ENTRY = 2.5e-9
_SECONDS_PER_PACKET_CALL = 5e-3
_SECONDS_PER_SUPERPOSED_SLOT = 2e-5


def dimension(config: FlmcConfig) -> int:
    """Number of parameters m."""
    task = config.task
    return task.dimension if isinstance(task, GaussianLinearConfig) else _LOGISTIC_DIMENSION


def probes_per_run(config: FlmcConfig, link: LinkConfig) -> int:
    """How often the channel is probed in one trial."""
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


def seconds_per_trial(config: FlmcConfig, link: LinkConfig, *, batch: int) -> float:
    """Rough time of one trial in a batch of `batch`, on two cores [s]."""
    m, devices, rounds = dimension(config), config.num_devices, config.rounds
    if config.scheme == "exact":
        return rounds * m * 1e-7
    per_round = _SECONDS_PER_ROUND / batch
    if not isinstance(config.task, GaussianLinearConfig):
        per_round += _LOGISTIC_SAMPLES * _LOGISTIC_DIMENSION * _SECONDS_PER_SAMPLE_ENTRY
    if config.attack is not None:
        per_round += devices * m * _SECONDS_PER_ATTACKED_ENTRY
    if config.uses_radio:
        if not config.superposes and not link.plain:
            return rounds * (per_round + devices * m * _SECONDS_PER_ONE_BIT_ENTRY) + _packet_seconds(
                config, link, batch
            )
        entry = _SECONDS_PER_SUPERPOSED_ENTRY if config.superposes else _SECONDS_PER_DETECTED_ENTRY
        one_bit = 0.0 if config.scheme == "analog" else _SECONDS_PER_ONE_BIT_ENTRY
        # Symbols travel in groups of eight.
        per_round += devices * (-(-m // 8) * 8 * entry + m * one_bit)
        per_round += devices * _SECONDS_PER_FADE * link.channel.fades
        if link.ofdm != "none":
            grids = -(-m // link.ofdm.data_symbols_per_slot)
            per_round += devices * grids * _SECONDS_PER_SUPERPOSED_SLOT + _SECONDS_PER_PACKET_CALL / batch
    probed = probes_per_run(config, link) * devices * link.probe_bits * _SECONDS_PER_PROBED_BIT
    return rounds * per_round + probed


def _packet_seconds(config: FlmcConfig, link: LinkConfig, batch: int) -> float:
    """Rough time of all packets of one trial, first attempts and probes [s]."""
    packet_bits = min(8 * link.packet_size_bytes, dimension(config))
    payloads = config.rounds * -(-dimension(config) // packet_bits)
    if link.error_model != "measured":
        payloads = 0
    probed = max(link.probe_bits, dimension(config)) if link.error_model == "iid" else link.probe_bits
    packets = payloads + probes_per_run(config, link) * -(-probed // packet_bits)
    per_packet = packet_seconds(link, packet_bits=packet_bits)
    return packets * (config.num_devices * per_packet + _SECONDS_PER_PACKET_CALL / batch)
