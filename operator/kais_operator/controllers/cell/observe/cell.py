"""Read a Cell with its formation, account, workloads, and whether it is registered."""

from __future__ import annotations

from dataclasses import replace

from kais import labels, names
from kais.conditions import ConditionType
from kais.resources.cell import Cell
from kais.resources.cell_template import CellMode
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.cell.decide import cell as decision
from kais_operator.controllers.cell.decide import (
    cell_identity,
    environment,
    minds,
    service_workload_manifests,
)
from kais_operator.controllers.cell.decide.cell import CellObserved
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.controllers.cell.decide.service_workload_actions import Children, Installation
from kais_operator.controllers.cell.observe import spawn_limits
from kais_operator.controllers.shared.observe import shared_reads, vanished_runs
from kais_operator.planning.plan import Body, ObjectRef, RegisterPrincipal
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import Cluster, World


async def observe_cell(world: World, ref: ObjectRef) -> Observation | None:
    """Read a Cell with the inputs of its decision; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    cell = shared_reads.parse_resource(Cell, body)
    if isinstance(cell, InvalidObject):
        return Observation(body, cell)
    if cell.is_deleting:
        return Observation(body, CellObserved(CellInFormation(cell, None), None))
    vanished = await vanished_runs.reserved_by_vanished(world, cell)
    workloads = await _workloads(world, cell)
    placement = world.placement
    installation = Installation(
        placement.knowledge_url,
        placement.allowed_additions,
        placement.agents,
        placement.pod_policy,
    )
    if minds.obstacle(cell.spec, placement.agents) is not None:
        resting = CellObserved(
            CellInFormation(cell, None), None, workloads=workloads, installation=installation,
            vanished_runs=vanished,
        )  # fmt: skip
        return Observation(body, resting)
    cluster = world.cluster
    formation = await shared_reads.formation_of(cluster, ref.namespace, cell.spec.formation_ref)
    cell_in_formation = cell_identity.in_formation(cell, formation)
    namespace = await cluster.get(ObjectRef("Namespace", "", ref.namespace))
    observed = CellObserved(
        cell_in_formation=cell_in_formation,
        account=await _account(cluster, cell),
        spec_map=await _spec_map(cluster, cell),
        workloads=workloads,
        sharing=await shared_reads.scopes_sharing_account(cluster, cell),
        ancestry=await spawn_limits.read_ancestry(world, cell_in_formation),
        realm_uid=namespace["metadata"]["uid"] if namespace else "",
        realm_labels=(namespace["metadata"].get("labels") or {}) if namespace else {},
        store_problem=world.sync_state.unavailable_reason(),
        installation=installation,
        vanished_runs=vanished,
    )
    return Observation(body, _with_registration(world, observed))


async def _workloads(world: World, cell: Cell) -> Children:
    """Read a service cell's children; a task cell may have some if it was a service cell before."""
    cluster, metadata = world.cluster, cell.metadata
    deployment = await cluster.get_child(
        ObjectRef("Deployment", metadata.namespace, names.deployment_name(metadata.name))
    )
    service = await cluster.get_child(
        ObjectRef("Service", metadata.namespace, names.service_name(metadata.name))
    )
    if cell.spec.effective_mode is not CellMode.SERVICE or deployment is None:
        return Children(deployment, service)
    selector_labels = service_workload_manifests.selector_of(cell) | {
        labels.MANAGED_BY: labels.MANAGER
    }
    selector = ",".join(f"{key}={value}" for key, value in selector_labels.items())
    pods_found = await cluster.list("Pod", metadata.namespace, labels=selector)
    return Children(deployment, service, service_workload_manifests.own_pods(cell, pods_found))


async def _account(cluster: Cluster, cell: Cell) -> Body | None:
    """Read the account of a cell: its child, or a borrowed one, which no watch reports."""
    ref = ObjectRef("ServiceAccount", cell.metadata.namespace, cell_identity.account_name(cell))
    if cell.spec.service_account_name is not None:
        return await cluster.get(ref, fresh=True)
    return await cluster.get_child(ref)


async def _spec_map(cluster: Cluster, cell: Cell) -> Body | None:
    """Read the ConfigMap of a cell's spec, which only large specs have."""
    if not environment.has_spec_file(cell):
        return None
    name = names.cell_spec_map_name(cell.metadata.name)
    return await cluster.get_child(ObjectRef("ConfigMap", cell.metadata.namespace, name))


def _with_registration(world: World, observed: CellObserved) -> CellObserved:
    """Add whether the knowledge service has the registration, or why it does not take it."""
    if observed.account is None:
        return observed
    uid = observed.account["metadata"]["uid"]
    principal = decision.principal_for(observed, account_uid=uid)
    return replace(
        observed,
        is_registered=world.sync_state.is_registered(principal),
        registration_failure=world.sync_state.failure(RegisterPrincipal(principal).key),
    )


CONTROLLER = Controller(
    "Cell",
    observe_cell,
    shared_reads.decide_or_report_invalid(decision.decide_cell, summary=ConditionType.READY),
)
