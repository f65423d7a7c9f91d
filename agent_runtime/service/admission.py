"""Admission: who may send a request, decided before a byte of its body is read.

Only the agent card is public. Every other request needs a ticket. A body is read whole, up to a
limit, before it is parsed.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.authentication import BaseUser
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_runtime.tickets import Caller, TicketRefused, TicketVerifier, VerifierUnavailable
from kais import a2a

BODY_BYTES: Final = 1024 * 1024
TICKET_CHARACTERS: Final = 8192
_BODY_S: Final = 30.0
_UNAUTHORIZED: Final = 401


class TicketUser(BaseUser):
    """The caller as a user of the web framework."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    @property
    def is_authenticated(self) -> bool:
        """Always True: requests without a valid ticket are rejected before."""
        return True

    @property
    def display_name(self) -> str:
        """The owner of the caller's tasks."""
        return self.caller.owner

    @property
    def identity(self) -> str:
        """The owner of the caller's tasks."""
        return self.caller.owner


class _Refused(Exception):
    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}


class Admission:
    """ASGI middleware that verifies the ticket of each request, and bounds its body."""

    def __init__(self, app: ASGIApp, *, verifier: TicketVerifier) -> None:
        self._app = app
        self._verifier = verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] != "http" or scope["path"] == a2a.CARD_PATH:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            caller = await self._verify(headers)
            _check_length(headers)
            body = await _read_body(receive)
        except _Refused as exc:
            problem = {"status": exc.status, "detail": str(exc)}
            response = JSONResponse(
                problem,
                exc.status,
                {**exc.headers, "Connection": "close"},
                "application/problem+json",
            )
            await response(scope, receive, send)
            return
        scope["user"] = TicketUser(caller)
        await self._app(scope, _replay(body, receive), send)

    async def _verify(self, headers: Headers) -> Caller:
        ticket = headers.get(a2a.TICKET_HEADER, "")
        if not ticket or len(ticket) > TICKET_CHARACTERS:
            raise _Refused(
                _UNAUTHORIZED,
                f"the request needs a ticket of the knowledge service in {a2a.TICKET_HEADER}",
                {"WWW-Authenticate": a2a.TICKET_HEADER},
            )
        try:
            return await self._verifier.verify(ticket)
        except TicketRefused as exc:
            raise _Refused(exc.status, f"{exc.code}: {exc}") from exc
        except VerifierUnavailable as exc:
            raise _Refused(503, str(exc), {"Retry-After": str(exc.retry_after_s)}) from exc


def _check_length(headers: Headers) -> None:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > BODY_BYTES:
        raise _Refused(413, f"a message may have {BODY_BYTES} bytes")


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _Refused(400, "the client went away")
                body += message.get("body", b"")
                if len(body) > BODY_BYTES:
                    raise _Refused(413, f"a message may have {BODY_BYTES} bytes")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError as exc:
        raise _Refused(408, f"the message did not arrive within {_BODY_S:.0f} s") from exc


def _replay(body: bytes, receive: Receive) -> Receive:
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return parts.pop() if parts else await receive()

    return replayed
