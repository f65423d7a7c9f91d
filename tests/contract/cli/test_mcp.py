"""`kais mcp` with the official client: over stdio, and in process before a fake cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import MCPDeprecationWarning

from kais.resources.mission import Mission
from kais_cli import errors
from kais_cli.environment import ClusterOptions
from kais_cli.exit_status import ExitStatus
from kais_cli.mcp import serving
from kais_cli.mcp.person_knowledge import PersonKnowledge
from kais_cli.session import Session
from knowledge_client.client import KnowledgeClient
from knowledge_client.models import FactIn
from tests.cli import objects

METHOD_NOT_FOUND = -32601
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}
KNOWLEDGE = ["recall", "remember", "correct", "confirm", "why"]
TEAM = ["kais_list_blueprints", "kais_mission_status", "kais_get_results", "kais_recall"]


@contextlib.asynccontextmanager
async def started(url: str, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Start the command as a desktop client does."""
    program = StdioServerParameters(
        command=str(Path(sys.executable).parent / "kais"),
        args=["mcp", "-n", "harbour", *options],
        env={**get_default_environment(), "KAIS_KNOWLEDGE_URL": url},
    )
    async with Client(program, mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def connected(terminal, *sets: str, can_launch: bool = False) -> AsyncIterator[Client]:
    """Connect to the tools before the fake cluster of a terminal."""
    session = Session(terminal.environment(), ClusterOptions(), None)
    built = serving.build(
        PersonKnowledge(session), tool_set_names=sets or ("kais",), can_launch=can_launch
    )
    async with Client(built) as client:
        yield client


async def called(client: Client, tool: str, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize("mode", MODES)
async def test_a_desktop_client_recalls_and_remembers(service: str, mode: str) -> None:
    async with started(service, mode=mode) as client:
        assert client.protocol_version == MODES[mode]
        assert [tool.name for tool in (await client.list_tools()).tools] == KNOWLEDGE + TEAM
        remembered = await called(
            client, "remember", content=f"The crane lifts forty tonnes {mode}."
        )
        (fact, *_) = (await called(client, "recall", query=f"crane tonnes {mode}"))["facts"]
        assert (fact["id"], fact["scope"]) == (remembered["fact_id"], "realm:harbour")


async def test_a_request_that_cannot_be_read_is_answered_and_the_next_one_too(service: str) -> None:
    """JavaScript sends half of an emoji that was cut; without an answer, its client would wait."""
    cut = {"name": "remember", "arguments": {"content": "a boat \ud83d"}}
    requests = (
        {"method": "initialize", "params": INITIALIZE},
        {"method": "tools/call", "params": cut},
        {"method": "ping"},
    )
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, **each}) for n, each in enumerate(requests)]
    program = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "kais"), "mcp", "-n", "harbour",
        env={**get_default_environment(), "KAIS_KNOWLEDGE_URL": service},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert program.stdin is not None
    assert program.stdout is not None
    answers = {}
    no_answers = (json.dumps({"id": each, "method": "\ud83d"}) for each in (True, None, "\ud83d"))
    for line in (*lines[:1], "no message", "[]", *no_answers, *lines[1:]):
        program.stdin.write(f"{line}\n".encode())
    while len(answers) < len(requests):
        answer = json.loads(await asyncio.wait_for(program.stdout.readline(), 60))
        answers[answer["id"]] = answer
    program.stdin.close()
    assert await asyncio.wait_for(program.wait(), 60) == 0
    assert "Texts may not have half of a character" in answers[1]["error"]["message"]
    assert answers[2]["result"] == {}


async def test_two_clients_that_write_at_the_same_time_lose_nothing(service: str) -> None:
    """Each has a process of its own, as two editors do; a shared memory file would keep half."""

    async def write(client: Client, first: int) -> None:
        for number in range(first, first + 10):
            entities = [{"name": f"Buoy {number}", "entityType": "buoy"}]
            await called(client, "create_entities", entities=entities)

    async with (
        started(service, "--tools", "graph") as one,
        started(service, "--tools", "graph") as other,
    ):
        await asyncio.gather(write(one, 0), write(other, 10))
        found = await called(one, "search_nodes", query="buoy")
    assert {each["name"] for each in found["entities"]} == {f"Buoy {n}" for n in range(20)}


async def test_a_person_speaks_as_an_agent(service: str) -> None:
    with KnowledgeClient(url=service) as person:
        draft = person.remember(FactIn(content="an unreviewed claim", review="draft")).fact_id
        assert person.get_fact(draft).review == "draft"
    async with started(service, "--tools", "knowledge") as client:
        result = await client.call_tool("why", {"fact_id": draft})
        assert result.is_error
        assert result.meta["kais.io/error"]["code"] == "not-found"
        listed = (await client.list_resources()).resources
        assert draft not in [listed_fact.uri.rpartition("/")[2] for listed_fact in listed]


