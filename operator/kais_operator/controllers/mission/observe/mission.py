"""Read a Mission with its team, its Jobs and their pods, and its run in the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from kais import durations, labels, names
from kais.reasons import Reason
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais.resources.cell import Cell
from kais.resources.cell_template import CellMode
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais_operator.controllers.base import Controller, Observation
from kais_operator.controllers.cell.decide import service_workload_manifests
from kais_operator.controllers.mission.decide import (
    a2a_attempts,
    agent_reviews,
    attempt_pods,
    attempt_state,
    budgets,
    cost_reservations,
    entrypoint,
    invalid_mission,
    outcome,
    outcome_annotation,
    reviewer_cells,
    run_history_annotation,
    service_check_attempts,
    task_approvals,
)
from kais_operator.controllers.mission.decide import mission as decision
from kais_operator.controllers.mission.decide.attempt_pods import Refusal
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.controllers.mission.decide.attempt_state import Attempt
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam
from kais_operator.controllers.mission.decide.invalid_mission import InvalidMission
from kais_operator.controllers.mission.decide.mission_observed import (
    AskingPod,
    Ledger,
    MissionObserved,
    RunningContainer,
    instance_name,
    ref_of,
    run_id_of,
)
from kais_operator.controllers.mission.observe import checks
from kais_operator.controllers.shared.observe import run_ownership, shared_reads
from kais_operator.planning import children
from kais_operator.planning.agent_tasks import AgentReply
from kais_operator.planning.plan import AgentCall, Body, ObjectRef, Plan, run_key
from kais_operator.planning.status_and_events import InvalidObject
from kais_operator.ports import World
from knowledge_client import errors

T = TypeVar("T")
_POD_EXPECTED = timedelta(seconds=1)
"""The usual delay until the Job controller creates a pod; no request is made before."""


async def observe_mission(world: World, ref: ObjectRef) -> Observation | None:
    """Read a Mission with the inputs of its decision; None when it is gone."""
    body = await world.cluster.get(ref)
    if body is None:
        return None
    ownership = await run_ownership.of_mission(world, body)
    if ownership.problem is not None:
        unknown = InvalidObject(ownership.body, ownership.problem, Reason.STORE_UNAVAILABLE)
        return Observation(body, InvalidMission(unknown, world.placement.operator_namespace))
    mission = shared_reads.parse_resource(Mission, ownership.body)
    if isinstance(mission, InvalidObject):
        return Observation(body, InvalidMission(mission, world.placement.operator_namespace))
    has_ended = labels.OUTCOME in mission.metadata.annotations
    now = world.clock.now()
    jobs = await _jobs(world, mission, fresh=False)
    is_late = not has_ended and _is_late(mission, jobs, now)
    if is_late:
        jobs = await _jobs(world, mission, fresh=True)
    is_new = not any(attempt_state.run_of(job) in (None, run_id_of(mission)) for job in jobs)
    ledger = await _ledger(world, mission, has_ended=has_ended, is_new=is_new)
    is_recorded = has_ended and ledger.run is not None and ledger.run.outcome is not None
    team = MissionTeam() if is_recorded else await _team(world, mission)
    pods = () if has_ended else await _pods(world, mission, team, fresh=is_late)
    if not has_ended and not is_late and _has_unseen_end(mission, jobs, pods):
        pods = await _pods(world, mission, team, fresh=True)
    refused_pods = {} if has_ended else await _refused_pods(world, jobs, pods)
    instance = None if is_recorded else await _instance(world, mission, ledger, jobs)
    observed = MissionObserved(
        mission=mission,
        team=team,
        jobs=jobs,
        pods=pods,
        maps={} if has_ended else await _maps(world, mission, jobs),
        declared=await shared_reads.declared_scopes(world.cluster, ref.namespace),
        instance=instance,
        blueprint=None if is_recorded else await _blueprint(world, mission, instance, ledger),
        ledger=ledger,
        refused_pods=refused_pods,
        refused_write=world.write_refusals.refusal(ref),
        failed_write=world.write_refusals.failure(ref),
        history=run_history_annotation.read_history(mission, jobs, pods, refused_pods, now),
        copied=ownership.copied,
        knowledge_url=world.placement.knowledge_url,
        operator_namespace=world.placement.operator_namespace,
        check_image=world.placement.check_image,
        agents=world.placement.agents,
        pod_policy=world.placement.pod_policy,
        has_review_policy=world.placement.has_spawn_policy,
        has_commands=world.containers.is_running(ref),
    )
    if has_ended:
        observed = await _with_spending_cells(world, observed, is_recorded=is_recorded)
        return Observation(
            body, observed if is_recorded else await _with_open_task(world, observed)
        )
    observed = _with_tool_calls(world, observed, now)
    observed = await _with_review(world, await _with_reply(world, observed, now))
    observed = await checks.with_checks(world, observed, now)
    return Observation(body, await _with_fresh_accounts(world, observed, now))


async def _with_fresh_accounts(
    world: World, observed: MissionObserved, now: datetime
) -> MissionObserved:
    """Read what a reservation depends on from the API server if one is about to be written.

    The formation is read before its cells: a run whose entry is gone is then counted on its cell.
    """
    if not cost_reservations.has_shared_limits(observed, now):
        return observed
    step = decision.next_step(observed, now)
    if step is not None and step[0] is not None and step[0].reason is Reason.BUDGET_RESERVED:
        observed = replace(observed, released_runs=await _released_runs(world, observed))
        step = decision.next_step(observed, now) if observed.released_runs else step
    if step != cost_reservations.READ_AGAIN:
        return observed
    team = await _team(world, observed.mission, fresh=True)
    return replace(observed, team=team, has_fresh_team=True)


async def _released_runs(world: World, observed: MissionObserved) -> frozenset[str]:
    """Find reservations of missions that are gone or whose run is over, so they can be dropped."""
    namespace, released = observed.mission.metadata.namespace, set()
    for entry in cost_reservations.reservations_of_others(observed):
        ref = ObjectRef("Mission", namespace, entry.mission)
        # The cached mission may be older than the reservation, so only a fresh one decides.
        is_over = await _is_over(world, ref, entry.run_id, fresh=False)
        if is_over and await _is_over(world, ref, entry.run_id, fresh=True):
            released.add(entry.run_id)
    return frozenset(released)


async def _is_over(world: World, ref: ObjectRef, run_id: str, *, fresh: bool) -> bool:
    body = await world.cluster.get(ref, fresh=fresh)
    mission = shared_reads.parse_resource(Mission, body) if body is not None else None
    if isinstance(mission, InvalidObject):
        return False
    return mission is None or cost_reservations.is_over(mission, run_id)


async def _with_reply(world: World, observed: MissionObserved, now: datetime) -> MissionObserved:
    """Add the container of a running entry cell, and what the cell answered to its message."""
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    if not isinstance(cell, Cell) or not service_check_attempts.is_service_attempt(cell):
        return observed
    observed = replace(observed, container=checks.running_container(observed.pods))
    last, run_id = observed.history.latest, run_id_of(observed.mission)
    if last is None or run_id is None or not a2a_attempts.awaits_reply(observed.history):
        return observed
    entry = entrypoint.entrypoint_of(cell, observed.team)
    call = a2a_attempts.call_of(observed, entry, last, run_id=run_id)
    reply = await _reply(world, call, observed.container, last.pod_uid)
    is_ending = outcome.is_ending(observed.mission, observed.history.attempts, now)
    history = a2a_attempts.with_reply(
        observed.history, reply, observed.container, now, is_ending=is_ending
    )
    return replace(observed, reply=reply, history=history)


def _with_tool_calls(world: World, observed: MissionObserved, now: datetime) -> MissionObserved:
    """Add the tool calls of a Task that wait for a person, as a command in its pod printed them."""
    cell, last = (
        entrypoint.entrypoint_cell(observed.mission, observed.team),
        observed.history.latest,
    )
    if last is None or not isinstance(cell, Cell) or not task_approvals.has_approvals(cell):
        return observed
    container = task_approvals.asking_container(last, observed.pods)
    if container is None:
        return observed
    key = task_approvals.command_key(observed, last, container)
    result = world.containers.result_of(ref_of(observed.mission), key)
    asking = (
        AskingPod(container) if result is None else task_approvals.read_output(container, *result)
    )
    observed = replace(observed, asking_pod=asking)
    return replace(observed, history=task_approvals.with_calls(observed, observed.history, now))


async def _with_review(world: World, observed: MissionObserved) -> MissionObserved:
    """Add the container of the reviewing cell, and what it answered to its message."""
    last, run_id = observed.history.latest, run_id_of(observed.mission)
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    is_too_early = a2a_attempts.awaits_reply(observed.history)
    if (
        reviewer is None
        or run_id is None
        or last is None
        or observed.history.is_settled
        or is_too_early
    ):
        return observed
    return await _ask_reviewer(world, observed, reviewer, last, run_id)


async def _ask_reviewer(
    world: World,
    observed: MissionObserved,
    reviewer: Cell,
    attempt: Attempt | AttemptSummary,
    run_id: str,
) -> MissionObserved:
    pod = checks.running_container(await _service_pods(world, reviewer, fresh=False))
    observed = replace(observed, reviewer_pod=pod)
    if attempt.review is None:
        return observed
    call = agent_reviews.call_of(observed, reviewer, attempt, run_id=run_id)
    reply = await _reply(world, call, pod, attempt.review.pod_uid)
    return replace(observed, review_reply=reply)


async def _reply(
    world: World, call: AgentCall, pod: RunningContainer | None, addressed_uid: str | None
) -> AgentReply | None:
    """Ask for the task of a message; None without a pod, or if a replaced pod had the task.

    What this process has read of an ended task counts, whatever happens to the pod.
    """
    is_ready = pod is not None and (pod.uid == addressed_uid or world.agents.is_undelivered(call))
    return await world.agents.reply_to(call) if is_ready or world.agents.has_ended(call) else None


async def _with_open_task(world: World, observed: MissionObserved) -> MissionObserved:
    """Add what a cell answers about a task that the end of its run has cancelled."""
    run_outcome = outcome_annotation.read(observed.mission, None)
    reviewed = agent_reviews.open_review(run_outcome)
    reviewer = reviewer_cells.find(observed.mission, observed.team)
    run_id = run_id_of(observed.mission)
    if reviewed is not None and reviewer is not None and run_id is not None:
        return await _ask_reviewer(world, observed, reviewer, reviewed, run_id)
    return await _with_open_work(world, observed)


async def _with_open_work(world: World, observed: MissionObserved) -> MissionObserved:
    run_id = run_id_of(observed.mission)
    last = a2a_attempts.open_message(outcome_annotation.read(observed.mission, None))
    cell = entrypoint.entrypoint_cell(observed.mission, observed.team)
    if run_id is None or last is None or not isinstance(cell, Cell):
        return observed
    if not service_check_attempts.is_service_attempt(cell):
        return observed
    pods = await _pods(world, observed.mission, observed.team, fresh=False)
    container = checks.running_container(pods)
    if container is None or container.uid != last.pod_uid:
        return observed
    entry = entrypoint.entrypoint_of(cell, observed.team)
    call = a2a_attempts.call_of(observed, entry, last, run_id=run_id)
    return replace(observed, reply=await world.agents.reply_to(call))


def _is_late(mission: Mission, jobs: Sequence[Body], now: datetime) -> bool:
    """Whether a deadline may have passed, so that Jobs and pods must be read without the cache.

    Watches may lag; a run must not time out because of that.
    """
    starts = [summary.started_at for summary in run_history_annotation.read(mission)]
    starts += [
        attempt_state.parse_time(job["metadata"].get("creationTimestamp")) or now
        for job in jobs
        if children.controller_uid(job) == mission.metadata.uid
        and attempt_state.run_of(job) in (None, run_id_of(mission))
    ]
    spec = mission.spec
    limits = (durations.parse(spec.completion.timeout), durations.parse(spec.start_deadline))
    return bool(starts) and min(starts) + min(limits) <= now


def _has_unseen_end(mission: Mission, jobs: Sequence[Body], pods: Sequence[Body]) -> bool:
    """Whether an attempt has ended that is not recorded, and no cached pod shows how.

    Jobs and pods have separate watches: the end of a Job may be seen before that of its pod.
    """
    recorded = {each.number for each in run_history_annotation.read(mission) if each.is_over}
    return any(
        attempt_state.has_unseen_end(job, pods)
        for job in jobs
        if children.controller_uid(job) == mission.metadata.uid
        and attempt_state.run_of(job) in (None, run_id_of(mission))
        and attempt_state.number_of(job) not in recorded
    )


async def _jobs(world: World, mission: Mission, *, fresh: bool) -> list[Body]:
    """Read the mission's Jobs, and the object with the name of the next one."""
    metadata = mission.metadata
    selector = f"{labels.MISSION}={names.label_value(metadata.name)}"
    listed = await world.cluster.list("Job", metadata.namespace, labels=selector, fresh=fresh)
    jobs = list(listed)
    owned = [job for job in jobs if children.controller_uid(job) == metadata.uid]
    recorded_numbers = [
        summary.number
        for summary in run_history_annotation.read(mission)
        if not run_history_annotation.starts_again(summary)
    ]
    current = [job for job in owned if attempt_state.run_of(job) in (None, run_id_of(mission))]
    latest = max([*recorded_numbers, *(attempt_state.number_of(job) for job in current)], default=0)
    next_name = names.job_name(metadata.name, latest + 1)
    is_open = any(not attempt_state.has_ended(job) for job in current)
    if labels.OUTCOME in metadata.annotations or is_open:
        return jobs
    if next_name not in {job["metadata"]["name"] for job in jobs}:
        namesake = await world.cluster.get_child(ObjectRef("Job", metadata.namespace, next_name))
        jobs += [namesake] if namesake is not None else []
    return jobs


