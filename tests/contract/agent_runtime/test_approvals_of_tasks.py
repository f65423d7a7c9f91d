"""A tool call of a mind in mode Task that waits for a person, and the operator's command."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kais.agent_results import AgentResult, FailureClass
from tests.agent_attempts import World, cell_spec
from tests.approval_scripts import WRITES, WRITES_AGAIN, WRITES_TWICE

BY = {"by": "ana@example.com", "decided_at": "2026-03-01T12:00:00+00:00"}


def world(
    folder: Path, pod: str = "one", rules: str = WRITES, *, attempt: str = "1", **approval: Any
) -> World:
    """A pod of an attempt; the pods of a test have one workspace, and each its own state."""
    tool = {"name": "write_file", "approval": {"required": True, **approval}}
    names = {"KAIS_AGENT_STATE": str(folder / pod), "KAIS_ATTEMPT": attempt}
    since = {"KAIS_CALLS_SINCE": "1"}
    return World(folder, rules, spec=cell_spec(tools=[tool]), environment={**names, **since})


async def exchange(pod: World, *decisions: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the command that the operator runs in the container."""
    program = (sys.executable, "-m", "agent_runtime.call_decisions")
    process = await asyncio.create_subprocess_exec(
        *program,
        pod.environment["KAIS_AGENT_STATE"],
        json.dumps(decisions),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return list(json.loads(output))


@asynccontextmanager
async def working(pod: World) -> AsyncIterator[asyncio.Task[AgentResult]]:
    """Let the attempt work; a pod that is still working at the end of the block is killed."""
    work = asyncio.create_task(pod.run())
    try:
        yield work
    finally:
        work.cancel()
        await asyncio.wait([work])


async def waiting(pod: World, count: int = 1) -> list[dict[str, Any]]:
    """The calls when so many of them wait for a person."""
    async with asyncio.timeout(60):
        while True:
            calls = [call for call in await exchange(pod) if "outcome" not in call]
            if len(calls) == count:
                return calls


def decided(call: dict[str, Any], outcome: str = "approved", **changes: Any) -> dict[str, Any]:
    fields = {key: call[key] for key in ("call", "tool", "sha256", "requested_at")}
    return {**fields, "outcome": outcome, **BY, **changes}


def text_of(pod: World) -> str:
    return (pod.workspace / "shared/fix.md").read_text()


async def test_call_waits_until_a_person_approves_it(tmp_path: Path) -> None:
    pod = world(tmp_path)
    assert await exchange(pod) == [], "before the attempt works"
    async with working(pod) as work:
        [call] = await waiting(pod)
        assert json.loads(call["arguments"]) == {"path": "shared/fix.md", "content": "Restart it."}
        assert not (pod.workspace / "shared/fix.md").exists()
        [recorded] = await exchange(pod, decided(call))
        assert (await work).answer == "Done."
    assert (recorded["outcome"], recorded["by"]) == ("approved", "ana@example.com")
    assert text_of(pod) == "Restart it."


async def test_denied_call_never_runs_and_the_mind_reads_why(tmp_path: Path) -> None:
    pod = world(tmp_path)
    async with working(pod) as work:
        [call] = await waiting(pod)
        await exchange(pod, decided(call, "denied", reason="not now"))
        await work
    assert not (pod.workspace / "shared/fix.md").exists()
    messages = str(pod.calls[1].request["messages"])
    assert "write_file was not called: denied by ana@example.com" in messages
    assert "not now" in messages


async def test_decision_about_other_arguments_is_refused_and_the_first_one_counts(
    tmp_path: Path,
) -> None:
    pod = world(tmp_path)
    async with working(pod) as work:
        [call] = await waiting(pod)
        assert await exchange(pod, decided(call, sha256="0" * 64)) == [call]
        assert await exchange(pod, decided({**call, "call": "another"})) == [call]
        await exchange(pod, decided(call, "denied"))
        [recorded] = await exchange(pod, decided(call))
        await work
    assert recorded["outcome"] == "denied"
    assert not (pod.workspace / "shared/fix.md").exists()


async def test_new_pod_asks_for_the_same_call_although_the_model_names_it_otherwise(
    tmp_path: Path,
) -> None:
    killed = world(tmp_path)
    async with working(killed):
        [call] = await waiting(killed)
    following = world(tmp_path, "two", attempt="2")
    async with working(following) as work:
        [again] = await waiting(following)
        assert (again["call"], again["sha256"]) == (call["call"], call["sha256"])
        await exchange(following, decided(again))
        assert (await work).answer == "Done."
    assert text_of(following) == "Restart it."


async def test_call_that_an_earlier_pod_may_have_made_is_not_made_again(tmp_path: Path) -> None:
    killed = world(tmp_path)
    async with working(killed) as work:
        [call] = await waiting(killed)
        await exchange(killed, decided(call))
        await work
    (killed.workspace / "shared/fix.md").write_text("Seen.")
    following = world(tmp_path, "two")
    async with working(following) as work:
        [again] = await waiting(following)
        await exchange(following, decided(again, "spent"))
        assert (await work).answer == "Done."
    assert text_of(following) == "Seen."
    assert "an earlier pod of this run" in str(following.calls[1].request["messages"])


async def test_other_arguments_and_a_repeat_are_calls_of_their_own(tmp_path: Path) -> None:
    pod = world(tmp_path, rules=WRITES_AGAIN)
    async with working(pod) as work:
        [first] = await waiting(pod)
        await exchange(pod, decided(first))
        [second] = await waiting(pod)
        await exchange(pod, decided(second))
        [third] = await waiting(pod)
        await exchange(pod, decided(third, "denied"))
        await work
    assert first["sha256"] == second["sha256"] != third["sha256"]
    assert len({first["call"], second["call"], third["call"]}) == 3
    assert text_of(pod) == "Restart it."


async def test_two_calls_at_once_get_their_own_decisions(tmp_path: Path) -> None:
    pod = world(tmp_path, rules=WRITES_TWICE)
    async with working(pod) as work:
        calls = await waiting(pod, 2)
        fix, drop = sorted(calls, key=lambda call: "drop.md" in call["arguments"])
        await exchange(pod, decided(fix), decided(drop, "denied"))
        await work
    assert text_of(pod) == "Restart it."
    assert not (pod.workspace / "shared/drop.md").exists()


async def test_call_that_nobody_approves_is_denied_after_its_time(tmp_path: Path) -> None:
    pod = world(tmp_path, timeout="1s")
    result = await pod.run()
    [call] = await exchange(pod)
    assert (result.answer, call["outcome"]) == ("Done.", "expired")
    assert "it was not approved until" in str(pod.calls[1].request["messages"])


async def test_call_that_nobody_approves_fails_the_attempt_if_the_spec_says_so(
    tmp_path: Path,
) -> None:
    result = await world(tmp_path, timeout="1s", onTimeout="fail").run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.TOOL_FAILED
    assert "write_file was not approved until" in result.failure.message
