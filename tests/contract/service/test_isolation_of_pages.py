"""What is read in order tells nothing of what is out of sight: pages, the stream and the audit."""

from __future__ import annotations

import httpx
import pytest

from knowledge_client.models import (
    FactIn,
)
from knowledge_service.domain.access_control import View
from knowledge_service.ports import Store
from knowledge_service.use_cases import event_stream
from tests.contract.service.callers import CALLERS, PEER, Connect
from tests.contract.service.invisible_data import WORD, World
from tests.knowledge_builders import LEAD, TEAM


class TestCursors:
    @pytest.mark.parametrize(
        "path",
        ["/v1/facts?limit=2", "/v1/facts/{one}/links?limit=1", "/v1/runs?limit=1", "/v1/scopes"],
    )
    async def test_what_is_hidden_moves_no_page(self, world: World, path: str) -> None:
        async def pages() -> list[str]:
            results, cursor = [], ""
            while True:
                mark = "&" if "?" in path else "?"
                answer = await world.ask("GET", path + (f"{mark}cursor={cursor}" if cursor else ""))
                results.append(answer.text)
                cursor = answer.json().get("cursor")
                if not cursor:
                    return results

        initial_pages = await pages()
        await world.hide()
        assert await pages() == initial_pages

    async def test_length_of_a_place_in_the_log_tells_not_how_long_that_is(
        self, world: World, store: Store
    ) -> None:
        listener = event_stream.EventReader(store, CALLERS["peer"], "start")
        (first, *_) = listener.read()
        for n in range(120):
            await world.ask("POST", "/v1/facts", {"content": f"{WORD} {n}"}, caller="lead")
        await world.ask("POST", "/v1/facts", {"content": "last"})
        listener = event_stream.EventReader(store, CALLERS["peer"], "start")
        events = listener.read(500)
        while extra_events := listener.read(500):
            events = extra_events
        assert len(events[-1].id) == len(first.id)


async def test_stream_of_events_brings_nothing_of_others(world: World, store: Store) -> None:
    listener = event_stream.EventReader(store, CALLERS["peer"], None)
    await world.hide()
    assert listener.read(500) == ()
    assert store.changes(0, View(PEER), limit=500).changes
    everything = [*event_stream.EventReader(store, CALLERS["peer"], "start").read(500)]
    assert world.says_nothing(str(everything))


async def test_stream_from_the_start_tells_not_who_came_first(
    connect: Connect, http: httpx.AsyncClient, store: Store
) -> None:
    # The first write of anybody makes `platform`, and the first of a realm makes that.
    await connect("stranger").remember(FactIn(content=WORD))
    await connect("lead").remember(FactIn(content=WORD))
    for caller in ("peer", "team", "watcher"):
        events = event_stream.EventReader(store, CALLERS[caller], "start").read(500)
        assert {event.actor for event in events} <= {"demo/lead-0"}, caller
        assert all(event.type == "fact.recorded" for event in events), caller
    response = await World(connect, http).ask("GET", f"/v1/audit?scope={LEAD}", caller="auditor")
    assert [entry["action"] for entry in response.json()["entries"]] == ["fact.recorded"]


class TestAudit:
    async def test_has_no_entry_of_others(self, world: World) -> None:
        initial_response = await world.ask("GET", "/v1/audit?limit=500", caller="keeper")
        await world.ask("POST", "/v1/facts", {"content": WORD}, caller="stranger")
        await world.ask("POST", "/v1/recall", {"query": WORD}, caller="stranger")
        final_response = await world.ask("GET", "/v1/audit?limit=500", caller="keeper")
        assert final_response.json() == initial_response.json()

    async def test_names_of_what_a_recall_gave_what_its_reader_sees(self, world: World) -> None:
        own_response = await world.ask(
            "POST", "/v1/facts", {"content": "shared of lead"}, caller="lead"
        )
        key = {"Idempotency-Key": "k"}
        response = await world.ask("POST", "/v1/recall", {"query": "shared"}, caller="lead", **key)
        assert len(response.json()["facts"]) == 4
        fields = {}
        for caller in ("auditor", "keeper"):
            page = (await world.ask("GET", f"/v1/audit?scope={LEAD}", caller=caller)).json()
            (fields[caller],) = [e["facts"] for e in page["entries"] if e["action"] == "recall"]
        assert fields["auditor"] == [own_response.json()["fact_id"]]
        assert sorted(fields["keeper"]) == sorted(fact["id"] for fact in response.json()["facts"])

    async def test_place_to_go_on_from_is_as_long_whatever_others_asked(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        world = World(connect, http)
        for name in ("one", "two"):
            await world.ask("POST", "/v1/facts", {"content": name, "scope": TEAM}, caller="ada")
        initial_body = (await world.ask("GET", "/v1/audit?limit=1", caller="keeper")).json()
        key = {"Idempotency-Key": "k"}
        await world.ask("POST", "/v1/recall", {"query": WORD}, caller="stranger", **key)
        final_body = (await world.ask("GET", "/v1/audit?limit=1", caller="keeper")).json()
        assert final_body["entries"] == initial_body["entries"]
        assert len(final_body["cursor"]) == len(initial_body["cursor"])

    async def test_goes_on_only_where_there_is_more_to_see(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        world = World(connect, http)
        await world.ask("POST", "/v1/facts", {"content": WORD}, caller="stranger")
        key = {"Idempotency-Key": "k"}
        await world.ask("POST", "/v1/recall", {"query": WORD}, caller="stranger", **key)
        await world.share()
        full_response = await world.ask("GET", "/v1/audit?limit=500", caller="keeper")
        limit = len(full_response.json()["entries"])
        page = await world.ask("GET", f"/v1/audit?limit={limit}", caller="keeper")
        assert len(page.json()["entries"]) == limit
        assert page.json()["cursor"] is None