async def _pods(
    world: World, mission: Mission, team: MissionTeam, *, fresh: bool
) -> Sequence[Body]:
    """Read the pods of the mission's Jobs, or those of a cell that keeps running.

    A Job, or an earlier mission of the same name, may be gone while its pods still work.
    """
    cell = entrypoint.entrypoint_cell(mission, team)
    if isinstance(cell, Cell) and service_check_attempts.is_service_attempt(cell):
        return await _service_pods(world, cell, fresh=fresh)
    selector = f"{labels.MISSION}={names.label_value(mission.metadata.name)}"
    namespace = mission.metadata.namespace
    pods = await world.cluster.list("Pod", namespace, labels=selector, fresh=fresh)
    return attempt_pods.of_mission(mission, pods)


async def _service_pods(world: World, cell: Cell, *, fresh: bool) -> Sequence[Body]:
    name = names.label_value(cell.metadata.name)
    selector = f"{labels.CELL}={name},{labels.CELL_MODE}={CellMode.SERVICE.value}"
    pods = await world.cluster.list("Pod", cell.metadata.namespace, labels=selector, fresh=fresh)
    return service_workload_manifests.own_pods(cell, pods)


async def _refused_pods(
    world: World, jobs: Sequence[Body], pods: Sequence[Body]
) -> dict[str, Refusal]:
    """Read why open Jobs still have no pod after a moment; the Job itself does not show it."""
    refusals = {}
    for job in jobs:
        created = attempt_state.parse_time(job["metadata"].get("creationTimestamp"))
        is_young = created is None or world.clock.now() - created < _POD_EXPECTED
        if is_young or attempt_state.has_ended(job):
            continue
        if attempt_pods.not_replaced(attempt_pods.pods_of(job, pods)):
            continue
        metadata = job["metadata"]
        events = await world.cluster.events_about(children.ref_of(job), uid=metadata["uid"])
        refusal = attempt_pods.refusal(job, events)
        if refusal is not None:
            refusals[metadata["name"]] = refusal
    return refusals


