"""Seats at the stream of events: who never reads loses its own, and no crowd takes all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from knowledge_service.domain.principals import Principal
from knowledge_service.errors import QuotaExceeded
from knowledge_service.routes import streams
from knowledge_service.use_cases import event_stream
from knowledge_service.use_cases.event_stream import Subscription, SubscriptionLimiter
from tests.contract.service.callers import Connect, told
from tests.knowledge_builders import LEAD, OTHER, TEAM

STREAM = {
    "type": "http", "http_version": "1.1", "method": "GET", "path": "/v1/events",
    "raw_path": b"/v1/events", "query_string": b"", "root_path": "", "scheme": "http",
    "server": ("service", 80), "client": ("test", 1), "asgi": {},
    "headers": [(b"authorization", b"Bearer lead")],
}  # fmt: skip


class Silence:
    """A client that asks and then neither says anything nor hangs up."""

    def __init__(self) -> None:
        self._has_asked = False

    async def __call__(self) -> Mapping[str, Any]:
        if self._has_asked:
            await asyncio.Event().wait()
        self._has_asked = True
        return {"type": "http.request", "body": b"", "more_body": False}


async def listen(
    transport: httpx.ASGITransport,
    seat_count: int,
    statuses: list[object],
    has_started: asyncio.Event,
) -> None:
    """Open a stream whose client stops reading after some messages and does not disconnect."""
    left = seat_count

    async def send(message: Any) -> None:
        nonlocal left
        statuses.append(message.get("status"))
        if b"listening" in message.get("body", b""):
            has_started.set()
        if left == 0:
            await asyncio.Event().wait()
        left -= 1

    await transport.app({**STREAM}, Silence(), send)  # type: ignore[arg-type]


@pytest.mark.parametrize("seat_count", [0, 1, 2])
async def test_stream_whose_client_never_reads_ends_and_gives_its_seat_back(
    transport: httpx.ASGITransport,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    seat_count: int,
) -> None:
    monkeypatch.setattr(streams, "_SEND_TIMEOUT_S", 0.1)
    monkeypatch.setattr(event_stream, "_MAX_STREAMS_PER_PRINCIPAL", 1)
    async with asyncio.timeout(10):
        for _ in range(2):
            statuses: list[object] = []
            has_started = asyncio.Event()
            reading = asyncio.create_task(listen(transport, seat_count, statuses, has_started))
            if seat_count == 2:
                await has_started.wait()
                await told(connect("ada"), f"news {id(statuses)}", TEAM)
            await reading
            assert statuses[0] == 200


def agent(number: int, realm: str = OTHER) -> Principal:
    return Principal(f"x/{number}", "agent", f"{realm}/cell:c{number}")


def crowd(listeners: SubscriptionLimiter, callers: int, realm: str = OTHER) -> list[Subscription]:
    return [listeners.subscribe(agent(n, realm)) for n in range(callers) for _ in range(8)]


def test_cells_of_a_realm_that_took_every_seat_lose_one_to_a_newcomer() -> None:
    listeners = SubscriptionLimiter()
    seats = crowd(listeners, 32)
    assert len(seats) == event_stream._MAX_STREAMS
    for index in range(8):
        listeners.subscribe(Principal("demo/lead-0", "agent", LEAD))
        assert [seat.is_over for seat in seats].count(True) == index + 1
    assert seats[0].is_over, "the oldest goes first"


def test_caller_with_more_seats_than_its_neighbours_loses_one_to_a_newcomer_of_its_realm() -> None:
    listeners = SubscriptionLimiter()
    seats = crowd(listeners, 32)
    newcomer = listeners.subscribe(agent(99))
    assert not newcomer.is_over
    assert sum(seat.is_over for seat in seats) == 1


def test_newcomer_is_refused_while_nobody_has_more_than_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "_MAX_STREAMS", 4)
    listeners = SubscriptionLimiter()
    for number in range(4):
        listeners.subscribe(agent(number, f"realm:r{number}"))
    with pytest.raises(QuotaExceeded) as caught:
        listeners.subscribe(agent(9, "realm:r9"))
    assert caught.value.detail == ("4 streams are open, and no caller has more than x/9; try again")
    assert caught.value.retry_after_s == 5


def test_seat_that_was_taken_over_is_given_back_once() -> None:
    listeners = SubscriptionLimiter()
    seats = crowd(listeners, 32)
    listeners.subscribe(Principal("demo/lead-0", "agent", LEAD))
    (over,) = [seat for seat in seats if seat.is_over]
    over.release()
    assert len(listeners._subscriptions) == event_stream._MAX_STREAMS


async def test_stream_that_lost_its_seat_ends_in_order(
    transport: httpx.ASGITransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "_MAX_STREAMS", 2)
    ends: list[object] = []
    has_started = asyncio.Event()

    async def send(message: Any) -> None:
        ends.append(message.get("more_body"))
        has_started.set()

    listeners: SubscriptionLimiter = transport.app.state.services.subscription_limiter  # type: ignore[attr-defined]
    stream = asyncio.create_task(transport.app({**STREAM}, Silence(), send))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        await has_started.wait()
        second = listeners.subscribe(Principal("demo/lead-0", "agent", LEAD))
        listeners.subscribe(Principal("x", "agent", f"{OTHER}/cell:x"))
        await stream
    assert ends[-1] is False, "the answer is whole"
    assert not second.is_over
