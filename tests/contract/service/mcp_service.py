"""The service with the MCP endpoint in process, and calls by the official client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from knowledge_client import AsyncKnowledgeClient
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.mcp_endpoint.endpoint import McpEndpoint
from knowledge_service.ports import Store
from tests.contract.service.callers import CALLERS
from tests.fakes.identity import NamedCallers

MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28"}


class Service:
    """A service with the endpoint, and the ways to call it."""

    def __init__(self, app: FastAPI) -> None:
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            base_url="http://service",
        )
        self._app: Any = app

    def rest(self, name: str) -> AsyncKnowledgeClient:
        transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
        return AsyncKnowledgeClient("http://service", token=name, transport=transport)

    @asynccontextmanager
    async def mcp(
        self, name: str, mode: str = "2026-07-28", path: str = "/mcp"
    ) -> AsyncIterator[Client]:
        transport = httpx2.ASGITransport(self._app)
        headers = {"Authorization": f"Bearer {name}"}
        async with (
            httpx2.AsyncClient(transport=transport, headers=headers) as http,
            Client(streamable_http_client(f"http://service{path}", http_client=http), mode=mode)
            as client,
        ):  # fmt: skip
            yield client

    async def post(self, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Accept": "application/json, text/event-stream", **headers}
        message = body or {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        return await self.http.post("/mcp", json=message, headers=sent)


@asynccontextmanager
async def serving(
    store: Store, callers: Mapping[str, Principal] = CALLERS, **settings: Any
) -> AsyncIterator[Service]:
    app = create_app(store, NamedCallers(dict(callers)), mcp=McpEndpoint(**settings))
    async with app.router.lifespan_context(app):
        yield Service(app)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content
    return content


async def failed(client: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    # The TypeScript client would validate it by the schema of the answer.
    assert result.structured_content is None
    return (result.meta or {})["kais.io/error"], result.content[0].text  # type: ignore[union-attr]


async def all_resources(client: Client) -> dict[str, str]:
    """Read every page; return the names by URI."""
    names: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = await client.list_resources(cursor=cursor)
        names |= {resource.uri: resource.name for resource in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return names


async def read(client: Client, uri: str) -> dict[str, Any]:
    (content,) = (await client.read_resource(uri)).contents
    document: dict[str, Any] = json.loads(content.text)  # type: ignore[union-attr]
    return document
