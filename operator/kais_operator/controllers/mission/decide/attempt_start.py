"""Decide how the next attempt of a mission starts, or what prevents it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from kais import durations, labels, trace_context
from kais.reasons import Reason
from kais_operator.controllers.cell.decide import process_limits
from kais_operator.controllers.mission.decide import (
    a2a_attempts,
    attempt_record,
    budgets,
    cost_gate,
    cost_reservations,
    job_manifest,
    knowledge_injection,
    outcome,
    reviewer_cells,
    service_check_attempts,
    task_approvals,
)
from kais_operator.controllers.mission.decide.attempt_state import Attempt
from kais_operator.controllers.mission.decide.entrypoint import Entrypoint, NotReady
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved, parent_of
from kais_operator.planning import children
from kais_operator.planning.plan import Action, Body

HELD_BACK = (
    Reason.SUSPENDED,
    Reason.NOT_YET_SUPPORTED,
    Reason.REVIEWER_NOT_ALLOWED,
    Reason.PAUSED,
    Reason.BUDGET_RESERVED,
)
"""Obstacles without a start deadline: a user chose or caused them, or others spend the budget.

A watch reports the end of most. A pause of a team ends at a time that is known. A mission that
waits for a reservation is examined every 10 s, and one whose instance is suspended every 30 s.
"""
Step = tuple[NotReady | None, tuple[Action, ...], timedelta | None]
"""The obstacle if there is one, the writes, and the delay until the next reconcile."""
_RETRY_INTERVAL = timedelta(seconds=30)
"""Delay for obstacles that no watch event may report, such as an object of another owner."""


def next_attempt(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    entry: Entrypoint | NotReady,
    *,
    run_id: str,
    now: datetime,
) -> Step:
    """Choose the creation of the next attempt's Job, or return the obstacle that prevents it."""
    held_back = _held_back(observed, now)
    if held_back is not None:
        return held_back[0], (), held_back[1]
    if isinstance(entry, NotReady):
        return entry, (), _RETRY_INTERVAL
    if service_check_attempts.is_service_attempt(entry.cell):
        is_agent = entry.cell.spec.serves_a2a
        return (
            a2a_attempts.next_attempt(observed, attempts, entry, run_id=run_id, now=now)
            if is_agent
            else service_check_attempts.next_attempt(observed, attempts, now)
        )
    obstacle = _pod_still_running(observed)
    if obstacle is not None:
        return obstacle, (), children.RETRY_INTERVAL
    claim = cost_reservations.claim(observed, attempts, entry.cell, now=now)
    left = cost_reservations.limit_of_pods(observed, attempts, entry.cell, claim.left, now=now)
    job = _job(observed, attempts, entry, run_id=run_id, left=left, now=now)
    obstacle = _too_large(job)
    if obstacle is not None:
        return obstacle, (), _RETRY_INTERVAL
    step = _create(observed, job)
    # Money is reserved last, when nothing else prevents the start.
    return claim.step if step[0] is None and claim.step is not None else step


def _create(observed: MissionObserved, job: Body) -> Step:
    name = job["metadata"]["name"]
    existing_job = next((j for j in observed.jobs if j["metadata"]["name"] == name), None)
    decision = children.decide_fixed_child(job, existing_job, parent_of(observed.mission))
    if decision.reason is not None:
        return NotReady(decision.reason, decision.message), (), decision.requeue_after
    return None, decision.actions, None


def _too_large(job: Body) -> NotReady | None:
    """Return an obstacle when the inputs are too large to start a process in the Job's pod."""
    pod = job["spec"]["template"]["spec"]
    problem = process_limits.problem([*pod.get("initContainers", ()), *pod["containers"]])
    return None if problem is None else NotReady(Reason.TOO_LARGE, problem)


def _pod_still_running(observed: MissionObserved) -> NotReady | None:
    """Wait for the pods of ended attempts: two pods must not work in one workspace."""
    for pod in observed.pods:
        if cost_gate.may_work(pod):
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            return NotReady(Reason.DELETING, f"Pod/{namespace}/{name} has not ended yet")
    return None


def _is_instance_suspended(observed: MissionObserved) -> bool:
    return observed.instance is not None and observed.instance.spec.suspend


def _held_back(
    observed: MissionObserved, now: datetime
) -> tuple[NotReady, timedelta | None] | None:
    """Return the obstacle to the start, and when it ends if no watch event reports that."""
    obstacle = _obstacle_of_user(observed)
    if obstacle is not None:
        return obstacle, _RETRY_INTERVAL if _is_instance_suspended(observed) else None
    return budgets.paused(observed.team, now)


def _obstacle_of_user(observed: MissionObserved) -> NotReady | None:
    mission = observed.mission
    unsupported = outcome.unsupported(mission, observed.team)
    if unsupported is not None:
        return NotReady(Reason.NOT_YET_SUPPORTED, unsupported)
    if mission.metadata.annotations.get(labels.RECONCILE) == labels.RECONCILE_SUSPENDED:
        message = f"no attempt is started while {labels.RECONCILE} is {labels.RECONCILE_SUSPENDED}"
        return NotReady(Reason.SUSPENDED, message)
    if observed.instance is not None and observed.instance.spec.suspend:
        message = f"no attempt is started while {observed.instance.ref} has spec.suspend"
        return NotReady(Reason.SUSPENDED, message)
    return reviewer_cells.problem(mission, observed.team)


def _job(
    observed: MissionObserved,
    attempts: Sequence[Attempt],
    entry: Entrypoint,
    *,
    run_id: str,
    left: Decimal | None,
    now: datetime,
) -> Body:
    mission = observed.mission
    previous = attempts[-1] if attempts else None
    limit = outcome.deadline(mission, observed.history.with_restarting(attempts))
    timeout = durations.parse(mission.spec.completion.timeout)
    remaining = limit - now if limit is not None else timeout
    entrypoint_message = mission.spec.entrypoint.message if mission.spec.entrypoint else None
    spending = budgets.spending_of(mission, entry.cell, observed.team, attempts, now=now)
    number = previous.number + 1 if previous else 1
    inputs = job_manifest.AttemptInputs(
        mission=mission.metadata.name,
        run_id=run_id,
        attempt=number,
        objective=mission.spec.objective,
        message=entrypoint_message or "",
        feedback=attempt_record.summarise(previous).feedback() if previous else "",
        labelled={
            key: mission.metadata.labels[key]
            for key in (labels.BLUEPRINT, labels.REVISION, labels.INSTANCE)
            if key in mission.metadata.labels
        },
        checks=mission.spec.completion.checks,
        check_image=observed.check_image,
        agents=observed.agents,
        pod_defaults=observed.pod_policy.defaults_of(mission.metadata.namespace),
        traceparent=trace_context.of_run(mission.metadata.annotations, run_id),
        arm=knowledge_injection.arm_of(mission),
        calls_since=task_approvals.first_of_chain(attempts, number),
        spending=spending if left is None else replace(spending, left=left),
    )
    return job_manifest.attempt_job(
        parent_of(mission),
        entry.cell,
        entry.identity,
        inputs=inputs,
        knowledge_url=observed.knowledge_url,
        seconds=int(remaining.total_seconds()),
    )