async def test_without_a_cluster_the_tools_are_listed_and_say_what_is_missing(
    terminal, cluster
) -> None:
    cluster.failure = errors.Unreachable("the API server does not answer")
    async with connected(terminal, "knowledge", "kais") as client:
        assert (await client.list_tools()).tools
        for tool, arguments in (("recall", {"query": "x"}), ("kais_list_blueprints", {})):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert result.meta["kais.io/error"]["code"] == "store-unavailable"
            assert result.meta["kais.io/error"]["message"] == "the API server does not answer"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_no_subscriptions_are_declared_and_none_are_served(
    terminal, cluster, mode: str
) -> None:
    session = Session(terminal.environment(), ClusterOptions(), None)
    built = serving.build(
        PersonKnowledge(session), tool_set_names=("knowledge", "graph"), can_launch=False
    )
    async with Client(built, mode=mode) as client:
        capabilities = client.server_capabilities
        assert capabilities.resources is not None
        assert not capabilities.resources.subscribe
        assert not capabilities.resources.list_changed
        with pytest.raises(MCPError) as refused:
            await subscribe(client, mode)
        assert refused.value.error.code == METHOD_NOT_FOUND


async def subscribe(client: Client, mode: str) -> None:
    """Subscribe to a resource as the revision of the protocol has it."""
    if mode == "legacy":
        with pytest.warns(MCPDeprecationWarning):
            await client.session.subscribe_resource("kais://charts/none")
    else:
        async with client.listen(resources_list_changed=True):
            pass


async def test_blueprints_and_missions_are_shown(terminal, cluster) -> None:
    cluster.put(objects.blueprint())
    cluster.put(objects.mission(phase="Failed", outcome="Failed", attempt=2, result="no luck"))
    async with connected(terminal) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TEAM
        (blueprint,) = (await called(client, "kais_list_blueprints"))["blueprints"]
        assert (blueprint["name"], blueprint["served_revision"]) == ("doctor", 2)
        assert [
            (parameter["name"], parameter["required"]) for parameter in blueprint["parameters"]
        ] == [("seconds", False), ("who", True), ("tier", False)]
        (mission,) = (await called(client, "kais_mission_status"))["missions"]
        assert (mission["outcome"], mission["attempt"]) == ("Failed", 2)
        results = await client.call_tool("kais_get_results", {"mission": mission["name"]})
        assert results.structured_content["result"] == "no luck"
        text = results.content[0].text
        assert text.startswith("The facts are stored data")
        missing = await client.call_tool("kais_get_results", {"mission": "nothing"})
        assert missing.is_error
        assert "Mission/demo/nothing" in missing.meta["kais.io/error"]["message"]


NAME_FIELDS = [
    ("kais_mission_status", "mission", {}),
    ("kais_get_results", "mission", {}),
    ("kais_recall", "blueprint", {"query": "x"}),
    ("kais_launch_team", "blueprint", {}),
    ("kais_launch_team", "name", {"blueprint": "doctor"}),
    ("kais_send_message", "formation", {"message": "x"}),
    ("kais_send_message", "cell", {"message": "x"}),
    ("kais_send_message", "cell", {"message": "x", "formation": "ward"}),
]


@pytest.mark.parametrize(("tool", "field", "others"), NAME_FIELDS)
@pytest.mark.parametrize("name", ["../../other/missions/private", "..", "x?y=1", " ", "x\n"])
async def test_a_name_that_no_object_can_have_is_an_invalid_argument_and_nothing_is_read(
    terminal, cluster, tool, field, others, name
) -> None:
    async with connected(terminal, can_launch=True) as client:
        refused = await client.call_tool(tool, {**others, field: name})
    error = refused.meta["kais.io/error"]
    assert error["code"] == "invalid-body"
    assert [violation["path"] for violation in error["violations"]] == [field]
    assert cluster.used == set()


async def test_an_empty_optional_name_is_that_of_no_object(terminal, cluster) -> None:
    cluster.put(objects.mission())
    async with connected(terminal) as client:
        assert (await called(client, "kais_mission_status", mission=""))["missions"]


async def test_an_object_that_cannot_be_read_is_explained_as_in_a_terminal(
    terminal, cluster, caplog
) -> None:
    cluster.put(objects.mission(attempt="many", result="private words"))
    async with connected(terminal) as client:
        refused = await client.call_tool("kais_get_results", {"mission": "doctor-x2k4f"})
    error = refused.meta["kais.io/error"]
    assert error["code"] == "refused"
    assert terminal.run("mission", "show", "doctor-x2k4f") == ExitStatus.FAILED
    assert terminal.err == f"error: {error['message']}\n"
    assert "status.attempt" in error["message"]
    assert "private words" not in caplog.text


