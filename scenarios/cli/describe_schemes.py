"""Text of `phyloop check` about aggregation, attackers and personal models."""

from __future__ import annotations

from fl.config import (
    AggregatorConfig,
    CpaScheme,
    FedAvgConfig,
    FlipMomentsConfig,
    FlmcConfig,
    JopeqScheme,
    LaplaceScheme,
    ProbitScheme,
    ReconstructionConfig,
    SignScheme,
)
from fl.config.studies import BitDistanceConfig
from fl.footprint import dimension, payload_bits
from scenarios.schema.labels.labels import plain_setting

_ANY = FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig | ReconstructionConfig


def sent(learning: FedAvgConfig) -> str:
    """Bits of an upload, and their codec or scheme."""
    scheme = learning.aggregation
    if isinstance(scheme, AggregatorConfig):
        robust = "" if scheme.name == "mean" else f", {_name(learning)} at the server"
        return f"{learning.codec.bits_per_value} bits per parameter ({learning.codec.name}){robust}"
    bits = payload_bits(learning)
    many = "bits per upload known at run time" if bits is None else f"{bits:,} bits per upload"
    return f"{many} ({_name(learning)})"


def others(learning: FedAvgConfig) -> list[str]:
    """Lines about the privacy and the bounds of a scheme, attackers, and personal models."""
    lines = []
    scheme, personal = learning.aggregation, learning.personal
    if promises(learning):
        lines.append(_promised(learning))
    if isinstance(scheme, CpaScheme):
        lines.append(_anonymity(scheme))
    if isinstance(scheme, ProbitScheme):
        lines.append(_bound(scheme, num_values=dimension(learning)))
    lines += attackers(learning)
    if personal is not None:
        lines.append(
            f"every device has a model of its own, pulled to the global one by lambda {personal.lam:g} and measured on "
            f"{personal.test_share:.0%} of its samples"
        )
    return lines


def attackers(learning: FlmcConfig | FedAvgConfig) -> list[str]:
    """A line on who attacks and how, where anybody does."""
    attack = learning.attack
    if attack is None:
        return []
    from fl.attacks.attacks import number_of

    text = f"{number_of(attack, learning.num_devices)} of {learning.num_devices} devices attack: "
    text += plain_setting("learning.attack.kind", attack.kind)
    if attack.kind == "jam":
        signal = plain_setting("learning.attack.signal", attack.signal)
        text += f" ({signal}), each at the full power of its radio whatever caps the others keep to"
    return [text]


def promises(learning: _ANY) -> bool:
    """Return True if the aggregation has its own epsilon."""
    scheme = learning.aggregation if isinstance(learning, FedAvgConfig | ReconstructionConfig) else AggregatorConfig()
    return not isinstance(scheme, AggregatorConfig) and scheme.epsilon is not None


def promise(learning: FedAvgConfig) -> tuple[str, str, str, str, str]:
    """Mechanism, epsilon and its scope, kappa, target bit error rate, and noise."""
    scheme = learning.aggregation
    if isinstance(scheme, AggregatorConfig) or scheme.epsilon is None:
        return "none", "", "", "", ""
    whose = f"{scheme.epsilon:g} per {'round' if isinstance(scheme, ProbitScheme) else 'number'}"
    if _unclipped(scheme):
        whose += ", as published"
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
        return f"epsilon {scheme.epsilon:g} for a whole upload in each round, by the bound b"
    stages = scheme.stages if isinstance(scheme, CpaScheme) else 1
    block = "block of 2 parameters" if getattr(scheme, "dimension", 1) == 2 else "parameter"
    text = f"epsilon {scheme.epsilon:g} for every {block} in each round"
    if _unclipped(scheme):
        return f"{text}: as published and not proved, because numbers beyond three standard deviations are not clipped"
    if stages > 1:
        text += f", and for each of the {stages} stages"
    if isinstance(scheme, CpaScheme | SignScheme):
        text += f": every bit is wrong with probability {_flips(scheme):.4g} end to end"
    return text


def _unclipped(scheme: object) -> bool:
    """Return True for noise on numbers of any size, as in the reference code: no epsilon holds."""
    return isinstance(scheme, JopeqScheme | LaplaceScheme) and scheme.as_coded


def _flips(scheme: CpaScheme | SignScheme) -> float:
    from fl.schemes.cpa.cpa_theory import flip_target

    return flip_target(scheme.epsilon) or 0.0


def _anonymity(scheme: CpaScheme) -> str:
    """k-anonymity by Lang et al. 2023, Proposition 2, beside that of the actual codewords."""
    from fl.schemes.cpa.codebooks import Codebook
    from fl.schemes.cpa.cpa_theory import anonymity
    from fl.schemes.quantizers import build_quantizer

    points = build_quantizer(
        gamma=scheme.gamma, rate_bits=scheme.rate_bits, form=scheme.form, dimension=scheme.dimension
    ).points
    found = anonymity(Codebook(num_points=len(points), balanced=scheme.codewords == "balanced"), stages=scheme.stages)
    return (
        f"{len(points)} points per stage: k-anonymity of an unflipped bit is at least {found.least}, on average "
        f"{found.expected:.4g} ({found.printed:.4g} as printed)"
    )


def _bound(scheme: ProbitScheme, *, num_values: int | None) -> str:
    from fl.schemes.probit.probit import first_bound
    from fl.schemes.probit.probit_bound import privacy_loss

    first = first_bound(scheme, num_values=num_values)
    how = "at first and at most, then adaptive" if scheme.bound == "adaptive" else "throughout"
    text = f"bound b = {first:.4g} {how}; a share beta of attackers moves a parameter by at most {2 * first:.4g} beta"
    if scheme.epsilon is None or scheme.l1_clip is None:
        return text
    spent = privacy_loss(first, l1_clip=scheme.l1_clip, clip=scheme.clip, num_values=num_values)
    return f"{text}; its exact loss is {spent:.4g} of epsilon {scheme.epsilon:g} ({scheme.form} bound)"


def _name(learning: FedAvgConfig) -> str:
    return plain_setting("learning.aggregation", learning.aggregation.model_dump(mode="json"))