async def _maps(world: World, mission: Mission, jobs: Sequence[Body]) -> dict[str, Body]:
    """Read the knowledge ConfigMap of the latest Job; earlier ones do not matter."""
    owned = [job for job in jobs if children.controller_uid(job) == mission.metadata.uid]
    if not owned:
        return {}
    current = [job for job in owned if attempt_state.run_of(job) in (None, run_id_of(mission))]
    job = max(current or owned, key=attempt_state.number_of)["metadata"]["name"]
    ref = ObjectRef("ConfigMap", mission.metadata.namespace, names.knowledge_map_name(job))
    body = await world.cluster.get_child(ref)
    return {job: body} if body is not None else {}


async def _team(world: World, mission: Mission, *, fresh: bool = False) -> MissionTeam:
    """Read the objects that a mission's reference leads to; the formation before its cells."""
    namespace, cluster = mission.metadata.namespace, world.cluster
    if mission.spec.cell_ref is not None:
        ref = ObjectRef("Cell", namespace, mission.spec.cell_ref)
        cells = await _cell(world, ref, fresh=fresh)
        lone = cells.get(mission.spec.cell_ref)
        formation_name = lone.spec.formation_ref if lone is not None else None
        formation = await shared_reads.formation_of(cluster, namespace, formation_name, fresh=fresh)
        if fresh and formation is not None:
            cells = await _cell(world, ref, fresh=True)
        cells |= await _reviewer(world, mission, formation, fresh=fresh)
        members = await _members(world, mission, formation, fresh=fresh)
    else:
        formation_name = mission.spec.formation_ref or ""
        formation = await shared_reads.formation_of(cluster, namespace, formation_name, fresh=fresh)
        bodies = (
            await shared_reads.cells_by_label(cluster, namespace, formation_name, fresh=fresh)
            if formation
            else {}
        )
        members = cells = _readable(bodies, formation=formation)
    return await _with_account(world, mission, MissionTeam(formation, cells, members=members))