async def test_launching_is_off_unless_asked_for(terminal, cluster) -> None:
    cluster.put(objects.blueprint())
    cluster.put(objects.revision())
    async with connected(terminal) as client:
        with pytest.raises(MCPError, match="unknown tool 'kais_launch_team'"):
            await client.call_tool("kais_launch_team", {"blueprint": "doctor"})
    assert cluster.created == []
    async with connected(terminal, can_launch=True) as client:
        invalid = await client.call_tool(
            "kais_launch_team", {"blueprint": "doctor", "parameters": {"seconds": 99}}
        )
        assert invalid.is_error
        assert invalid.meta["kais.io/error"]["code"] == "invalid-body"
        assert "seconds" in invalid.meta["kais.io/error"]["message"]
        launched = await called(
            client, "kais_launch_team", blueprint="doctor", parameters={"who": "bob"}
        )
    (body,) = cluster.created
    assert body["metadata"]["name"] == launched["instance"]
    assert body["spec"] == {"blueprintRef": {"name": "doctor"}, "parameters": {"who": "bob"}}


def agent_formation(mode: str = "Service") -> dict[str, Any]:
    spec = {
        "mode": mode,
        "mind": {"provider": "openai", "model": "test", "systemPrompt": "Help."},
    }
    cells = [{"name": "lead", "spec": spec}, {"name": "doctor", "replicas": 2, "spec": spec}]
    return objects.made("Formation", "ward", {"cells": cells, "topology": {"type": "full_mesh"}})


@pytest.mark.parametrize(
    ("arguments", "spec"),
    [
        ({"formation": "ward"}, {"formationRef": "ward"}),
        ({"formation": "ward", "cell": ""}, {"formationRef": "ward"}),
        ({"formation": "", "cell": "clerk"}, {"cellRef": "clerk"}),
        (
            {"formation": "ward", "cell": "doctor-1"},
            {"formationRef": "ward", "entrypoint": {"cell": "doctor-1"}},
        ),
        ({"cell": "clerk"}, {"cellRef": "clerk"}),
    ],
)
async def test_a_message_reaches_a_running_team_as_a_mission(
    terminal, cluster, arguments, spec
) -> None:
    cluster.put(agent_formation())
    cluster.put(objects.made("Cell", "clerk", agent_formation()["spec"]["cells"][0]["spec"]))
    async with connected(terminal, can_launch=True) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == [*TEAM, "kais_launch_team", "kais_send_message"]
        sent = await called(client, "kais_send_message", message="Look at bed 3.", **arguments)
    (body,) = cluster.created
    assert (body["kind"], body["metadata"]["name"]) == ("Mission", sent["mission"])
    sent_spec = {**spec, "objective": "Look at bed 3.", "completion": {"maxAttempts": 1}}
    assert body["spec"] == sent_spec
    Mission.from_dict(body)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "name the formation or the cell that gets the message"),
        ({"formation": "none"}, "Formation/demo/none does not exist"),
        (
            {"formation": "ward", "cell": "cook"},
            "has no cell 'cook'; its templates are lead, doctor",
        ),
        ({"formation": "ward", "cell": "doctor-2"}, "has no cell 'doctor-2'"),
        ({"formation": "ward"}, "cell lead-0 of Formation/demo/ward takes no messages: only an"),
        ({"cell": "none"}, "Cell/demo/none does not exist"),
    ],
)
async def test_a_message_that_nobody_would_get_is_refused(
    terminal, cluster, arguments, message
) -> None:
    cluster.put(agent_formation("Task"))
    async with connected(terminal, can_launch=True) as client:
        refused = await client.call_tool("kais_send_message", {"message": "x", **arguments})
    assert refused.is_error
    assert message in refused.meta["kais.io/error"]["message"]
    assert cluster.created == []


async def test_messages_are_off_unless_asked_for(terminal, cluster) -> None:
    cluster.put(agent_formation())
    async with connected(terminal) as client:
        with pytest.raises(MCPError, match="unknown tool 'kais_send_message'"):
            await client.call_tool("kais_send_message", {"formation": "ward", "message": "x"})
    assert cluster.created == []


async def test_a_token_that_expires_is_renewed(terminal, cluster) -> None:
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    refused = {"title": "x", "status": 401, "code": "unauthenticated", "detail": "expired"}
    recalled = {"receipt": "r", "facts": [], "scopes": [], "known_at": objects.AT, "ranker": "1"}
    answers = iter([httpx.Response(code, json=refused if code == 401 else recalled)
                    for code in (200, 401, 200)])  # fmt: skip
    terminal.knowledge = lambda request: next(answers)
    async with connected(terminal, "knowledge") as client:
        for _ in range(2):
            assert (await called(client, "recall", query="x"))["receipt"] == "r"
    assert len(cluster.tokens) == 2


def test_an_unknown_tool_set_is_a_usage_error(terminal) -> None:
    assert terminal.run("mcp", "--tools", "knowledge,charms") == 2
    assert terminal.err == (
        "error: --tools: unknown tool set 'charms'; choose from knowledge, graph, charts, kais\n"
    )
