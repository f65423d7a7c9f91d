"""What the operator believes of the metadata of a task: each part by itself."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from a2a.types import Artifact, Part, Task, TaskStatus
from a2a.types import TaskState as WireState

from kais import a2a, approvals
from kais.agent_results import FailureClass
from kais_operator.agents import task_reader

USAGE = {"inputTokens": 900, "outputTokens": 60, "turns": 3, "toolCalls": 2, "cost": "0.5"}


def task(state: int = WireState.TASK_STATE_COMPLETED, **metadata: Any) -> Task:
    built = Task(id="t", context_id="run-1", status=TaskStatus(state=state))
    built.artifacts.append(Artifact(artifact_id="answer", name="answer", parts=[Part(text="Yes")]))
    built.metadata.update(metadata)
    return built


def test_answer_that_the_runtime_has_cut_is_read_as_cut() -> None:
    assert task_reader.read_task(task(**{a2a.TRUNCATED_KEY: True})).is_truncated
    assert not task_reader.read_task(task()).is_truncated


@pytest.mark.parametrize(
    "usage", [{"turns": -1}, {"cost": "much"}, {"inputTokens": 1.5}, {"cost": "1e99"}]
)
def test_failure_keeps_its_class_beside_a_usage_that_cannot_be_read(usage: Any) -> None:
    failure = {"class": "model-unauthorized", "message": "no key"}
    metadata = {a2a.USAGE_KEY: usage, a2a.FAILURE_KEY: failure}
    read = task_reader.read_task(task(WireState.TASK_STATE_FAILED, **metadata))
    assert read.failure is not None
    assert read.failure.reason is FailureClass.MODEL_UNAUTHORIZED
    assert read.usage is None, "an unknown usage is not a usage of zero"


def test_usage_and_failure_are_read_together() -> None:
    failure = {"class": "budget", "message": "spent"}
    metadata = {a2a.USAGE_KEY: USAGE, a2a.FAILURE_KEY: failure}
    read = task_reader.read_task(task(WireState.TASK_STATE_FAILED, **metadata))
    assert read.usage is not None
    assert (read.usage.cost, read.usage.turns) == (Decimal("0.5"), 3)


CALL = {
    "call": "c",
    "tool": "write_file",
    "arguments": "{}",
    "sha256": approvals.hash_of("{}"),
    "requested_at": "2026-03-01T12:00:00Z",
    "expires_at": "2026-03-01T13:00:00Z",
}


@pytest.mark.parametrize(
    "broken",
    [
        "call",
        {},
        {**CALL, "arguments": "x" * 9000},
        {**CALL, "arguments": '{"path": "other"}'},
        {**CALL, "arguments": '"\u202e"', "sha256": approvals.hash_of('"\u202e"')},
        {**CALL, "outcome": "yes"},
        {**CALL, "tool": "t" * 2000},
        {**CALL, "call": "c\n"},
        {**CALL, "reason": "r" * 2000},
    ],
)
def test_approval_of_another_form_is_left_out(broken: Any) -> None:
    read = task_reader.read_task(task(**{a2a.APPROVALS_KEY: [broken, CALL]}))
    assert [each.call for each in read.approvals] == ["c"]