async def _cell(
    world: World, ref: ObjectRef, *, fresh: bool, formation: Formation | None = None
) -> dict[str, Cell]:
    body = await world.cluster.get(ref, fresh=fresh)
    return _readable({ref.name: body} if body is not None else {}, formation=formation)


async def _members(
    world: World, mission: Mission, formation: Formation | None, *, fresh: bool
) -> dict[str, Cell]:
    """Read the cells of a formation that share a budget, or have calls to decide about."""
    budget = formation.spec.budget if formation is not None else None
    has_budget = budget is not None and (
        budget.max_cost_per_hour is not None or budget.max_total_cost is not None
    )
    if formation is None or not (has_budget or labels.APPROVAL in mission.metadata.annotations):
        return {}
    metadata = formation.metadata
    bodies = await shared_reads.cells_by_label(
        world.cluster, metadata.namespace, metadata.name, fresh=fresh
    )
    return _readable(bodies, formation=formation)


async def _reviewer(
    world: World, mission: Mission, formation: Formation | None, *, fresh: bool
) -> dict[str, Cell]:
    """Read the cell of a formation that reviews the work of the cell in cellRef."""
    name = reviewer_cells.object_name(mission, formation)
    if formation is None or name is None or name == mission.spec.cell_ref:
        return {}
    ref = ObjectRef("Cell", mission.metadata.namespace, name)
    return await _cell(world, ref, fresh=fresh, formation=formation)


