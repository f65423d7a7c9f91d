"""`kais knowledge link`, `links`, `report-usage` and `events` at a real service."""

from __future__ import annotations

import json

import httpx
import pytest

from kais_cli import settings


@pytest.fixture
def facts(shell):
    texts = ("The ferry is late.", "The crane is broken.")
    return [shell("add", text, "--scope", shell.realm, "-o", "name").strip() for text in texts]


def test_a_link_is_made_listed_and_removed(shell, facts):
    ferry, crane = facts
    assert shell("link", ferry, "mentions", crane) == f"{ferry} mentions {crane}: linked\n"
    again = shell("link", ferry, "mentions", crane, "--weight", "0.5")
    assert again == f"{ferry} mentions {crane}: linked already\n"
    shell("link", crane, "delays", ferry, "--weight", "0.5")
    header, *rows = shell("links", ferry).splitlines()
    assert header.split()[:4] == ["TYPE", "FROM", "TO", "WEIGHT"]
    assert [row.split()[:4] for row in rows] == [
        ["delays", crane, ferry, "0.5"], ["mentions", ferry, crane, "-"],
    ]  # fmt: skip
    (only,) = json.loads(shell("links", ferry, "--type", "mentions", "-o", "json"))
    assert (only["from"], only["to"], only["closedAt"]) == (ferry, crane, None)
    shell("links", ferry, "--limit", "1")
    assert "there are more links; use --all or a higher --limit" in shell.terminal.err

    for _ in ("removes it", "has nothing to remove"):
        removal = shell("unlink", ferry, "mentions", crane)
        assert removal == f"{ferry} mentions {crane}: unlinked\n"
    (removed,) = json.loads(shell("links", ferry, "--type", "mentions", "-o", "json"))
    assert removed["closedAt"]


def test_what_cannot_be_linked_is_said(shell, facts):
    ferry, _ = facts
    assert "is not linked to itself" in shell("link", ferry, "mentions", ferry)
    missing = "01900000-0000-7000-8000-000000000000"
    shell("link", ferry, "mentions", missing, status=1)
    assert f"fact {missing} does not exist or is not visible to you" in shell.terminal.err
    shell("link", ferry, "Two Words", ferry, status=2)
    assert "type" in shell.terminal.err


def test_a_reported_use_is_counted(shell, facts):
    ferry, _ = facts
    reported = shell("report-usage", ferry, "--kind", "prevented", "--session", "issue-12")
    assert reported == f"{ferry}: prevented 1 time\n"
    shell("report-usage", ferry, "--kind", "prevented", "--count", "2")
    assert "uses: prevented 3" in shell("impact", ferry)
    shell("report-usage", ferry, "--kind", "recalled", status=2)


def test_events_are_followed_by_topic_and_continued(shell, facts):
    ferry, crane = facts
    shell("confirm", ferry)
    (first,) = shell(
        "events", "--after", "start", "--topic", "fact.confirmed", "--limit", "1", "-o", "json"
    ).splitlines()
    event = json.loads(first)
    assert (event["type"], event["facts"]) == ("fact.confirmed", [ferry])
    assert f"to continue, use --after {event['id']}" in shell.terminal.err

    shell("confirm", crane)
    page = shell("events", "--after", event["id"], "--limit", "1")
    header, row = page.splitlines()
    assert header.split() == ["AT", "(UTC)", "TYPE", "SCOPE", "BY", "FACTS"]
    assert row.split()[-4:] == ["fact.confirmed", shell.realm, "local", crane]


def test_a_stream_that_the_service_ended_is_opened_again(terminal, knowledge):
    terminal.settings = settings.Settings(knowledge_url="http://127.0.0.1:8000")
    bodies = [event_lines("e1"), b": listening\n\n", event_lines("e2")]
    knowledge.answers["GET /v1/events"] = lambda _request: httpx.Response(
        200, content=bodies.pop(0), headers={"Content-Type": "text/event-stream"}
    )
    assert terminal.run("knowledge", "events", "--limit", "2", "-o", "name") == 0, terminal.err
    assert terminal.out == "e1\ne2\n"
    resumed_after = [request.headers.get("Last-Event-ID") for request in knowledge.requests]
    assert resumed_after == [None, "e1", "e1"]


def event_lines(event_id):
    event = {
        "id": event_id, "type": "fact.recorded", "scope": "realm:demo", "actor": "ada",
        "at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return f"id: {event_id}\nevent: fact.recorded\ndata: {json.dumps(event)}\n\n".encode()


def test_an_unknown_event_is_an_error(shell):
    shell("events", "--after", "nonsense", status=2)
    assert "send start for the first stored event" in shell.terminal.err
