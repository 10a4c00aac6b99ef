"""Positions of devices in a cell, and their path loss: TR 38.901 7.4, outdoors, with the server at the origin.

    gain = 10^(-(PL + SF - PL_ref) / 20)

with the path loss PL of Table 7.4.1-1, shadowing SF normal in decibels with the standard deviation of that table, and
PL_ref the path loss at `reference_distance_m` without shadowing: in line of sight, unless `line_of_sight: never` leaves
none. Devices stand at 1.5 m; the server at 10 m (UMi street canyon), 25 m (UMa) or 35 m (RMa, with streets of 20 m and
buildings of 5 m), the defaults of the table. Shadowing and line of sight are independent between devices.

Sionna's scenarios serve as the oracle only: they need TensorFlow and a topology, and in 1.2.2 `distance_3d` of
`SystemLevelScenario` is the horizontal distance, 10 dB off under the mast of an RMa cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config.base import SPEED_OF_LIGHT_M_S
from phy.config.channel import CellConfig, ChannelConfig
from phy.config.conflict import ConflictError, LeaveOut, Say, Write, rounded
from phy.numerics.random import Purpose, generator

DEVICE_HEIGHT_M = 1.5
SERVER_HEIGHT_M = {"umi": 10.0, "uma": 25.0, "rma": 35.0}

_STREET_WIDTH_M = 20.0
_BUILDING_HEIGHT_M = 5.0
_MAX_DISTANCE_M = {"umi": 5e3, "uma": 5e3, "rma": 10e3}
_MAX_FREQUENCY_HZ = {"umi": 100e9, "uma": 100e9, "rma": 30e9}


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Devices of several trials, every array `[num_trials, num_devices]`.

    Horizontal `distance_m`, whether there is `line_of_sight`, `path_loss_db` without and `shadowing_db` on its own, and
    the amplitude `gain` relative to the reference distance (float32), to be multiplied with `channel.gain`.
    """

    distance_m: NDArray[np.float64]
    line_of_sight: NDArray[np.bool_]
    path_loss_db: NDArray[np.float64]
    shadowing_db: NDArray[np.float64]
    gain: NDArray[np.float32]


def place_devices(
    cell: CellConfig, channel: ChannelConfig, *, num_devices: int, trials: tuple[int, ...], seed: int
) -> Placement:
    """Positions, line of sight and shadowing of every trial, the same in all of its rounds.

    A device's draws depend on (seed, trial, number of the device) alone, so more devices do not move the first
    ones. Raises ValueError for a list of positions of another length, and for distances and frequencies where the
    path loss is not defined (TR 38.901 Table 7.4.1-1).
    """
    from scipy import special

    check_cell(cell, channel, num_devices=num_devices)
    uniform = np.stack([generator(seed, trial, Purpose.POSITIONS).random((num_devices, 4)) for trial in trials])
    by_area, by_chance, by_shadow = uniform[..., 0], uniform[..., 1], uniform[..., 2]
    if cell.positions_m is None:
        inner, outer = cell.min_distance_m**2, cell.radius_m**2
        distance = np.sqrt(inner + by_area * (outer - inner))
    else:
        distance = np.tile(np.hypot(*np.array(cell.positions_m).T), (len(trials), 1))
    if cell.line_of_sight == "by-chance":
        sight = by_chance < line_of_sight_probability(cell.scenario, distance)
    else:
        sight = np.full(distance.shape, cell.line_of_sight == "always")

    frequency_hz = channel.carrier_frequency_hz
    loss_db = path_loss_db(cell.scenario, distance, line_of_sight=sight, carrier_frequency_hz=frequency_hz)
    std_db = shadowing_std_db(cell.scenario, distance, line_of_sight=sight, carrier_frequency_hz=frequency_hz)
    # The half step keeps the normal finite: a uniform draw can be 0.
    shadowing_db = std_db * special.ndtri(by_shadow + 2.0**-54) * cell.shadowing
    reference_db = path_loss_db(
        cell.scenario,
        cell.reference_distance_m,
        line_of_sight=cell.line_of_sight != "never",
        carrier_frequency_hz=frequency_hz,
    )
    return Placement(
        distance_m=distance,
        line_of_sight=sight,
        path_loss_db=loss_db,
        shadowing_db=shadowing_db,
        gain=(10.0 ** (-(loss_db + shadowing_db - reference_db) / 20.0)).astype(np.float32),
    )


def check_cell(cell: CellConfig, channel: ChannelConfig, *, num_devices: int) -> None:
    """Raise ConflictError where `place_devices` cannot place `num_devices` devices."""
    reach, highest = _MAX_DISTANCE_M[cell.scenario], _MAX_FREQUENCY_HZ[cell.scenario]
    if cell.positions_m is not None and len(cell.positions_m) != num_devices:
        raise ConflictError(
            "cell.positions_m cell",
            f"positions_m has length {len(cell.positions_m)}, num_devices is {num_devices}",
            Write({"num_devices": len(cell.positions_m)}),
            Say("one position per device"),
        )
    written = "radius_m" if cell.positions_m is None else "positions_m"
    farthest = cell.radius_m if cell.positions_m is None else max(float(np.hypot(*xy)) for xy in cell.positions_m)
    for name, key, distance in (
        ("a device", written, farthest),
        ("reference_distance_m", "reference_distance_m", cell.reference_distance_m),
    ):
        if distance > reach:
            raise ConflictError(
                f"cell.{key} cell",
                f"{name} at {distance:g} m is beyond {reach:g} m, where the path loss of {cell.scenario} ends",
                LeaveOut(key) if key == "positions_m" else Write({key: rounded(reach, 6)}),
            )
    if channel.carrier_frequency_hz > highest:
        raise ConflictError(
            "carrier_frequency_hz cell",
            f"carrier_frequency_hz {channel.carrier_frequency_hz:g} is above {highest:g}, where the path loss of "
            f"{cell.scenario} ends",
            Write({"carrier_frequency_hz": round(highest)}),
        )


