"""The routes that are called most, without the framework between socket and store.

Each stands in front of the same route of the application, which goes on describing it and answers
whatever is unusual: a query string, another content type, a body that is not exactly what the model
takes. So a refusal has one author, and what is here is only ever the shortest way to an answer that
the application would have given too.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic
from fastapi import Response

from knowledge_client import wire
from knowledge_client.models import FactIn, FactsIn, RecallIn, RememberedBatch
from knowledge_service.domain import told
from knowledge_service.errors import QuotaExceeded, ServiceError, StoreUnavailable
from knowledge_service.flows import access, preparing
from knowledge_service.routes import (
    bodies,
    facts,
    middleware,
    problems,
    recall,
    reference,
    unknown_fields,
)
from knowledge_service.routes.dependencies import CALLER, body_bytes, once, principal_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from knowledge_client.models import Remembered
    from knowledge_service.domain.facts import NewFact
    from knowledge_service.domain.visibility import Principal
    from knowledge_service.ports import Once
    from knowledge_service.routes.dependencies import Services

# More threads than this wait for each other: a recall is half Python, half SQLite and numpy.
_THREADS = 4
# A body of at most this many bytes is parsed and judged faster than a thread starts.
_AT_ONCE = 1024
_JSON = b"application/json"
M = TypeVar("M", bound=pydantic.BaseModel)


@dataclass(frozen=True)
class Asked:
    """A request that may be answered here."""

    path: str
    headers: Mapping[bytes, bytes]

    @property
    def is_short(self) -> bool:
        """Tell whether the body is read and judged at once."""
        return middleware.is_within(self.headers.get(b"content-length", b""), _AT_ONCE)

    def header(self, name: bytes) -> str | None:
        """Return a header as text."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", _JSON),)


Read = Callable[[bytes], Any]
"""Reads a body; None leaves it to the application."""
Handle = Callable[[Any, "Principal", Asked], Awaitable[_Answer | None]]


