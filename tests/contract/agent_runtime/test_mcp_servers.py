"""Minds with MCP servers of the official SDK, on the loopback address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kais.agent_results import AgentResult
from kais.mcp_servers import ServerState
from tests.agent_attempts import World, cell_spec, system_text
from tests.mcp_worlds import McpWorld, answering, entry
from tests.model_server.journal import Entry

LIST = """
rules:
  - name: list
    when: {turn: 1}
    reply: {tool_calls: [{name: cluster__list_pods, arguments: {namespace: demo}}]}
  - {name: answer, when: {turn: 2}, reply: {text: One pod.}}
"""


def tool_names(call: Entry) -> list[str]:
    """The names of the tools that the model was offered."""
    return [tool["function"]["name"] for tool in call.request.get("tools", ())]


def results(call: Entry) -> list[str]:
    """The results of tools that the model was sent."""
    return [str(m["content"]) for m in call.request["messages"] if m["role"] == "tool"]


async def attempt(folder: Path, rules: str, *tools: dict[str, Any]) -> tuple[AgentResult, World]:
    world = World(folder, rules, spec=cell_spec(tools=list(tools)))
    return await world.run(), world


async def test_a_mind_calls_a_tool_of_a_server(tmp_path):
    async with McpWorld().running() as server:
        result, world = await attempt(tmp_path, LIST, entry(server.url))
    assert result.failure is None, result.failure
    assert result.answer == "One pod."
    first, second = world.calls
    assert tool_names(first) == ["cluster__list_pods", "cluster__restart"]
    assert results(second) == [
        '<server_result name="cluster" tool="list_pods">web-0 in demo</server_result>'
    ]
    assert system_text(first).strip().endswith("The servers: cluster.")
    report = result.servers["cluster"]
    assert report.state is ServerState.CONNECTED
    assert report.message == f"{server.url} offers 2 of its 2 tools to the mind"


MISSING = """
rules:
  - name: reconnect
    when: {turn: 1}
    reply: {tool_calls: [{name: reconnect_cluster, arguments: {}}]}
  - {name: answer, when: {turn: 2}, reply: {text: Without the cluster.}}
"""
CALL_ANYWAY = """
rules:
  - name: list
    when: {turn: 1}
    reply: {tool_calls: [{name: cluster__restart, arguments: {pod: web-0}}]}
  - {name: answer, when: {turn: 2}, reply: {text: Done.}}
"""


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (answering(401), ServerState.REFUSED, "refuses the request (HTTP 401)"),
        (answering(503), ServerState.UNAVAILABLE, "answers with HTTP 503"),
        (
            answering(307, location="http://elsewhere.example/mcp"),
            ServerState.INVALID,
            "answers with a redirect (HTTP 307), which is not followed; set config.url",
        ),
        (
            answering(200, b"<html>", "text/html; charset=utf-8"),
            ServerState.INVALID,
            "answers with text/html instead of JSON; check config.url",
        ),
        (
            answering(200, b'{"pad": "' + b"x" * 10_000_000 + b'"}'),
            ServerState.INVALID,
            "answered with more than 4194304 bytes",
        ),
        (answering(200, b"{]"), ServerState.INVALID, "answers with something else than JSON-RPC"),
        (
            answering(200, b"[" * 200_000),
            ServerState.INVALID,
            "answers with something else than JSON-RPC",
        ),
    ],
    ids=["401", "503", "redirect", "html", "10 MB", "malformed", "deep"],
)
async def test_a_server_that_cannot_be_used_leaves_the_mind_its_other_tools(
    tmp_path, answer, state, words
):
    async with McpWorld(answer=answer).running() as server:
        tools = ({"name": "list_files"}, entry(server.url, timeout="1s"))
        result, world = await attempt(tmp_path, MISSING, *tools)
    assert result.answer == "Without the cluster."
    first, second = world.calls
    assert tool_names(first) == ["list_files", "reconnect_cluster"]
    assert f"server-unavailable: cluster {words}" in results(second)[0]
    report = result.servers["cluster"]
    assert (report.state, report.message.startswith(f"{server.url} {words}")) == (state, True)
    assert len({fields["host"] for fields in server.headers}) == 1