def _readable(bodies: dict[str, Body], *, formation: Formation | None = None) -> dict[str, Cell]:
    """Parse the cells; for a formation only those that it owns."""
    cells = {
        name: shared_reads.parse_resource(Cell, body)
        for name, body in bodies.items()
        if formation is None or children.controller_uid(body) == formation.metadata.uid
    }
    return {name: cell for name, cell in cells.items() if isinstance(cell, Cell)}


async def _with_account(world: World, mission: Mission, team: MissionTeam) -> MissionTeam:
    """Add the account that the entry cell borrows, and the scopes of others that share it."""
    cell = entrypoint.entrypoint_cell(mission, team)
    if isinstance(cell, entrypoint.NotReady) or cell.spec.service_account_name is None:
        return team
    ref = ObjectRef("ServiceAccount", mission.metadata.namespace, cell.spec.service_account_name)
    return MissionTeam(
        team.formation,
        team.cells,
        account=await world.cluster.get(ref, fresh=True),
        members=team.members,
        sharing=await shared_reads.scopes_sharing_account(world.cluster, cell),
    )


async def _ledger(world: World, mission: Mission, *, has_ended: bool, is_new: bool) -> Ledger:
    """Read the run from the knowledge service if the decision depends on it.

    This is so at the end, and before the first Job if this process opened no run: the object may
    have been saved while its run continued, and the run may have ended since.
    """
    run_id, memory = run_id_of(mission), world.sync_state
    namespace, knowledge = mission.metadata.namespace, world.knowledge
    if run_id is None:
        return Ledger(problem=memory.unavailable_reason())
    known_state = Ledger(
        is_opened=memory.is_run_open(namespace, run_id),
        is_closed=memory.is_run_closed(namespace, run_id),
        is_extraction_accepted=memory.is_extraction_accepted(namespace, run_id),
        is_extraction_counted=memory.is_extraction_counted(namespace, run_id),
        problem=memory.unavailable_reason(),
        refusal=memory.refusal(run_key(namespace, run_id)),
        failure=memory.failure(run_key(namespace, run_id)),
        episodes_refusal=memory.episodes_refusal(run_key(namespace, run_id)),
    )
    if not has_ended and (known_state.is_opened or not is_new):
        return known_state
    try:
        run = await _none_if_not_found(knowledge.get_run(run_id, namespace=namespace))
        extraction = None
        if has_ended and run is not None and run.outcome is not None:
            extraction = await _none_if_not_found(
                knowledge.get_extraction(run_id, namespace=namespace)
            )
    except errors.KnowledgeError as exc:
        return replace(known_state, problem=str(exc))
    return replace(known_state, run=run, extraction=extraction, problem=None)


