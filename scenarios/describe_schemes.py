"""What `phyloop check` tells of aggregation, attackers and personal models: what is sent, promised, and by whom."""

from __future__ import annotations

from math import floor

from fl.config import (
    AggregatorConfig,
    CpaScheme,
    FedAvgConfig,
    FlipMomentsConfig,
    FlmcConfig,
    ProbitScheme,
    SignScheme,
)
from fl.config.studies import BitDistanceConfig
from fl.footprint import payload_bits
from scenarios.labels import plain_setting

_ANY = FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig


def sent(learning: FedAvgConfig) -> str:
    """Bits of an upload, and what makes them."""
    scheme = learning.aggregation
    if isinstance(scheme, AggregatorConfig):
        robust = "" if scheme.name == "mean" else f", {_name(learning)} at the server"
        return f"{learning.codec.bits_per_value} bits per parameter ({learning.codec.name}){robust}"
    bits = payload_bits(learning)
    many = "as many bits as its parameters ask for" if bits is None else f"{bits:,} bits per upload"
    return f"{many} ({_name(learning)})"


def others(learning: FedAvgConfig) -> list[str]:
    """Lines on what a scheme promises or needs, on attackers, and on models of one's own."""
    lines = []
    scheme, attack, personal = learning.aggregation, learning.attack, learning.personal
    if promises(learning):
        lines.append(_promised(learning))
    if isinstance(scheme, CpaScheme):
        lines.append(_anonymity(scheme))
    if isinstance(scheme, ProbitScheme):
        lines.append(_bound(scheme))
    if attack is not None:
        number = len(set(attack.devices)) if attack.devices is not None else _rounded(attack.share, learning)
        lines.append(
            f"{number} of {learning.num_devices} devices attack: {plain_setting('learning.attack.kind', attack.kind)}"
        )
    if personal is not None:
        lines.append(
            f"every device has a model of its own, pulled to the global one by lambda {personal.lam:g} and measured on "
            f"{personal.test_share:.0%} of its samples"
        )
    return lines


def promises(learning: _ANY) -> bool:
    """Whether the aggregation has an epsilon of its own."""
    scheme = learning.aggregation if isinstance(learning, FedAvgConfig) else AggregatorConfig()
    return not isinstance(scheme, AggregatorConfig) and scheme.epsilon is not None


def promise(learning: FedAvgConfig) -> tuple[str, str, str, str, str]:
    """Mechanism, epsilon and whose it is, kappa, the rate at which bits are to be wrong, and noise."""
    scheme = learning.aggregation
    if isinstance(scheme, AggregatorConfig) or scheme.epsilon is None:
        return "none", "", "", "", ""
    whose = f"{scheme.epsilon:g} per {'round' if isinstance(scheme, ProbitScheme) else 'number'}"
    if not isinstance(scheme, CpaScheme | ProbitScheme | SignScheme):
        return _name(learning), whose, "", "", ""
    channel = plain_setting("learning.aggregation.channel", scheme.channel)
    name = plain_setting("learning.aggregation.name", scheme.name)
    return f"{name}, {channel}", whose, "", "" if isinstance(scheme, ProbitScheme) else f"{_flips(scheme):.4g}", ""


def _promised(learning: FedAvgConfig) -> str:
    scheme = learning.aggregation
    assert not isinstance(scheme, AggregatorConfig)
    assert scheme.epsilon is not None
    if isinstance(scheme, ProbitScheme):
        return f"epsilon {scheme.epsilon:g} for a whole upload, in every round anew, by the bound b alone"
    stages = scheme.stages if isinstance(scheme, CpaScheme) else 1
    block = "block of 2 parameters" if getattr(scheme, "dimension", 1) == 2 else "parameter"
    text = f"epsilon {scheme.epsilon:g} for every {block}, in every round anew"
    if stages > 1:
        text += f", and for each of the {stages} stages"
    if isinstance(scheme, CpaScheme | SignScheme):
        text += f": every bit is to be wrong with probability {_flips(scheme):.4g} end to end"
    return text


def _flips(scheme: CpaScheme | SignScheme) -> float:
    from fl.one_bit.theory import flip_target

    return flip_target(scheme.epsilon) or 0.0


def _anonymity(scheme: CpaScheme) -> str:
    """Lang et al. 2023, Proposition 2, beside what the codewords really leave."""
    from fl.one_bit.codebooks import Codebook
    from fl.one_bit.quantizers import build_quantizer
    from fl.one_bit.theory import anonymity

    points = build_quantizer(
        gamma=scheme.gamma, rate_bits=scheme.rate_bits, form=scheme.form, dimension=scheme.dimension
    ).points
    found = anonymity(Codebook(num_points=len(points), balanced=scheme.codewords == "balanced"), stages=scheme.stages)
    return (
        f"{len(points)} points per stage: a bit as it is leaves {found.least} of them possible at least, "
        f"{found.expected:.4g} on average (k-anonymity, {found.printed:.4g} as printed)"
    )


def _bound(scheme: ProbitScheme) -> str:
    from fl.one_bit.probit import build_probit

    first = build_probit(scheme, num_values=1).b
    how = "at first and at most, then adaptive" if scheme.bound == "adaptive" else "throughout"
    return f"bound b = {first:.4g} {how}; a share beta of liars moves a parameter by at most {2 * first:.4g} beta"


def _rounded(share: float | None, learning: FedAvgConfig) -> int:
    return floor((share or 0.0) * learning.num_devices + 0.5)


def _name(learning: FedAvgConfig) -> str:
    return plain_setting("learning.aggregation", learning.aggregation.model_dump(mode="json"))
