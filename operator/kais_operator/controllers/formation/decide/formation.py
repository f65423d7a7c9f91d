"""Decide what a Formation needs: its Cells, topology, workspace, and how many Cells are ready.

`pruning` deletes the Cells that are no longer desired.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from kais import budget_shares, conditions, labels, names, topology
from kais.conditions import ConditionType, DesiredCondition
from kais.errors import InvalidResource
from kais.reasons import Reason
from kais.resources.base import API_VERSION
from kais.resources.cell import Cell, CellPhase
from kais.resources.field_types import rfc3339
from kais.resources.formation import (
    MAX_CELLS,
    CellSummary,
    CellTemplate,
    Formation,
    FormationDisplay,
    FormationPhase,
    FormationStatus,
)
from kais_operator.controllers.formation.decide import pruning, topology_maps, workspaces
from kais_operator.controllers.formation.decide.pruning import Pruning
from kais_operator.planning import (
    cell_cost_annotation,
    children,
    cost_reservation_annotation,
    costs,
    memo,
    status_and_events,
)
from kais_operator.planning.cell_cost_annotation import CellUsage
from kais_operator.planning.children import ChildDecision, Parent
from kais_operator.planning.plan import Action, Body, Plan

_MAX_CELLS_NAMED = 5  # cells that a message lists before it only counts them; arbitrary
_PASSED_ON = (labels.BLUEPRINT, labels.REVISION, labels.INSTANCE)


@dataclass(frozen=True)
class FormationObserved:
    """The observed state of a Formation.

    Attributes:
        formation: the object.
        cells: objects with the names of its cells, and others with its label, by name.
        routes: the ConfigMap with the name of its topology map.
        claim: the volume claim with the name of its workspace.
        vanished_runs: runs that have reserved a part of its limits, and whose Mission is gone.
    """

    formation: Formation
    cells: Mapping[str, Body]
    routes: Body | None = None
    claim: Body | None = None
    vanished_runs: frozenset[str] = frozenset()


def decide_formation(observed: FormationObserved, now: datetime) -> Plan:
    """Choose the writes for a formation's cells, and count those that are ready."""
    plan = _decide_formation(observed, now)
    return cost_reservation_annotation.release_vanished(
        plan, observed.formation, observed.vanished_runs
    )


def _decide_formation(observed: FormationObserved, now: datetime) -> Plan:
    formation = observed.formation
    if formation.is_deleting:
        return Plan()
    excess = formation.spec.too_many_cells()
    if excess is not None:
        return _decide_excess(observed, excess, now)
    desired = cell_bodies(formation)
    cells = _own_cells(observed, (body["metadata"]["name"] for body in desired))
    topology_map = topology_maps.map_body(formation, parent_of(formation))
    decided = (
        []
        if status_and_events.is_suspended(formation)
        else _decide_children(observed, desired, topology_map)
    )
    desired_conditions = [_applied(formation, decided, topology_map), _cells_ready(cells)]
    usages = pruning.usages(formation, observed.cells)
    paused_until = _paused_until(formation, usages, now)
    summary = conditions.summary(
        desired_conditions, message=_ready_message(formation, len(desired))
    )
    desired_conditions.append(_with_pause(formation, summary, paused_until))
    timed_conditions = status_and_events.with_transition_times(formation, desired_conditions, now)
    actions: list[Action] = [action for d in decided for action in d.actions]
    pruned = (
        Pruning()
        if status_and_events.is_suspended(formation)
        else pruning.prune(formation, observed.cells, set(cells), now)
    )
    actions += pruned.actions
    actions += status_and_events.transition_events(
        formation, timed_conditions, types=(ConditionType.READY,)
    )
    return Plan(
        tuple(actions),
        status_and_events.body_of(
            _status(
                formation,
                cells,
                usages,
                timed_conditions=timed_conditions,
                paused_until=paused_until,
            )
        ),
        _earliest_requeue(decided, pruned, paused_until, now),
    )


def _paused_until(
    formation: Formation, usages: Sequence[CellUsage], now: datetime
) -> datetime | None:
    """Return until when a team waits because its limit per hour is used up; None if it is not."""
    budget = formation.spec.budget
    if budget is None or budget.max_cost_per_hour is None:
        return None
    return cell_cost_annotation.hour_over_until(usages, Decimal(str(budget.max_cost_per_hour)), now)


def _with_pause(
    formation: Formation, summary: DesiredCondition, paused_until: datetime | None
) -> DesiredCondition:
    budget = formation.spec.budget
    if paused_until is None or budget is None or summary.status != "True":
        return summary
    limit = Decimal(str(budget.max_cost_per_hour))
    message = (
        f"no attempt starts until {rfc3339(paused_until)}: the team has spent "
        f"budget.maxCostPerHour (${limit:f}) within the last hour"
    )
    return conditions.false(ConditionType.READY, Reason.PAUSED, message)


