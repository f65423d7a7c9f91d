"""What a service cell needs besides its account: its Deployment and Service, and their standing.

Also what becomes of them when the cell wants none any more: a cell that was made a task, one that
lost the leave to use its account, one that is scaled down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

from kais import labels
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import additions, service_workloads
from kais_operator.controllers.cell.decide.cell_identity import Housed, Identity
from kais_operator.planning import children
from kais_operator.planning.children import ChildDecision, Parent, Standing
from kais_operator.planning.plan import Action, Apply, Body, Delete, EmitEvent, PatchSpec


@dataclass(frozen=True)
class Children:
    """What stands under the names of a service cell's children, and its pods."""

    deployment: Body | None = None
    service: Body | None = None
    pods: Sequence[Body] = ()


NO_CHILDREN = Children()


@dataclass(frozen=True)
class Installation:
    """What the installation sets for every service cell.

    Attributes:
        knowledge_url: the store's address as pods reach it.
        allowed_additions: paths that others may add to a Deployment or Service.
    """

    knowledge_url: str = ""
    allowed_additions: tuple[str, ...] = ()


INSTALLATION = Installation()


@dataclass(frozen=True)
class Workloads:
    """What to do about a service cell's children.

    Attributes:
        actions: writes, in order.
        replicas: pods that are wanted.
        reason: why a child is not as wanted, None when all are or will be.
        message: the same in words; what stands there when all is well.
        requeue_after: when to look again at a name that somebody else has.
    """

    actions: tuple[Action, ...] = ()
    replicas: int = 1
    reason: Reason | None = None
    message: str = ""
    requeue_after: timedelta | None = None


def wanted_replicas(cell: Cell) -> int:
    """Give 0 for a cell that its formation scaled down after its mission, else 1."""
    is_down = cell.metadata.annotations.get(labels.SCALED_DOWN) == labels.SCALED_DOWN_YES
    return 0 if is_down else 1


def decide_workloads(
    housed: Housed,
    who: Identity,
    parent: Parent,
    *,
    found: Children,
    installation: Installation,
    now: datetime,
) -> Workloads:
    """Choose the writes that bring a service cell to its Deployment and its Service."""
    replicas = wanted_replicas(housed.cell)
    desired = service_workloads.workload(
        parent, housed, who, knowledge_url=installation.knowledge_url, replicas=replicas
    )
    allowed = installation.allowed_additions
    deployment = service_workloads.keeping(
        desired.deployment, found.deployment, housed=housed, parent=parent, allowed=allowed
    )
    first = [
        (children.decide_child(deployment, found.deployment, parent), deployment, found.deployment),
        (_decide_service(desired.service, found.service, parent), desired.service, found.service),
    ]
    decided: list[ChildDecision] = []
    staying: list[str] = []
    for decision, body, seen in first:
        if seen is None or decision.standing is not Standing.OURS:
            decided.append(decision)
            continue
        removal, paths = additions.decide(body, seen, allowed=allowed, now=now)
        actions = _with_alternative(decision, removal)
        if _is_as_applied(decision, body, seen):
            actions = removal.actions or actions
            staying += paths
        decided.append(replace(removal, actions=actions))
    trouble = next((d for d in decided if d.reason is Reason.NAME_TAKEN), None)
    trouble = trouble or next((d for d in decided if d.reason is not None), None)
    names = f"Deployment and Service {deployment['metadata']['name']}"
    if staying:
        names += f" (with {additions.listed(staying)}, which the installation allows)"
    return Workloads(
        actions=tuple(action for d in decided for action in d.actions),
        replicas=replicas,
        reason=trouble.reason if trouble else None,
        message="; ".join(d.message for d in decided if d.message) or names,
        requeue_after=min((d.requeue_after for d in decided if d.requeue_after), default=None),
    )


def _with_alternative(decision: ChildDecision, removal: ChildDecision) -> tuple[Action, ...]:
    """Remove additions instead of an apply that they make invalid, if they are not contested.

    Without additions, a refusal has another cause and ends the pass.
    """
    if not removal.actions and removal.reason is None:
        return decision.actions
    alternative = cast("tuple[PatchSpec | EmitEvent, ...]", removal.actions)
    return tuple(
        replace(action, if_invalid=alternative) if isinstance(action, Apply) else action
        for action in decision.actions
    )


def _is_as_applied(decision: ChildDecision, desired: Body, seen: Body) -> bool:
    """Whether a child of ours is what was last applied, so that others made each difference."""
    if any(isinstance(action, Delete) for action in decision.actions):
        return False
    carried = seen["metadata"].get("labels") or {}
    is_same = carried.get(labels.SPEC_HASH) == desired["metadata"]["labels"][labels.SPEC_HASH]
    return is_same or not decision.actions


def stopped(parent: Parent, found: Children) -> tuple[Action, ...]:
    """Take the pod away from a cell that may not run, and leave all else as it is."""
    live = found.deployment
    if live is None or children.standing(live, parent) is not Standing.OURS:
        return ()
    if live["spec"].get("replicas", 1) == 0:
        return ()
    return (Apply(_without_pods(live, parent), uid=live["metadata"]["uid"]),)


def removed(parent: Parent, found: Children) -> tuple[Action, ...]:
    """Remove the children of a cell that is no service any more; those of others stay."""
    return tuple(_deletions(parent, (found.service, found.deployment)))


def _decide_service(desired: Body, seen: Body | None, parent: Parent) -> ChildDecision:
    """Choose the write for the Service; one that changes between headless and not is made anew."""
    decision = children.decide_child(desired, seen, parent)
    is_changing = seen is not None and _is_headless(seen) != _is_headless(desired)
    if seen is None or decision.standing is not Standing.OURS or not is_changing:
        return decision
    return ChildDecision(
        decision.standing, (Delete(children.ref_of(seen), uid=seen["metadata"]["uid"]),)
    )


def _is_headless(service: Body) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def _deletions(parent: Parent, found: Sequence[Body | None]) -> Iterator[Action]:
    for body in found:
        if body is not None and children.standing(body, parent) is Standing.OURS:
            yield Delete(children.ref_of(body), uid=body["metadata"]["uid"])


def _without_pods(live: Body, parent: Parent) -> Body:
    """Make the Deployment with the template that it has and no pod."""
    metadata = live["metadata"]
    return {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {
                key: value
                for key, value in (metadata.get("annotations") or {}).items()
                if key in (labels.RENDERED_FROM, labels.RENDERED)
            },
            "ownerReferences": [parent.owner_reference()],
        },
        "spec": {
            **{key: live["spec"][key] for key in ("selector", "strategy", "template")},
            "replicas": 0,
        },
    }
