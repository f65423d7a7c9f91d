"""Objects as the API server stores them, and a Plan as a table of decisions states it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kais_operator.planning.plan import (
    Action,
    Apply,
    Body,
    CloseRun,
    Create,
    Delete,
    DeleteScope,
    EmitEvent,
    EndCommands,
    InjectKnowledge,
    PatchMetadata,
    PatchSpec,
    Plan,
    PutRun,
    PutScope,
    RecordEpisodes,
    RefreshStatistics,
    RegisterPrincipal,
    RequestExtraction,
    RunInContainer,
    SetAside,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CREATED_AT = "2026-01-01T11:00:00Z"


@dataclass(frozen=True)
class PlanSummary:
    """The essence of a Plan.

    Attributes:
        actions: each as `KIND OBJECT DETAILS`, in order.
        conditions: `STATUS REASON` by type; empty when no status is written.
        requeue_s: seconds until the next look; None waits for a watch event.
    """

    actions: tuple[str, ...] = ()
    conditions: dict[str, str] = field(default_factory=dict)
    requeue_s: float | None = None


def stored(body: Body, **metadata: Any) -> Body:
    """Complete a body by the metadata that the API server fills in; `metadata` replaces it."""
    filled = {
        "uid": f"uid-{body['metadata']['name']}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": CREATED_AT,
    }
    return {**body, "metadata": {**filled, **body["metadata"], **metadata}}


def created(plan: Plan, kind: str) -> Body:
    """Give the one object of a kind that a Plan creates, as it is stored then."""
    (body,) = [
        action.body
        for action in plan.actions
        if isinstance(action, Create) and action.body["kind"] == kind
    ]
    return stored(body)


def summarize(plan: Plan) -> PlanSummary:
    conditions = (plan.status or {}).get("conditions") or ()
    return PlanSummary(
        tuple(describe(action) for action in plan.actions),
        {c["type"]: f"{c['status']} {c['reason']}" for c in conditions},
        plan.requeue_after.total_seconds() if plan.requeue_after is not None else None,
    )


def describe(action: Action) -> str:
    """State an action in a line: its kind, its object, and what tells it from another."""
    details = _cluster_write(action) or _store_call(action) or _side_effect(action)
    return " ".join([type(action).__name__, *details])


def _cluster_write(action: Action) -> list[str]:
    match action:
        case Create(body) | Apply(body) | InjectKnowledge(map_body=body):
            return [f"{body['kind']}/{body['metadata']['name']}"]
        case PatchMetadata():
            return [f"{action.ref.kind}/{action.ref.name}", *_changes(action)]
        case Delete(ref) | PatchSpec(ref) | SetAside(ref):
            return [f"{ref.kind}/{ref.name}"]
    return []


def _store_call(action: Action) -> list[str]:
    match action:
        case RegisterPrincipal(principal):
            return [principal.name]
        case PutScope(path) | DeleteScope(path):
            return [path]
        case PutRun(run=run):
            return [run.outcome or "open"]
        case CloseRun(outcome=outcome):
            return [outcome.value]
        case RecordEpisodes(run_id) | RequestExtraction(run_id):
            return [run_id]
    return []


def _side_effect(action: Action) -> list[str]:
    match action:
        case RunInContainer(argv=argv):
            return list(argv)
        case EndCommands(ref):
            return [ref.name]
        case RefreshStatistics(namespace, blueprint):
            return [namespace, *([blueprint] if blueprint else [])]
        case EmitEvent(type=type_, reason=reason):
            return [type_, reason]
    return []


def _changes(patch: PatchMetadata) -> list[str]:
    changes = {**patch.labels, **patch.annotations}
    marks = [f"{'-' if changes[key] is None else '+'}{key}" for key in sorted(changes)]
    if patch.finalizers is not None:
        marks.append(f"finalizers={','.join(patch.finalizers)}")
    if patch.owner_references is not None:
        marks.append(f"owners={','.join(owner['name'] for owner in patch.owner_references)}")
    return marks
