"""A Mission's next step, in the order of its questions.

    has it a run?      no  -> stamp run-id and finalizer, before the first side effect
    has it an outcome? yes -> tell the ledger, have facts extracted, let go, report
    is it over?        yes -> stamp the outcome, before anybody is told
    an attempt open?   yes -> give it its knowledge, keep what was judged of it, wait
                       no  -> start the next one, or say what it waits for
    asked to run again, and all told?  -> a new run-id, and from the top

The annotations decide, never the status: an object that was saved and applied again, or whose
status was wiped, runs nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kais import labels, names
from kais.resources.field_types import rfc3339
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import (
    attempt_start,
    attempts,
    attempts_annotation,
    check_evaluation,
    knowledge_injection,
    ledger,
    mission_conditions,
    outcome,
    outcome_annotation,
    rerun,
    service_attempts,
)
from kais_operator.controllers.mission.decide import entrypoint as entries
from kais_operator.controllers.mission.decide.attempts import Attempt, State
from kais_operator.controllers.mission.decide.entrypoint import Obstacle
from kais_operator.controllers.mission.decide.mission_observed import (
    MissionObserved,
    is_held,
    ref_of,
    run_id_of,
)
from kais_operator.controllers.mission.decide.mission_view import Standing
from kais_operator.controllers.mission.decide.outcome_annotation import Ending
from kais_operator.planning import children, run_stamps
from kais_operator.planning.plan import (
    Action,
    Delete,
    EndCommands,
    InjectKnowledge,
    ObjectRef,
    PatchMetadata,
    Plan,
)

_SOON = timedelta(seconds=1)
_POLL_LIMIT = timedelta(seconds=30)
_RENDERER_AGAIN = timedelta(seconds=30)
"""When a renderer that does not answer is asked again; a round is looked at more often anyway."""
_PODLESS_LEAST = timedelta(seconds=2)
"""When it is first asked why a Job has no pod; usually a watch tells of the pod before."""


def decide_mission(observed: MissionObserved, now: datetime) -> Plan:
    """Choose the writes that bring a mission to its next attempt or its end.

    A run that has an outcome is never started again. Reads no clock; pass an aware `now`.
    """
    mission = observed.mission
    if mission.is_deleting and not is_held(mission):
        return Plan()
    run_id = run_id_of(mission)
    if run_id is None:
        return _take_up(observed, now)
    seen = check_evaluation.judged(observed, now)
    ending = outcome_annotation.read(mission, observed.ledger.run)
    if ending is not None:
        return _finish(observed, seen, ending, run_id=run_id, now=now)
    entry = entries.find(mission, observed.team, now=now)
    is_open = bool(seen) and not seen[-1].is_over
    step = None
    if not is_open:
        step = attempt_start.start(observed, seen, entry, run_id=run_id, now=now)
    ending = outcome.judge(observed, seen, obstacle=_delay(step), now=now)
    if ending is not None:
        stopped = [
            *_end_commands(observed),
            outcome_annotation.stamp(mission, ending),
            *_stop(seen),
        ]
        standing = Standing(observed, run_id, seen, ending)
        return _plan(standing, stopped, now, requeue_after=_SOON)
    return _go_on(observed, seen, step, run_id=run_id, now=now, before=_hold(mission))


def _delay(step: attempt_start.Step | None) -> Obstacle | None:
    """Give what the start deadline counts against: not against what somebody holds back."""
    obstacle = step[0] if step is not None else None
    is_held_back = obstacle is not None and obstacle.reason in attempt_start.HELD_BACK
    return None if is_held_back else obstacle


def _take_up(observed: MissionObserved, now: datetime) -> Plan:
    """Give the mission its run, and begin with it in the same pass."""
    mission = observed.mission
    if mission.is_deleting:
        return Plan((ledger.released(observed),))
    if outcome.unsupported(mission, observed.team) is not None:
        return _plan(Standing(observed, None), (), now)
    nonce = rerun.nonce_of(mission)
    run_id = rerun.run_id_for(mission, nonce)
    if observed.copied:  # its owner reference may be its original's too
        run_id = names.run_id(mission.metadata.uid, nonce or "")
    stale = list(observed.copied)
    if _carries(mission, labels.REVIEW):  # no work was there to judge
        stale.append(labels.REVIEW)
    annotations: dict[str, str | None] = {
        **dict.fromkeys(stale),
        labels.RUN_ID: run_id,
        **_mark(mission),
        labels.ACCEPTED_AT: rfc3339(now),
        **({labels.RERUN_TAKEN: nonce} if nonce is not None else {}),
    }
    stamp = _held(mission, annotations)
    entry = entries.find(mission, observed.team, now=now)
    step = attempt_start.start(observed, (), entry, run_id=run_id, now=now)
    return _go_on(observed, (), step, run_id=run_id, now=now, before=(stamp,))


def _carries(mission: Mission, name: str) -> bool:
    return name in mission.metadata.annotations


def _mark(mission: Mission) -> dict[str, str]:
    return run_stamps.mark(mission.kind, mission.metadata.namespace, mission.metadata.name)


def _hold(mission: Mission) -> tuple[PatchMetadata, ...]:
    """Hold a mission whose run goes on, and bind its stamp; a restored or older one may lack it."""
    is_bound = _carries(mission, labels.RUN_OBJECT)
    if is_held(mission) and is_bound:
        return ()
    return (_held(mission, {} if is_bound else {**_mark(mission)}),)


def _held(mission: Mission, annotations: dict[str, str | None]) -> PatchMetadata:
    metadata = mission.metadata
    finalizers = tuple(f for f in metadata.finalizers if f != labels.FINALIZER)
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations=annotations,
        finalizers=(*finalizers, labels.FINALIZER),
    )


def _go_on(
    observed: MissionObserved,
    seen: Sequence[Attempt],
    step: attempt_start.Step | None,
    *,
    run_id: str,
    now: datetime,
    before: tuple[Action, ...] = (),
) -> Plan:
    """Wait for the open attempt, or take `step`, which starts the next one."""
    mission = observed.mission
    actions: list[Action] = list(before)
    if _is_found(observed) and outcome.unsupported(mission, observed.team) is None:
        actions += ledger.opening(observed, run_id=run_id)
    actions += rerun.clear(observed, run_id=run_id)
    kept = _keep(observed, seen)
    if kept and before:  # both write to the mission as it was read: the other one follows
        return _plan(Standing(observed, run_id, seen), actions, now, requeue_after=_SOON)
    actions += kept
    last = seen[-1] if seen else None
    if step is None:
        return _wait(observed, seen, actions, run_id=run_id, now=now)
    obstacle, started, look_again = step
    if before or kept:  # one write of metadata in a pass: the next one would be refused
        started = tuple(action for action in started if not isinstance(action, PatchMetadata))
    standing = Standing(observed, run_id, seen, None, obstacle)
    is_held_back = obstacle is not None and obstacle.reason in attempt_start.HELD_BACK
    is_late = last is None and not is_held_back
    limits = [outcome.start_deadline(mission, None, now=now)] if is_late else []
    limits.append(outcome.deadline(mission, seen))
    return _plan(
        standing, [*actions, *started], now, requeue_after=_soonest(limits, now, look_again)
    )


def _keep(observed: MissionObserved, seen: Sequence[Attempt]) -> list[Action]:
    """Write onto the mission what was judged, and end what runs on although it was."""
    mission = observed.mission
    if not any(_is_worth_keeping(attempt) for attempt in seen):
        return []
    wanted = attempts_annotation.annotation(seen)
    actions: list[Action] = []
    if mission.metadata.annotations.get(labels.ATTEMPTS) != wanted:
        actions.append(_annotated(mission, {labels.ATTEMPTS: wanted}))
    return [*actions, *_stop([attempt for attempt in seen if attempt.is_over])]


def _is_worth_keeping(attempt: Attempt) -> bool:
    has_results = any(result.is_final for result in attempt.checks)
    return attempt.is_over or attempt.is_exec or has_results


def _annotated(mission: Mission, annotations: Mapping[str, str | None]) -> PatchMetadata:
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations=annotations,
    )


def _is_found(observed: MissionObserved) -> bool:
    """Whether the run's scope is known for sure: it is part of the run's identity."""
    return observed.team.formation is not None or bool(observed.team.cells)


def _wait(
    observed: MissionObserved,
    seen: Sequence[Attempt],
    actions: list[Action],
    *,
    run_id: str,
    now: datetime,
) -> Plan:
    """Give the open attempt its knowledge, and look again when a limit is reached."""
    mission, last = observed.mission, seen[-1]
    if last.is_exec:
        until = outcome.deadline(mission, seen)
        obstacle, given, look_again = service_attempts.go_on(
            observed, last, deadline=until, now=now
        )
    else:
        obstacle, given, look_again = _give_knowledge(observed, last, run_id=run_id)
    actions += given
    standing = Standing(observed, run_id, seen, None, obstacle)
    if attempts.is_without_pod(last, observed.pods):
        podless_for = now - last.started_at
        look_again = min(max(podless_for / 4, _PODLESS_LEAST), _POLL_LIMIT)
    limits = [outcome.deadline(mission, seen), outcome.start_deadline(mission, last, now=now)]
    limits += check_evaluation.limits(observed, last)
    if last.is_counted:
        limits = [now + outcome.COUNTING]
    if observed.renderer_problem is not None and not last.is_exec:
        look_again = _RENDERER_AGAIN
    if observed.is_reading:
        look_again = _SOON
    return _plan(standing, actions, now, requeue_after=_soonest(limits, now, look_again))


def _give_knowledge(
    observed: MissionObserved, last: Attempt, *, run_id: str
) -> tuple[Obstacle | None, tuple[Action, ...], timedelta | None]:
    """Choose the recall for an attempt without its map, or say what stands in its way."""
    if last.job is None or last.state in (State.CHECKING, State.REVIEWING):
        return None, (), None
    cell = entries.entry_cell(observed.mission, observed.team)
    if isinstance(cell, Obstacle):
        has_map = last.job_name in observed.maps
        return (None if has_map else cell), (), None
    who = entries.entry_of(cell, observed.team)
    found = knowledge_injection.decide_map(observed, last, who, run_id=run_id)
    if found is None:
        return None, (), None
    if isinstance(found, InjectKnowledge):
        return None, (found,), None
    obstacle = Obstacle(found.reason, found.message) if found.reason is not None else None
    return obstacle, found.actions, found.requeue_after


def _finish(
    observed: MissionObserved,
    seen: Sequence[Attempt],
    ending: Ending,
    *,
    run_id: str,
    now: datetime,
) -> Plan:
    """Tell the ledger, have facts extracted, let the object go; then only report."""
    mission = observed.mission
    standing = Standing(observed, run_id, seen, ending)
    actions: list[Action] = [*_end_commands(observed), *_stop(seen)]
    if mission.metadata.annotations.get(labels.OUTCOME) != ending.outcome:
        return _plan(
            standing,
            [outcome_annotation.stamp(mission, ending), *actions],
            now,
            requeue_after=_SOON,
        )
    if ledger.must_write_down(observed, now):
        return Plan((*actions, *ledger.written_down(observed, ending, run_id=run_id)))
    actions += ledger.closing(observed, ending, run_id=run_id)
    refresh = ledger.learnt(observed)
    again = rerun.stamp(observed, ending, run_id=run_id, now=now)
    if again is not None and not actions:
        return Plan((again, *refresh), requeue_after=_SOON)
    actions += refresh
    if is_held(mission) and not ledger.is_refused(observed):
        actions.append(ledger.released(observed))
    if mission.is_deleting and observed.ledger.problem is None:
        return Plan(tuple(actions), requeue_after=_SOON)  # nobody reads the status of what is gone
    return _plan(standing, actions, now, requeue_after=_next_look(observed, ending, now))


def _end_commands(observed: MissionObserved) -> list[EndCommands]:
    return [EndCommands(ref_of(observed.mission))] if observed.has_commands else []


def _stop(seen: Sequence[Attempt]) -> list[Action]:
    """End what still runs; its Job goes with its pods."""
    return [
        Delete(children.ref_of(attempt.job), uid=attempt.job["metadata"]["uid"])
        for attempt in seen
        if attempt.job is not None
        and not attempt.job["metadata"].get("deletionTimestamp")
        and not attempts.has_ended(attempt.job)
    ]


def _next_look(observed: MissionObserved, ending: Ending, now: datetime) -> timedelta | None:
    """Poll the extraction, soon at first and less often later; None when nothing is awaited."""
    asked_at = observed.mission.metadata.deletion_timestamp
    if asked_at is not None:
        return max(asked_at + ledger.PATIENCE - now, _SOON)
    if ledger.is_refused(observed):
        return ledger.TELL_AGAIN
    extraction = observed.ledger.extraction
    is_settled = extraction is not None and extraction.state in ("done", "failed")
    state = ledger.state_of(observed)
    if state.is_done and (is_settled or not state.is_extracting):
        return None
    age = now - (ending.finished_at or now)
    return min(max(age / 4, _SOON), _POLL_LIMIT)


def _soonest(
    limits: Sequence[datetime | None], now: datetime, look_again: timedelta | None
) -> timedelta | None:
    waits = [max(limit - now, _SOON) for limit in limits if limit is not None]
    if look_again is not None:
        waits.append(look_again)
    return min(waits, default=None)


def _plan(
    standing: Standing,
    actions: Sequence[Action],
    now: datetime,
    *,
    requeue_after: timedelta | None = None,
) -> Plan:
    status, events = mission_conditions.say(standing, now)
    return Plan((*actions, *events), status, requeue_after)
