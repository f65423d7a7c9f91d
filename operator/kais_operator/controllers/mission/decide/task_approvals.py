"""Tool calls of a mind in mode Task that wait for a person.

The pod of an attempt serves nothing. While it works, the operator runs a command in its container
again and again, which stores decisions there and prints the calls.

    a call waits, a person decided   -> record the decision and the pod on the Mission
    recorded, the same pod waits     -> pass the decision on, as often as needed
    recorded, another pod waits      -> a denial is passed on; an approval is spent, because the
                                        earlier pod may have made the call

The ids of calls follow from their content, so a new pod of the run asks for the same calls. An
attempt continues the calls of those before it, as far back as they gave no answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from kais import agent_tools, approvals
from kais.approvals import CallApproval
from kais.resources.cell import Cell
from kais.resources.cell_template import CellMode
from kais.resources.field_types import rfc3339
from kais_operator.controllers.cell.decide import base_pod_spec, minds
from kais_operator.controllers.mission.decide import attempt_pods, tool_approvals
from kais_operator.controllers.mission.decide.attempt_state import Attempt, State
from kais_operator.controllers.mission.decide.mission_observed import (
    AskingPod,
    MissionObserved,
    RunningContainer,
    exec_key,
    ref_of,
)
from kais_operator.controllers.mission.decide.run_history_annotation import AttemptHistory
from kais_operator.planning.container_results import Process
from kais_operator.planning.plan import Body, ObjectRef, RunInContainer

_PROGRAM = ("python", "-m", "agent_runtime.call_decisions", minds.STATE_FOLDER)
_TIMEOUT_S = 30.0
_SHORTEST_POLL, _LONGEST_POLL = timedelta(seconds=1), timedelta(seconds=5)


def has_approvals(cell: Cell) -> bool:
    """Whether attempts of a cell run in pods whose calls may wait for a person."""
    is_task = cell.spec.effective_mode is CellMode.TASK
    return is_task and cell.spec.mind is not None and agent_tools.has_approvals(cell.spec.tools)


def asking_container(attempt: Attempt, pods: Sequence[Body]) -> RunningContainer | None:
    """Return the container of the agent runtime that works on an attempt; None without one."""
    if attempt.job is None or attempt.state is not State.RUNNING:
        return None
    for pod in reversed(attempt_pods.pods_of(attempt.job, pods)):
        metadata = pod["metadata"]
        is_running = "running" in attempt_pods.container_state(pod, base_pod_spec.TASK)
        if is_running and not metadata.get("deletionTimestamp"):
            ref = ObjectRef("Pod", metadata["namespace"], metadata["name"])
            return RunningContainer(ref, base_pod_spec.TASK, metadata["uid"])
    return None


def command_key(observed: MissionObserved, attempt: Attempt, container: RunningContainer) -> str:
    """Return the key of the command, the same one for each time it runs in a pod."""
    return exec_key(observed.mission, attempt.number, f"tool-calls/{container.uid}")


def read_output(container: RunningContainer, process: Process, text: str) -> AskingPod:
    """Read what the command printed; what has another form is left out."""
    problem = process.problem[-512:] if process.problem is not None else None
    if not text:
        return AskingPod(container, process, problem=problem)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return AskingPod(container, process, problem="it printed no JSON")
    entries = values[-approvals.MAX_APPROVALS :] if isinstance(values, list) else []
    calls = (_parse_call(entry) for entry in entries)
    reported = tuple(call for call in calls if call is not None)
    return AskingPod(container, process, reported, has_reported=True, problem=problem)


def _parse_call(entry: Any) -> CallApproval | None:
    """Read a printed call; a decided one comes without its arguments."""
    is_decided = isinstance(entry, dict) and entry.get("outcome") is not None
    call = approvals.parse_call({**entry, "arguments": "-"} if is_decided else entry)
    if call is None or not (is_decided or approvals.is_of(call)):
        return None
    return replace(call, pod=None, cell=None, arguments="" if is_decided else call.arguments)


def first_of_chain(attempts: Sequence[Attempt], number: int) -> int:
    """Return the first attempt whose calls an attempt continues, possibly its own number.

    An attempt that gave no answer is continued. One whose answer was rejected is not: the next
    attempt may have to do the same again.
    """
    first = number
    for attempt in sorted(attempts, key=lambda each: each.number, reverse=True):
        if attempt.number >= first:
            continue
        if attempt.number != first - 1 or attempt.exit_code == 0:
            break
        first = attempt.number
    return first


def with_calls(observed: MissionObserved, history: AttemptHistory, now: datetime) -> AttemptHistory:
    """Add the calls that wait or were decided to the latest attempt. Reads no clock."""
    asking, last = observed.asking_pod, history.latest
    if asking is None or last is None:
        return history
    recorded = _recorded(history)
    own = {call.call: call for call in last.approvals}
    decisions = {
        decision.call: decision
        for decision in tool_approvals.read(observed, _open(asking, recorded)).about_calls
    }
    is_full = has_all_approvals(history)
    for call in asking.reported:
        earlier = recorded.get(call.call)
        decision = None if is_full else decisions.get(call.call)
        if call.outcome == "spent":
            own[call.call] = earlier or replace(call, outcome="approved")
        elif call.outcome is None and earlier is not None and earlier.outcome != "expired":
            own[call.call] = earlier
        elif call.outcome is None and decision is not None:
            own[call.call] = replace(
                call,
                outcome=approvals.OUTCOMES[decision.decision],
                by=decision.by,
                decided_at=rfc3339(now),
                reason=decision.reason,
                pod=asking.container.uid,
            )
        elif call.outcome in (None, "expired") or (earlier is None and not is_full):
            own[call.call] = call
    latest = replace(last, approvals=approvals.to_record(tuple(own.values())))
    return replace(history, attempts=(*history.attempts[:-1], latest))


def has_all_approvals(history: AttemptHistory) -> bool:
    """Whether a run has as many approved calls as can be recorded; no further one is decided."""
    calls = [call for attempt in history.attempts for call in attempt.approvals]
    return sum(call.outcome == "approved" for call in calls) >= approvals.MAX_APPROVED


def poll(
    observed: MissionObserved, attempt: Attempt, now: datetime
) -> tuple[tuple[RunInContainer, ...], timedelta | None]:
    """Choose the next run of the command in the pod of an attempt, and the requeue delay."""
    asking = observed.asking_pod
    if asking is None:
        return (), None
    age = now - attempt.job_created_at
    interval = min(max(age / 4, _SHORTEST_POLL), _LONGEST_POLL)
    decisions = _decisions(observed, asking)
    process = asking.process
    if process is not None and process.ended_at is None and process.failure is None:
        return (), _SHORTEST_POLL
    began_at = process.began_at if process is not None else None
    is_urgent = bool(decisions) and asking.problem is None
    due = now if began_at is None or is_urgent else began_at + interval
    if now < due:
        return (), due - now
    command = RunInContainer(
        command_key(observed, attempt, asking.container),
        ref_of(observed.mission),
        asking.container.pod,
        asking.container.name,
        (*_PROGRAM, json.dumps(decisions)),
        _TIMEOUT_S,
        repeats=True,
    )
    return (command,), _SHORTEST_POLL


def _decisions(observed: MissionObserved, asking: AskingPod) -> list[Body]:
    """Return the recorded decisions about calls that wait in a pod, as its command takes them."""
    recorded = _recorded(observed.history)
    decided = []
    for call in _waiting(asking):
        record = recorded.get(call.call)
        if record is None or record.outcome in (None, "expired"):
            continue
        is_spent = record.outcome == "approved" and record.pod != asking.container.uid
        passed_on = replace(record, outcome="spent") if is_spent else record
        decided.append(replace(passed_on, pod=None).dump())
    return decided


def _open(asking: AskingPod, recorded: Mapping[str, CallApproval]) -> tuple[CallApproval, ...]:
    """Return the waiting calls about which nothing is decided."""
    calls = ((call, recorded.get(call.call)) for call in _waiting(asking))
    return tuple(
        call for call, record in calls if record is None or record.outcome in (None, "expired")
    )


def _waiting(asking: AskingPod) -> tuple[CallApproval, ...]:
    return tool_approvals.waiting_calls(asking.reported)


def _recorded(history: AttemptHistory) -> dict[str, CallApproval]:
    """Return the recorded calls that the latest attempt continues, by their ids."""
    last = history.latest
    if last is None:
        return {}
    first = first_of_chain(history.attempts, last.number)
    earlier = [each for each in history.attempts[:-1] if each.number >= first]
    own = history.recorded.approvals if history.recorded is not None else ()
    calls = [*(call for each in earlier for call in each.approvals), *own]
    return {call.call: call for call in calls if call.outcome is not None}
