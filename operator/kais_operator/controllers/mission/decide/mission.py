"""Decide the next step of a Mission.

    no run-id yet?       -> stamp run-id and finalizer, before the first side effect
    an outcome stamped?  -> record the run, request extraction, remove the finalizer, report
    the run has ended?   -> stamp the outcome, before it is reported anywhere
    an open attempt?     -> inject its knowledge, record final results, wait
    none open?           -> start the next attempt, or report what it waits for
    rerun requested and the run recorded? -> stamp a new run-id and start from the top

The annotations decide, never the status. An object that was saved and applied again, or whose
status was removed, runs nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from kais import labels, names, trace_context
from kais.resources.field_types import rfc3339
from kais.resources.formation import Formation
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    a2a_attempts,
    agent_reviews,
    attempt_checks,
    attempt_start,
    attempt_state,
    budgets,
    cost_gate,
    cost_reservations,
    knowledge_injection,
    ledger_calls,
    mission_conditions,
    outcome,
    outcome_annotation,
    rerun,
    reviewer_cells,
    run_history_annotation,
    server_reports,
    service_check_attempts,
    task_approvals,
)
from kais_operator.controllers.mission.decide import entrypoint as entries
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import NotReady
from kais_operator.controllers.mission.decide.evaluated_mission import EvaluatedMission
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    ref_of,
    run_id_of,
)
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome
from kais_operator.planning import children, finalizers, run_stamps
from kais_operator.planning.plan import (
    Action,
    CancelTask,
    Delete,
    EndCommands,
    InjectKnowledge,
    ObjectRef,
    PatchMetadata,
    Plan,
    SendMessage,
)

_SHORT_DELAY = timedelta(seconds=1)
_POLL_LIMIT = timedelta(seconds=30)
_RENDERER_AGAIN = timedelta(seconds=30)
"""Delay while the renderer does not answer; checks in a running container are polled more often."""
_GATE_RETRY_INTERVAL = timedelta(seconds=30)
"""Delay until a gate is opened again if the patch failed; no watch event reports why it did."""
_PODLESS_LEAST = timedelta(seconds=2)
"""Shortest delay before a Job without a pod is examined; usually a watch reports the pod first."""


def decide_mission(observed: MissionObserved, now: datetime) -> Plan:
    """Choose the writes that bring a mission to its next attempt or its end.

    A run that has an outcome is never started again. Reads no clock: pass an aware `now`.
    """
    plan = _decide_run(observed, now)
    reports = server_reports.write_actions(observed)
    return replace(plan, actions=(*reports, *plan.actions)) if reports else plan


def _decide_run(observed: MissionObserved, now: datetime) -> Plan:
    mission = observed.mission
    if mission.is_deleting and not finalizers.is_held(mission):
        return Plan()
    run_id = run_id_of(mission)
    if run_id is None:
        return _accept(observed, now)
    attempt_list = attempt_checks.evaluate_attempts(observed, now)
    run_outcome = outcome_annotation.read(mission, observed.ledger.run)
    if run_outcome is not None:
        return _finish_run(observed, attempt_list, run_outcome, run_id=run_id, now=now)
    entry = entries.find_entrypoint(mission, observed.team, now=now)
    is_open = bool(attempt_list) and not attempt_list[-1].is_over
    step = None
    if not is_open:
        step = attempt_start.next_attempt(observed, attempt_list, entry, run_id=run_id, now=now)
    obstacle, held_back = _obstacles(step)
    run_outcome = outcome.decide_outcome(
        observed, attempt_list, obstacle=obstacle, held_back=held_back, now=now
    )
    if run_outcome is not None:
        cancels = a2a_attempts.cancel_actions(
            observed, attempt_list, _entry_cell(observed), run_id=run_id
        )
        cancels += agent_reviews.cancel_actions(observed, attempt_list, run_id=run_id)
        if cancels and _awaits_cancel(observed, attempt_list):
            evaluated = EvaluatedMission(observed, run_id, attempt_list)
            return _plan(
                evaluated, [*_end_commands(observed), *cancels], now, requeue_after=_SHORT_DELAY
            )
        stopped = [
            *_end_commands(observed),
            *cancels,
            outcome_annotation.outcome_patch(mission, run_outcome),
            *_delete_open_jobs(attempt_list),
        ]
        evaluated = EvaluatedMission(observed, run_id, attempt_list, run_outcome)
        return _plan(evaluated, stopped, now, requeue_after=_SHORT_DELAY)
    return _continue_run(
        observed, attempt_list, step, run_id=run_id, now=now, prior_actions=_add_finalizer(mission)
    )


def next_step(observed: MissionObserved, now: datetime) -> attempt_start.Step | None:
    """Return the step to the next attempt or its review; None if no work is about to start."""
    run_id = run_id_of(observed.mission)
    if run_id is None or labels.OUTCOME in observed.mission.metadata.annotations:
        return None
    attempt_list = attempt_checks.evaluate_attempts(observed, now)
    if not attempt_list or attempt_list[-1].is_over:
        entry = entries.find_entrypoint(observed.mission, observed.team, now=now)
        return attempt_start.next_attempt(observed, attempt_list, entry, run_id=run_id, now=now)
    last = attempt_list[-1]
    if last.state is not State.REVIEWING or last.review is not None:
        return None
    return agent_reviews.request(observed, attempt_list, run_id=run_id, now=now)


def _awaits_cancel(observed: MissionObserved, attempt_list: Sequence[Attempt]) -> bool:
    return a2a_attempts.awaits_cancel(observed, attempt_list) or agent_reviews.awaits_cancel(
        observed, attempt_list
    )


def _obstacles(step: attempt_start.Step | None) -> tuple[NotReady | None, NotReady | None]:
    """Return the obstacle for the start deadline, or else the one that holds the mission back."""
    obstacle = step[0] if step is not None else None
    is_held_back = obstacle is not None and obstacle.reason in attempt_start.HELD_BACK
    return (None, obstacle) if is_held_back else (obstacle, None)


def _accept(observed: MissionObserved, now: datetime) -> Plan:
    """Stamp the mission with its run-id and start the run in the same reconcile."""
    mission = observed.mission
    if mission.is_deleting:
        return Plan((finalizers.release(mission),))
    if outcome.unsupported(mission, observed.team) is not None:
        return _plan(EvaluatedMission(observed, None), (), now)
    nonce = rerun.nonce_of(mission)
    run_id = rerun.run_id_for(mission, nonce)
    if observed.copied:  # its owner reference may be copied as well
        run_id = names.run_id(mission.metadata.uid, nonce or "")
    stale = list(observed.copied)
    early = [
        annotation
        for annotation in (*run_stamps.OF_PEOPLE, labels.HELD_UNTIL)
        if _has_annotation(mission, annotation)
    ]
    stale += early  # there is no work to review yet, and no call to approve
    annotations: dict[str, str | None] = {
        **dict.fromkeys(stale),
        labels.RUN_ID: run_id,
        labels.TRACEPARENT: trace_context.of_run(mission.metadata.annotations, run_id),
        **_run_object_annotation(mission),
        labels.ACCEPTED_AT: rfc3339(now),
        **({labels.RERUN_TAKEN: nonce} if nonce is not None else {}),
    }
    stamp = _with_finalizer(mission, annotations)
    entry = entries.find_entrypoint(mission, observed.team, now=now)
    step = attempt_start.next_attempt(observed, (), entry, run_id=run_id, now=now)
    return _continue_run(observed, (), step, run_id=run_id, now=now, prior_actions=(stamp,))


def _has_annotation(mission: Mission, name: str) -> bool:
    return name in mission.metadata.annotations


def _run_object_annotation(mission: Mission) -> dict[str, str]:
    return run_stamps.object_annotation(
        mission.kind, mission.metadata.namespace, mission.metadata.name
    )


def _add_finalizer(mission: Mission) -> tuple[PatchMetadata, ...]:
    """Add the finalizer and the run-object annotation to a mission whose run continues.

    A restored mission, or one of an older version, may lack them.
    """
    is_bound = _has_annotation(mission, labels.RUN_OBJECT)
    if finalizers.is_held(mission) and is_bound:
        return ()
    return (_with_finalizer(mission, {} if is_bound else {**_run_object_annotation(mission)}),)


def _with_finalizer(mission: Mission, annotations: dict[str, str | None]) -> PatchMetadata:
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations=annotations,
        finalizers=finalizers.added(metadata.finalizers),
    )


def _continue_run(
    observed: MissionObserved,
    attempt_list: Sequence[Attempt],
    step: attempt_start.Step | None,
    *,
    run_id: str,
    now: datetime,
    prior_actions: tuple[Action, ...] = (),
) -> Plan:
    """Wait for the open attempt, or apply `step`, which starts the next one."""
    mission = observed.mission
    actions: list[Action] = list(prior_actions)
    if _is_scope_known(observed) and outcome.unsupported(mission, observed.team) is None:
        actions += ledger_calls.open_actions(observed, run_id=run_id)
    actions += rerun.delete_old_jobs(observed, run_id=run_id)
    persisted = _persist_results(observed, attempt_list)
    if (
        persisted and prior_actions
    ):  # both patch the same resourceVersion, so the second one has to follow
        return _plan(
            EvaluatedMission(observed, run_id, attempt_list),
            actions,
            now,
            requeue_after=_SHORT_DELAY,
        )
    actions += persisted
    last = attempt_list[-1] if attempt_list else None
    if last is not None and last.is_over:  # a person was faster than the reviewing cell
        actions += agent_reviews.cancel_actions(observed, attempt_list, run_id=run_id)
    if step is None:
        return _await_attempt(observed, attempt_list, actions, run_id=run_id, now=now)
    obstacle, start_actions, retry_after = step
    if prior_actions or persisted:
        actions, start_actions = _joined(mission, actions, start_actions)
    evaluated = EvaluatedMission(observed, run_id, attempt_list, None, obstacle)
    is_held_back = obstacle is not None and obstacle.reason in attempt_start.HELD_BACK
    actions, start_actions = _with_hold(
        mission, actions, start_actions, _hold(observed, attempt_list, obstacle, now)
    )
    limits = outcome.deadlines_of_next_start(
        observed, attempt_list, is_held_back=is_held_back, now=now
    )
    return _plan(
        evaluated,
        _with_adjusted_reservation(evaluated, [*actions, *start_actions], now),
        now,
        requeue_after=_earliest(limits, now, retry_after),
    )


def _hold(
    observed: MissionObserved,
    attempt_list: Sequence[Attempt],
    obstacle: NotReady | None,
    now: datetime,
) -> str | None:
    """Return the record of a hold before the first attempt; None if it needs no write.

    A mission that starts as soon as it is no longer held back needs no time for its deadline.
    """
    if attempt_list or observed.history.restarting is not None:
        return None
    is_recorded = observed.mission.metadata.annotations.get(labels.HELD_UNTIL) == labels.STILL_HELD
    if obstacle is not None and obstacle.reason in attempt_start.HELD_BACK:
        return None if is_recorded else labels.STILL_HELD
    failed = observed.failed_write
    is_refused = observed.refused_write is not None or failed is not None
    if not is_recorded or not (obstacle is not None or is_refused):
        return None
    return rfc3339(now if failed is None or obstacle is not None else failed.first_at)


def _with_hold(
    mission: Mission, actions: list[Action], start_actions: tuple[Action, ...], hold: str | None
) -> tuple[list[Action], tuple[Action, ...]]:
    """Add the record of a hold to the patch of the mission, or as a patch of its own."""
    if hold is None:
        return actions, start_actions
    stamp = _annotate(mission, {labels.HELD_UNTIL: hold})
    planned = [*actions, *start_actions]
    if any(isinstance(each, PatchMetadata) and each.ref == stamp.ref for each in planned):
        joined, _ = _joined(mission, planned, (stamp,))
        return joined, ()
    return [*actions, stamp], start_actions


def _joined(
    mission: Mission, actions: list[Action], start_actions: tuple[Action, ...]
) -> tuple[list[Action], tuple[Action, ...]]:
    """Join the stamp of an attempt with the patch that the mission gets in the same reconcile.

    The API server would refuse a second one. A start that patches another object waits for the next
    iteration.
    """
    ref = ref_of(mission)
    stamps = [action for action in start_actions if isinstance(action, PatchMetadata)]
    patch = next(
        (each for each in actions if isinstance(each, PatchMetadata) and each.ref == ref), None
    )
    if patch is not None and [stamp.ref for stamp in stamps] == [ref]:
        joined = replace(patch, annotations={**patch.annotations, **stamps[0].annotations})
        others = tuple(action for action in start_actions if action is not stamps[0])
        return [joined if action is patch else action for action in actions], others
    return actions, tuple(
        action
        for action in start_actions
        if not isinstance(action, PatchMetadata | CancelTask | SendMessage)
    )


def _with_adjusted_reservation(
    evaluated: EvaluatedMission, actions: Sequence[Action], now: datetime
) -> Sequence[Action]:
    """Add the write that adjusts the run's reservation, unless its object is patched already."""
    patch = cost_reservations.adjust(
        evaluated.observed, evaluated.attempts, evaluated.obstacle, now=now
    )
    patched = {action.ref for action in actions if isinstance(action, PatchMetadata)}
    return actions if patch is None or patch.ref in patched else [*actions, patch]


