"""How requests are read: JSON as its standard has it, and nothing that the route does not have.

Python's own reader lets half surrogates, NaN and nesting of any depth through, each of which fails
later, where it looks like a fault of ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import pydantic_core
from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from knowledge_service.errors import InvalidBody
from knowledge_service.flows import concurrency
from knowledge_service.routes import dependencies, unknown_fields

# Clients that always send JSON send one of these where there is nothing to send.
_EMPTY = (b"", b"{}", b"null")
_SHOWN = 50  # mistakes of one request, as many as of values that do not fit

# A body of at most this many bytes is parsed faster than a thread starts.
_AT_ONCE = 16 * 1024


def read(body: bytes) -> Any:
    """Read a body.

    Raises:
        ValueError: it is no JSON as its standard has it.
    """
    return pydantic_core.from_json(body, allow_inf_nan=False)


class _StrictRequest(Request):
    _value: Any

    async def json(self) -> Any:
        if not hasattr(self, "_value"):
            body = await self.body()
            is_small = len(body) <= _AT_ONCE
            try:
                self._value = read(body) if is_small else await run_in_threadpool(read, body)
            except ValueError as exc:
                # The one error that FastAPI takes for a mistake of the caller, with its words.
                raise json.JSONDecodeError(str(exc), "", 0) from exc
        return self._value


async def _receive(request: Request) -> None:
    """Read the body before taking a slot: a slow sender delays no other caller."""
    try:
        await request.body()
    except ClientDisconnect as exc:
        raise HTTPException(400, "the connection ended before the body did") from exc


class StrictRoute(APIRoute):
    """A route whose body is strict JSON; what is not is refused with the place of the mistake.

    So is every field of the body and parameter of the query that the route does not have.
    """

    refuses_unknown = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Read bodies strictly around the route's own handler."""
        handle = super().get_route_handler()
        parameters = frozenset(_query_names(self))
        bodies = tuple(_models(self))

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
                    if self.refuses_unknown:
                        await _refuse_unknown(whole, parameters, bodies)
                    return await handle(whole)

        return strict


class ReferenceRoute(StrictRoute):
    """A route of the reference's clients, which send fields that this service does not have."""

    refuses_unknown = False


def _query_names(route: APIRoute) -> Iterator[str]:
    """Name the query parameters of a route and of what it depends on."""
    pending = [route.dependant]
    while pending:
        dependant = pending.pop()
        pending += dependant.dependencies
        for field in dependant.query_params:
            annotation = field.field_info.annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                for name, each in annotation.model_fields.items():
                    yield each.alias or name
            else:
                yield field.alias


def _models(route: APIRoute) -> Iterator[type[BaseModel]]:
    for field in route.dependant.body_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation


async def _refuse_unknown(
    request: Request, parameters: frozenset[str], models: Sequence[type[BaseModel]]
) -> None:
    """Raise InvalidBody for what the route does not have; all of it at once, up to a bound."""
    found = unknown_fields.of_query(request.query_params, parameters)
    if models:
        with suppress(json.JSONDecodeError):  # the route's own reading refuses that
            value = await request.json()
            found = chain(found, *(unknown_fields.of_body(model, value) for model in models))
    elif (await request.body()).strip() not in _EMPTY:
        found = chain(found, [unknown_fields.NO_BODY])
    violations = tuple(islice(found, _SHOWN))
    if violations:
        raise InvalidBody("the request has unknown parameters or fields", violations)
