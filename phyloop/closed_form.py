"""Bit error rate of a link in closed form, where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phy.config.levels import strongest_db
from phy.links.link import LinkError

if TYPE_CHECKING:
    from phy.config import LinkConfig


def closed_form(link: LinkConfig, *, num_devices: int, device: int | None) -> float:
    """Return the bit error rate of a device, or the mean over devices, at the power of the link; raise LinkError."""
    from scenarios.schema.consistency.link_axes import Budget
    from scenarios.studies.link.level import bit_error_rates, has_closed_form

    if device is not None and not 0 <= device < num_devices:
        raise LinkError(f"device is {device}, the link has devices 0 to {num_devices - 1}", "write one of these")
    if link.error_model == "error_free" or not has_closed_form(link):
        raise LinkError(
            "this link has no closed form",
            "use coding none, access orthogonal, csi perfect, a power policy without "
            "control, packets.policy accept, no cell and no impairments, and a drawn channel of a single tap",
        )
    budget = Budget.of(link, num_devices=num_devices)
    esno_db = strongest_db(link) - budget.snr_max_db(0.0, "esno_db")
    rates = bit_error_rates(link, esno_db, num_devices=num_devices)
    return float(rates.mean() if device is None else rates[device])