def _persist_results(observed: MissionObserved, attempt_list: Sequence[Attempt]) -> list[Action]:
    """Record final results on the mission, and delete the running Jobs of ended attempts."""
    mission = observed.mission
    has_results = any(_has_final_results(attempt) for attempt in attempt_list)
    if not has_results and observed.history.restarting is None:
        return []
    stamp = run_history_annotation.stamp(mission, observed.history.with_restarting(attempt_list))
    is_new = mission.metadata.annotations.get(labels.ATTEMPTS) != stamp.annotations[labels.ATTEMPTS]
    actions: list[Action] = [stamp] if is_new else []
    return [*actions, *_delete_open_jobs([attempt for attempt in attempt_list if attempt.is_over])]


def _has_final_results(attempt: Attempt) -> bool:
    has_results = any(result.is_final for result in attempt.checks)
    has_results = has_results or any(call.outcome is not None for call in attempt.approvals)
    has_results = has_results or bool(attempt.pod_usages)
    is_recorded = attempt.is_over or attempt.is_exec or attempt.review is not None
    return is_recorded or has_results or attempt.is_started  # its time counts without its Job too


def _annotate(mission: Mission, annotations: Mapping[str, str | None]) -> PatchMetadata:
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations=annotations,
    )


def _is_scope_known(observed: MissionObserved) -> bool:
    """Whether the run's scope, which is part of the run's identity, is certain."""
    return observed.team.formation is not None or bool(observed.team.cells)


