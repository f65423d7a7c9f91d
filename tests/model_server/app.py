"""The model server: an ASGI application that answers by a script and keeps a journal.

POST /v1/chat/completions   OpenAI-compatible
POST /v1/messages           Anthropic
GET, DELETE /journal        all calls; forget them
GET, PUT /script            the script; replace it, which resets the journal
GET /healthz
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.model_server import (
    answer,
    anthropic_messages,
    conversation,
    journal,
    openai_chat,
    script,
)
from tests.model_server.answer import Answer
from tests.model_server.conversation import Conversation
from tests.model_server.journal import Entry, Journal
from tests.model_server.script import Reply, Rule, Script

NO_RULE = 418
"""Status when no rule matches: no client repeats it, and no model sends it."""


class ConnectionCut(Exception):
    """Ends a stream by closing the connection; the server reports it nowhere else."""


@dataclass(frozen=True)
class Api:
    """One of the two APIs: its path and its wire format."""

    name: str
    path: str
    wire: ModuleType
    read: Callable[[dict[str, Any]], Conversation]


APIS = (
    Api("openai", "/v1/chat/completions", openai_chat, conversation.from_openai),
    Api("anthropic", "/v1/messages", anthropic_messages, conversation.from_anthropic),
)


class ModelServer:
    """A script, and the journal of the calls that it answered."""

    def __init__(self, rules: Script) -> None:
        self.script = rules
        self.journal = Journal()

    def app(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                *(Route(api.path, self._handler(api), methods=["POST"]) for api in APIS),
                Route("/journal", self._get_journal),
                Route("/journal", self._delete_journal, methods=["DELETE"]),
                Route("/script", self._get_script),
                Route("/script", self._put_script, methods=["PUT"]),
                Route("/healthz", self._health),
            ]
        )

    def find_rule(self, request: Conversation) -> Rule | None:
        """Return the first rule that matches and is not used up."""
        for rule in self.script.rules:
            times = rule.when.times
            if times is not None and self.journal.uses(rule.name) >= times:
                continue
            if script.is_match(rule.when, request):
                return rule
        return None

    def _handler(self, api: Api) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            return await self._answer(api, request)

        return handle

    async def _answer(self, api: Api, request: Request) -> Response:
        try:
            body = msgspec.json.decode(await request.body(), type=dict[str, Any])
            asked = api.read(body)
        except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as exc:
            text = f"the request is no {api.name} request: {exc!r}"
            return JSONResponse(api.wire.error(400, text), status_code=400)
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "")
        key = key.removeprefix("Bearer ")
        entry = self.journal.open(asked, api=api.name, key=key, request=body)
        if self.script.keys is not None and key not in self.script.keys:
            return _error(api, entry, Reply(status=401), "the key is not valid")
        rule = self.find_rule(asked)
        if rule is None:
            return _error(api, entry, Reply(status=NO_RULE), "no rule of the script matches")
        entry.rule = rule.name
        reply = script.fill(rule.reply, asked)
        await asyncio.sleep(reply.delay_s)
        if reply.body is not None:
            return _raw(entry, reply)
        if reply.status != 200:
            return _error(api, entry, reply, reply.text or f"the script answers {reply.status}")
        return _answered(api, entry, reply, asked)

    async def _get_journal(self, request: Request) -> Response:
        return Response(msgspec.json.encode(self.journal.entries), media_type="application/json")

    async def _delete_journal(self, request: Request) -> Response:
        self.journal.reset()
        return Response(status_code=204)

    async def _get_script(self, request: Request) -> Response:
        return Response(msgspec.json.encode(self.script), media_type="application/json")

    async def _put_script(self, request: Request) -> Response:
        try:
            self.script = script.parse((await request.body()).decode())
        except (script.InvalidScript, UnicodeDecodeError) as exc:
            return PlainTextResponse(f"{exc}\n", status_code=400)
        self.journal.reset()
        return Response(status_code=204)

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")


def _answered(api: Api, entry: Entry, reply: Reply, asked: Conversation) -> Response:
    result = answer.make(reply, asked, entry.number)
    entry.tool_calls = [call.name for call in result.calls]
    if result.has_usage:
        entry.input_tokens, entry.output_tokens = result.input_tokens, result.output_tokens
    if not asked.is_streaming:
        entry.state = journal.ANSWERED
        return JSONResponse(api.wire.body(result), headers=reply.headers)
    events = api.wire.events(result, has_usage=asked.has_stream_usage)
    if reply.is_endless:
        events = _repeated(api, result, events)
    return StreamingResponse(
        _stream(entry, reply, events), media_type="text/event-stream", headers=reply.headers
    )


def _repeated(api: Api, result: Answer, events: Iterator[bytes]) -> Iterator[bytes]:
    yield next(events)
    while True:
        yield from api.wire.text_events(result)


async def _stream(entry: Entry, reply: Reply, events: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Send the events, and record how the stream ends before the client can see it."""
    entry.state = journal.ABANDONED  # unless the last event is reached
    following = next(events, None)
    number = 0
    while following is not None:
        if number == reply.cut_after:
            entry.state = journal.CUT
            if reply.is_cut_abrupt:
                raise ConnectionCut
            return
        event, following = following, next(events, None)
        if following is None:
            entry.state = journal.ANSWERED
        yield event
        number += 1
        await asyncio.sleep(reply.chunk_delay_s)


def _raw(entry: Entry, reply: Reply) -> Response:
    entry.state, entry.status = journal.ANSWERED, reply.status
    return Response(reply.body, reply.status, headers=reply.headers, media_type=reply.content_type)


def _error(api: Api, entry: Entry, reply: Reply, message: str) -> Response:
    entry.state, entry.status = journal.ANSWERED, reply.status
    return JSONResponse(
        api.wire.error(reply.status, message), status_code=reply.status, headers=reply.headers
    )
