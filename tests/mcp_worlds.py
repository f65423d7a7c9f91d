"""MCP servers of the official SDK on the loopback address, for the cells of tests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Message, Receive, Scope, Send

from tests.agent_services import serving

_OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)


@dataclass
class McpWorld:
    """A server with some tools, and what it was sent.

    Attributes:
        headers: of each request, in order.
        effects: the calls that changed something.
        answer: replaces the answer of the SDK, for servers that misbehave.
    """

    is_stateless: bool = True
    headers: list[dict[str, str]] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    answer: Callable[[Scope, Receive, Send], Any] | None = None
    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self) -> None:
        async def list_pods(namespace: str) -> str:
            """List the pods of a namespace."""
            return f"web-0 in {namespace}"

        async def restart(pod: str) -> str:
            """Restart a pod."""
            self.effects.append(pod)
            return f"{pod} restarts"

        self.server = MCPServer("cluster")
        self.tools = {"list_pods": list_pods, "restart": restart, **self.tools}

    def app(self) -> Any:
        """The application of the SDK, behind the answer of the test."""
        server = self.server
        for name, tool in self.tools.items():
            server.add_tool(tool, name=name)
        inner = server.streamable_http_app(
            stateless_http=self.is_stateless, json_response=True, transport_security=_OPEN
        )

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
                if self.answer is not None:
                    await self.answer(scope, receive, send)
                    return
            await inner(scope, receive, send)

        return app

    def replace_tool(self, name: str, tool: Callable[..., Any]) -> None:
        """Exchange a tool while the server runs."""
        self.server.remove_tool(name)
        self.server.add_tool(tool, name=name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[McpWorld]:
        """Serve during the block."""
        async with serving(self.app()) as url:
            self.url = f"{url}/mcp"
            yield self


def answering(
    status: int, body: bytes = b"", kind: str = "application/json", **headers: str
) -> Callable[[Scope, Receive, Send], Any]:
    """An answer that is always the same."""
    fields = {"content-type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        while (await receive()).get("more_body"):
            pass
        start: Message = {
            "type": "http.response.start",
            "status": status,
            "headers": [(k.encode(), v.encode()) for k, v in fields.items()],
        }
        await send(start)
        await send({"type": "http.response.body", "body": body})

    return answer


def listing(**schemas: str) -> Callable[[Scope, Receive, Send], Any]:
    """A server whose tools have the schemas of the test, which need not be valid JSON."""
    tools = ", ".join(
        f'{{"name": "{name}", "inputSchema": {schema}}}' for name, schema in schemas.items()
    )

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        content, has_more = b"", True
        while has_more:
            part = await receive()
            content, has_more = content + part.get("body", b""), part.get("more_body", False)
        call = json.loads(content) if content else {}
        results = {
            "initialize": json.dumps(
                {
                    "protocolVersion": call.get("params", {}).get("protocolVersion"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "cluster", "version": "1"},
                }
            ),
            "tools/list": f'{{"tools": [{tools}]}}',
            "tools/call": '{"content": [{"type": "text", "text": "web-0"}]}',
        }
        status, body = 202, ""
        if "id" in call:
            missing = '"error": {"code": -32601, "message": "no such method"}'
            result = results.get(call["method"])
            outcome = missing if result is None else f'"result": {result}'
            status = 200
            body = f'{{"jsonrpc": "2.0", "id": {json.dumps(call["id"])}, {outcome}}}'
        await answering(status, body.encode())(scope, _nothing, send)

    return answer


async def _nothing() -> Message:
    return {"type": "http.request"}


def entry(url: str, **config: Any) -> dict[str, Any]:
    """The entry of a server in `spec.tools`."""
    return {"name": "mcp", "config": {"url": url, "name": "cluster", "timeout": "5s", **config}}
