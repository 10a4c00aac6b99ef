"""The `link:` section of a scenario (`LinkConfig`) and its parts, free of TensorFlow."""

from phy.config.access import CsiError, CsiEstimation, ImpairmentsConfig, NomaConfig, ReceiverConfig
from phy.config.base import BITS_PER_SYMBOL, Access, ErrorModel, Frozen, Modulation
from phy.config.channel import CellConfig, ChannelConfig
from phy.config.coding import CRC_BITS, CodingConfig, PacketConfig
from phy.config.link import LinkConfig
from phy.config.mcs import McsAdaptation, mcs_entry
from phy.config.ofdm import OfdmConfig
from phy.config.power import LoopConfig, PowerConfig

__all__ = [
    "BITS_PER_SYMBOL",
    "CRC_BITS",
    "Access",
    "CellConfig",
    "ChannelConfig",
    "CodingConfig",
    "CsiError",
    "CsiEstimation",
    "ErrorModel",
    "Frozen",
    "ImpairmentsConfig",
    "LinkConfig",
    "LoopConfig",
    "McsAdaptation",
    "Modulation",
    "NomaConfig",
    "OfdmConfig",
    "PacketConfig",
    "PowerConfig",
    "ReceiverConfig",
    "mcs_entry",
]