def _await_attempt(
    observed: MissionObserved,
    attempt_list: Sequence[Attempt],
    actions: list[Action],
    *,
    run_id: str,
    now: datetime,
) -> Plan:
    """Inject the open attempt's knowledge or run its checks, and requeue for the next deadline."""
    mission, last = observed.mission, attempt_list[-1]
    if last.message_id is not None and last.state is State.RUNNING:
        obstacle, next_actions, retry_after = a2a_attempts.await_task(
            observed, attempt_list, _entry_cell(observed), run_id=run_id, now=now
        )
    elif last.state is State.REVIEWING and reviewer_cells.find(mission, observed.team) is not None:
        obstacle, next_actions, retry_after = _request_review(
            observed, attempt_list, actions, run_id=run_id, now=now
        )
    elif last.is_exec:
        run_deadline = outcome.deadline(mission, attempt_list)
        obstacle, next_actions, retry_after = service_check_attempts.run_checks(
            observed, last, deadline=run_deadline, now=now
        )
    else:
        obstacle, next_actions, retry_after = _inject_knowledge(observed, last, run_id=run_id)
        commands, poll_after = task_approvals.poll(observed, last, now)
        # The pod is scheduled while its knowledge is recalled.
        next_actions = (*_open_gate(last, now), *next_actions, *commands)
        gate_after = _GATE_RETRY_INTERVAL if attempt_state.awaits_open_gate(last) else None
        retry_after = min(filter(None, (retry_after, poll_after, gate_after)), default=None)
    actions += next_actions
    evaluated = EvaluatedMission(observed, run_id, attempt_list, None, obstacle)
    if attempt_state.is_without_pod(last, observed.pods):
        podless_for = now - last.job_created_at
        retry_after = min(max(podless_for / 4, _PODLESS_LEAST), _POLL_LIMIT)
    limits = [
        outcome.deadline(mission, attempt_list),
        outcome.start_deadline(mission, last, now=now),
    ]
    limits += attempt_checks.deadlines(observed, last)
    if last.is_counted:
        limits = [now + outcome.JOB_STATUS_GRACE]
    if observed.renderer_problem is not None and not last.is_exec:
        retry_after = _RENDERER_AGAIN
    if observed.is_reading:
        retry_after = _SHORT_DELAY
    return _plan(
        evaluated,
        _with_adjusted_reservation(evaluated, actions, now),
        now,
        requeue_after=_earliest(limits, now, retry_after),
    )


