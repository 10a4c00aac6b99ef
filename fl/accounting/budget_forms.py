"""What one upload is as a release, whatever it is protected by: the one place that ledgers and budgets count from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.config import FedAvgConfig, FlmcConfig
from fl.config.scheme import AggregatorConfig, CpaScheme, JopeqScheme, LaplaceScheme, ProbitScheme, SignScheme
from fl.footprint.flmc import dimension
from fl.footprint.schemes import upload_bits
from privacy.config import BitFlippingBudget, BitFlippingConfig, GaussianBudget, GaussianConfig, UploadPrivacy
from privacy.events.events import Event, Kind, Ledger, Unit
from privacy.mechanisms.bit_flipping import AES_BLOCK_BITS, blocks_touched


@dataclass(frozen=True, kw_only=True)
class Form:
    """What the columns of a `privacy.events.events.Ledger` are about, but not yet what is in them."""

    kind: Kind
    coordinates: int
    unit: Unit
    per_number: int = 1
    facts: Mapping[str, float] = field(default_factory=dict)

    def event(self, parameter: float) -> Event:
        """One release."""
        from privacy.accounting.spending import event_of

        return event_of(self.kind, parameter, self.facts)

    def ledger(self, parameter: NDArray[np.float64], **more: Any) -> Ledger:
        """The ledger with `parameter` `[num_rounds, num_devices]`; `more`: other fields of it."""
        return Ledger(
            kind=self.kind,
            parameter=parameter,
            coordinates=self.coordinates,
            unit=self.unit,
            per_number=self.per_number,
            facts=self.facts,
            **more,
        )


def unprotected(unit: Unit) -> Form:
    """Numbers as they are: no epsilon holds."""
    return Form(kind="unprotected", coordinates=1, unit=unit)


def flmc_form(config: FlmcConfig) -> Form:
    """Digital: +-1 per entry, log odds at most a l. Analog: the whole gradient as one Gaussian release."""
    if config.scheme == "analog":
        return Form(kind="gaussian", coordinates=1, unit="device")
    odds = config.quantizer_slope * config.gradient_bound
    return Form(kind="superposed-bits", coordinates=dimension(config), unit="device", facts={"entry_bound": odds})


def upload_form(config: FedAvgConfig, *, privacy: UploadPrivacy | None, num_values: int) -> Form:
    """Of an upload of `num_values` numbers M; `unprotected` where nothing stands before them.

    Neighbours may differ in every bit of an upload: any number near a rounding threshold changes all bits of its code.
    """
    if isinstance(privacy, GaussianConfig | GaussianBudget):
        return Form(kind="gaussian", coordinates=1, unit="sample")
    if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
        return _flipped_numbers(num_values, config.codec.bits_per_value, cipher=privacy.cipher)
    scheme = config.aggregation
    if isinstance(scheme, AggregatorConfig) or scheme.epsilon is None:
        return unprotected("device")
    if isinstance(scheme, CpaScheme | SignScheme):
        stages = scheme.stages if isinstance(scheme, CpaScheme) else 1
        bits = upload_bits(config, num_values=num_values)
        return Form(kind="flipped-bits", coordinates=bits, unit="device", per_number=stages)
    if isinstance(scheme, ProbitScheme):
        return unprotected("device") if scheme.l1_clip is None else Form(kind="pure", coordinates=1, unit="device")
    if isinstance(scheme, LaplaceScheme | JopeqScheme) and scheme.as_coded:
        return unprotected("device")
    block = scheme.dimension if isinstance(scheme, JopeqScheme) else 1
    laplace = isinstance(scheme, LaplaceScheme | JopeqScheme) and block == 1
    return Form(kind="laplace" if laplace else "pure", coordinates=-(-num_values // block), unit="device")


def _flipped_numbers(num_values: int, bits: int, *, cipher: str) -> Form:
    """Bits on the air: a cipher works on whole bytes, AES on whole blocks, every bit of which hangs on all of them."""
    from privacy.ciphers import build_cipher

    on_air, per_number = num_values * bits, bits
    if cipher != "none":
        on_air = 8 * build_cipher(cipher).payload_bytes(-(-on_air // 8))
    if cipher == "aes":
        per_number = AES_BLOCK_BITS * blocks_touched(bits)
    return Form(kind="flipped-bits", coordinates=on_air, unit="sample", per_number=min(per_number, on_air))
