"""Models of the user, `module:function`: the only code that a scenario can run, and only if allowed."""

from __future__ import annotations

from dataclasses import replace

from fl.models.code import code_digest
from fl.tasks.base import LearningError
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.schema.consistency.resolve import own_model
from scenarios.schema.errors import ScenarioError, listing, mark_of, problem_and_remedy
from scenarios.schema.loader import LoadedScenario, validate

ALLOW = "--allow-code"


def functions_of(plan: Plan) -> tuple[str, ...]:
    """The user's own models in a plan, as `module:function`."""
    found = (own_model(point.scenario) for point in plan.points)
    return tuple(dict.fromkeys(model.function for model in found if model is not None and model.function is not None))


def with_own_code(loaded: LoadedScenario, plan: Plan, *, allowed: bool) -> tuple[LoadedScenario, Plan]:
    """Add the digest of every file with a model of the user to a scenario and its plan.

    Nothing is imported here. ScenarioError for code that is not `allowed`, that cannot be found, or that has changed
    since `code` of the scenario was written.
    """
    functions = functions_of(plan)
    if not functions:
        return loaded, plan
    file, line = mark_of(("learning", "model"), loaded.marks)
    if not allowed:
        raise ScenarioError(
            problem=f"the scenario names {listing(functions, last='and')}, Python code that runs with your rights",
            remedy=f"read it, and if you trust it and all that it imports, add {ALLOW}",
            file=file or loaded.source,
            line=line,
            key="learning.model",
        )
    digests: dict[str, str] = {}
    for function in functions:
        module = function.partition(":")[0]
        try:
            digests[module] = code_digest(function)
        except LearningError as error:
            problem, remedy = problem_and_remedy(error)
            raise ScenarioError(problem=problem, remedy=remedy, file=file or loaded.source, line=line) from error
        known = loaded.scenario.code.get(module)
        if known is not None and known != digests[module]:
            raise ScenarioError(
                problem=f"its file now has SHA-256 {digests[module][:12]}..., when this was written {known[:12]}...",
                remedy="put the file back, or leave code: out to compute every trial anew",
                file=file or loaded.source,
                key=f"code.{module}",
            )
    document = {**loaded.document, "code": digests}
    pinned = replace(loaded, document=document, scenario=validate(document, marks=loaded.marks))
    return pinned, expand(pinned)
