"""Statistics of the distinguishing game: lower bounds on epsilon from counted errors of an attacker."""

from privacy.audit.game import AuditResult, halves, judge
from privacy.audit.limits import Form, epsilon_lower, error_limits, gaussian_epsilon, mu_lower, renyi_lower

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
