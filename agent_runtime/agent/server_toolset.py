"""Gives a mind the tools of its MCP servers."""

from __future__ import annotations

from typing import Any, Final

import pydantic_core
from pydantic_ai import RunContext, exceptions, messages
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import core_schema

from agent_runtime.errors import ToolError
from agent_runtime.server_tools import ServerTool, ServerTools

_RETRIES: Final = 3


def _require_json(arguments: dict[str, Any]) -> dict[str, Any]:
    """Refuse what `reporting.masked` makes of arguments that are no JSON object."""
    if messages.INVALID_JSON_KEY in arguments:
        raise ValueError("the arguments are no JSON object")
    return arguments


_OBJECT: Final = pydantic_core.SchemaValidator(
    core_schema.no_info_after_validator_function(
        _require_json, core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
    )
)
"""Arguments are an object; the server checks what is in it."""


class ServerToolset(AbstractToolset[object]):
    """The tools of all servers of a mind."""

    def __init__(self, servers: ServerTools) -> None:
        self._servers = servers

    @property
    def id(self) -> str | None:
        """The id of the toolset; nothing depends on it."""
        return None

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """Return the tools that can be called now.

        Tools that the model called before a restart are included even if their server is not
        connected: the journal has the result of the call, or shows that it is unknown.
        """
        listed = [self._tool(tool) for tool in await self._servers.tools()]
        tools = {tool.tool_def.name: tool for tool in listed}
        for name in _called(ctx.messages):
            if name not in tools and self._servers.has_server_of(name):
                tools[name] = self._tool(ServerTool(name, "", {"type": "object"}))
        return tools

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[object],
        tool: ToolsetTool[object],
    ) -> Any:
        """Call a tool of a server; its error is an answer for the model."""
        del ctx, tool
        try:
            return await self._servers.call(name, tool_args)
        except ToolError as exc:
            raise exceptions.ToolFailed(str(exc)) from exc

    def _tool(self, tool: ServerTool) -> ToolsetTool[object]:
        return ToolsetTool[object](
            toolset=self,
            tool_def=ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=dict(tool.schema),
            ),
            max_retries=_RETRIES,
            args_validator=_OBJECT,
        )


def _called(history: list[messages.ModelMessage]) -> list[str]:
    """Return the names of the calls that the last message makes."""
    last = history[-1] if history else None
    if not isinstance(last, messages.ModelResponse):
        return []
    return [part.tool_name for part in last.parts if isinstance(part, messages.ToolCallPart)]