def _open_gate(last: Attempt, now: datetime) -> tuple[Action, ...]:
    """Let a pod of an attempt start with what its earlier pods left; they are recorded before."""
    if last.limited is None or last.is_over:
        return ()
    write = cost_gate.open_gate(last.limited, last.pod_usages, now)
    return () if write is None else (write,)


def _request_review(
    observed: MissionObserved,
    attempt_list: Sequence[Attempt],
    actions: Sequence[Action],
    *,
    run_id: str,
    now: datetime,
) -> attempt_start.Step:
    """Choose the message for a review, unless the object is already patched in this reconcile."""
    if any(isinstance(action, PatchMetadata) for action in actions):
        return None, (), _SHORT_DELAY
    return agent_reviews.request(observed, attempt_list, run_id=run_id, now=now)


def _entry_cell(observed: MissionObserved) -> entries.Entrypoint | NotReady:
    """Return the entry cell, whether it and its team are ready or not."""
    cell = entries.entrypoint_cell(observed.mission, observed.team)
    return cell if isinstance(cell, NotReady) else entries.entrypoint_of(cell, observed.team)


def _inject_knowledge(
    observed: MissionObserved, last: Attempt, *, run_id: str
) -> tuple[NotReady | None, tuple[Action, ...], timedelta | None]:
    """Choose the recall for an attempt without its ConfigMap, or return the obstacle."""
    if last.job is None or last.state in (State.CHECKING, State.REVIEWING):
        return None, (), None
    cell = entries.entrypoint_cell(observed.mission, observed.team)
    if isinstance(cell, NotReady):
        has_map = last.job_name in observed.maps
        return (None if has_map else cell), (), None
    entry = entries.entrypoint_of(cell, observed.team)
    decision = knowledge_injection.decide_map(observed, last, entry, run_id=run_id)
    if decision is None:
        return None, (), None
    if isinstance(decision, InjectKnowledge):
        return None, (decision,), None
    obstacle = NotReady(decision.reason, decision.message) if decision.reason is not None else None
    return obstacle, decision.actions, decision.requeue_after


