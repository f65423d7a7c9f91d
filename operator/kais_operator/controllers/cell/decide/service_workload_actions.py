"""Decide about the Deployment and the Service of a service cell.

The module also stops or deletes them when the cell no longer needs a pod: it became a task cell,
it lost the permission to use its account, or it is scaled down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

from kais import labels
from kais.pod_defaults import NO_POLICY, PodPolicy
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais_operator.controllers.cell.decide import service_workload_manifests, workload_drift
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity, CellInFormation
from kais_operator.planning import children
from kais_operator.planning.agent_settings import NO_AGENTS, AgentSettings
from kais_operator.planning.children import ChildDecision, Ownership, Parent
from kais_operator.planning.plan import Action, Apply, Body, Create, Delete, EmitEvent, PatchSpec


@dataclass(frozen=True)
class Children:
    """The objects with the names of a service cell's children, and its pods."""

    deployment: Body | None = None
    service: Body | None = None
    pods: Sequence[Body] = ()


NO_CHILDREN = Children()


@dataclass(frozen=True)
class Installation:
    """Settings of the installation for every service cell.

    Attributes:
        knowledge_url: the address of the knowledge service as pods reach it.
        allowed_additions: paths that other clients may add to a Deployment or Service.
        agents: settings for every cell with a mind.
        pod_policy: defaults of the pods of cells, and the names that they may use.
    """

    knowledge_url: str = ""
    allowed_additions: tuple[str, ...] = ()
    agents: AgentSettings = NO_AGENTS
    pod_policy: PodPolicy = NO_POLICY


INSTALLATION = Installation()


@dataclass(frozen=True)
class Workloads:
    """The decision about a service cell's children.

    Attributes:
        actions: writes, in order.
        replicas: desired number of pods.
        reason: why a child is not as desired; None when all are, or will be after the writes.
        message: describes the reason, or the children when there is no problem.
        requeue_after: delay until a name that another owner has is checked again.
    """

    actions: tuple[Action, ...] = ()
    replicas: int = 1
    reason: Reason | None = None
    message: str = ""
    requeue_after: timedelta | None = None


def desired_replicas(cell: Cell) -> int:
    """Return 0 for a cell that its formation scaled down after its mission, else 1."""
    is_down = cell.metadata.annotations.get(labels.SCALED_DOWN) == labels.SCALED_DOWN_YES
    return 0 if is_down else 1


def decide_workloads(
    cell_in_formation: CellInFormation,
    identity: CellIdentity,
    parent: Parent,
    *,
    live: Children,
    installation: Installation,
    now: datetime,
) -> Workloads:
    """Choose the writes for a service cell's Deployment and Service."""
    replicas = desired_replicas(cell_in_formation.cell)
    desired = service_workload_manifests.workload(
        parent,
        cell_in_formation,
        identity,
        knowledge_url=installation.knowledge_url,
        replicas=replicas,
        defaults=service_workload_manifests.defaults_of(
            cell_in_formation, live.deployment, parent=parent, policy=installation.pod_policy
        ),
        agents=installation.agents,
    )
    allowed = installation.allowed_additions
    deployment = service_workload_manifests.keep_rendered_template(
        desired.deployment,
        live.deployment,
        cell_in_formation=cell_in_formation,
        parent=parent,
        allowed=allowed,
    )
    decisions = [
        (_decide_deployment(deployment, live.deployment, parent), deployment, live.deployment),
        (_decide_service(desired.service, live.service, parent), desired.service, live.service),
    ]
    decided: list[ChildDecision] = []
    allowed_paths: list[str] = []
    for decision, body, live_child in decisions:
        if live_child is None or decision.ownership is not Ownership.OWNED:
            decided.append(decision)
            continue
        removal, paths = workload_drift.decide_removal(body, live_child, allowed=allowed, now=now)
        actions = _with_alternative(decision, removal)
        if _is_as_applied(decision, body, live_child):
            actions = removal.actions or actions
            allowed_paths += paths
        decided.append(replace(removal, actions=actions))
    problem = next((d for d in decided if d.reason is Reason.NAME_TAKEN), None)
    problem = problem or next((d for d in decided if d.reason is not None), None)
    names = f"Deployment and Service {deployment['metadata']['name']}"
    if allowed_paths:
        names += (
            f" (with {workload_drift.list_paths(allowed_paths)}, which the installation allows)"
        )
    return Workloads(
        actions=tuple(action for d in decided for action in d.actions),
        replicas=replicas,
        reason=problem.reason if problem else None,
        message="; ".join(d.message for d in decided if d.message) or names,
        requeue_after=min((d.requeue_after for d in decided if d.requeue_after), default=None),
    )


