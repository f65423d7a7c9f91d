"""The knowledge service is away when a mind starts: it works without facts, and says so."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from a2a.types import GetTaskRequest, Task, TaskState

from kais import a2a
from tests.agent_attempts import World, cell_spec
from tests.agent_services import ServiceWorld, answer, message, metadata, request
from tests.model_server.journal import Entry

RECALLS = """
rules:
  - name: recalls
    when: {turn: 1}
    reply: {tool_calls: [{name: recall, arguments: {query: what is known}}]}
  - name: answers
    when: {turn: 2}
    reply: {text: Done without facts.}
"""
ANSWERS = """
rules:
  - name: answers
    reply: {text: Done without facts.}
"""
CELL = {
    "KNOWLEDGE_SERVICE_URL": "http://knowledge.test",
    "KNOWLEDGE_SCOPE": "realm:demo/cell:critic-0",
}
WORK = a2a.message_id("run-1", 1, "work")


class Away(httpx.AsyncBaseTransport):
    """A service whose pod does not run."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        raise httpx.ConnectError("connection refused")


def tool_result(entry: Entry) -> str:
    messages: list[Mapping[str, object]] = entry.request["messages"]
    return next(str(each["content"]) for each in messages if each["role"] == "tool")


def test_task_cell_answers_and_its_recall_says_that_the_service_is_away(tmp_path: Path) -> None:
    spec = cell_spec(tools=[{"name": "recall"}])
    world = World(tmp_path, RECALLS, spec=spec, environment=CELL, knowledge=Away())
    result = world.run_now()
    assert (result.answer, result.failure) == ("Done without facts.", None)
    assert "connection refused" in tool_result(world.calls[1])


async def test_service_cell_starts_answers_without_facts_and_says_so_in_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    away = Away()
    world = ServiceWorld(tmp_path, ANSWERS, environment=CELL, knowledge=away)
    async with world.running() as running, running.client() as client:
        sent = message("Review the change.", id=WORK, context="run-1")
        async for _ in client.send_message(request(sent, returns=True)):
            break
        task = Task()
        async with asyncio.timeout(60):
            while task.status.state != TaskState.TASK_STATE_COMPLETED:
                identity = a2a.task_id(a2a.OPERATOR, WORK)
                task = await client.get_task(GetTaskRequest(id=identity))
                assert task.status.state != TaskState.TASK_STATE_FAILED, task
                await asyncio.sleep(0.05)
    assert answer(task) == "Done without facts."
    assert a2a.RECEIPTS_KEY not in metadata(task), "no facts, so no receipt"
    assert "begins without facts" in caplog.text
    assert "/v1/recall" in json.dumps(away.paths)
