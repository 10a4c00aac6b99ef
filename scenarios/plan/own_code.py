"""Models of the user, `module:function`: beside plug-ins the only code that a scenario can run, and only if allowed."""

from __future__ import annotations

from dataclasses import replace

from fl.models.custom import code_digest
from fl.tasks.base import LearningError
from phy.config.conflict import problem_and_remedy
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.consistency.resolve import own_function
from scenarios.schema.errors import KeyPath, listing
from scenarios.schema.loader import LoadedScenario, validate
from scenarios.schema.permission import ALLOW, is_code_allowed

_MODEL: KeyPath = ("learning", "model")


def functions_of(plan: Plan) -> tuple[str, ...]:
    """The user's own models in a plan, as `module:function`."""
    return tuple(dict.fromkeys(filter(None, (own_function(point.scenario) for point in plan.points))))


def with_own_code(loaded: LoadedScenario, plan: Plan) -> tuple[LoadedScenario, Plan]:
    """Add the digest of every file with a model of the user to a scenario and its plan.

    Nothing is imported here. ScenarioError for code without permission, that cannot be found, or that has changed
    since `code` of the scenario was written.
    """
    functions = functions_of(plan)
    if not functions:
        return loaded, plan
    if not is_code_allowed():
        problem = f"the scenario names {listing(functions, last='and')}, Python code that runs with your rights"
        remedy = f"read it, and if you trust it and all that it imports, add {ALLOW}"
        raise loaded.error(_MODEL, problem, remedy)
    digests: dict[str, str] = {}
    for function in functions:
        module = function.partition(":")[0]
        try:
            new = digests[module] = code_digest(function)
        except LearningError as error:
            raise loaded.error(_MODEL, *problem_and_remedy(error)) from error
        known = loaded.scenario.code.get(module, new)
        if known != new:
            problem = f"its file now has SHA-256 {new[:12]}..., when this was written {known[:12]}..."
            remedy = "put the file back, or leave code: out to compute every trial anew"
            raise loaded.error(("code", module), problem, remedy)
    document = {**loaded.document, "code": {**loaded.scenario.code, **digests}}
    pinned = replace(loaded, document=document, scenario=validate(document, marks=loaded.marks))
    return pinned, expand(pinned)
