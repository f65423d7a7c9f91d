"""`kais mcp --memory-path` beside the memory server that it replaces: each call has one answer."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment

from tests import knowledge_process as process
from tests.mcp_clients import node_programs

SERVER_MEMORY = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
MEMORY = (
    '{"type":"entity","name":"Ada","entityType":"person","observations":["Speaks French"]}\n'
    '{"type":"entity","name":"Harbour","entityType":"place","observations":[]}\n'
    '{"type":"relation","from":"Ada","to":"Harbour","relationType":"works_in"}'
)
CRANE = {"name": "Crane", "entityType": "thing", "observations": ["Lifts 40 t", 'A "<b>" & \u2028']}
DRIVES = {"from": "Ada", "to": "Crane", "relationType": "drives"}
STANDS = {"from": "Crane", "to": "Harbour", "relationType": "Stands in"}
MANY = [
    {"name": f"Ship {number}", "entityType": "ship", "observations": []} for number in range(220)
]
# Each call continues from those before it.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_graph", {}),
    ("create_entities", {"entities": [CRANE]}),
    ("create_entities", {"entities": [CRANE, {**CRANE, "name": "Tug"}]}),
    ("create_entities", {"entities": []}),
    ("create_entities", {"entities": [{**CRANE, "name": "Buoy", "colour": "red"}]}),
    ("create_entities", {"entities": [{"name": "Nothing else"}]}),
    ("create_entities", {"entities": "none"}),
    ("create_entities", {}),
    ("create_relations", {"relations": [DRIVES, STANDS]}),
    ("create_relations", {"relations": [DRIVES]}),
    ("create_relations", {"relations": []}),
    ("create_relations", {"relations": [{"from": "Ada"}]}),
    ("add_observations", {"observations": [
        {"entityName": "Ada", "contents": ["Sails", "Speaks French"]},
        {"entityName": "Harbour", "contents": ["Opens at six"]},
        {"entityName": "Ada", "contents": ["Left-handed"]},
    ]}),
    ("add_observations", {"observations": [{"entityName": "Ada", "contents": []}]}),
    ("add_observations", {"observations": []}),
    ("add_observations", {"observations": [
        {"entityName": "Ada", "contents": ["Stored by no one"]},
        {"entityName": "Nobody", "contents": ["x"]},
    ]}),
    ("add_observations", {"observations": [{"contents": ["x"]}]}),
    ("search_nodes", {"query": "FRENCH"}),
    ("search_nodes", {"query": "place"}),
    ("search_nodes", {"query": "no such text"}),
    ("search_nodes", {"query": ""}),
    ("search_nodes", {}),
    ("open_nodes", {"names": ["Harbour", "Ada", "Nobody"]}),
    ("open_nodes", {"names": ["Harbour"]}),
    ("open_nodes", {"names": []}),
    ("open_nodes", {"names": "Ada"}),
    ("delete_observations", {"deletions": [
        {"entityName": "Ada", "observations": ["Speaks French", "Never observed"]},
        {"entityName": "Nobody", "observations": ["x"]},
        {"entityName": "Ada", "observations": ["Sails"]},
    ]}),
    ("delete_observations", {"deletions": []}),
    ("delete_observations", {"deletions": [{"entityName": "Ada"}]}),
    ("delete_relations", {"relations": [STANDS, {**STANDS, "to": "Nobody"}]}),
    ("delete_relations", {"relations": []}),
    ("delete_relations", {"relations": [{"from": "Ada"}]}),
    ("read_graph", {"unknown": 1}),
    ("create_entities", {"entities": MANY}),
    ("search_nodes", {"query": "ship"}),
    ("open_nodes", {"names": [ship["name"] for ship in MANY]}),
    ("delete_entities", {"entityNames": [*(ship["name"] for ship in MANY), "Crane", "Nobody"]}),
    ("delete_entities", {"entityNames": []}),
    ("delete_entities", {"entityNames": "Ada"}),
    ("create_entities", {"entities": [CRANE]}),
    ("read_graph", {}),
]  # fmt: skip


@pytest.fixture(scope="module")
def node_folder() -> Path:
    return node_programs.install()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with process.serving(tmp_path / "k.db", arguments=("--auth", "none")) as served:
        yield served.url


@contextlib.asynccontextmanager
async def started(command: str, *arguments: str, **environment: str) -> AsyncIterator[Client]:
    variables = get_default_environment() | environment
    program = StdioServerParameters(command=command, args=list(arguments), env=variables)
    async with Client(program, mode="legacy") as client:
        yield client


def comparable(result: Any) -> Any:
    """Return what a client reads of an answer; the relations of a graph have no order.

    The texts of errors differ: kais adds a code and a remedy.
    """
    if result.is_error:
        assert [content.type for content in result.content] == ["text"]
        return "error"
    (content,) = result.content
    return text_of(content.text), in_order(result.structured_content)


def text_of(text: str) -> Any:
    try:
        parsed = json.loads(text)
    except ValueError:
        return text
    assert text == json.dumps(parsed, indent=2, ensure_ascii=False)
    return in_order(parsed)


def in_order(value: Any) -> Any:
    if isinstance(value, dict) and "relations" in value:
        return {**value, "relations": sorted(value["relations"], key=json.dumps)}
    return value


async def test_every_call_has_the_answer_of_server_memory(
    node_folder: Path, url: str, tmp_path: Path
) -> None:
    paths = tmp_path / "theirs.jsonl", tmp_path / "ours.jsonl"
    for path in paths:
        path.write_text(MEMORY)
    server = str(node_folder / SERVER_MEMORY)
    kais = str(Path(sys.executable).parent / "kais")
    options = ("mcp", "-n", "compared", "--memory-path", str(paths[1]))
    async with (
        started("node", server, MEMORY_FILE_PATH=str(paths[0])) as theirs,
        started(kais, *options, KAIS_KNOWLEDGE_URL=url) as ours,
    ):
        names = [sorted(tool.name for tool in (await c.list_tools()).tools) for c in (theirs, ours)]
        assert names[0] == names[1]
        for number, (tool, arguments) in enumerate(CALLS):
            expected, answer = [await c.call_tool(tool, arguments) for c in (theirs, ours)]
            assert comparable(answer) == comparable(expected), f"call {number}: {tool} {arguments}"
    files = [
        sorted(map(entity_of, path.read_text().strip().split("\n")), key=str) for path in paths
    ]
    assert files[0] == files[1]


def entity_of(line: str) -> dict[str, Any]:
    """Return a line without the metadata that server-memory does not store."""
    return {name: value for name, value in json.loads(line).items() if name != "metadata"}


async def test_the_schemas_are_those_of_server_memory(
    node_folder: Path, url: str, tmp_path: Path
) -> None:
    server = str(node_folder / SERVER_MEMORY)
    kais = str(Path(sys.executable).parent / "kais")
    options = ("mcp", "-n", "compared", "--memory-path", str(tmp_path / "ours.jsonl"))
    async with (
        started("node", server, MEMORY_FILE_PATH=str(tmp_path / "theirs.jsonl")) as theirs,
        started(kais, *options, KAIS_KNOWLEDGE_URL=url) as ours,
    ):
        tools = [
            {tool.name: tool for tool in (await client.list_tools()).tools}
            for client in (theirs, ours)
        ]
    for name, tool in tools[0].items():
        own = tools[1][name]
        assert members(own.input_schema) == members(tool.input_schema), name
        assert members(own.output_schema) == members(tool.output_schema), name
        assert own.annotations.read_only_hint == tool.annotations.read_only_hint
        assert own.annotations.destructive_hint == tool.annotations.destructive_hint


def members(schema: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the members of an object, and those that are required."""
    return sorted(schema.get("properties", {})), sorted(schema.get("required", []))
