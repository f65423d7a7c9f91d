"""MCP servers of the official SDK on the loopback address, for the cells of tests."""

from __future__ import annotations

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


def entry(url: str, **config: Any) -> dict[str, Any]:
    """The entry of a server in `spec.tools`."""
    return {"name": "mcp", "config": {"url": url, "name": "cluster", "timeout": "5s", **config}}
