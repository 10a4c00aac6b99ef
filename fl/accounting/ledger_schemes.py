"""What schemes with privacy of their own released: PRoBit by its b, Laplace and JoPEQ by their noise, MVU by its table.

Each number or block is a release of its own under pure epsilon: of the noise that was really added, which for JoPEQ is
less than what the paper counts, since the server knows the dither.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.accounting.budget_forms import Form
from fl.accounting.budget_releases import jopeq_epsilon
from fl.accounting.ledger_sent import ChannelNoise
from fl.config import FedAvgConfig
from fl.config.scheme import JopeqScheme, LaplaceScheme, MvuScheme, ProbitScheme
from fl.footprint.fedavg import dimension
from fl.results import PrivacyAccount, TrialResult
from fl.schemes.probit.probit_bound import dp_bound, privacy_loss
from privacy.events.published import CLEAR_SCALES, local_claim

DITHER_KNOWN = "the server knows the dither, so that only the noise added before it is counted"
NOT_CLIPPED = "numbers beyond [-1, 1] are not clipped: no epsilon holds for them"


def scheme_account(
    scheme: ProbitScheme | LaplaceScheme | JopeqScheme | MvuScheme,
    *,
    form: Form,
    config: FedAvgConfig,
    sent: NDArray[np.bool_],
    noise: ChannelNoise,
    result: TrialResult,
) -> PrivacyAccount:
    """The ledger of a scheme that keeps its epsilon by other means than flipped bits; `form` of what it sends."""
    if isinstance(scheme, ProbitScheme):
        num_values = dimension(config) or result.on_air.num_values
        return _probit(scheme, form=form, num_values=num_values, sent=sent, noise=noise, result=result)
    if isinstance(scheme, MvuScheme):
        claim = local_claim(epsilon=scheme.epsilon, per_upload=False, source="MVU, P_ij <= e^eps P_i'j")
        return PrivacyAccount(ledger=form.ledger(np.where(sent, scheme.epsilon, np.nan)), published=(claim,))
    published = (
        local_claim(
            epsilon=scheme.epsilon,
            per_upload=False,
            source="Lang et al. 2023, Section V",
            assumptions=(CLEAR_SCALES,),
        ),
    )
    if scheme.as_coded:
        ledger = form.ledger(np.where(sent, 0.0, np.nan), assumptions=(NOT_CLIPPED,))
    elif isinstance(scheme, JopeqScheme):
        each = np.where(sent, jopeq_epsilon(scheme), np.nan)
        ledger = form.ledger(each, assumptions=(CLEAR_SCALES, DITHER_KNOWN))
    else:
        ledger = form.ledger(np.where(sent, scheme.epsilon, np.nan), assumptions=(CLEAR_SCALES,))
    return PrivacyAccount(ledger=ledger, published=published)


def _probit(
    scheme: ProbitScheme,
    *,
    form: Form,
    num_values: int,
    sent: NDArray[np.bool_],
    noise: ChannelNoise,
    result: TrialResult,
) -> PrivacyAccount:
    """b of every round by the exact loss of `privacy_loss`; a credited channel lets the device's own b be smaller."""
    if scheme.epsilon is None or scheme.l1_clip is None:
        return PrivacyAccount(ledger=form.ledger(np.where(sent, 0.0, np.nan)))
    l1_clip, clip = scheme.l1_clip, scheme.clip

    def spent(bounds: NDArray[np.float64]) -> NDArray[np.float64]:
        values, place = np.unique(bounds, return_inverse=True)
        losses = [privacy_loss(float(b), l1_clip=l1_clip, clip=clip, num_values=num_values) for b in values]
        return np.where(sent, np.asarray(losses)[place].reshape(sent.shape), np.nan)

    met = np.broadcast_to(np.asarray(result.rounds["b"], np.float64)[:, None], sent.shape)
    low = np.nan_to_num(np.asarray(result.devices.get("probed_low", np.zeros(sent.shape)), np.float64))
    native = scheme.channel == "native" and bool(low[sent].any())
    smallest = float(dp_bound(epsilon=scheme.epsilon, l1_clip=l1_clip, clip=clip, flip_rate=0.5))
    own = spent(np.maximum(smallest, (1.0 - 2.0 * low) * met)) if native else spent(np.array(met))
    claim = local_claim(
        epsilon=scheme.epsilon, per_upload=True, source="Lan et al., Theorem 2", credited=scheme.channel == "native"
    )
    if native and noise.independent:
        ledger = form.ledger(
            spent(np.array(met)),
            uncredited=own,
            credit_failure=1.0 - scheme.confidence,
            credit_assumptions=noise.reasons,
        )
    else:
        ledger = form.ledger(own, assumptions=noise.reasons if native else ())
    return PrivacyAccount(ledger=ledger, published=(claim,))
