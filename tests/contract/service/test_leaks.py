"""One test for each channel through which a tenant could learn of what it may not see.

Each looks through a channel, lets others do everything that they can do out of sight, looks again,
and compares the bytes.
"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from knowledge_client.models import (
    ConfirmIn,
    EpisodeIn,
    EpisodesIn,
    FactIn,
    FactUse,
    LinkIn,
    ReasonIn,
    RecallIn,
    RunIn,
    ScopeConfig,
    UsageIn,
)
from knowledge_service.domain.visibility import View
from knowledge_service.flows import listening
from knowledge_service.ports import Store
from tests.builders_knowledge import LEAD, OTHER, TEAM, run_in
from tests.contract.service.callers import CALLERS, PEER, Connect

WORD = "xylophone"
MISSING = "01900000-0000-7000-8000-000000000000"
Look = tuple[str, str, Any]


class World:
    """What everybody shares, and what is done where the peer does not see it."""

    def __init__(self, connect: Connect, http: httpx.AsyncClient) -> None:
        self._connect = connect
        self._http = http
        self.names: dict[str, str] = {}
        self.hidden: list[str] = []

    async def share(self) -> None:
        """Let the team and the peer know some facts."""
        ada, peer = self._connect("ada"), self._connect("peer")
        for name in ("one", "two", "three"):
            fact = FactIn(content=f"shared {name}", scope=TEAM, tags=("rain",))
            self.names[name] = (await ada.remember(fact)).fact_id
        self.names["own"] = (await peer.remember(FactIn(content="my own shared"))).fact_id
        await peer.link(LinkIn(from_=self.names["own"], to=self.names["one"]))
        await self._connect("operator").put_run("run", run_in(outcome="Succeeded"))
        # A later look must not see what the look before it left.
        key = {"Idempotency-Key": "receipt"}
        asked = await self.ask("POST", "/v1/recall", {"query": "shared"}, **key)
        self.names["receipt"] = asked.json()["receipt"]

    async def hide(self) -> None:
        """Do whatever callers do, in scopes that the peer does not see."""
        lead, operator = self._connect("lead"), self._connect("operator")
        one, two = self.names["one"], self.names["two"]
        for client, own in ((lead, LEAD), (self._connect("stranger"), f"{OTHER}/cell:x")):
            told = [
                (await client.remember(FactIn(content=f"shared {WORD} {n}", tags=(WORD, "rain"))))
                for n in range(4)
            ]
            first, second, third, _ = (each.fact_id for each in told)
            self.hidden += [each.fact_id for each in told]
            await client.link(LinkIn(from_=first, to=second, type=WORD))
            await client.retract(third, ReasonIn(reason=WORD))
            await client.recall(RecallIn(query="shared"), idempotency_key=WORD)
            run_id = f"{WORD}-{own.rpartition(':')[2]}"
            await client.put_run(run_id, session(own))
            await client.add_episodes(episodes(run_id))
            await client.recall(RecallIn(query="shared", run=run_id))
            await client.put_run(run_id, session(own, outcome="Succeeded"))
        own = self.hidden[0]
        await lead.link(LinkIn(from_=own, to=one, type="contradicts"))
        await lead.link(LinkIn(from_=own, to=two, type="derived_from"))
        await lead.count_usage(UsageIn(uses=(FactUse(fact=one, kind="applied", count=7),)))
        await lead.confirm(own, ConfirmIn(session=WORD))
        await operator.link(LinkIn(from_=one, to=own, type=WORD))
        await operator.put_scope(LEAD, ScopeConfig(read_only=True))

    async def ask(
        self, method: str, path: str, body: Any = None, *, caller: str = "peer", **headers: str
    ) -> httpx.Response:
        """Ask as the peer, with `{one}` and the like in paths and bodies filled in."""
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", value)
            body = json.loads(json.dumps(body).replace(f"{{{name}}}", value))
        headers = {"Authorization": f"Bearer {caller}", **headers}
        return await self._http.request(method, path, json=body, headers=headers)

    async def look(self, looks: list[Look]) -> list[tuple[int, str]]:
        """Return status and text of some requests, without the moment of asking."""
        found = [await self.ask(*each) for each in looks]
        moment = r'"known_at":"[^"]*"'
        return [(each.status_code, re.sub(moment, "", each.text)) for each in found]

    def says_nothing(self, text: str) -> bool:
        """Tell whether neither words nor ids of what is hidden are there."""
        return not any(each in text for each in (WORD, LEAD, OTHER, *self.hidden))


def session(scope: str, **given: Any) -> RunIn:
    namespace = "demo" if "demo" in scope else "other"
    return RunIn(
        kind="session", namespace=namespace, scope=scope, blueprint="review", mission=WORD, **given
    )


def episodes(run_id: str) -> EpisodesIn:
    return EpisodesIn(run_id=run_id, episodes=(EpisodeIn(type="message", content=WORD),))


@pytest.fixture
async def world(connect: Connect, http: httpx.AsyncClient) -> World:
    made = World(connect, http)
    await made.share()
    return made


def get(*paths: str) -> list[Look]:
    return [("GET", path, None) for path in paths]


CHANNELS: dict[str, list[Look]] = {
    "counts of scopes": [
        *get("/v1/scopes", "/v1/scopes?limit=2", f"/v1/scopes/{TEAM}", f"/v1/scopes/{PEER}"),
        ("POST", "/v1/stats:batch", {"scopes": [TEAM, PEER, "realm:demo", "platform"]}),
    ],
    "counts of runs": [
        *get("/v1/stats/blueprints/demo/review", "/v1/runs", "/v1/runs?limit=1"),
        *get("/v1/runs?namespace=demo&blueprint=review", "/v1/runs/run/episodes"),
        ("POST", "/v1/stats:batch", {"blueprints": [{"namespace": "demo", "name": "review"}]}),
    ],
    "pages and totals of facts": [
        *get("/v1/facts", "/v1/facts?limit=2", "/v1/facts?limit=4", "/v1/facts?tag=rain"),
        *get(f"/v1/facts?tag={WORD}", "/v1/facts?lifecycle=retracted", "/v1/reviews"),
        *get("/v1/facts?source=explicit_remember&limit=1"),
    ],
    "links": get(
        "/v1/facts/{one}/links", "/v1/facts/{one}/links?limit=1", "/v1/facts/{two}/links",
        f"/v1/facts/{{one}}/links?type={WORD}",
    ),
    "neighbours": get(
        "/v1/facts/{one}/neighbors?depth=5", "/v1/facts/{own}/neighbors?depth=3&limit=1",
        "/v1/facts/{two}/neighbors",
    ),
    "history": get("/v1/facts/{one}/history", "/v1/facts/{two}/history"),
    "provenance": get("/v1/facts/{one}/why", "/v1/facts/{two}/why", "/v1/facts/{own}/why"),
    "what a fact touched": get(
        "/v1/facts/{one}/impact", "/v1/facts/{one}/impact?limit=1", "/v1/facts/{two}/impact"
    ),
    "receipts": get("/v1/receipts/{receipt}"),
    "replay": get("/v1/receipts/{receipt}:replay"),
    "diff": get("/v1/receipts/{receipt}:diff"),
    "why a fact was not recalled": get(
        "/v1/receipts/{receipt}:explain?fact={one}", f"/v1/receipts/{{receipt}}:explain?fact={WORD}"
    ),
    "callers": get("/v1/principals", "/v1/whoami"),
}  # fmt: skip


@pytest.mark.parametrize("channel", CHANNELS)
async def test_channel_says_the_same_whatever_others_did(world: World, channel: str) -> None:
    looks = CHANNELS[channel]
    before = await world.look(looks)
    assert {status for status, _ in before} == {200}
    await world.hide()
    after = await world.look(looks)
    assert after == before
    assert all(world.says_nothing(text) for _, text in after) or WORD in str(looks)


async def test_recall_gives_the_same_facts_scores_and_reasons(world: World) -> None:
    question = {"query": "shared rain", "explain": True, "whyNot": [world.names["three"]]}
    # Ages count from a moment that stands still.
    question["known_at"] = (await world.ask("POST", "/v1/recall", question)).json()["known_at"]
    before = (await world.ask("POST", "/v1/recall", question)).json()
    await world.hide()
    after = (await world.ask("POST", "/v1/recall", question)).json()
    assert before["facts"]
    for each in ("facts", "scopes", "why_not"):
        assert after[each] == before[each]


# Each with an id that is hidden from the peer, and then with one that nobody has.
ABOUT_A_FACT: list[Look] = [
    *get(
        *(
            f"/v1/facts/{{hidden}}{end}"
            for end in ("", "/history", "/links", "/neighbors", "/why", "/impact")
        )
    ),
    *(
        ("POST", f"/v1/facts/{{hidden}}:{verb}", {"reason": "x"})
        for verb in (
            "correct", "confirm", "retract", "restore", "promote", "approve", "reject", "undo",
            "erase",
        )
    ),
    ("POST", "/correct", {"factId": "{hidden}", "reason": "x"}),
    ("POST", "/v1/links", {"from": "{own}", "to": "{hidden}", "type": "related"}),
    ("POST", "/v1/links", {"from": "{hidden}", "to": "{own}", "type": "related"}),
    ("DELETE", "/v1/links?from={own}&to={hidden}", None),
    ("POST", "/v1/usage", {"uses": [{"fact": "{hidden}", "kind": "applied"}]}),
    ("GET", "/v1/receipts/{receipt}:explain?fact={hidden}", None),
]  # fmt: skip
ABOUT_A_RUN: list[Look] = [
    *get("/v1/runs/{run_}", "/v1/runs/{run_}/episodes", "/v1/extractions/{run_}"),
    ("POST", "/v1/episodes", {"run_id": "{run_}", "episodes": [{"type": "error", "content": "x"}]}),
    ("POST", "/v1/extractions", {"run_id": "{run_}"}),
    ("POST", "/v1/recall", {"query": "x", "run": "{run_}"}),
    ("POST", "/v1/facts", {"content": "x", "run": "{run_}"}),
]


class TestErrors:
    @pytest.mark.parametrize("look", ABOUT_A_FACT, ids=lambda look: f"{look[0]} {look[1]}")
    async def test_fact_that_is_hidden_is_refused_as_one_that_is_not_there(
        self, world: World, look: Look
    ) -> None:
        await world.hide()
        world.names["hidden"] = world.hidden[0]
        hidden = await world.ask(*look)
        world.names["hidden"] = MISSING
        missing = await world.ask(*look)
        assert hidden.status_code == missing.status_code
        assert hidden.text.replace(world.hidden[0], MISSING) == missing.text
        assert hidden.headers.keys() == missing.headers.keys()

    @pytest.mark.parametrize("look", ABOUT_A_RUN, ids=lambda look: f"{look[0]} {look[1]}")
    async def test_run_that_is_hidden_is_refused_as_one_that_is_not_there(
        self, world: World, look: Look
    ) -> None:
        await world.hide()
        world.names["run_"] = run_id = f"{WORD}-lead-0"
        hidden = await world.ask(*look)
        world.names["run_"] = "nothing"
        missing = await world.ask(*look)
        assert hidden.status_code == missing.status_code == 404
        assert hidden.text.replace(run_id, "nothing") == missing.text

    async def test_id_of_a_hidden_run_is_taken_in_the_words_of_a_missing_one(
        self, world: World
    ) -> None:
        await world.hide()
        body = {"kind": "session", "namespace": "demo", "scope": PEER}
        taken = await world.ask("PUT", f"/v1/runs/{WORD}-lead-0", body)
        missing = await world.ask("GET", "/v1/runs/nothing")
        assert taken.text.replace(f"{WORD}-lead-0", "nothing") == missing.text

    async def test_scope_is_refused_by_its_name_alone(self, world: World) -> None:
        await world.hide()
        told = []
        for path in (LEAD, f"{TEAM}/cell:nobody"):
            looks: list[Look] = [
                *get(f"/v1/scopes/{path}", f"/v1/facts?scope={path}"),
                ("POST", "/v1/recall", {"query": "x", "scopes": [path]}),
                ("POST", "/v1/facts", {"content": "x", "scope": path}),
                ("POST", "/v1/stats:batch", {"scopes": [path]}),
                ("PUT", f"/v1/scopes/{path}", {}),
                ("DELETE", f"/v1/scopes/{path}", None),
                ("POST", f"/v1/scopes/{path}:adopt", None),
            ]
            answers = [await world.ask(*look) for look in looks]
            assert {answer.status_code for answer in answers} == {403}
            told.append([answer.text.replace(path, "it") for answer in answers])
        assert told[0] == told[1]

    async def test_conflict_is_with_what_is_seen_only(self, world: World) -> None:
        await world.hide()
        # What others retracted, named and keyed in scopes of their own stands in nobody's way.
        alias = {"namespace": "ko", "value": WORD}
        key = {"subject": "build", "predicate": "needs"}
        lead_said = {"content": "Java 17", "aliases": [alias], **key}
        world.names["hidden"] = world.hidden[2]
        assert (await world.ask("POST", "/v1/facts", lead_said, caller="stranger")).is_success
        for body in ({"content": f"shared {WORD} 2"}, {**lead_said, "content": "Java 21"}):
            told = await world.ask("POST", "/v1/facts", body)
            assert told.status_code == 201
            assert told.json()["status"] == "created"
            assert (told.json()["superseded"], told.json()["contradicts"]) == ([], [])

    async def test_promoting_into_a_scope_out_of_sight_tells_nothing_of_it(
        self, world: World
    ) -> None:
        key = {"subject": "build", "predicate": "needs"}
        own = await world.ask("POST", "/v1/facts", {"content": "Java 8", **key}, caller="lead")
        path = f"/v1/facts/{own.json()['fact_id']}:promote"
        ways: list[dict[str, Any]] = [
            {"content": "nothing of it", "scope": TEAM},
            {"content": f"Java {WORD}", "scope": TEAM, **key},
            {"content": "Java 8", "scope": TEAM, "force": True, **key},
        ]
        told = []
        for shared in ways:
            await world.ask("POST", "/v1/facts", shared, caller="ada")
            told.append(await world.ask("POST", path, {"reason": "x"}, caller="mover"))
        assert {answer.status_code for answer in told} == {403}
        assert len({answer.text for answer in told}) == 1
        assert told[0].json()["detail"] == f"scope {TEAM} is outside of what you may reach"

    @pytest.mark.parametrize("verb", ["facts", "recall"])
    async def test_key_that_another_used_is_new_to_everybody_else(
        self, world: World, verb: str
    ) -> None:
        body = {"facts": {"content": WORD}, "recall": {"query": WORD}}[verb]
        mine = {"facts": {"content": "x"}, "recall": {"query": "x"}}[verb]
        key = {"Idempotency-Key": "k"}
        assert (await world.ask("POST", f"/v1/{verb}", body, caller="lead", **key)).is_success
        for given in (mine, body):
            found = await world.ask("POST", f"/v1/{verb}", given, **{"Idempotency-Key": str(given)})
            assert found.is_success
        found = await world.ask("POST", f"/v1/{verb}", mine, **key)
        assert found.is_success
        assert world.says_nothing(found.text)


async def test_erasure_tells_of_what_hangs_on_the_fact_only_what_the_caller_sees(
    world: World,
) -> None:
    await world.hide()
    two = world.names["two"]
    told = await world.ask("POST", f"/v1/facts/{two}:erase", {"reason": "x"}, caller="eraser")
    assert world.says_nothing(told.text)
    assert told.json()["facts"] == [two]
    assert (told.json()["derived"], told.json()["links"], told.json()["events"]) == ([], None, None)


async def test_erasure_by_who_sees_everything_counts_and_names_it_all(world: World) -> None:
    await world.hide()
    two = world.names["two"]
    told = await world.ask("POST", f"/v1/facts/{two}:erase", {"reason": "x"}, caller="keeper")
    assert told.json()["derived"] == [world.hidden[0]]
    assert told.json()["links"] == 1
    assert told.json()["events"] >= 2


async def test_receipt_of_another_shows_what_its_reader_sees_of_it(world: World) -> None:
    own = await world.ask("POST", "/v1/facts", {"content": "shared of lead"}, caller="lead")
    key = {"Idempotency-Key": "k"}
    asked = await world.ask("POST", "/v1/recall", {"query": "shared"}, caller="lead", **key)
    assert len(asked.json()["facts"]) == 4
    path = f"/v1/receipts/{asked.json()['receipt']}"
    for end in ("", ":replay", ":diff"):
        found = await world.ask("GET", path + end, caller="watcher")
        assert found.json()["facts"] == [own.json()["fact_id"]]
        assert len(found.json()["scores"]) == 1
        for name in ("one", "two", "three"):
            assert world.names[name] not in found.text
        assert TEAM not in found.text.replace(LEAD, "")
        assert "3 of its facts" not in found.text


class TestCursors:
    @pytest.mark.parametrize(
        "path",
        ["/v1/facts?limit=2", "/v1/facts/{one}/links?limit=1", "/v1/runs?limit=1", "/v1/scopes"],
    )
    async def test_what_is_hidden_moves_no_page(self, world: World, path: str) -> None:
        async def pages() -> list[str]:
            found, cursor = [], ""
            while True:
                mark = "&" if "?" in path else "?"
                answer = await world.ask("GET", path + (f"{mark}cursor={cursor}" if cursor else ""))
                found.append(answer.text)
                cursor = answer.json().get("cursor")
                if not cursor:
                    return found

        before = await pages()
        await world.hide()
        assert await pages() == before

    async def test_length_of_a_place_in_the_log_tells_not_how_long_that_is(
        self, world: World, store: Store
    ) -> None:
        listener = listening.Listener(store, CALLERS["peer"], "start")
        (first, *_) = listener.next()
        for n in range(120):
            await world.ask("POST", "/v1/facts", {"content": f"{WORD} {n}"}, caller="lead")
        await world.ask("POST", "/v1/facts", {"content": "last"})
        listener = listening.Listener(store, CALLERS["peer"], "start")
        events = listener.next(500)
        while more := listener.next(500):
            events = more
        assert len(events[-1].id) == len(first.id)


async def test_stream_of_events_brings_nothing_of_others(world: World, store: Store) -> None:
    listener = listening.Listener(store, CALLERS["peer"], None)
    await world.hide()
    assert listener.next(500) == ()
    assert store.changes(0, View(PEER), limit=500).found
    everything = [*listening.Listener(store, CALLERS["peer"], "start").next(500)]
    assert world.says_nothing(str(everything))


async def test_stream_from_the_start_tells_not_who_came_first(
    connect: Connect, http: httpx.AsyncClient, store: Store
) -> None:
    # The first write of anybody makes `platform`, and the first of a realm makes that.
    await connect("stranger").remember(FactIn(content=WORD))
    await connect("lead").remember(FactIn(content=WORD))
    for caller in ("peer", "team", "watcher"):
        events = listening.Listener(store, CALLERS[caller], "start").next(500)
        assert {event.actor for event in events} <= {"demo/lead-0"}, caller
        assert all(event.type == "fact.recorded" for event in events), caller
    told = await World(connect, http).ask("GET", f"/v1/audit?scope={LEAD}", caller="auditor")
    assert [entry["action"] for entry in told.json()["entries"]] == ["fact.recorded"]


class TestAudit:
    async def test_has_no_entry_of_others(self, world: World) -> None:
        before = await world.ask("GET", "/v1/audit?limit=500", caller="keeper")
        await world.ask("POST", "/v1/facts", {"content": WORD}, caller="stranger")
        await world.ask("POST", "/v1/recall", {"query": WORD}, caller="stranger")
        after = await world.ask("GET", "/v1/audit?limit=500", caller="keeper")
        assert after.json() == before.json()

    async def test_names_of_what_a_recall_gave_what_its_reader_sees(self, world: World) -> None:
        own = await world.ask("POST", "/v1/facts", {"content": "shared of lead"}, caller="lead")
        key = {"Idempotency-Key": "k"}
        asked = await world.ask("POST", "/v1/recall", {"query": "shared"}, caller="lead", **key)
        assert len(asked.json()["facts"]) == 4
        told = {}
        for caller in ("auditor", "keeper"):
            page = (await world.ask("GET", f"/v1/audit?scope={LEAD}", caller=caller)).json()
            (told[caller],) = [e["facts"] for e in page["entries"] if e["action"] == "recall"]
        assert told["auditor"] == [own.json()["fact_id"]]
        assert sorted(told["keeper"]) == sorted(fact["id"] for fact in asked.json()["facts"])

    async def test_place_to_go_on_from_is_as_long_whatever_others_asked(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        world = World(connect, http)
        for name in ("one", "two"):
            await world.ask("POST", "/v1/facts", {"content": name, "scope": TEAM}, caller="ada")
        before = (await world.ask("GET", "/v1/audit?limit=1", caller="keeper")).json()
        key = {"Idempotency-Key": "k"}
        await world.ask("POST", "/v1/recall", {"query": WORD}, caller="stranger", **key)
        after = (await world.ask("GET", "/v1/audit?limit=1", caller="keeper")).json()
        assert after["entries"] == before["entries"]
        assert len(after["cursor"]) == len(before["cursor"])

    async def test_goes_on_only_where_there_is_more_to_see(
        self, connect: Connect, http: httpx.AsyncClient
    ) -> None:
        world = World(connect, http)
        await world.ask("POST", "/v1/facts", {"content": WORD}, caller="stranger")
        key = {"Idempotency-Key": "k"}
        await world.ask("POST", "/v1/recall", {"query": WORD}, caller="stranger", **key)
        await world.share()
        whole = await world.ask("GET", "/v1/audit?limit=500", caller="keeper")
        limit = len(whole.json()["entries"])
        page = await world.ask("GET", f"/v1/audit?limit={limit}", caller="keeper")
        assert len(page.json()["entries"]) == limit
        assert page.json()["cursor"] is None


async def test_metrics_name_nobody_and_nothing(world: World) -> None:
    await world.hide()
    for path in (f"/v1/facts/{world.hidden[0]}", f"/{WORD}", f"/v1/scopes/{LEAD}"):
        await world.ask("GET", path)
    text = (await world.ask("GET", "/metrics")).text
    assert "kais_knowledge_requests_total" in text
    assert world.says_nothing(text)
    assert not any(name in text for name in ("demo", "lead", "peer", "stranger", "realm", "review"))
    labels = set(re.findall(r'(\w+)="', text))
    assert labels <= {"route", "method", "status", "state", "le"}
