"""How bodies are read: JSON as its standard has it, nothing that no store could keep.

Python's own reader lets half surrogates, NaN and nesting of any depth through, each of which fails
later, where it looks like a fault of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pydantic_core
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from knowledge_service.flows import concurrency
from knowledge_service.routes import dependencies

# A body of so many bytes is read in less time than another thread takes to begin.
_AT_ONCE = 16 * 1024


def read(body: bytes) -> Any:
    """Read a body.

    Raises:
        ValueError: it is no JSON as its standard has it.
    """
    return pydantic_core.from_json(body, allow_inf_nan=False)


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return read(body) if len(body) <= _AT_ONCE else await run_in_threadpool(read, body)
        except ValueError as exc:
            # The one error that FastAPI takes for a mistake of the caller, with its words.
            raise json.JSONDecodeError(str(exc), "", 0) from exc


async def _receive(request: Request) -> None:
    """Read the body before a slot is taken: who sends slowly holds up nobody else."""
    try:
        await request.body()
    except ClientDisconnect as exc:
        raise HTTPException(400, "the connection ended before the body did") from exc


class StrictRoute(APIRoute):
    """A route whose body is strict JSON; what is not is refused with the place of the mistake."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Read bodies strictly around the route's own handler."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            # A body costs memory and time: nobody unknown has one read.
            services: dependencies.Services = request.app.state.services
            principal = await dependencies.caller(request, services)
            whole = _StrictRequest(request.scope, request.receive)
            kind = concurrency.kind_of(request.method, request.url.path)
            size = dependencies.body_bytes(request.method, request.headers.get("content-length"))
            with services.concurrency.counted(principal, size):
                await _receive(whole)
                async with services.concurrency.running(principal, kind):
                    return await handle(whole)

        return strict
