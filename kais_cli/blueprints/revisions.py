"""List and read the revisions of a blueprint, and roll back to one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from kais import canary, compatibility, labels, names
from kais.conditions import ConditionType
from kais.resources import blueprint_revision
from kais.resources.blueprint import Blueprint, TemplateSpec
from kais.resources.blueprint_revision import BlueprintRevision
from kais_cli import errors
from kais_cli.blueprints import lookup
from kais_cli.views import output, quantities, table_layout, text_layout

if TYPE_CHECKING:
    from kais_cli.ports import Body
    from kais_cli.session import Session


def list_revisions(session: Session, name: str) -> tuple[Blueprint, list[BlueprintRevision]]:
    """Read a blueprint and its kept revisions, newest first.

    Raises:
        Refused: There is no such blueprint.
    """
    blueprint = lookup.get(session, name)
    bodies = session.cluster.list("BlueprintRevision", session.namespace)
    revisions = [BlueprintRevision.from_dict(body) for body in bodies]
    blueprint_revisions = [revision for revision in revisions if revision.spec.blueprint == name]
    return blueprint, sorted(blueprint_revisions, key=lambda revision: -revision.spec.revision)


def format_list(
    blueprint: Blueprint, revisions: Sequence[BlueprintRevision], *, now: datetime
) -> str:
    """Format a list of revisions: an asterisk marks the served one, the last line is the canary."""
    served = blueprint.status.served_revision
    rows = [_row(revision, served, now) for revision in revisions]
    headers = ("REVISION", "AGE", "COMPILED", "COMPATIBLE", "USES", "SUCCESS", "CHANGES")
    rollout = blueprint.condition(ConditionType.ROLLED_OUT)
    line = "" if rollout is None else f"\n{rollout.reason}: {rollout.message}\n"
    return table_layout.format_table(headers, rows) + line


def format_revision(revision: BlueprintRevision) -> str:
    """Format the template of one revision as YAML, below a line about its changes."""
    spec = revision.spec
    template = output.dump(blueprint_revision.template_of(spec.template()), output.Format.YAML)
    head = f"{spec.blueprint}, revision {spec.revision}: {spec.changes or 'first'}"
    return f"{head}\n{text_layout.indent(template)}"


def decide_canary(session: Session, name: str, *, action: Literal["promote", "stop"]) -> int:
    """Ask the operator to promote or stop the canary; return its revision.

    Raises:
        Refused: There is no canary, or it has ended.
    """
    blueprint = lookup.get(session, name)
    current = canary.parse(blueprint.metadata.annotations)
    if current is None or blueprint.spec.rollout is None:
        raise errors.Refused(
            f"{blueprint.ref} has no canary; with spec.rollout, its next revision is one"
        )
    if current.verdict is canary.Verdict.PROMOTED:
        raise errors.Refused(
            f"revision {current.revision} of {blueprint.ref} is promoted already;"
            f" to return, run `kais blueprint rollback {name}`"
        )
    if action == "stop" and current.verdict is not None:
        raise errors.Refused(
            f"the canary of {blueprint.ref}, revision {current.revision}, has ended:"
            f" {current.verdict}"
        )
    annotations = {labels.CANARY_REQUEST: canary.request(action, current)}
    patch = {"metadata": {"uid": blueprint.metadata.uid, "annotations": annotations}}
    session.cluster.patch("Blueprint", session.namespace, name, patch)
    return current.revision


def _row(revision: BlueprintRevision, served: int | None, now: datetime) -> tuple[object, ...]:
    status, number = revision.status, revision.spec.revision
    return (
        f"{number}*" if number == served else str(number),
        quantities.format_age(revision.metadata.creation_timestamp, now),
        _status(revision, ConditionType.COMPILED),
        _status(revision, ConditionType.COMPATIBLE),
        status.usage_count,
        quantities.format_percent(status.avg_success_rate),
        revision.spec.changes or "first",
    )


def _status(revision: BlueprintRevision, type_: str) -> str | None:
    condition = revision.condition(type_)
    return condition.status if condition else None


def get(session: Session, name: str, number: int) -> BlueprintRevision:
    """Read one revision.

    Raises:
        Refused: The revision does not exist, or was deleted.
    """
    body = session.cluster.get(
        "BlueprintRevision", session.namespace, names.revision_name(name, number)
    )
    if body is None:
        _, revisions = list_revisions(session, name)
        available = ", ".join(str(r.spec.revision) for r in reversed(revisions)) or "none"
        raise errors.Refused(
            f"Blueprint/{session.namespace}/{name} has no revision {number}; it has {available}"
        )
    return BlueprintRevision.from_dict(body)


def roll_back(
    session: Session, name: str, *, target: int | None, dry_run: bool
) -> tuple[Body, int, str]:
    """Restore an earlier template; return the blueprint, the revision and the changes.

    Raises:
        Refused: There is no such revision, or without a target none to return to.
    """
    blueprint, revisions = list_revisions(session, name)
    number = target if target is not None else _default_target(blueprint, revisions)
    template = get(session, name, number).spec.template()
    target_fields = blueprint_revision.template_of(template)
    current_fields = blueprint_revision.template_of(blueprint.spec)
    changes = compatibility.compare(_template(current_fields), template).changes
    # Each field is replaced completely: a merge would keep what the old template does not have.
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": blueprint.metadata.uid}
    ]
    for field in sorted(current_fields.keys() | target_fields.keys()):
        if field in target_fields:
            operations.append(
                {"op": "add", "path": f"/spec/{field}", "value": target_fields[field]}
            )
        else:
            operations.append({"op": "remove", "path": f"/spec/{field}"})
    updated = session.cluster.patch(
        "Blueprint", session.namespace, name, operations, dry_run=dry_run
    )
    return updated, number, changes


def _template(tree: dict[str, Any]) -> TemplateSpec:
    return TemplateSpec.from_dict(tree)


def _default_target(blueprint: Blueprint, revisions: Sequence[BlueprintRevision]) -> int:
    """Choose the served revision unless the blueprint has its template, else the one before."""
    spec_hash = blueprint_revision.hash_of(blueprint.spec)
    present = {
        r.spec.revision for r in revisions if blueprint_revision.hash_of(r.spec) == spec_hash
    }
    kept = {r.spec.revision for r in revisions}
    served = blueprint.status.served_revision
    if served in kept - present:
        return served
    limit = served or max(present, default=None)
    earlier = [
        r.spec.revision
        for r in revisions
        if r.spec.revision not in present
        and (limit is None or r.spec.revision < limit)
        and _status(r, ConditionType.COMPILED) != "False"
    ]
    if not earlier:
        before = "" if limit is None else f" before {limit}"
        raise errors.Refused(
            f"{blueprint.ref} has no revision{before} that compiles;"
            f" see `kais blueprint history {blueprint.metadata.name}"
            f" -n {blueprint.metadata.namespace}`"
        )
    return max(earlier)