def _decide_excess(observed: FormationObserved, excess: str, now: datetime) -> Plan:
    """Write nothing for a team above the limit; existing cells stay as they are."""
    formation = observed.formation
    message = f"{excess}; nothing is written until then, and existing cells stay"
    desired_conditions = [
        conditions.false(ConditionType.APPLIED, Reason.TOO_MANY_CELLS, message),
        conditions.false(ConditionType.CELLS_READY, Reason.TOO_MANY_CELLS, excess),
    ]
    desired_conditions.append(conditions.summary(desired_conditions, message=""))
    timed = status_and_events.with_transition_times(formation, desired_conditions, now)
    usages = pruning.usages(formation, observed.cells)
    cells = _own_cells(observed, observed.cells)
    status = _status(formation, cells, usages, timed_conditions=timed)
    return Plan(
        status_and_events.transition_events(formation, timed, types=(ConditionType.READY,)),
        status_and_events.body_of(status),
    )


def parent_of(formation: Formation) -> Parent:
    """Return the Formation as the parent of its children."""
    metadata = formation.metadata
    return Parent(API_VERSION, formation.kind, metadata.namespace, metadata.name, metadata.uid)


def desired_names(formation: Formation) -> list[str]:
    """Return the names of all desired Cells, in the order of the spec."""
    return [
        names.cell_name(formation.metadata.name, template.name, index)
        for template in formation.spec.cells
        for index in range(template.replicas)
    ]


def is_desired(formation: Formation, name: str) -> bool:
    """Whether the spec declares a Cell of this name; usually without computing every name."""
    short = name.removeprefix(f"{formation.metadata.name}-")
    is_plain = short != name and names.is_dns_label(name)
    if is_plain and topology.template_of(formation.spec, short) is not None:
        return True
    return name in desired_names(formation)


@memo.by_identity(capacity=16)
def cell_bodies(formation: Formation) -> list[Body]:
    """Build all desired Cells, in the order of the spec."""
    return [
        body for template in formation.spec.cells for body in _template_bodies(formation, template)
    ]


def _template_bodies(formation: Formation, template: CellTemplate) -> Iterator[Body]:
    spec = {**template.spec.to_dict(), "formationRef": formation.metadata.name}
    return (_cell_body(formation, template, index, spec) for index in range(template.replicas))


def _cell_body(formation: Formation, template: CellTemplate, index: int, spec: Body) -> Body:
    name = names.cell_name(formation.metadata.name, template.name, index)
    formation_labels = formation.metadata.labels
    return children.child_body(
        parent_of(formation),
        api_version=API_VERSION,
        kind="Cell",
        name=name,
        labelled={
            **{key: formation_labels[key] for key in _PASSED_ON if key in formation_labels},
            labels.CELL_TEMPLATE: template.name,
            labels.CELL: names.label_value(name),
            labels.ROLE: labels.ROLE_CELL,
        },
        annotated=_scale_down_annotation(formation),
        content={"spec": spec},
    )


def _scale_down_annotation(formation: Formation) -> dict[str, str]:
    """Return the annotation for scaled-down cells; it is not in the spec, so no cell restarts."""
    is_scaled_down = (
        formation.metadata.annotations.get(labels.SCALED_DOWN) == labels.SCALED_DOWN_YES
    )
    return {labels.SCALED_DOWN: labels.SCALED_DOWN_YES} if is_scaled_down else {}


def _decide_children(
    observed: FormationObserved, desired: Sequence[Body], topology_map: Body
) -> list[ChildDecision]:
    """Decide about the ConfigMap and the claim first, because the pods of the cells mount them."""
    formation, parent = observed.formation, parent_of(observed.formation)
    claim = workspaces.decide_claim(formation, observed.claim, parent)
    return [
        children.decide_child(topology_map, observed.routes, parent),
        *([claim] if claim is not None else []),
        *_decide_cells(observed, desired),
    ]


def _decide_cells(observed: FormationObserved, desired: Sequence[Body]) -> list[ChildDecision]:
    parent = parent_of(observed.formation)
    return [
        children.decide_child(body, observed.cells.get(body["metadata"]["name"]), parent)
        for body in desired
    ]


def _applied(
    formation: Formation, decided: Sequence[ChildDecision], topology_map: Body
) -> DesiredCondition:
    if status_and_events.is_suspended(formation):
        return conditions.false(
            ConditionType.APPLIED, Reason.SUSPENDED, status_and_events.SUSPENDED
        )
    blocked = [d for d in decided if d.reason is not None]
    if blocked:
        first_blocked = next((d for d in blocked if d.reason is Reason.NAME_TAKEN), blocked[0])
        reason = first_blocked.reason or Reason.NAME_TAKEN
        return conditions.false(
            ConditionType.APPLIED, reason, "; ".join(d.message for d in blocked[:_MAX_CELLS_NAMED])
        )
    problems = topology.problems(formation.spec)
    if problems:
        message = "; ".join(problems[:_MAX_CELLS_NAMED])
        return conditions.false(
            ConditionType.APPLIED,
            Reason.TOPOLOGY_INVALID,
            f"{message}; until that is fixed, no cell has peers",
        )
    misallocated = budget_shares.problems(formation.spec)
    if misallocated:
        message = "; ".join(misallocated[:_MAX_CELLS_NAMED])
        return conditions.false(
            ConditionType.APPLIED,
            Reason.ALLOCATION_INVALID,
            f"{message}; until that is fixed, each cell with a mind has an equal share",
        )
    count = formation.spec.cell_count
    claim = ", the workspace" if formation.spec.workspace is not None else ""
    message = f"{count} {'cell' if count == 1 else 'cells'}{claim} and the topology map are stored"
    message += topology_maps.what_is_left_out(topology_map)
    return conditions.true(ConditionType.APPLIED, Reason.APPLIED, message)


