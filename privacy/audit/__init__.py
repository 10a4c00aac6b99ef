"""The statistics of the distinguishing game: what counted errors of an attacker say about epsilon, with confidence."""

from privacy.audit.game import AuditResult, halves, judge
from privacy.audit.limits import (
    Form,
    epsilon_lower,
    error_limits,
    gaussian_epsilon,
    mu_lower,
    renyi_lower,
)

__all__ = [
    "AuditResult",
    "Form",
    "epsilon_lower",
    "error_limits",
    "gaussian_epsilon",
    "halves",
    "judge",
    "mu_lower",
    "renyi_lower",
]