def _finish_run(
    observed: MissionObserved,
    attempt_list: Sequence[Attempt],
    run_outcome: RunOutcome,
    *,
    run_id: str,
    now: datetime,
) -> Plan:
    """Record the run, request extraction and remove the finalizer; afterwards only report."""
    mission = observed.mission
    evaluated = EvaluatedMission(observed, run_id, attempt_list, run_outcome)
    actions: list[Action] = [
        *_end_commands(observed),
        *_delete_open_jobs(attempt_list),
        *a2a_attempts.repeat_cancel(observed, run_outcome, _entry_cell(observed), run_id=run_id),
        *agent_reviews.repeat_cancel(observed, run_outcome, run_id=run_id),
    ]
    if mission.metadata.annotations.get(labels.OUTCOME) != run_outcome.outcome:
        return _plan(
            evaluated,
            [outcome_annotation.outcome_patch(mission, run_outcome), *actions],
            now,
            requeue_after=_SHORT_DELAY,
        )
    count = _count(observed, run_outcome, run_id=run_id, now=now)
    needs_outbox = ledger_calls.needs_outbox(observed, now)
    actions += count.patches
    # The mark waits for no service: a cell remembers 50 runs, and must not count one twice.
    is_mark_due = bool(count.mark) and (needs_outbox or observed.ledger.problem is not None)
    if is_mark_due:
        actions.append(_annotate(mission, count.mark))
    if is_mark_due or (count.patches and not count.mark):
        return _plan(evaluated, actions, now, requeue_after=_SHORT_DELAY)
    if needs_outbox:
        return Plan((*actions, *ledger_calls.outbox_actions(observed, run_outcome, run_id=run_id)))
    actions += ledger_calls.close_actions(observed, run_outcome, run_id=run_id)
    refresh = ledger_calls.refresh_statistics(observed)
    rerun_patch = rerun.write_patch(observed, run_outcome, run_id=run_id, now=now)
    if rerun_patch is not None and not actions and not count.mark:
        return Plan((rerun_patch, *refresh), requeue_after=_SHORT_DELAY)
    actions += [*refresh, *_mark_and_release(observed, count.mark)]
    if mission.is_deleting and observed.ledger.problem is None:
        return Plan(
            tuple(actions), requeue_after=_SHORT_DELAY
        )  # no one reads the status of a deleted object
    return _plan(evaluated, actions, now, requeue_after=_poll_delay(observed, run_outcome, now))


