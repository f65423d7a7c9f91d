"""The MCP endpoint with the TypeScript clients of both revisions, and with the inspector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kais_mcp import chart_tools, graph_tools
from tests import knowledge_process as process
from tests.mcp_clients import node_programs


@pytest.fixture(scope="module")
def clients() -> Path:
    return node_programs.install()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("service")
    with process.serving(folder / "k.db", arguments=("--auth", "none", "--mcp")) as served:
        yield f"{served.url}/mcp/graph,charts"


@pytest.mark.parametrize(("generation", "can_listen"), [("sdk", False), ("client", True)])
def test_the_typescript_client_reaches_everything(
    clients: Path, url: str, generation: str, can_listen: bool
) -> None:
    seen: Any = node_programs.run_json(["node", "walk.mjs", generation, url, "any"], clients)
    assert seen["version"]["name"] == "kais"
    assert seen["tools"] == [tool.name for tool in (*graph_tools.TOOLS, *chart_tools.TOOLS)]
    declared = seen["capabilities"]["resources"]
    assert declared.get("subscribe", False) is can_listen
    assert (seen["announced"], seen.get("ended")) == (
        (True, "local") if can_listen else (None, None)
    )
    name = f"Ann {generation}"
    (entity,) = seen["created"]["structuredContent"]["entities"]
    assert (entity["name"], entity["observations"]) == (name, ["likes </graph> tea"])
    found = seen["found"]
    assert name in [each["name"] for each in found["structuredContent"]["entities"]]
    assert found["content"][0]["text"].count("</graph>") == 1
    chart = seen["chart"]["structuredContent"]["chart"]["id"]
    assert {f"kais://entities/Ann%20{generation}", f"kais://charts/{chart}"} <= set(
        seen["resources"]
    )
    assert "kais://charts/{id}" in seen["templates"]
    assert seen["read"]["entity"]["observations"] == ["likes </graph> tea"]
    for refusal, code in (("refused", "not-found"), ("invalid", "invalid-body")):
        assert seen[refusal]["isError"] is True
        assert seen[refusal]["_meta"]["kais.io/error"]["code"] == code
    assert seen["missing"] == -32602
    assert seen["prompts"] == ["recall", "extract"]
    assert "likes &lt;/graph> tea" in seen["prompt"]["messages"][0]["content"]["text"]


def inspect(clients: Path, url: str, *arguments: str) -> dict[str, Any]:
    command = ["node", "node_modules/@modelcontextprotocol/inspector/cli/build/index.js", url]
    return node_programs.run_json([*command, "--transport", "http", *arguments], clients)


def test_the_inspector_lists_and_calls(clients: Path, url: str) -> None:
    tools = inspect(clients, url, "--method", "tools/list")["tools"]
    for tool in tools:
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
    called = inspect(
        clients, url, "--method", "tools/call", "--tool-name", "create_entities",
        "--tool-arg", f"entities={json.dumps([{'name': 'Bob', 'entityType': 'person'}])}",
    )  # fmt: skip
    assert called["structuredContent"]["entities"][0]["name"] == "Bob"
    assert inspect(clients, url, "--method", "resources/list")["resources"]
    read = inspect(clients, url, "--method", "resources/read", "--uri", "kais://entities/Bob")
    assert json.loads(read["contents"][0]["text"])["entity"]["name"] == "Bob"
    prompts = inspect(clients, url, "--method", "prompts/list")["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["recall", "extract"]
