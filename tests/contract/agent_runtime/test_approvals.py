"""A tool call that waits for a person: nothing runs before, and a restart loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from a2a.client import Client
from a2a.types import GetTaskRequest, Task, TaskState

from kais import a2a, approvals
from tests.agent_attempts import cell_spec, user_text
from tests.agent_services import Running, ServiceWorld, answer, message, metadata, request
from tests.approval_scripts import WRITES, WRITES_TWICE
from tests.fakes.tickets import ticket

WORK = a2a.message_id("run-1", 1, "work")
TASK = a2a.task_id(a2a.OPERATOR, WORK)
WAITING = TaskState.TASK_STATE_INPUT_REQUIRED


def world(folder: Path, rules: str = WRITES, **approval: Any) -> ServiceWorld:
    tool = {"name": "write_file", "approval": {"required": True, **approval}}
    return ServiceWorld(folder, rules, spec={**cell_spec(tools=[tool]), "mode": "Service"})


@asynccontextmanager
async def asked(running: Running) -> AsyncIterator[Client]:
    """Send the work, and return a client when it is accepted."""
    async with running.client() as client:
        sent = message("Fix it.", id=WORK, context="run-1")
        async for _ in client.send_message(request(sent, returns=True)):
            break  # the stream would last as long as the task
        yield client


async def task_in(client: Client, *states: int) -> Task:
    async with asyncio.timeout(60):
        while True:
            task = await client.get_task(GetTaskRequest(id=TASK))
            if task.status.state in states:
                return task
            await asyncio.sleep(0.05)


def calls(task: Task) -> list[dict[str, Any]]:
    return list(metadata(task)[a2a.APPROVALS_KEY])


async def decide(running: Running, value: dict[str, Any], text: str | None = None) -> int:
    async with running.http(text) as http:
        response = await http.post(a2a.APPROVALS_PATH, json=value)
        return response.status_code


def decision(call: dict[str, Any], **changes: Any) -> dict[str, Any]:
    names = {"call": call["call"], "sha256": call["sha256"], "by": "ana@example.com"}
    return {**names, "decision": "approve", "reason": "", **changes}


async def test_call_runs_after_a_person_approved_it_and_the_record_names_them(
    tmp_path: Path,
) -> None:
    async with world(tmp_path).running() as running, asked(running) as client:
        [call] = calls(await task_in(client, WAITING))
        assert call["tool"] == "write_file"
        assert call["sha256"] == approvals.hash_of(call["arguments"])
        fix = running.world.workspace / "shared/fix.md"
        assert not fix.exists()
        assert await decide(running, decision(call)) == 200
        assert await decide(running, decision(call)) == 200, "a repeat changes nothing"
        task = await task_in(client, TaskState.TASK_STATE_COMPLETED)
        [decided] = calls(task)
        assert (answer(task), fix.read_text()) == ("Done.", "Restart it.")
    assert (decided["outcome"], decided["by"]) == ("approved", "ana@example.com")
    assert decided["decided_at"] >= decided["requested_at"]


async def test_denied_call_never_runs_and_the_mind_is_told_why(tmp_path: Path) -> None:
    async with world(tmp_path).running() as running, asked(running) as client:
        [call] = calls(await task_in(client, WAITING))
        denied = decision(call, decision="deny", reason="not now")
        assert await decide(running, denied) == 200
        await task_in(client, TaskState.TASK_STATE_COMPLETED)
        assert not (running.world.workspace / "shared/fix.md").exists()
        results = str(running.world.calls[1].request["messages"])
    assert "write_file was not called: denied by ana@example.com" in results
    assert "not now" in results


async def test_waiting_call_survives_a_restart(tmp_path: Path) -> None:
    first = world(tmp_path)
    async with first.running() as running, asked(running) as client:
        [call] = calls(await task_in(client, WAITING))
    second = world(tmp_path)
    async with second.running() as running, running.client() as client:
        assert calls(await task_in(client, WAITING)) == [call]
        assert await decide(running, decision(call)) == 200
        await task_in(client, TaskState.TASK_STATE_COMPLETED)
    assert (second.workspace / "shared/fix.md").read_text() == "Restart it."
    assert len(first.calls) == 1
    assert len(second.calls) == 1, "the model is not asked again for the call"
    assert "Fix it." in user_text(second.calls[0])


async def two_calls(client: Client) -> list[dict[str, Any]]:
    """Wait until two calls wait, those of `WRITES_TWICE` in their order."""
    waiting: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while len(waiting) < 2:
            await asyncio.sleep(0.05)
            waiting = calls(await task_in(client, WAITING))
    return sorted(waiting, key=lambda call: "drop.md" in call["arguments"])


async def test_two_calls_of_one_turn_wait_at_once_and_each_gets_its_own_decision(
    tmp_path: Path,
) -> None:
    twice = world(tmp_path, WRITES_TWICE)
    async with twice.running() as running, asked(running) as client:
        fix, drop = await two_calls(client)
        assert await decide(running, decision(drop, sha256=fix["sha256"])) == 409, "of the other"
        denied = decision(drop, decision="deny", reason="keep it", by="bo@example.com")
        answers = await asyncio.gather(decide(running, decision(fix)), decide(running, denied))
        assert answers == [200, 200]
        task = await task_in(client, TaskState.TASK_STATE_COMPLETED)
    outcomes = {(call["call"], call["outcome"], call["by"]) for call in calls(task)}
    assert outcomes == {
        (fix["call"], "approved", "ana@example.com"),
        (drop["call"], "denied", "bo@example.com"),
    }
    assert (twice.workspace / "shared/fix.md").read_text() == "Restart it."
    assert not (twice.workspace / "shared/drop.md").exists()
    assert len(twice.calls) == 2


async def test_one_of_two_waiting_calls_keeps_waiting_over_a_restart(tmp_path: Path) -> None:
    first = world(tmp_path, WRITES_TWICE)
    async with first.running() as running, asked(running) as client:
        fix, drop = await two_calls(client)
        assert await decide(running, decision(fix)) == 200
        async with asyncio.timeout(60):
            outcomes = [None, None]
            while outcomes != ["approved", None]:
                await asyncio.sleep(0.05)
                outcomes = [each.get("outcome") for each in await two_calls(client)]
    second = world(tmp_path, WRITES_TWICE)
    (second.workspace / "shared/fix.md").write_text("Seen.")
    async with second.running() as running, running.client() as client:
        await task_in(client, WAITING)
        assert await decide(running, decision(drop)) == 200
        task = await task_in(client, TaskState.TASK_STATE_COMPLETED)
    assert {call["outcome"] for call in calls(task)} == {"approved"}
    assert (second.workspace / "shared/fix.md").read_text() == "Seen.", "it did not run again"
    assert (second.workspace / "shared/drop.md").read_text() == "Delete it."


async def test_approved_call_that_failed_does_not_end_the_task_after_a_restart(
    tmp_path: Path,
) -> None:
    rules = WRITES_TWICE.replace("shared/fix.md", "elsewhere/fix.md")
    first = world(tmp_path, rules)
    async with first.running() as running, asked(running) as client:
        fix, drop = await two_calls(client)
        assert await decide(running, decision(fix)) == 200
        assert running.state is not None
        async with asyncio.timeout(60):
            begun = None
            while not begun:
                await asyncio.sleep(0.05)
                begun = running.state.execute("SELECT key FROM tool_call", ())
    second = world(tmp_path, rules)
    async with second.running() as running, running.client() as client:
        await task_in(client, WAITING)
        assert await decide(running, decision(drop)) == 200
        task = await task_in(client, TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED)
    assert task.status.state == TaskState.TASK_STATE_COMPLETED, metadata(task)
    assert (second.workspace / "shared/drop.md").read_text() == "Delete it."
    assert "paths start with shared/ or private/" in str(second.calls[0].request["messages"])


async def test_two_people_who_decide_at_once_leave_one_decision(tmp_path: Path) -> None:
    async with world(tmp_path).running() as running, asked(running) as client:
        [call] = calls(await task_in(client, WAITING))
        denied = decision(call, decision="deny", by="bo@example.com")
        answers = await asyncio.gather(decide(running, decision(call)), decide(running, denied))
        assert sorted(answers) == [200, 409]
        [decided] = calls(await task_in(client, TaskState.TASK_STATE_COMPLETED))
        is_approved = answers[0] == 200
        assert (running.world.workspace / "shared/fix.md").exists() is is_approved
    expected = ("approved", "ana@example.com") if is_approved else ("denied", "bo@example.com")
    assert (decided["outcome"], decided["by"]) == expected


async def test_agent_cannot_approve_and_other_arguments_are_refused(tmp_path: Path) -> None:
    async with world(tmp_path).running() as running, asked(running) as client:
        [call] = calls(await task_in(client, WAITING))
        agent = ticket(role="cell", name="lead", cell="lead-0")
        assert await decide(running, decision(call), agent) == 403
        account = "system:serviceaccount:demo:lead"
        assert await decide(running, decision(call, by=account)) == 400
        assert await decide(running, decision(call, sha256="0" * 64)) == 409
        assert await decide(running, {**decision(call), "call": "another"}) == 404
        assert calls(await task_in(client, WAITING)) == [call], "it still waits"
        assert await decide(running, decision(call)) == 200
        assert await decide(running, decision(call, decision="deny")) == 409
        await task_in(client, TaskState.TASK_STATE_COMPLETED)


async def test_call_that_nobody_approves_is_denied_after_its_time(tmp_path: Path) -> None:
    async with world(tmp_path, timeout="1s").running() as running, asked(running) as client:
        task = await task_in(client, TaskState.TASK_STATE_COMPLETED)
        [call] = calls(task)
        assert not (running.world.workspace / "shared/fix.md").exists()
    assert call["outcome"] == "expired"


async def test_call_that_nobody_approves_fails_the_attempt_if_the_spec_says_so(
    tmp_path: Path,
) -> None:
    waits = world(tmp_path, timeout="1s", onTimeout="fail")
    async with waits.running() as running, asked(running) as client:
        task = await task_in(client, TaskState.TASK_STATE_FAILED)
    failure = metadata(task)[a2a.FAILURE_KEY]
    assert failure["class"] == "tool-failed"
    assert "write_file was not approved until" in failure["message"]
