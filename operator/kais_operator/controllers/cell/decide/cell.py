"""Decide what a Cell needs: its account, its registration, its workloads and its conditions.

A task cell has no pod between missions: the attempts of a Mission create the pods. It is ready when
its account exists. A service cell is ready when its pod is. Neither depends on the knowledge
service being available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kais import conditions, forbidden_pod_fields
from kais.conditions import Condition, ConditionType, DesiredCondition
from kais.errors import Violation
from kais.reasons import Reason
from kais.resources.cell import Cell, CellDisplay, CellPhase, CellStatus
from kais.resources.cell_template import CellMode, CellTemplateSpec
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import (
    cell_identity,
    cell_specs,
    environment,
    minds,
    server_conditions,
    service_account,
    service_pod_state,
    service_workload_actions,
    spawn_limit_records,
    spawn_limits,
)
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity, CellInFormation
from kais_operator.controllers.cell.decide.service_account import Account
from kais_operator.controllers.cell.decide.service_pod_state import PodState
from kais_operator.controllers.cell.decide.service_workload_actions import (
    INSTALLATION,
    NO_CHILDREN,
    Children,
    Installation,
    Workloads,
)
from kais_operator.controllers.cell.decide.spawn_limits import NO_ANCESTRY, Ancestry
from kais_operator.planning import (
    cell_cost_annotation,
    cost_reservation_annotation,
    costs,
    memo,
    status_and_events,
)
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Action, Body, Plan, RegisterPrincipal
from knowledge_client import models


@dataclass(frozen=True)
class CellObserved:
    """The observed state of a Cell.

    Attributes:
        cell_in_formation: the object with the Formation that it names.
        account: the ServiceAccount with the name that its pods use.
        spec_map: the object with the name of the ConfigMap for a spec too large for a variable.
        workloads: the objects with the names of a service cell's children, and its pods.
        sharing: scopes of the other cells that use the same borrowed account.
        ancestry: the cells of the namespace; read only if another cell may have created this one.
        realm_uid: UID of the namespace.
        realm_labels: labels of the namespace, with its Pod Security level.
        is_registered: whether the knowledge service has exactly the present registration.
        store_problem: why the knowledge service does not answer; None when it does.
        registration_failure: why the service does not take the registration now; None when it does.
        installation: settings for every service cell.
        vanished_runs: runs that have reserved a part of its limits, and whose Mission is gone.
    """

    cell_in_formation: CellInFormation
    account: Body | None
    spec_map: Body | None = None
    workloads: Children = NO_CHILDREN
    sharing: Sequence[Scope] = ()
    ancestry: Ancestry = NO_ANCESTRY
    realm_uid: str = ""
    realm_labels: Mapping[str, str] = field(default_factory=dict)
    is_registered: bool = False
    store_problem: str | None = None
    registration_failure: str | None = None
    installation: Installation = INSTALLATION
    vanished_runs: frozenset[str] = frozenset()

    @property
    def cell(self) -> Cell:
        """The Cell without its Formation."""
        return self.cell_in_formation.cell


@dataclass(frozen=True)
class _CellDecision:
    """The result of a reconcile: conditions, writes, and delays until the next one."""

    conditions: Sequence[DesiredCondition]
    actions: tuple[Action, ...] = ()
    pods: PodState | None = None
    requeue_delays: tuple[timedelta | None, ...] = ()


def decide_cell(observed: CellObserved, now: datetime) -> Plan:
    """Choose the writes and conditions of a cell. Reads no clock."""
    plan = _decide_cell(observed, now)
    return cost_reservation_annotation.release_vanished(plan, observed.cell, observed.vanished_runs)


def _decide_cell(observed: CellObserved, now: datetime) -> Plan:
    cell = observed.cell
    if cell.is_deleting:
        return Plan()
    parent = parent_of(cell)
    obstacle = minds.obstacle(cell.spec, observed.installation.agents)
    if obstacle is not None:
        types = (
            ConditionType.APPLIED,
            ConditionType.POD_READY,
            ConditionType.REGISTERED,
            ConditionType.READY,
        )
        desired = [conditions.false(t, obstacle.reason, obstacle.message) for t in types]
        deletions = service_workload_actions.delete_actions(parent, observed.workloads)
        return _plan(observed, _CellDecision(desired, deletions), now)
    refusal = _refusal(observed)
    if refusal is not None:
        return _plan(observed, _refused(observed, refusal, parent), now)
    account = _account_and_map(observed, parent)
    if account.reason is not None:
        return _plan(observed, _refused(observed, account, parent), now)
    spawn_record = spawn_limits.record_actions(cell, observed.ancestry)
    full = spawn_limit_records.size_problem(cell, spawn_record, observed.ancestry.records)
    if full is not None:
        refusal = Account(
            reason=Reason.APPLY_FAILED,
            message=full,
            requeue_after=service_account.NOT_ALLOWED_RETRY_INTERVAL,
        )
        return _plan(observed, _refused(observed, refusal, parent), now)
    if cell.spec.effective_mode is CellMode.SERVICE:
        decided = _decide_service_cell(observed, account, parent, now=now)
    else:
        deletions = service_workload_actions.delete_actions(parent, observed.workloads)
        actions = (*account.actions, *deletions, *_registrations(observed, account))
        desired = _standby_conditions(observed, account)
        decided = _CellDecision(desired, actions, requeue_delays=(account.requeue_after,))
    decided = replace(decided, actions=(*spawn_record, *decided.actions))
    decided = _with_approval(observed, _with_ignored_changes(observed, decided))
    if status_and_events.is_suspended(cell):  # after the cases that stop a cell that must not run
        desired = status_and_events.with_suspension(
            decided.conditions, write_condition=ConditionType.APPLIED
        )
        decided = replace(decided, conditions=desired, actions=())
    return _plan(observed, decided, now)


def _refusal(observed: CellObserved) -> Account | None:
    """Return why a cell may have no pod, whatever its account; None if it may."""
    spawned = spawn_limits.find_violation(observed.cell, observed.ancestry)
    if spawned is None:
        return _refused_pod(observed)
    return Account(
        reason=Reason.SPAWN_REFUSED,
        message=spawned,
        requeue_after=service_account.NOT_ALLOWED_RETRY_INTERVAL,
    )


def _refused_pod(observed: CellObserved) -> Account | None:
    """Return why no pod can be built from the fields of a cell; None if one can."""
    spec = observed.cell.spec
    broken = forbidden_pod_fields.violations(spec)
    if broken:
        return Account(reason=Reason.INVALID, message=_listed(broken))
    policy = observed.installation.pod_policy
    broken = forbidden_pod_fields.installation_violations(
        spec, policy.allowed, namespace_labels=observed.realm_labels
    )
    if not broken:
        return None
    return Account(
        reason=Reason.POD_NOT_ALLOWED,
        message=_listed(broken),
        requeue_after=service_account.NOT_ALLOWED_RETRY_INTERVAL,
    )


def _listed(broken: Sequence[Violation]) -> str:
    return "; ".join(f"spec.{violation}" for violation in broken)


def _with_ignored_changes(observed: CellObserved, decided: _CellDecision) -> _CellDecision:
    """Add changes that the spawn limits ignore to the summary, and requeue until acceptance."""
    ancestry = observed.ancestry
    ignored = None
    if not ancestry.has_policy and observed.cell.metadata.name not in ancestry.of_formations:
        ignored = spawn_limit_records.ignored_changes(observed.cell, ancestry.records)
    if ignored is None:
        return decided
    *other_conditions, ready = decided.conditions
    desired = [*other_conditions, replace(ready, message=f"{ready.message} {ignored}")]
    return replace(
        decided,
        conditions=desired,
        requeue_delays=(*decided.requeue_delays, service_account.NOT_ALLOWED_RETRY_INTERVAL),
    )


def _with_approval(observed: CellObserved, decided: _CellDecision) -> _CellDecision:
    """Add who approved the cell to Applied, if its creator requires approval."""
    approval = spawn_limits.approval_note(observed.cell, observed.ancestry)
    if approval is None:
        return decided
    applied, *other_conditions = decided.conditions
    applied = replace(applied, message=f"{applied.message} {approval}")
    return replace(decided, conditions=[applied, *other_conditions])


def _account_and_map(observed: CellObserved, parent: Parent) -> Account:
    """Decide about the account, and about the ConfigMap of a large spec; all pods need both."""
    cell = observed.cell
    account = service_account.decide_account(cell, observed.account, parent)
    if account.reason is not None:
        return account
    spec_map = cell_specs.decide_map(
        cell,
        _identity(observed),
        parent,
        live=observed.spec_map,
        knowledge_url=observed.installation.knowledge_url,
    )
    if spec_map is None:
        return account
    delays = [wait for wait in (account.requeue_after, spec_map.requeue_after) if wait is not None]
    return replace(
        account,
        actions=(*account.actions, *spec_map.actions),
        reason=spec_map.reason,
        message=spec_map.message,
        requeue_after=min(delays, default=None),
    )


@memo.by_identity(capacity=64)
def parent_of(cell: Cell) -> Parent:
    """Return the Cell as the parent of its children."""
    metadata = cell.metadata
    return Parent(cell.api_version, cell.kind, metadata.namespace, metadata.name, metadata.uid)


def _refused(observed: CellObserved, account: Account, parent: Parent) -> _CellDecision:
    """Report the obstacle; without permission to run, the pod is stopped as well."""
    stopped: tuple[Action, ...] = ()
    if account.reason in (Reason.ACCOUNT_NOT_ALLOWED, Reason.SPAWN_REFUSED):
        stopped = service_workload_actions.stop_actions(parent, observed.workloads)
    applied = conditions.false(
        ConditionType.APPLIED, account.reason or Reason.INVALID, account.message
    )
    actions = (*account.actions, *stopped)
    return _CellDecision(_not_applied(applied), actions, requeue_delays=(account.requeue_after,))


def _decide_service_cell(
    observed: CellObserved, account: Account, parent: Parent, *, now: datetime
) -> _CellDecision:
    identity = _identity(observed)
    workloads = service_workload_actions.decide_workloads(
        observed.cell_in_formation,
        identity,
        parent,
        live=observed.workloads,
        installation=observed.installation,
        now=now,
    )
    pod_state = service_pod_state.read_pod_state(
        observed.workloads.deployment, observed.workloads.pods, replicas=workloads.replicas, now=now
    )
    applied = _service_applied(observed, account, workloads)
    ready = conditions.summary(
        [applied, pod_state.condition], message=_ready_message(observed, pod_state)
    )
    if ready.status == "True" and workloads.replicas == 0:
        ready = replace(ready, reason=Reason.SCALED_DOWN)
    elif ready.status == "True" and _is_topology_open(observed):
        ready = replace(ready, reason=Reason.TOPOLOGY_NOT_ENFORCED)
    desired = [
        applied,
        pod_state.condition,
        _registered(observed, identity, account=account),
        ready,
    ]
    delays = (account.requeue_after, workloads.requeue_after, pod_state.requeue_after)
    return _CellDecision(desired, _service_actions(observed, account, workloads), pod_state, delays)


def _service_actions(
    observed: CellObserved, account: Account, workloads: Workloads
) -> tuple[Action, ...]:
    """Order the writes: the registration comes before the pod if the service is available."""
    if account.uid is None:
        return account.actions
    registrations = _registrations(observed, account)
    if observed.store_problem is not None:
        return (*account.actions, *workloads.actions, *registrations)
    return (*account.actions, *registrations, *workloads.actions)


def _service_applied(
    observed: CellObserved, account: Account, workloads: Workloads
) -> DesiredCondition:
    """Return Applied; Unknown while the account is created, because the workloads need its UID."""
    if workloads.reason is not None:
        return conditions.false(ConditionType.APPLIED, workloads.reason, workloads.message)
    cell = observed.cell
    account_name = f"ServiceAccount {cell.metadata.namespace}/{cell_identity.account_name(cell)}"
    if account.uid is None:
        return conditions.unknown(
            ConditionType.APPLIED,
            Reason.RECONCILING,
            f"{account_name} is being created; the Deployment and the Service follow",
        )
    return conditions.true(
        ConditionType.APPLIED, Reason.APPLIED, f"{account_name}, {workloads.message} are there"
    )


def _ready_message(observed: CellObserved, pod_state: PodState) -> str:
    open_topology = (
        ["(its A2A server checks no tickets, so any pod that reaches it may speak to it)"]
        if _is_topology_open(observed)
        else []
    )
    return " ".join([pod_state.condition.message, *open_topology, *remarks(observed.cell.spec)])


def _is_topology_open(observed: CellObserved) -> bool:
    """Whether the cell runs an A2A server that does not check who calls it."""
    spec = observed.cell.spec
    return spec.serves_a2a and spec.mind is None


def _not_applied(applied: DesiredCondition) -> list[DesiredCondition]:
    return [
        applied,
        conditions.false(ConditionType.POD_READY, applied.reason, applied.message),
        conditions.false(
            ConditionType.REGISTERED,
            Reason.NOT_REGISTERED,
            "the cell has no account to register yet",
        ),
        conditions.false(ConditionType.READY, applied.reason, applied.message),
    ]


def _standby_conditions(observed: CellObserved, account: Account) -> list[DesiredCondition]:
    cell = observed.cell
    identity = _identity(observed)
    name = f"ServiceAccount {cell.metadata.namespace}/{identity.account}"
    message = " ".join(["a Task cell: its pod is created by a mission", *remarks(cell.spec)])
    return [
        conditions.true(ConditionType.APPLIED, Reason.APPLIED, f"{name} is there"),
        conditions.true(
            ConditionType.POD_READY, Reason.STANDBY, "no pod is needed between missions"
        ),
        _registered(observed, identity, account=account),
        conditions.true(ConditionType.READY, Reason.STANDBY, message),
    ]


def _registered(
    observed: CellObserved, identity: CellIdentity, *, account: Account
) -> DesiredCondition:
    home = str(identity.scope)
    if account.uid is not None and observed.is_registered:
        message = f"the cell is registered; its home scope is {home}"
        if identity.memory != identity.scope:
            message += f", and it remembers in {identity.memory}"
        return conditions.true(ConditionType.REGISTERED, Reason.REGISTERED, message)
    if observed.registration_failure is not None:
        return conditions.false(
            ConditionType.REGISTERED,
            Reason.STORE_UNAVAILABLE,
            f"{observed.registration_failure}; the cell works without knowledge until it is"
            " registered",
        )
    if observed.store_problem is not None:
        return conditions.false(
            ConditionType.REGISTERED,
            Reason.STORE_UNAVAILABLE,
            f"{observed.store_problem}; the cell works without knowledge until it answers",
        )
    return conditions.false(
        ConditionType.REGISTERED, Reason.NOT_REGISTERED, f"the cell is being registered at {home}"
    )


def remarks(spec: CellTemplateSpec) -> list[str]:
    """Return remarks on fields of the spec that have no effect in this kind of cell."""
    if spec.mind is not None:
        fields = minds.remarks(spec.mind)
        return [f"(without effect: {', '.join(fields)})"] if fields else []
    unused = []
    if spec.tools:
        names = ", ".join(tool.name for tool in spec.tools)
        unused.append(f"tools ({names}) apply only to cells with a mind")
    variables = spec.container.env if spec.container else []
    reserved = [variable.name for variable in variables if environment.is_reserved(variable.name)]
    if reserved:
        unused.append(f"variables {', '.join(reserved)} are reserved for kais")
    limits = spec.resources
    money = limits and (limits.max_cost_per_hour, limits.max_total_cost, limits.max_tokens_per_turn)
    if money and any(limit is not None for limit in money):
        unused.append("limits of cost and tokens apply only to cells with a mind")
    return [f"(ignored: {'; '.join(unused)})"] if unused else []


def _identity(observed: CellObserved) -> CellIdentity:
    return cell_identity.identity(observed.cell_in_formation, sharing=observed.sharing)


def _registrations(observed: CellObserved, account: Account) -> tuple[Action, ...]:
    if account.uid is None or observed.is_registered:
        return ()
    return (RegisterPrincipal(principal_for(observed, account_uid=account.uid)),)


def principal_for(observed: CellObserved, *, account_uid: str) -> models.PrincipalIn:
    """Build the registration that follows from the observed state."""
    return cell_identity.principal(
        observed.cell,
        _identity(observed),
        account_uid=account_uid,
        realm_uid=observed.realm_uid,
    )


def _phase(ready: Condition) -> CellPhase:
    if ready.reason == Reason.SUSPENDED:
        return CellPhase.PAUSED
    if ready.reason == Reason.SCALED_DOWN:
        return CellPhase.COMPLETED
    if ready.reason == Reason.POD_FAILED:
        return CellPhase.FAILED
    is_running = ready.status == "True" and ready.reason != Reason.STANDBY
    return CellPhase.RUNNING if is_running else CellPhase.PENDING


def _display_status(ready: Condition) -> str:
    """Return the displayed status: the phase; of a ready cell without pods, the reason."""
    is_resting = ready.reason in (Reason.STANDBY, Reason.SCALED_DOWN)
    return ready.reason if is_resting and ready.status == "True" else _phase(ready)


def _plan(observed: CellObserved, decided: _CellDecision, now: datetime) -> Plan:
    cell = observed.cell
    *other_conditions, ready = decided.conditions
    servers = server_conditions.server_conditions(cell)
    desired = [*other_conditions, *servers, ready]
    timed_conditions = status_and_events.with_transition_times(cell, desired, now)
    mind = cell.spec.mind
    usage = cell_cost_annotation.read(cell)
    status = CellStatus(
        observed_generation=cell.metadata.generation,
        conditions=timed_conditions,
        phase=_phase(timed_conditions[-1]),
        pod_name=decided.pods.pod_name if decided.pods else None,
        message=timed_conditions[-1].message,
        display=CellDisplay(
            status=_display_status(timed_conditions[-1]),
            model=mind.model if mind else None,
            cost=costs.display(usage),
        ),
        total_cost=costs.known_cost(usage),
        total_tokens=usage.tokens if usage is not None else None,
    )
    return Plan(
        (
            *decided.actions,
            *status_and_events.transition_events(
                cell,
                timed_conditions,
                types=(ConditionType.READY, *(server.type for server in servers)),
            ),
        ),
        status_and_events.body_of(status),
        min((wait for wait in decided.requeue_delays if wait is not None), default=None),
    )