class Hot:
    """Answers the hot routes; everything else goes to the application."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hot")
        self._routes: dict[str, tuple[Read, Handle]] = {
            "/v1/facts": (_reading(FactIn), self._remember),
            "/v1/facts:batch": (bytes, self._remember_batch),
            "/v1/recall": (_reading(RecallIn), self._recall),
            "/remember": (_lenient(reference.RememberBody), self._remember_as_reference),
            "/recall": (_lenient(reference.RecallBody), self._recall_as_reference),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            route = self._routes.get(scope["path"])
            # Of a header that comes twice the first counts, as in the application.
            headers = dict(reversed(scope["headers"])) if route else {}
            if route and _is_plain(scope["path"], headers):
                started = time.perf_counter()
                asked = Asked(scope["path"], headers)
                # Who calls is known before the body is read: it costs memory and time.
                answer = await self._identified(scope, asked)
                messages: list[Message] = []
                if answer is None:
                    counted = self._counted(route, receive, scope[CALLER], asked)
                    answer, messages = await counted
                if answer is not None:
                    await _send(answer, send)
                    seconds = time.perf_counter() - started
                    noted = (scope["path"], "POST", answer.status, seconds)
                    middleware.note(self._services.metrics, *noted)
                    return
                receive = _again(messages, receive)
        await self._app(scope, receive, send)

    async def _counted(
        self, route: tuple[Read, Handle], receive: Receive, principal: Principal, asked: Asked
    ) -> tuple[_Answer | None, list[Message]]:
        """Read the body and answer it; the call counts as one of its principal's until then.

        The answer is None where the application is to answer what was read.
        """
        try:
            size = body_bytes("POST", asked.header(b"content-length"))
            with self._services.concurrency.counted(principal, size):
                messages = await _read(receive)
                body = b"".join([message.get("body", b"") for message in messages])
                given = await self._read_body(route[0], body, principal)
                if given is None:
                    return None, messages
                return await self._answer(route[1], given, principal, asked), messages
        except (QuotaExceeded, StoreUnavailable) as exc:
            return _refusal(problems.refused(asked.path, exc)), []

    async def _identified(self, scope: Scope, asked: Asked) -> _Answer | None:
        """Note who calls, or return the refusal."""

        async def note() -> None:
            authorization = asked.header(b"authorization") or ""
            what = ("POST", asked.path, asked.header(b"content-length"))
            scope[CALLER] = await principal_of(self._services, authorization, what)

        return await self._refused(note(), asked)

    async def _answer(
        self, handle: Handle, given: Any, principal: Principal, asked: Asked
    ) -> _Answer | None:
        return await self._refused(handle(given, principal, asked), asked)

    async def _refused(self, work: Awaitable[_Answer | None], asked: Asked) -> _Answer | None:
        """Do some work; return its answer, or the refusal that it raised."""
        try:
            return await work
        except ServiceError as exc:
            return _refusal(problems.refused(asked.path, exc))
        except Exception as exc:  # noqa: BLE001 - where a fault becomes an answer, as in `Faults`
            return _refusal(problems.fault(asked.path, exc))

    async def _read_body(self, read: Read, body: bytes, principal: Principal) -> Any:
        if len(body) <= _AT_ONCE or read is bytes:
            return read(body)
        return await self._in_thread(partial(read, body), principal)

    async def _remember(self, body: FactIn, principal: Principal, asked: Asked) -> _Answer:
        found = await self._stored(body, principal, asked, asked.header(b"idempotency-key"))
        return _Answer(201 if found.status == "created" else 200, _dump(found))

    async def _remember_as_reference(
        self, body: reference.RememberBody, principal: Principal, asked: Asked
    ) -> _Answer:
        key = asked.header(b"idempotency-key")
        found = await self._stored(reference.fact_in(body), principal, asked, key)
        return _Answer(200, json.dumps({"factId": found.fact_id}).encode())

    async def _stored(
        self, body: FactIn, principal: Principal, asked: Asked, key: str | None
    ) -> Remembered:
        def prepare() -> tuple[NewFact, Once | None]:
            repeat = once(key, principal, "facts", body)
            return preparing.prepare(self._services.store, principal, body), repeat

        # A run or another fact is looked up in the database, and the gates take time for each word;
        # the event loop must wait for neither.
        is_quick = asked.is_short and not (body.run or body.about)
        fact, repeat = prepare() if is_quick else await self._in_thread(prepare, principal)
        actor = access.actor(principal)
        (found,) = await self._services.store.remembered([fact], actor=actor, once=repeat)
        return found

    async def _remember_batch(
        self, body: bytes, principal: Principal, asked: Asked
    ) -> _Answer | None:
        key = asked.header(b"idempotency-key")
        # No thread waits for the commit: recalls have the same threads.
        stored = await self._in_thread(partial(self._stored_batch, body, principal, key), principal)
        if stored is None:
            return None
        return _Answer(201, _dump(wire.built(RememberedBatch, {"results": await stored})))

    def _stored_batch(
        self, body: bytes, principal: Principal, key: str | None
    ) -> Awaitable[tuple[Remembered, ...]] | None:
        """Do what comes before a batch is stored; what is returned stores it."""
        services = self._services
        given = told.read(body)
        if given is not None:
            looked = services.look(body, given)
            new, repeat = facts.prepared_told(given, looked, services, principal, key)
        else:
            more = _parse(FactsIn, body)
            if more is None:
                return None
            new, repeat = facts.prepared(more, services, principal, key)
        return services.store.remembered(new, actor=access.actor(principal), once=repeat)

    async def _recall(self, body: RecallIn, principal: Principal, asked: Asked) -> _Answer:
        key = asked.header(b"idempotency-key")
        call = partial(recall.recall, body, self._services, principal, key)
        return _Answer(200, await self._in_thread(lambda: _dump(call()), principal))

    async def _recall_as_reference(
        self, body: reference.RecallBody, principal: Principal, _: Asked
    ) -> _Answer:
        response = Response()
        call = partial(reference.recall, body, self._services, principal, response)

        def text() -> bytes:
            return b"[" + b",".join([_dump(fact) for fact in call()]) + b"]"

        found = await self._in_thread(text, principal)
        receipt = response.headers.get("Kais-Receipt")
        told = ((b"kais-receipt", receipt.encode()),) if receipt else ()
        return _Answer(200, found, ((b"content-type", _JSON), *told))

    async def _in_thread(self, call: Callable[[], Any], principal: Principal) -> Any:
        async with self._services.concurrency.running(principal, "recalls"):
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _is_plain(path: str, headers: Mapping[bytes, bytes]) -> bool:
    length = headers.get(b"content-length", b"")
    is_json = headers.get(b"content-type", b"").partition(b";")[0].strip() == _JSON
    return is_json and middleware.is_within(length, middleware.limit_of(path))


async def _read(receive: Receive) -> list[Message]:
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Give what was read to who comes next, then what comes."""
    left = iter(messages)

    async def replayed() -> Message:
        for message in left:
            return message
        return await receive()

    return replayed


def _reading(model: type[pydantic.BaseModel]) -> Read:
    return partial(_parse, model)


def _lenient(model: type[pydantic.BaseModel]) -> Read:
    return partial(_parse, model, refuses_unknown=False)


def _parse(model: type[M], body: bytes, *, refuses_unknown: bool = True) -> M | None:
    try:
        value = bodies.read(body)
        if refuses_unknown and any(unknown_fields.of_body(model, value)):
            return None  # the application finds the words
        return model.model_validate(value)
    except ValueError:  # also pydantic's own; the application finds the words
        return None


def _dump(model: pydantic.BaseModel) -> bytes:
    return model.model_dump_json(by_alias=True).encode()


def _refusal(response: Response) -> _Answer:
    headers = [item for item in response.raw_headers if item[0] != b"content-length"]
    return _Answer(response.status_code, bytes(response.body), tuple(headers))


async def _send(answer: _Answer, send: Send) -> None:
    length = (b"content-length", str(len(answer.body)).encode())
    headers = [length, *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
