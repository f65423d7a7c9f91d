"""The stream of changes and the audit: in order, sealed, and nothing of what is out of sight."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest

from knowledge_client import errors
from knowledge_client.models import (
    ActAs,
    AuditEntry,
    CorrectIn,
    Event,
    FactIn,
    FactUse,
    LinkIn,
    RecallIn,
    UsageIn,
)
from knowledge_service.asgi_app import create_app
from knowledge_service.domain.principals import Principal
from knowledge_service.ports import Store
from knowledge_service.routes import streams as event_streams
from tests.contract.service.callers import CALLERS, Connect, refused, registration, told
from tests.fakes.identity import NamedCallers
from tests.knowledge_builders import LEAD, OTHER, TEAM, run_in

CODE = errors.ErrorCode


class Streams:
    """Reads the stream of the app in process, which the in-memory transport cannot do piecemeal."""

    def __init__(self, app: object) -> None:
        self.app = app
        self.begun = asyncio.Event()
        """Set when a stream has begun to answer: what comes after that is its."""

    async def read(
        self,
        caller: str,
        count: int,
        final_text: str | None = "start",
        *,
        query: str = "",
        within_s: float = 1.0,
    ) -> tuple[int, list[Event], str]:
        """Return status, the first events, and everything that came."""
        headers = [(b"authorization", f"Bearer {caller}".encode())]
        headers += [(b"last-event-id", final_text.encode())] if final_text else []
        scope = {
            "type": "http", "http_version": "1.1", "method": "GET", "path": "/v1/events",
            "raw_path": b"/v1/events", "query_string": query.encode(), "headers": headers,
            "root_path": "", "scheme": "http", "server": ("service", 80),
            "client": ("test", 1), "asgi": {},
        }  # fmt: skip
        text, status, enough = "", 0, asyncio.Event()
        asked = False

        async def receive() -> dict[str, object]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, object]) -> None:
            nonlocal text, status
            if message["type"] == "http.response.start":
                status = int(str(message["status"]))
                self.begun.set()
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            text += body.decode()
            if text.count("data: ") >= count or status != 200:
                enough.set()

        call = asyncio.create_task(self.app(scope, receive, send))  # type: ignore[operator]
        wait = asyncio.create_task(enough.wait())
        await asyncio.wait({call, wait}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        enough.set()
        await call
        wait.cancel()
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        return status, [Event.model_validate_json(line) for line in lines], text


@pytest.fixture
def streams(transport: httpx.ASGITransport) -> Streams:
    return Streams(transport.app)


class TestStream:
    async def test_tells_changes_in_order_without_their_text(
        self, connect: Connect, streams: Streams
    ) -> None:
        ada = connect("ada")
        first, second = (
            await told(ada, "a secret of the team", TEAM),
            await told(ada, "other", TEAM),
        )
        link_result = await ada.link(LinkIn(from_=first, to=second))
        await ada.correct(second, CorrectIn(reason="wrong words"))
        _, events, text = await streams.read("lead", 7)
        messages = [event.type for event in events if event.type.startswith(("fact.", "link."))]
        assert messages == [
            "fact.recorded",
            "fact.recorded",
            "link.made",
            "fact.closed",
        ]
        by_type = {event.type: event for event in events}
        assert by_type["link.made"].facts == (first, second)
        assert link_result.link is not None
        assert by_type["link.made"].links == (link_result.link.id,)
        assert by_type["fact.closed"].facts == (second,)
        assert by_type["fact.closed"].actor == "ada"
        assert "secret" not in text
        assert "wrong words" not in text

    async def test_goes_on_after_the_last_event(self, connect: Connect, streams: Streams) -> None:
        lead = connect("lead")
        first = await told(lead, "one")
        _, events, _ = await streams.read("lead", 5)
        assert events[-1].facts == (first,)
        second = await told(lead, "two")
        _, final_events, _ = await streams.read("lead", 1, events[-1].id)
        assert [event.facts for event in final_events] == [(second,)]
        assert (await streams.read("lead", 1, final_events[-1].id))[1] == []

    async def test_begins_now_unless_told_otherwise(
        self, connect: Connect, streams: Streams
    ) -> None:
        await told(connect("lead"), "before")
        reading = asyncio.create_task(streams.read("lead", 1, None, within_s=20))
        await streams.begun.wait()
        fact = await told(connect("lead"), "after")
        _, events, _ = await reading
        assert [event.facts for event in events] == [(fact,)]

    @pytest.mark.parametrize("now", [None, CALLERS["peer"]], ids=["taken away", "other rights"])
    async def test_ends_when_the_token_is_no_longer_the_callers(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, now: Principal | None
    ) -> None:
        monkeypatch.setattr(event_streams, "_REAUTHENTICATION_S", 0.2)
        callers = NamedCallers(dict(CALLERS))
        streams = Streams(create_app(store, callers))
        reading = asyncio.create_task(streams.read("lead", 1, None, within_s=20))
        await streams.begun.wait()
        callers.principals.pop("lead")
        if now:
            callers.principals["lead"] = now
        started_at = time.monotonic()
        status, events, _ = await reading
        assert (status, events) == (200, [])
        assert time.monotonic() - started_at < 10

    async def test_tells_only_what_the_caller_may_see(
        self, connect: Connect, streams: Streams
    ) -> None:
        team = await told(connect("ada"), "of the team", TEAM)
        own_fact_id = await told(connect("peer"), "of the peer")
        await connect("peer").link(LinkIn(from_=own_fact_id, to=team))
        await told(connect("stranger"), "of a stranger")
        await connect("operator").link(LinkIn(from_=team, to=own_fact_id, type="hidden"))
        await connect("operator").put_run("theirs", run_in(namespace="other", scope=OTHER))
        await connect("operator").put_principal(registration())
        _, events, text = await streams.read("lead", 100)
        assert {event.scope for event in events} <= {LEAD, TEAM, "realm:demo", "platform"}
        assert own_fact_id not in text
        assert "hidden" not in text
        assert {event.type for event in events} == {"fact.recorded"}

    async def test_ids_tell_nothing_and_are_good_for_their_reader_only(
        self, connect: Connect, streams: Streams
    ) -> None:
        await told(connect("ada"), "x", TEAM)
        _, events, _ = await streams.read("lead", 4)
        _, reread_events, _ = await streams.read("lead", 4)
        assert {event.id for event in events}.isdisjoint(event.id for event in reread_events)
        assert len({len(event.id) for event in events + reread_events}) == 1
        for token in (events[0].id[:-2] + "AA", "made-up", "", "MTox", "ü", "9" * 400):
            status, _, message = await streams.read("lead", 1, token or " ")
            assert status == 400, token
            assert json.loads(message)["code"] == "invalid-token"
            assert "was not issued to you" in message
        status, _, _ = await streams.read("peer", 1, events[0].id)
        assert status == 400

    async def test_one_caller_listens_eight_times_at_most(
        self, streams: Streams, connect: Connect
    ) -> None:
        held = [(Streams(streams.app), name) for name in ("lead",) * 8 + ("peer",)]
        readings = [
            asyncio.create_task(item.read(name, 1, None, within_s=20)) for item, name in held
        ]
        async with asyncio.timeout(20):
            for item, _ in held:
                await item.begun.wait()
        status, _, stream_text = await streams.read("lead", 1, None, within_s=20)
        assert (status, json.loads(stream_text)["code"]) == (429, "quota-exceeded")
        await told(connect("ada"), "news for all of them", TEAM)
        assert {status for status, _, _ in await asyncio.gather(*readings)} == {200}
        assert (await streams.read("lead", 1, within_s=20))[0] == 200

    async def test_names_kind_schema_and_topics_of_the_facts(
        self, connect: Connect, streams: Streams
    ) -> None:
        lead = connect("lead")
        block = (await lead.remember(FactIn(content="a", kind="note", schema="block/1"))).fact_id
        entity = (await lead.remember(FactIn(content="b", kind="entity"))).fact_id
        await lead.link(LinkIn(from_=block, to=entity))
        await lead.count_usage(UsageIn(uses=(FactUse(fact=block, kind="consulted"),)))
        query = "topic=fact&topic=link&topic=usage"
        _, events, _ = await streams.read("lead", 4, query=query, within_s=20)
        described = [(event.type, event.kinds, event.schemas, event.topics) for event in events]
        assert described == [
            ("fact.recorded", ("note",), ("block/1",), ("block.created", "fact.recorded.note")),
            ("fact.recorded", ("entity",), (), ("fact.recorded.entity",)),
            (
                "link.made", ("entity", "note"), ("block/1",),
                ("block.linked", "link.made.entity", "link.made.note"),
            ),
            (
                "usage.consulted", ("note",), ("block/1",),
                ("block.consulted", "usage.consulted.note"),
            ),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("query", "types"),
        [
            ("topic=block", ["fact.recorded", "link.made", "fact.closed"]),
            ("topic=block.*", ["fact.recorded", "link.made", "fact.closed"]),
            ("topic=block.created", ["fact.recorded"]),
            ("topic=bloc", []),
            ("topic=fact.recorded.fact", ["fact.recorded"]),
            ("topic=fact.recorded.entity&topic=link", ["fact.recorded", "link.made"]),
        ],
    )
    async def test_follows_topics_by_their_first_parts(
        self, connect: Connect, streams: Streams, query: str, types: list[str]
    ) -> None:
        lead = connect("lead")
        block = (await lead.remember(FactIn(content="a", schema="block/1"))).fact_id
        entity = (await lead.remember(FactIn(content="b", kind="entity"))).fact_id
        await lead.link(LinkIn(from_=block, to=entity))
        await lead.correct(block, CorrectIn(reason="obsolete"))
        await lead.remember(FactIn(content="c", schema="last/1"))
        _, events, _ = await streams.read(
            "lead", len(types) + 1, query=f"{query}&topic=last", within_s=20
        )
        assert [event.type for event in events] == [*types, "fact.recorded"]

    async def test_resumes_a_followed_topic_after_its_last_event(
        self, connect: Connect, streams: Streams
    ) -> None:
        lead = connect("lead")
        await lead.remember(FactIn(content="a", schema="block/1"))
        _, (first,), _ = await streams.read("lead", 1, query="topic=block", within_s=20)
        await told(lead, "no block")
        second = (await lead.remember(FactIn(content="b", schema="block/1"))).fact_id
        _, events, _ = await streams.read("lead", 1, first.id, query="topic=block", within_s=20)
        assert [event.facts for event in events] == [(second,)]

    async def test_refuses_an_asterisk_within_a_topic(self, streams: Streams) -> None:
        status, _, text = await streams.read("lead", 1, query="topic=*.created")
        assert (status, json.loads(text)["code"]) == (422, "invalid-body")
        assert "topic" in text

    async def test_kind_and_schema_of_an_invisible_fact_do_not_show(
        self, connect: Connect, streams: Streams
    ) -> None:
        peer = connect("peer")
        hidden = (await peer.remember(FactIn(content="a", kind="odd", schema="veil/1"))).fact_id
        await peer.correct(hidden, CorrectIn(reason="obsolete"))
        await told(connect("lead"), "visible")
        query = "topic=veil&topic=fact"
        _, events, text = await streams.read("lead", 1, query=query, within_s=20)
        assert [event.kinds for event in events] == [("fact",)]
        assert "veil" not in text
        _, events, _ = await streams.read("keeper", 2, query="topic=veil", within_s=20)
        assert [event.schemas for event in events] == [("veil/1",)] * 2


class TestAudit:
    async def test_lists_changes_and_each_recall_newest_first(self, connect: Connect) -> None:
        lead, keeper = connect("lead"), connect("keeper")
        fact = await told(lead, "java needs rain")
        recalled = await lead.recall(RecallIn(query="java"), idempotency_key="k")
        page = await keeper.audit()
        acts = [(entry.action, entry.actor, entry.facts) for entry in page.entries]
        assert acts[:2] == [
            ("recall", "demo/lead-0", (fact,)),
            ("fact.recorded", "demo/lead-0", (fact,)),
        ]
        assert page.entries[0].receipt == recalled.receipt
        assert "java" not in page.model_dump_json()

    async def test_recall_for_another_names_both(self, connect: Connect) -> None:
        operator = connect("operator")
        await operator.put_principal(registration())
        recall_request = RecallIn(
            query="x", act_as=ActAs(namespace="demo", service_account="lead-0")
        )
        await operator.recall(recall_request, idempotency_key="k")
        acts = (await connect("keeper").audit()).entries
        recalls = [(act.actor, act.on_behalf_of) for act in acts if act.action == "recall"]
        assert recalls == [("operator", "demo/lead-0")]

    async def test_is_for_administrators_and_of_their_scopes_only(self, connect: Connect) -> None:
        await told(connect("lead"), "mine")
        await told(connect("stranger"), "theirs")
        for name in ("lead", "ada", "stranger"):
            detail = await refused(connect(name).audit(), CODE.FORBIDDEN)
            assert detail.endswith("administers no scope, which the audit requires")
        await refused(connect("keeper").audit(scope=OTHER), CODE.SCOPE_FORBIDDEN)
        await refused(connect("ada").audit(scope=LEAD), CODE.FORBIDDEN)
        page = await connect("keeper").audit(limit=500)
        assert {entry.scope for entry in page.entries} <= {"realm:demo", TEAM, LEAD}
        (first_entry,) = [e for e in (await connect("keeper").audit(scope=LEAD)).entries if e.facts]
        assert first_entry.scope == LEAD
        everything = await connect("operator").audit(limit=500)
        assert any(entry.scope and "other" in entry.scope for entry in everything.entries)

    async def test_pages_follow_sealed_cursors(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        lead, keeper = connect("lead"), connect("keeper")
        for n in range(4):
            await told(lead, f"fact {n}")
            await lead.recall(RecallIn(query="fact"), idempotency_key=f"k{n}")
        full_entries = (await keeper.audit(limit=500)).entries
        entries: list[AuditEntry] = []
        cursor = None
        while True:
            page = await keeper.audit(limit=3, cursor=cursor)
            entries += page.entries
            cursor = page.cursor
            if cursor is None:
                break
        assert tuple(entries) == full_entries
        first = (await keeper.audit(limit=1)).cursor
        assert first is not None
        reported_detail = await refused(connect("operator").audit(cursor=first), CODE.INVALID_TOKEN)
        assert reported_detail == (
            "invalid cursor, or one of an older version; omit it to start from the first page"
        )