def _count(
    observed: MissionObserved, run_outcome: RunOutcome, *, run_id: str, now: datetime
) -> budgets.CountWrites:
    """Choose the next writes that count the run on its cells; none that hold up a deletion."""
    mission = observed.mission
    if mission.is_deleting and observed.refused_write is not None:
        return budgets.CountWrites()
    return budgets.count_run(
        mission,
        observed.spending_cell,
        run_outcome,
        reviewer=observed.spending_reviewer,
        formation=next((a for a in observed.accounts if isinstance(a, Formation)), None),
        release=cost_reservations.release(observed.accounts, run_id),
        run_id=run_id,
        now=now,
    )


def _mark_and_release(observed: MissionObserved, mark: Mapping[str, str]) -> list[Action]:
    """Choose the write that marks a run as counted and releases the finalizer.

    If a call to the knowledge service fails before, the executor writes the mark alone.
    """
    mission = observed.mission
    if finalizers.is_held(mission) and not ledger_calls.is_refused(observed):
        return [replace(finalizers.release(mission), annotations=mark)]
    return [_annotate(mission, mark)] if mark else []


def _end_commands(observed: MissionObserved) -> list[EndCommands]:
    return [EndCommands(ref_of(observed.mission))] if observed.has_commands else []


def _delete_open_jobs(attempt_list: Sequence[Attempt]) -> list[Action]:
    """Delete the Jobs that have not ended, and thereby their pods."""
    return [
        Delete(children.ref_of(attempt.job), uid=attempt.job["metadata"]["uid"])
        for attempt in attempt_list
        if attempt.job is not None
        and not attempt.job["metadata"].get("deletionTimestamp")
        and not attempt_state.has_ended(attempt.job)
    ]


def _poll_delay(
    observed: MissionObserved, run_outcome: RunOutcome, now: datetime
) -> timedelta | None:
    """Return when to poll the extraction, less often with time; None when nothing is awaited."""
    deleted_at = observed.mission.metadata.deletion_timestamp
    if deleted_at is not None:
        return finalizers.remaining_wait(deleted_at, now)
    if ledger_calls.is_refused(observed):
        return ledger_calls.REFUSAL_RETRY_INTERVAL
    extraction = observed.ledger.extraction
    is_settled = extraction is not None and extraction.state in ("done", "failed")
    state = ledger_calls.state_of(observed)
    if state.is_done and (is_settled or not state.is_extracting):
        return None
    age = now - (run_outcome.finished_at or now)
    return min(max(age / 4, _SHORT_DELAY), _POLL_LIMIT)


def _earliest(
    limits: Sequence[datetime | None], now: datetime, retry_after: timedelta | None
) -> timedelta | None:
    delays = [max(limit - now, _SHORT_DELAY) for limit in limits if limit is not None]
    if retry_after is not None:
        delays.append(retry_after)
    return min(delays, default=None)


def _plan(
    evaluated: EvaluatedMission,
    actions: Sequence[Action],
    now: datetime,
    *,
    requeue_after: timedelta | None = None,
) -> Plan:
    status, events = mission_conditions.decide_status(evaluated, now)
    return Plan((*actions, *events), status, requeue_after)
