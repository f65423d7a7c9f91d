from __future__ import annotations

import httpx
import pytest

from knowledge_client import AsyncKnowledgeClient, KnowledgeClient, errors, sse

DATA = (
    '{"id": "e1", "type": "fact.recorded", "scope": "realm:demo", "actor": "ada",'
    ' "at": "2026-03-01T12:00:00Z", "facts": ["f1"]}'
)
STREAM = f": hello\n\nid: e1\nevent: fact.recorded\ndata: {DATA}\n\n: still here\n\n"


def test_lines_become_an_event_at_the_empty_line_and_comments_nothing():
    reader = sse.SseDecoder()
    events = [event for line in STREAM.splitlines() if (event := reader.decode_line(line))]

    assert [(event.id, event.facts) for event in events] == [("e1", ("f1",))]


def test_what_is_no_event_is_said():
    reader = sse.SseDecoder()
    reader.decode_line("data: <html>")
    with pytest.raises(errors.UnexpectedAnswer, match="'<html>' is not an event"):
        reader.decode_line("")


def answer(request: httpx.Request) -> httpx.Response:
    if request.headers.get("Last-Event-ID") == "old":
        problem = {"title": "t", "status": 410, "code": "compacted", "detail": "too old"}
        return httpx.Response(410, json=problem)
    if request.headers.get("Last-Event-ID") == "gone":
        raise httpx.ConnectError("refused")
    return httpx.Response(200, text=STREAM)


async def test_both_clients_listen_and_are_told_what_is_wrong():
    transport = httpx.MockTransport(answer)
    with KnowledgeClient("http://k", token="t", transport=transport) as client:
        assert [event.id for event in client.events()] == ["e1"]
        with pytest.raises(errors.Compacted, match="410 compacted: too old"):
            list(client.events("old"))
        with pytest.raises(errors.KnowledgeUnavailable):
            list(client.events("gone"))
    async with AsyncKnowledgeClient("http://k", token="t", transport=transport) as client:
        assert [event.id async for event in client.events()] == ["e1"]
        with pytest.raises(errors.Compacted):
            [event async for event in client.events("old")]
        with pytest.raises(errors.KnowledgeUnavailable):
            [event async for event in client.events("gone")]