def _cells_ready(cells: Mapping[str, Cell | None]) -> DesiredCondition:
    reasons = [not_ready_message(cell, name) for name, cell in cells.items()]
    waiting = [reason for reason in reasons if reason is not None]
    if not waiting:
        message = f"all {len(cells)} cells are ready" if len(cells) > 1 else "its cell is ready"
        return conditions.true(ConditionType.CELLS_READY, Reason.CELLS_READY, message)
    suffix = (
        f"; and {len(waiting) - _MAX_CELLS_NAMED} more" if len(waiting) > _MAX_CELLS_NAMED else ""
    )
    return conditions.false(
        ConditionType.CELLS_READY,
        Reason.WAITING_FOR_CELLS,
        f"{len(cells) - len(waiting)} of {len(cells)} cells are ready; "
        f"{'; '.join(waiting[:_MAX_CELLS_NAMED])}{suffix}",
    )


def not_ready_message(cell: Cell | None, name: str) -> str | None:
    """Describe why a cell is not ready; None when it is."""
    if cell is None:
        return f"{name} is being prepared"
    if cell.is_deleting:
        return f"{name} is being deleted"
    if cell.is_true(ConditionType.READY):
        return None
    ready = cell.condition(ConditionType.READY)
    is_current = ready is not None and ready.observed_generation == cell.metadata.generation
    return (
        f"{name}: {ready.message}"
        if ready is not None and is_current
        else f"{name} is being prepared"
    )


def _own_cells(observed: FormationObserved, names: Iterable[str]) -> dict[str, Cell | None]:
    """Return the formation's own cells with these names; None for a missing or invalid one."""
    return {name: _own_cell(observed, name) for name in names}


def _own_cell(observed: FormationObserved, name: str) -> Cell | None:
    body = observed.cells.get(name)
    if body is None or children.controller_uid(body) != observed.formation.metadata.uid:
        return None
    try:
        return Cell.from_dict(body)
    except InvalidResource:
        return None  # edited and no longer valid; this reconcile restores it


def _ready_message(formation: Formation, count: int) -> str:
    message = f"{count} of {count} cells are ready"
    if formation.spec.budget is None:
        return message
    if all(template.spec.mind is None for template in formation.spec.cells):
        return f"{message} (without effect: budget: only cells with a mind report costs)"
    return message


def _status(
    formation: Formation,
    cells: Mapping[str, Cell | None],
    team_usages: Sequence[CellUsage],
    *,
    timed_conditions: list[conditions.Condition],
    paused_until: datetime | None = None,
) -> FormationStatus:
    ready = sum(not_ready_message(cell, name) is None for name, cell in cells.items())
    total = formation.spec.cell_count
    summary = timed_conditions[-1]
    usages = {
        name: cell_cost_annotation.read(cell) if cell else None for name, cell in cells.items()
    }
    total_usage = cell_cost_annotation.total(team_usages)
    return FormationStatus(
        observed_generation=formation.metadata.generation,
        conditions=timed_conditions,
        phase=_phase(formation, cells, summary),
        ready_cells=ready,
        total_cells=total,
        cells=[
            CellSummary(
                name=name,
                phase=cell.status.phase if cell else None,
                cost=costs.known_cost(usages[name]),
            )
            for name, cell in itertools.islice(cells.items(), MAX_CELLS)
        ],
        paused_until=paused_until,
        message=summary.message,
        total_cost=costs.known_cost(total_usage),
        display=FormationDisplay(cells=f"{ready}/{total}", cost=costs.display(total_usage)),
    )


def _phase(
    formation: Formation, cells: Mapping[str, Cell | None], summary: conditions.Condition
) -> FormationPhase:
    """Summarise the phases of the cells; a scaled-down formation has completed its mission."""
    if status_and_events.is_suspended(formation) or summary.reason == Reason.PAUSED:
        return FormationPhase.PAUSED
    if any(cell is not None and cell.status.phase is CellPhase.FAILED for cell in cells.values()):
        return FormationPhase.FAILED
    if summary.status != "True":
        return FormationPhase.PENDING
    return FormationPhase.COMPLETED if _scale_down_annotation(formation) else FormationPhase.RUNNING


def _earliest_requeue(
    decided: Sequence[ChildDecision],
    pruned: Pruning,
    paused_until: datetime | None,
    now: datetime,
) -> timedelta | None:
    delays = [d.requeue_after for d in decided if d.requeue_after]
    delays += [pruned.requeue_after] if pruned.requeue_after is not None else []
    if paused_until is not None:
        delays.append(paused_until - now)
    return min(delays, default=None)