async def _none_if_not_found(call: Awaitable[T]) -> T | None:
    try:
        return await call
    except errors.NotFound:
        return None


async def _with_spending_cells(
    world: World, observed: MissionObserved, *, is_recorded: bool
) -> MissionObserved:
    """Add the cells of an ended run whose cost is not counted yet, and what it has reserved on."""
    mission = observed.mission
    run_id = run_id_of(mission)
    run_outcome = outcome_annotation.read(mission, None)
    if run_id is None or run_outcome is None or budgets.is_counted(mission, run_id):
        return observed
    if is_recorded and run_outcome.usage is None:
        return observed
    team = await _team(world, mission) if is_recorded else observed.team
    entry = entrypoint.entrypoint_cell(mission, team)
    cell = entry if isinstance(entry, Cell) else None
    reviewer = reviewer_cells.find(mission, team)
    return replace(
        observed,
        spending_cell=cell,
        spending_reviewer=reviewer,
        accounts=cost_reservations.accounts_of(team, cell, reviewer),
    )


async def _instance(
    world: World, mission: Mission, ledger: Ledger, jobs: Sequence[Body]
) -> BlueprintInstance | None:
    """Read the mission's instance if its fields or its suspension may be needed."""
    name = instance_name(mission)
    is_open = any(not attempt_state.has_ended(job) for job in jobs)
    if name is None or not (_needs_fields(mission, ledger) or not is_open):
        return None
    ref = ObjectRef("BlueprintInstance", mission.metadata.namespace, name)
    body = await world.cluster.get(ref)
    instance = shared_reads.parse_resource(BlueprintInstance, body) if body is not None else None
    return instance if isinstance(instance, BlueprintInstance) else None


def _needs_fields(mission: Mission, ledger: Ledger) -> bool:
    """Whether the ledger may still need the fields of the mission's instance."""
    return labels.OUTCOME in mission.metadata.annotations or not ledger.is_opened


async def _blueprint(
    world: World, mission: Mission, instance: BlueprintInstance | None, ledger: Ledger
) -> str | None:
    """Read the name of a mission's Blueprint from its revision if the instance does not have it."""
    carried = mission.metadata.labels
    label, number = carried.get(labels.BLUEPRINT), carried.get(labels.REVISION)
    named = instance.spec.blueprint_ref.name if instance is not None else None
    is_known = named is not None and names.label_value(named) == label
    if label is None or number is None or is_known or not _needs_fields(mission, ledger):
        return None
    selector = f"{labels.BLUEPRINT}={label},{labels.REVISION}={number}"
    bodies = await world.cluster.list(
        "BlueprintRevision", mission.metadata.namespace, labels=selector
    )
    revisions = [shared_reads.parse_resource(BlueprintRevision, body) for body in bodies]
    blueprints = (r.spec.blueprint for r in revisions if isinstance(r, BlueprintRevision))
    return next((name for name in blueprints if names.label_value(name) == label), None)


def _decide(observed: MissionObserved | InvalidMission, now: datetime) -> Plan:
    if isinstance(observed, InvalidMission):
        return invalid_mission.decide_invalid_mission(observed, now)
    return decision.decide_mission(observed, now)


CONTROLLER = Controller("Mission", observe_mission, _decide)
