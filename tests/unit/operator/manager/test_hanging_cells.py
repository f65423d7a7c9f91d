"""Cells of one tenant that do not answer hold reconciles; another tenant's object must not wait."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta

import pytest

from kais_operator.controllers.mission.decide import a2a_attempts
from kais_operator.manager import reconcile_requests
from kais_operator.manager.reference_index import ReferenceIndex
from kais_operator.manager.workqueue import WORKERS, Schedule
from kais_operator.planning.agent_tasks import AgentReply
from kais_operator.planning.plan import Body, ObjectRef

pytestmark = pytest.mark.simulated_time

ASK_S, OTHER_S, END_S = 5.0, 0.05, 600.0
"""Duration of a reconcile whose cell hangs, of another reconcile, and of the simulation."""
SENT_AT = datetime(2026, 1, 1, tzinfo=UTC)


def hanging(ref: ObjectRef) -> Body:
    started = {"type": "Started", "status": "True", "reason": "Started"}
    waits = {"type": "Succeeded", "status": "Unknown", "reason": "WaitingForPods"}
    return {
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.name},
        "spec": {"cellRef": "silent"},
        "status": {"attempt": 1, "conditions": [started, waits]},
    }


def waits_of_others(hanging_count: int) -> list[float]:
    """Simulate the queue with missions that hang; return how long each other object waited."""
    schedule: Schedule[ObjectRef] = Schedule()
    index = ReferenceIndex()
    missions = [ObjectRef("Mission", "noisy", f"m{number}") for number in range(hanging_count)]
    others = [ObjectRef("Cell", "quiet", f"c{number}") for number in range(100)]
    added_at = {other: 60 + number * 5.0 for number, other in enumerate(others)}
    due_at = {**{mission: number * 0.2 for number, mission in enumerate(missions)}, **added_at}
    events = [(at, number, "add", key) for number, (key, at) in enumerate(due_at.items())]
    heapq.heapify(events)
    waits = []
    while events and events[0][0] < END_S:
        now, number, event, key = heapq.heappop(events)
        if event == "add":
            delay_s = reconcile_requests.priority_delay_s(key, 0.0, index)
            schedule.add(key, at=now, priority_delay_s=delay_s)
        elif event == "end":
            schedule.finish(key)
        if event == "end" and key.kind == "Mission":
            index.update(key, hanging(key), is_deleted=False)
            reply = AgentReply(problem="no answer within 5 s")
            sent_at, at = SENT_AT + timedelta(seconds=due_at[key]), SENT_AT + timedelta(seconds=now)
            poll_s = a2a_attempts.poll_delay(sent_at, at, reply).total_seconds()
            delay_s = reconcile_requests.priority_delay_s(key, poll_s, index)
            schedule.add(key, at=now + poll_s, priority_delay_s=delay_s)
            heapq.heappush(events, (now + poll_s, number, "due", key))
        while schedule.running < WORKERS and (started := schedule.pop_due(now)) is not None:
            is_other = started in added_at
            if is_other:
                waits.append(now - added_at[started])
            duration_s = OTHER_S if is_other else ASK_S
            heapq.heappush(events, (now + duration_s, len(due_at) + number, "end", started))
    return sorted(waits)


def test_objects_of_another_tenant_hardly_wait_for_40_missions_whose_cells_hang() -> None:
    waits = waits_of_others(40)
    assert len(waits) == 100
    assert waits[len(waits) // 2] < 0.1
    assert waits[-1] < 1


def test_objects_of_another_tenant_wait_no_longer_than_the_missions_that_hang() -> None:
    waits = waits_of_others(80)
    assert waits[len(waits) // 2] < 5
