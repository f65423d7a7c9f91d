"""Look up a blueprint and the revision for a new instance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kais import names
from kais.conditions import ConditionType
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision
from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.ports import Target

if TYPE_CHECKING:
    from kais_cli.session import Session

_COMPILE_TIMEOUT = timedelta(
    seconds=15
)  # how long the operator may take to process a blueprint that was just applied


def get(session: Session, name: str) -> Blueprint:
    """Read a Blueprint in the session's namespace.

    Raises:
        Refused: There is no Blueprint of that name.
    """
    return Blueprint.from_dict(resource_access.get(session, "Blueprint", name))


def revision(session: Session, name: str, *, number: int | None = None) -> BlueprintRevision:
    """Read the revision for a new instance: the given one, otherwise the served one.

    Waits for the operator if the blueprint was just applied.

    Raises:
        Refused: There is no such blueprint or revision, or none that compiles.
    """
    blueprint = get(session, name)
    if number is None:
        number = _wait_for_served_revision(session, blueprint)
    body = session.cluster.get(
        "BlueprintRevision", session.namespace, names.revision_name(name, number)
    )
    if body is None:
        available = ", ".join(str(v.version) for v in blueprint.status.versions) or "none"
        raise errors.Refused(f"{blueprint.ref} has no revision {number}; it has {available}")
    return BlueprintRevision.from_dict(body)


def _wait_for_served_revision(session: Session, blueprint: Blueprint) -> int:
    started_at = session.environment.now()
    if not _is_observed(blueprint):
        target = Target("Blueprint", blueprint.metadata.namespace, blueprint.metadata.name)
        for change in session.cluster.watch([target]):
            if change is not None and change.body is not None:
                blueprint = Blueprint.from_dict(change.body)
            if _is_observed(blueprint) or session.environment.now() - started_at > _COMPILE_TIMEOUT:
                break
    served = blueprint.status.served_revision
    if served:
        return served
    if not _is_observed(blueprint):
        raise errors.Refused(
            f"the operator has not processed {blueprint.ref}; check that kais-operator runs"
        )
    compiled = blueprint.condition(ConditionType.COMPILED)
    reason = compiled.message if compiled else "it has no condition Compiled"
    raise errors.Refused(f"{blueprint.ref} has no revision that can be used: {reason}")


def _is_observed(blueprint: Blueprint) -> bool:
    return blueprint.status.observed_generation == blueprint.metadata.generation
