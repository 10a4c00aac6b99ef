"""Links without learning: one's own bits or amplitudes over the simulated radio."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.base.words import plural
from phy.compile import compile_air, compile_digital
from phy.config import LinkConfig
from phy.engines.choice import loads_tensorflow, with_engine
from phy.fading.block_taps import UplinkContext
from phy.links.conflicts import link_conflicts
from phy.links.link import LinkError
from phyloop.arguments import checked
from phyloop.arrays import channel_section
from phyloop.closed_form import closed_form
from phyloop.received import Received, Superposed
from phyloop.wording import in_words
from scenarios.engine.start import quiet_standard_error
from scenarios.report.tables.summaries import Rate, rate_interval
from scenarios.schema.consistency.conflicts import check_consistency
from scenarios.schema.errors import ScenarioError, together
from scenarios.schema.loader import Source, load_scenario

LinkSource = LinkConfig | Source
"""A link, the keys of one, or the file or library name of a scenario, of which the `link:` section counts."""


_ROUNDING = 1e-6
"""Share by which a magnitude may exceed its limit: a few roundings of float32."""
_SMALLEST = 1e-30
"""Smallest largest amplitude: symbols are float32, and so are their powers."""
_MOST_ROUNDS = 2**32 - 1
"""Random numbers count rounds in 32 bits, one of which stands for all rounds of a channel that never changes."""


class Link:
    """Uplink of several devices on which each device is received on its own.

    Args:
        link: the link: a `LinkConfig`, a dictionary with the keys of a `link:` section, or the file or library name of
            a scenario. The default is QPSK without a code over a channel that never fades, at full power and 20 dB.
        num_devices: number of devices K.
        num_bits: bits that each device sends in one call.
        channel: the `channel:` section, or complex taps `[snapshot, device, rx_antenna, tap]` of a channel of one's
            own; a section may have them as `taps`, beside `coherence`, `order`, `normalize`, ...
        sample_rate_hz: rate of the taps [Hz]: tap l comes l samples late.
        snapshot_s: time from one snapshot of the taps to the next, which counts under coherence doppler [s].
        settings: further keys of the `link:` section. Each replaces the value of `link` as a whole: write all of a
            section, as in `power={"policy": "fixed", "snr_max_db": 3}`.

    Raises:
        ScenarioError: a setting is wrong, or two settings exclude each other; `errors` has all of them.

    Example:
        >>> import numpy as np, phyloop
        >>> link = phyloop.Link(
        ...     modulation="16qam",
        ...     coding={"code": "ldpc5g", "rate": 0.5},
        ...     channel={"fading": "rayleigh", "coherence": "packet"},
        ...     power={"policy": "fixed", "snr_max_db": 12},
        ...     num_devices=3,
        ...     num_bits=10_000,
        ... )
        >>> bits = np.random.default_rng(1).integers(0, 2, (3, 10_000))
        >>> received = link.send(bits, seed=1, round=0)
        >>> received.bits.shape, received.bit_errors.shape
        ((3, 10000), (3,))
        >>> int((received.bits != bits).sum() - received.bit_errors.sum())
        0

        A channel of one's own, 50 snapshots of 3 devices with 8 taps at 20 MHz:

        >>> drawn = np.random.default_rng(2).normal(size=(2, 50, 3, 1, 8))
        >>> own = phyloop.Link(
        ...     channel={"taps": drawn[0] + 1j * drawn[1], "coherence": "packet"},
        ...     sample_rate_hz=20e6,
        ...     ofdm={"num_subcarriers": 72},
        ...     num_devices=3,
        ...     num_bits=10_000,
        ... )
        >>> len(own.send(bits, seed=1).ber_by_device)
        3
    """

    @checked
    def __init__(
        self,
        link: LinkSource | None = None,
        /,
        *,
        num_devices: int = 1,
        num_bits: int,
        channel: Any = None,
        sample_rate_hz: float | None = None,
        snapshot_s: float | None = None,
        **settings: Any,
    ) -> None:
        _at_least(1, num_devices=num_devices, num_bits=num_bits)
        settings |= channel_section(channel, sample_rate_hz=sample_rate_hz, snapshot_s=snapshot_s)
        self.num_devices, self.num_bits = int(num_devices), int(num_bits)
        read = _read(link, {"access": "orthogonal", "modulation": "qpsk"}, settings)
        self.config = _checked(read, num_devices=self.num_devices, payload_bits=self.num_bits)
        _load_quietly(self.config)
        self._link = compile_digital(self.config, num_devices=self.num_devices, num_bits=self.num_bits)

    @checked
    def send(
        self,
        bits: ArrayLike,
        *,
        seed: int = 0,
        round: int = 0,
        trial: int = 0,
    ) -> Received:
        """Send the bits of all devices once.

        Args:
            bits: 0 and 1, `[K, num_bits]`, or packed bits, `[K, ceil(num_bits / 8)]` uint8, the first bit of a byte its
                most significant one. A single device may leave out the first axis. With `num_bits=1`, bytes that are
                all 0 or 1 are taken as bits.
            seed: seed of all random draws.
            round: index of the round, from 0 to 2^32 - 2: round 1 of a table is `round=0`. Other rounds have other
                noise, and other fades unless the coherence is `run`.
            trial: number of the trial. Other trials have other noise and fades.

        Returns:
            The received bits in the same form, and what the link measured on them. The same arguments give the same
            result, except under power policy `closed-loop`, which remembers the last call.

        Raises:
            LinkError: the array has another shape, or other values than 0 and 1.

        Example:
            >>> import numpy as np, phyloop
            >>> link = phyloop.Link(modulation="bpsk", power={"snr_max_db": 4}, num_bits=8000)
            >>> packed = np.arange(1000, dtype=np.uint8)
            >>> received = link.send(packed, seed=1)
            >>> received.bits.shape, int(received.bit_errors[0])
            ((1000,), 468)
            >>> print(received.ber)
            0.0585 [0.0535, 0.0639]
            >>> float(received.airtime_s[0])
            0.008
        """
        _refuse_beyond(seed=seed, round=round, trial=trial)
        array = np.asarray(bits)
        payload, as_bits = self._packed(array)
        reception = self._link.send(
            payload[None], context=UplinkContext(seed=seed, trials=(trial,), round_index=round), caps={}
        )
        counts, back = reception.counts, reception.payload[0]
        if as_bits:
            back = np.unpackbits(back, axis=-1, count=self.num_bits)
        pairs = list(zip(counts.bit_errors[0].tolist(), counts.bits[0].tolist(), strict=True))
        every, *each = (self._rate(errors, total) for errors, total in (np.sum(pairs, axis=0).tolist(), *pairs))
        return Received(
            bits=back.reshape(array.shape),
            bit_errors=counts.bit_errors[0],
            ber=every,
            ber_by_device=tuple(each),
            snr_db=counts.snr_db[0],
            airtime_s=counts.airtime_s[0],
            energy_j=counts.energy_j[0],
            delivered=None if reception.delivered is None else reception.delivered[0],
            reception=reception,
        )

    def closed_form(self, *, device: int | None = None) -> float:
        """Bit error rate of the link in closed form at its power, as `phyloop link` draws it beside measured rates.

        In fading it is the mean over all fades. The measured rate of one call has the fades of that call: few under
        coherence `packet`, one per device under `round` and `run`. Average calls with other values of `round`, or of
        `trial`, to compare the two.

        Args:
            device: sender index; None: the mean over all devices.

        Returns:
            Probability that a bit is wrong.

        Raises:
            LinkError: the link has no closed form. Links without a code, with access orthogonal, perfect channel
                knowledge, fixed power, packets that are all kept and a channel of a single tap have one.

        Example:
            >>> import phyloop
            >>> link = phyloop.Link(modulation="bpsk", power={"snr_max_db": 4}, num_bits=8000)
            >>> round(link.closed_form(), 4)
            0.0565
        """
        return closed_form(self.config, num_devices=self.num_devices, device=device)

    def __repr__(self) -> str:
        return (
            f"<Link of {plural(self.num_devices, 'device')}, {plural(self.num_bits, 'bit')} each: "
            f"{in_words(self.config)}>"
        )

    def _rate(self, errors: int, total: int) -> Rate | None:
        on_air = self.config.error_model != "error_free" and total
        return rate_interval(errors=errors, total=total) if on_air else None

    def _packed(self, bits: NDArray[Any]) -> tuple[NDArray[np.uint8], bool]:
        """Return packed bits, and True where each bit was a number of its own."""
        array = bits[None] if bits.ndim == 1 else bits
        num_bytes = -(-self.num_bits // 8)
        if array.shape == (self.num_devices, self.num_bits) and np.isin(array, (0, 1)).all():
            return np.packbits(array.astype(np.uint8), axis=1), True
        if array.shape == (self.num_devices, num_bytes) and array.dtype == np.uint8:
            return array, False
        raise LinkError(
            f"bits are {bits.dtype} {bits.shape}",
            f"send 0 and 1 of shape {(self.num_devices, self.num_bits)}, or packed bits, uint8, "
            f"of shape {(self.num_devices, num_bytes)}",
        )


class Air:
    """Uplink on which the amplitudes of all devices add up in the air.

    Args:
        link: the link, see `Link`; its access is superposition, its modulation analog.
        num_devices: number of devices K.
        num_symbols: amplitudes S that each device sends in one call.
        channel: as in `Link`, with `sample_rate_hz` and `snapshot_s`.
        max_amplitude: largest magnitude of an amplitude, 1e-30 to 1e30. Devices scale by it, so that even a block of
            such amplitudes keeps the power limit P0.
        settings: as in `Link`.

    Raises:
        ScenarioError: a setting is wrong, or two settings exclude each other; `errors` has all of them.

    Example:
        >>> import phyloop
        >>> air = phyloop.Air(num_devices=20, num_symbols=1000, power={"snr_max_db": 30})
        >>> air.config.access, air.config.modulation
        ('superposition', 'analog')
    """

    @checked
    def __init__(
        self,
        link: LinkSource | None = None,
        /,
        *,
        num_devices: int,
        num_symbols: int,
        max_amplitude: float = 1.0,
        channel: Any = None,
        sample_rate_hz: float | None = None,
        snapshot_s: float | None = None,
        **settings: Any,
    ) -> None:
        _at_least(1, num_devices=num_devices, num_symbols=num_symbols)
        settings |= channel_section(channel, sample_rate_hz=sample_rate_hz, snapshot_s=snapshot_s)
        if not _SMALLEST <= max_amplitude <= 1.0 / _SMALLEST:
            raise ScenarioError(
                key="max_amplitude",
                value=max_amplitude,
                problem=f"must lie between {_SMALLEST:g} and {1.0 / _SMALLEST:g}, the range of float32 symbols",
                remedy="scale the amplitudes",
            )
        self.num_devices, self.num_symbols = int(num_devices), int(num_symbols)
        self.max_amplitude = float(max_amplitude)
        read = _read(link, {"access": "superposition", "modulation": "analog"}, settings)
        self.config = _checked(read, num_devices=self.num_devices, payload_bits=self.num_symbols)
        if self.config.power.budget is not None:
            raise LinkError("power.budget is spent over the rounds of a scenario, which an Air has not", "leave it out")
        _load_quietly(self.config)
        self._link = compile_air(
            self.config,
            num_devices=self.num_devices,
            num_symbols=self.num_symbols,
            payload_bound=self.max_amplitude,
        )

    @checked
    def superpose(
        self,
        amplitudes: ArrayLike,
        *,
        seed: int = 0,
        round: int = 0,
        trial: int = 0,
    ) -> Superposed:
        """Send the amplitudes of all devices at once.

        Args:
            amplitudes: real or complex, `[K, S]`, of magnitude `max_amplitude` at most.
            seed: seed of all random draws.
            round: index of the round, from 0; see `Link.send`.
            trial: number of the trial.

        Returns:
            The estimate of the sum over devices, and what the link measured.

        Raises:
            LinkError: the array has another shape, or larger amplitudes.

        Example:
            >>> import numpy as np, phyloop
            >>> air = phyloop.Air(num_devices=20, num_symbols=1000, power={"snr_max_db": 30})
            >>> amplitudes = np.random.default_rng(1).uniform(-1, 1, (20, 1000))
            >>> result = air.superpose(amplitudes, seed=1)
            >>> result.sum.shape, round(float(np.std(result.sum.real - amplitudes.sum(axis=0))), 3)
            ((1000,), 0.031)
        """
        _refuse_beyond(seed=seed, round=round, trial=trial)
        array = np.asarray(amplitudes)
        if array.dtype.kind not in "biufc":
            raise LinkError(f"amplitudes are {array.dtype}", "send real or complex numbers")
        array = array if array.dtype.kind == "c" else array.astype(np.float64)
        largest = float(np.abs(array).max(initial=0.0))
        if not largest <= self.max_amplitude * (1.0 + _ROUNDING):  # NaN is refused, too
            raise LinkError(
                f"an amplitude has magnitude {largest:.8g}, max_amplitude is {self.max_amplitude:.8g}",
                "scale the amplitudes, or raise max_amplitude",
            )
        found = self._link.superpose(
            array[None], context=UplinkContext(seed=seed, trials=(trial,), round_index=round), caps={}
        )
        divisor = found.decision.scale[0]
        return Superposed(
            sum=found.received[0] / np.complex64(divisor) if divisor else np.zeros_like(found.received[0]),
            received=found.received[0],
            amplitude=float(found.decision.amplitude[0]),
            num_active=found.num_active[0],
            airtime_s=None if found.airtime_s is None else found.airtime_s[0],
            energy_j=None if found.energy_j is None else found.energy_j[0],
            superposition=found,
        )

    def __repr__(self) -> str:
        return (
            f"<Air of {plural(self.num_devices, 'device')}, {plural(self.num_symbols, 'symbol')} each: "
            f"{in_words(self.config)}>"
        )


def _at_least(least: int, **numbers: int) -> None:
    """Raise ScenarioError for numbers below the least."""
    errors = [
        ScenarioError(problem=f"must be at least {least}", remedy="write a larger value", key=name, value=number)
        for name, number in numbers.items()
        if number < least
    ]
    if errors:
        raise together(errors)


def _refuse_beyond(*, seed: int, round: int, trial: int) -> None:
    """Raise ScenarioError for numbers that have no random draws of their own."""
    _at_least(0, seed=seed, round=round, trial=trial)
    if round >= _MOST_ROUNDS:
        raise ScenarioError(
            key="round",
            value=round,
            problem=f"must be at most {_MOST_ROUNDS - 1}, after which random draws repeat",
            remedy="count rounds from 0, and give another trial or seed for more draws",
        )


def _load_quietly(config: LinkConfig) -> None:
    """Import TensorFlow, if the link needs it, without its messages."""
    if loads_tensorflow(config):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # native code reads it when TensorFlow is imported
        with quiet_standard_error():
            import_module("tensorflow").config.list_logical_devices()


def _read(link: LinkSource | None, missing: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The `link:` section as plain data, with `settings` on top and `missing` in place of `auto`."""
    match link:
        case None:
            section: dict[str, Any] = {}
        case LinkConfig():
            section = link.model_dump(mode="json", exclude_unset=True)
        case str() | Path():
            section = load_scenario(link).document.get("link", {})
        case _:
            section = dict(link)
    section |= settings
    named = {key: value for key, value in missing.items() if section.get(key, "auto") == "auto"}
    if "mcs" in section:
        named.pop("modulation", None)
    return section | named


def _checked(section: dict[str, Any], *, num_devices: int, payload_bits: int) -> LinkConfig:
    """The link of a section, with its engine named. ScenarioError for wrong settings and conflicts, all at once."""
    loaded = load_scenario({"link": section})
    config = with_engine(loaded.scenario.link.resolve_mcs())
    conflicts = link_conflicts(config, num_devices=num_devices, payload_bits=payload_bits)
    check_consistency(
        loaded.scenario,
        where=lambda key: loaded.marks.get(tuple(key.split("."))),
        conflicts=(conflict.under("link") for conflict in conflicts),
    )
    return config
