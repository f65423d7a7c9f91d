"""The two MCP servers of the incident team, called by the client of the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from incident_team import __main__ as program
from incident_team import mcp_app, settings
from tests.agent_services import serving
from tests.fakes.shop_cluster import KEY, ShopCluster


@asynccontextmanager
async def connected(folder: Path, cluster: ShopCluster, server: str) -> AsyncIterator[Client]:
    read, pods, api = cluster.apps(folder)
    app = program.app_of(replace(read, server=server), pods, api)
    headers = {mcp_app.KEY_HEADER: KEY}
    async with (
        serving(app) as url,
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def call(folder: Path, cluster: ShopCluster, server: str, tool: str, **arguments: Any) -> str:
    async with connected(folder, cluster, server) as client:
        result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    return text(result)


async def refused(
    folder: Path, cluster: ShopCluster, server: str, tool: str, **arguments: Any
) -> str:
    async with connected(folder, cluster, server) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error, text(result)
    prefix = f"Error executing tool {tool}: "
    assert text(result).startswith(prefix)
    return text(result).removeprefix(prefix)


async def test_the_reader_has_no_tool_that_changes_something(tmp_path: Path) -> None:
    async with connected(tmp_path, ShopCluster(), "reader") as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "explain_failing_pods",
        "list_deployments",
        "rollout_history",
    ]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)


async def test_the_reader_explains_failing_pods_by_their_workload(tmp_path: Path) -> None:
    cluster = ShopCluster()
    assert await call(tmp_path, cluster, "reader", "explain_failing_pods") == (
        "shop-1-x: container shop/app is killed out of memory: it needs more than its limit of "
        "64Mi; raise the memory limit or make it need less"
    )
    assert {request.method for request in cluster.requests} == {"GET"}


async def test_the_reader_says_that_no_pod_fails(tmp_path: Path) -> None:
    answer = await call(tmp_path, ShopCluster(["256Mi"]), "reader", "explain_failing_pods")
    assert answer == "none of 0 pods fails"


async def test_the_reader_lists_deployments_and_their_revisions(tmp_path: Path) -> None:
    cluster = ShopCluster(["256Mi", "64Mi"])
    assert await call(tmp_path, cluster, "reader", "list_deployments") == (
        "shop: 0 of 1 replicas available; container app: image shop:1, memory limit 64Mi"
    )
    history = await call(tmp_path, cluster, "reader", "rollout_history", deployment="shop")
    container = "container app: image shop:1, memory limit"
    assert history.splitlines() == [
        f"revision 2, first made 2026-11-22T10:00:00Z: {container} 64Mi",
        f"revision 1, first made 2026-11-21T10:00:00Z: {container} 256Mi",
    ]
    other = await call(tmp_path, cluster, "reader", "rollout_history", deployment="till")
    assert other == "no revisions of till"


async def test_the_fixer_sets_the_limit_and_waits_for_the_pods(tmp_path: Path) -> None:
    cluster = ShopCluster()
    answer = await call(
        tmp_path, cluster, "fixer", "set_memory_limit",
        deployment="shop", container="app", memory_mi=256,
    )  # fmt: skip
    assert answer == (
        "deployment shop, container app: the memory limit was 64Mi and is 256Mi; "
        "all pods are available"
    )
    assert cluster.limits == ["64Mi", "256Mi"]


async def test_the_fixer_says_that_the_pods_are_still_not_available(tmp_path: Path) -> None:
    answer = await call(
        tmp_path, ShopCluster(), "fixer", "set_memory_limit",
        deployment="shop", container="app", memory_mi=100,
    )  # fmt: skip
    assert answer.endswith("is 100Mi; not all pods were available after 60 seconds")


@pytest.mark.parametrize("memory_mi", [0, 15, 513, 4096])
async def test_the_fixer_refuses_a_limit_beyond_its_bounds(tmp_path: Path, memory_mi: int) -> None:
    cluster = ShopCluster()
    message = await refused(
        tmp_path, cluster, "fixer", "set_memory_limit",
        deployment="shop", container="app", memory_mi=memory_mi,
    )  # fmt: skip
    assert message == f"memory_mi is {memory_mi}; it must be from 16 to 512"
    assert not cluster.requests


async def test_the_fixer_names_the_containers_that_exist(tmp_path: Path) -> None:
    cluster = ShopCluster()
    message = await refused(
        tmp_path, cluster, "fixer", "set_memory_limit",
        deployment="shop", container="till", memory_mi=256,
    )  # fmt: skip
    assert message == "deployment shop has no container till; it has app"
    assert cluster.limits == ["64Mi"]


async def test_the_fixer_cannot_leave_its_namespace_by_a_name(tmp_path: Path) -> None:
    cluster = ShopCluster()
    message = await refused(
        tmp_path, cluster, "fixer", "set_memory_limit",
        deployment="../../other/deployments/shop", container="app", memory_mi=256,
    )  # fmt: skip
    assert message == (
        "deployment ../../other/deployments/shop: a name consists of lower-case letters, digits, "
        "dots and hyphens"
    )
    assert not cluster.requests


async def test_what_the_role_does_not_allow_is_an_answer_for_the_model(tmp_path: Path) -> None:
    cluster = ShopCluster(refusal=httpx.Response(403, json={"message": "forbidden"}))
    message = await refused(
        tmp_path, cluster, "fixer", "set_memory_limit",
        deployment="till", container="app", memory_mi=256,
    )  # fmt: skip
    assert message == (
        "read deployment till of namespace demo: 403, the ServiceAccount may not do that; its "
        "Role is in rbac.yaml"
    )


@pytest.mark.parametrize("key", ["", "another key"])
async def test_a_caller_without_the_key_gets_nothing(tmp_path: Path, key: str) -> None:
    cluster = ShopCluster()
    read, pods, api = cluster.apps(tmp_path)
    app = program.app_of(replace(read, server="fixer"), pods, api)
    async with serving(app) as url, httpx.AsyncClient(base_url=url) as http:
        response = await http.post("/mcp", headers={mcp_app.KEY_HEADER: key}, json={})
        health = await http.get("/healthz")
    assert (response.status_code, response.text) == (401, "send the key in X-Api-Key")
    assert health.text == "ok"
    assert not cluster.requests


async def test_an_empty_key_file_lets_nobody_in(tmp_path: Path) -> None:
    read, pods, api = ShopCluster().apps(tmp_path)
    (tmp_path / "key").write_text("\n")
    async with (
        serving(program.app_of(read, pods, api)) as url,
        httpx.AsyncClient(base_url=url) as http,
    ):
        response = await http.post("/mcp", headers={mcp_app.KEY_HEADER: ""}, json={})
    assert response.status_code == 401


def test_settings_come_from_the_pod_and_the_arguments() -> None:
    pod = {"POD_NAMESPACE": "shops", "KUBERNETES_SERVICE_HOST": "fd00::1"}
    read = settings.read(pod, ["fixer", "--max-memory-mi", "1024"])
    assert (read.server, read.namespace, read.max_memory_mi) == ("fixer", "shops", 1024)
    assert read.api_url == "https://[fd00::1]:443"


def test_an_unknown_server_ends_the_program_with_its_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        settings.read({}, ["writer"])
    assert "invalid choice: 'writer'" in capsys.readouterr().err