def path_loss_db(
    scenario: str, distance_m: ArrayLike, *, line_of_sight: ArrayLike, carrier_frequency_hz: float
) -> NDArray[np.float64]:
    """Path loss over the horizontal distance [dB], Table 7.4.1-1, elementwise.

    The formulas are used below the 10 m where the table begins, and for RMa without line of sight beyond its 5 km.
    """
    distance = np.asarray(distance_m, float)
    slant = np.hypot(distance, SERVER_HEIGHT_M[scenario] - DEVICE_HEIGHT_M)
    frequency_ghz = carrier_frequency_hz / 1e9
    los, nlos = (_rural if scenario == "rma" else _urban)(scenario, distance, slant, frequency_ghz)
    return np.where(line_of_sight, los, np.maximum(los, nlos))


def breakpoint_distance_m(scenario: str, carrier_frequency_hz: float) -> float:
    """Notes 1 and 5 of Table 7.4.1-1, effective environment height 1 m (devices at 1.5 m)."""
    server = SERVER_HEIGHT_M[scenario]
    if scenario == "rma":
        return 2.0 * np.pi * server * DEVICE_HEIGHT_M * carrier_frequency_hz / SPEED_OF_LIGHT_M_S
    return 4.0 * (server - 1.0) * (DEVICE_HEIGHT_M - 1.0) * carrier_frequency_hz / SPEED_OF_LIGHT_M_S


def _urban(
    scenario: str, distance: NDArray[np.float64], slant: NDArray[np.float64], frequency_ghz: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """UMi street canyon and UMa: (line of sight, the other before its maximum with the first)."""
    log_distance, log_frequency = np.log10(slant), np.log10(frequency_ghz)
    turn = breakpoint_distance_m(scenario, frequency_ghz * 1e9)
    rise = SERVER_HEIGHT_M[scenario] - DEVICE_HEIGHT_M
    offset, slope, bend = (32.4, 21.0, 9.5) if scenario == "umi" else (28.0, 22.0, 9.0)
    near = offset + slope * log_distance + 20.0 * log_frequency
    far = offset + 40.0 * log_distance + 20.0 * log_frequency - bend * np.log10(turn**2 + rise**2)
    if scenario == "umi":
        blocked = 35.3 * log_distance + 22.4 + 21.3 * log_frequency - 0.3 * (DEVICE_HEIGHT_M - 1.5)
    else:
        blocked = 13.54 + 39.08 * log_distance + 20.0 * log_frequency - 0.6 * (DEVICE_HEIGHT_M - 1.5)
    return np.where(distance <= turn, near, far), blocked


def _rural(
    scenario: str, distance: NDArray[np.float64], slant: NDArray[np.float64], frequency_ghz: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """RMa: (line of sight, the other before its maximum with the first)."""
    server, building = SERVER_HEIGHT_M[scenario], _BUILDING_HEIGHT_M
    turn = breakpoint_distance_m(scenario, frequency_ghz * 1e9)

    def near(length: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(
            20.0 * np.log10(40.0 * np.pi * length * frequency_ghz / 3.0)
            + min(0.03 * building**1.72, 10.0) * np.log10(length)
            - min(0.044 * building**1.72, 14.77)
            + 0.002 * np.log10(building) * length
        )

    far = near(np.asarray(turn)) + 40.0 * np.log10(slant / turn)
    blocked = (
        161.04
        - 7.1 * np.log10(_STREET_WIDTH_M)
        + 7.5 * np.log10(building)
        - (24.37 - 3.7 * (building / server) ** 2) * np.log10(server)
        + (43.42 - 3.1 * np.log10(server)) * (np.log10(slant) - 3.0)
        + 20.0 * np.log10(frequency_ghz)
        - (3.2 * np.log10(11.75 * DEVICE_HEIGHT_M) ** 2 - 4.97)
    )
    return np.where(distance <= turn, near(slant), far), blocked


def line_of_sight_probability(scenario: str, distance_m: ArrayLike) -> NDArray[np.float64]:
    """Table 7.4.2-1 over the horizontal distance for devices at 1.5 m, elementwise."""
    distance = np.asarray(distance_m, float)
    if scenario == "rma":
        return np.asarray(np.minimum(np.exp(-(distance - 10.0) / 1000.0), 1.0))
    decay_m = 36.0 if scenario == "umi" else 63.0
    share = 18.0 / np.maximum(distance, 18.0)
    return np.asarray(share + np.exp(-distance / decay_m) * (1.0 - share))


def shadowing_std_db(
    scenario: str, distance_m: ArrayLike, *, line_of_sight: ArrayLike, carrier_frequency_hz: float
) -> NDArray[np.float64]:
    """Standard deviation of the shadowing [dB], Table 7.4.1-1, elementwise."""
    blocked = {"umi": 7.82, "uma": 6.0, "rma": 8.0}[scenario]
    beyond = np.asarray(distance_m, float) > breakpoint_distance_m(scenario, carrier_frequency_hz)
    seen = np.where(beyond, 6.0, 4.0) if scenario == "rma" else 4.0
    return np.where(line_of_sight, seen, blocked)