def _with_alternative(decision: ChildDecision, removal: ChildDecision) -> tuple[Action, ...]:
    """Return the writes; if additions make an apply invalid, their removal is executed instead.

    Contested additions are not removed. Without additions, an invalid apply has another cause and
    ends the reconcile.
    """
    if not removal.actions and removal.reason is None:
        return decision.actions
    alternative = cast("tuple[PatchSpec | EmitEvent, ...]", removal.actions)
    return tuple(
        replace(action, if_invalid=alternative) if isinstance(action, Apply) else action
        for action in decision.actions
    )


def _is_as_applied(decision: ChildDecision, desired: Body, live: Body) -> bool:
    """Whether a child was last applied as desired, so that other clients made every difference."""
    if any(isinstance(action, Delete) for action in decision.actions):
        return False
    carried = live["metadata"].get("labels") or {}
    is_same_hash = carried.get(labels.SPEC_HASH) == desired["metadata"]["labels"][labels.SPEC_HASH]
    return is_same_hash or not decision.actions


def stop_actions(parent: Parent, existing: Children) -> tuple[Action, ...]:
    """Scale a cell that may not run to zero, and leave everything else unchanged."""
    live = existing.deployment
    if live is None or children.ownership_of(live, parent) is not Ownership.OWNED:
        return ()
    if live["spec"].get("replicas", 1) == 0:
        return ()
    return (Apply(_without_pods(live, parent), uid=live["metadata"]["uid"]),)


def delete_actions(parent: Parent, live: Children) -> tuple[Action, ...]:
    """Delete the children of a cell that is no longer a service cell, but no foreign objects."""
    return tuple(_deletions(parent, (live.service, live.deployment)))


def _decide_deployment(desired: Body, live: Body | None, parent: Parent) -> ChildDecision:
    decision = children.decide_child(desired, live, parent)
    if decision.ownership is not Ownership.MISSING:
        return decision
    return replace(decision, actions=(Create(service_workload_manifests.new_deployment(desired)),))


def _decide_service(desired: Body, live: Body | None, parent: Parent) -> ChildDecision:
    """Choose the write for the Service; it is replaced when it becomes headless or ceases to be."""
    decision = children.decide_child(desired, live, parent)
    is_changing = live is not None and _is_headless(live) != _is_headless(desired)
    if live is None or decision.ownership is not Ownership.OWNED or not is_changing:
        return decision
    return ChildDecision(
        decision.ownership, (Delete(children.ref_of(live), uid=live["metadata"]["uid"]),)
    )


def _is_headless(service: Body) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def _deletions(parent: Parent, bodies: Sequence[Body | None]) -> Iterator[Action]:
    for body in bodies:
        if body is not None and children.ownership_of(body, parent) is Ownership.OWNED:
            yield Delete(children.ref_of(body), uid=body["metadata"]["uid"])


def _without_pods(live: Body, parent: Parent) -> Body:
    """Build the Deployment with its present template and no replicas."""
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
                if key in (labels.RENDERED_FROM, labels.RENDERED, labels.RENDERED_DEFAULTS)
            },
            "ownerReferences": [parent.owner_reference()],
        },
        "spec": {
            **{key: live["spec"][key] for key in ("selector", "strategy", "template")},
            **service_workload_manifests.progress_deadline(live),
            "replicas": 0,
        },
    }
