"""Facts of several callers in one commit: fewer statements, the same events, tables and answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_client.models import Remembered
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.errors import Conflict, PreviouslyRetracted
from knowledge_service.ports import ActionContext, Actor, Search
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.repositories import (
    base,
    fact_batch_writes,
    stored_text_erasure,
)
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import AGENT, LEAD, PERSON, TEAM, new_fact
from tests.writer_gate import held_writer, wait_for_queue

remembered = Remembered | BaseException


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with contextlib.closing(SqliteStore(path)) as closing:
        yield closing


async def tell(store: SqliteStore, *facts: tuple[NewFact, Actor]) -> list[remembered]:
    """Tell facts at once, each in a call of its own; all are queued before the first commit."""
    calls = [store.remembered([fact], actor=actor) for fact, actor in facts]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return [answer if isinstance(answer, BaseException) else answer[0] for answer in answers]


def statuses(remembered_items: list[remembered]) -> list[str]:
    return [
        item.status if isinstance(item, Remembered) else type(item).__name__
        for item in remembered_items
    ]


async def test_each_call_is_an_event_of_its_own_by_its_own_caller(
    store: SqliteStore, path: Path
) -> None:
    facts = [(new_fact(f"number {n}"), (AGENT, PERSON)[n % 2]) for n in range(80)]
    assert set(statuses(await tell(store, *facts))) == {"created"}
    db = apsw.Connection(str(path))
    actors = [row[0] for row in db.execute("SELECT actor FROM event WHERE type = 'fact.recorded'")]
    assert sorted(actors) == [PERSON.name] * 40 + [AGENT.name] * 40
    shared = "SELECT seq FROM fact_event GROUP BY seq HAVING count(*) > 1"
    assert db.execute(shared).fetchall() == []
    db.close()


async def test_equals_that_come_at_once_are_one_fact_and_its_confirmations(
    store: SqliteStore,
) -> None:
    facts = [(new_fact(("rain", "sun")[n % 2]), PERSON) for n in range(12)]
    remembered_items = await tell(store, *facts)
    assert statuses(remembered_items) == ["created", "created"] + ["confirmed"] * 10
    assert len({item.fact_id for item in remembered_items if isinstance(item, Remembered)}) == 2


async def test_one_that_is_refused_takes_nobody_with_it(store: SqliteStore) -> None:
    (old,) = store.remember([new_fact("rain")], actor=PERSON)
    store.retract(old.fact_id, ActionContext(PERSON, "it is dry"))
    texts = ("sun", "rain", "wind", "rain", "fog")
    report = await tell(store, *((new_fact(term), PERSON) for term in texts))
    refused = PreviouslyRetracted.__name__
    assert statuses(report) == ["created", refused, "created", refused, "created"]


@pytest.mark.parametrize("location", [0, 1, 3])
async def test_write_that_fails_halfway_is_taken_back_alone(
    store: SqliteStore, path: Path, location: int
) -> None:
    def failing(tx: Transaction) -> None:
        base.ensure_scope(tx, "realm:trace", "x")
        raise Conflict("not so")

    calls: list[Coroutine[Any, Any, Any]] = [
        store.remembered([new_fact(f"rain {n}")], actor=PERSON) for n in range(3)
    ]
    calls.insert(location, store._writer.submit_async(failing))
    with held_writer(store):  # the calls wait for one commit
        answers = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.to_thread(wait_for_queue, store, len(calls))
    messages = await answers
    assert isinstance(messages.pop(location), Conflict)
    ids = [item[0].fact_id for item in messages if not isinstance(item, BaseException)]
    assert [store.fact(item, View(LEAD)) is not None for item in ids] == [True] * 3
    store.close()
    db = apsw.Connection(str(path))
    assert db.execute("SELECT 1 FROM scope WHERE path = 'realm:trace'").fetchall() == []
    db.close()
    assert offline_rebuild.verify(path).problems == ()


async def test_new_scopes_are_made_by_who_told_first_in_them(
    store: SqliteStore, path: Path
) -> None:
    await tell(store, (new_fact("rain", TEAM), PERSON), (new_fact("sun", LEAD), AGENT))
    db = apsw.Connection(str(path))
    created = db.execute(
        "SELECT s.path, e.actor FROM event e JOIN scope s USING(scope_no) "
        "WHERE type = 'scope.created' ORDER BY seq"
    ).fetchall()
    assert created[-2:] == [(TEAM, PERSON.name), (LEAD, AGENT.name)]
    db.close()


async def test_one_of_them_is_undone_alone(store: SqliteStore) -> None:
    remembered_items = await tell(store, *((new_fact(f"rain {n}", LEAD), PERSON) for n in range(5)))
    ids = [item.fact_id for item in remembered_items if isinstance(item, Remembered)]
    store.undo(ids[2], ActionContext(PERSON, "not so"))
    states = {item: fact.lifecycle for item in ids if (fact := store.fact(item, View(LEAD)))}
    assert [item for item in ids if states[item] != "live"] == [ids[2]]


async def test_rebuild_makes_them_again_to_the_byte(path: Path) -> None:
    store = SqliteStore(path)
    messages = [f"rain {n % 50} {n}" if n % 7 else "rain" for n in range(150)]
    scopes = (TEAM, LEAD, "realm:other")
    facts = [new_fact(w, scopes[n % 3], tags=("Wet",) * (n % 2)) for n, w in enumerate(messages)]
    await tell(store, *((fact, PERSON) for fact in facts))
    store.close()
    db = apsw.Connection(str(path))
    initial_fingerprint = projection_rebuild.fingerprint(db)
    assert offline_rebuild.rebuild(path).changed == ()
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    assert offline_rebuild.verify(path).problems == ()
    db.close()


async def test_call_that_says_a_thing_twice_among_others_tells_one_fact(
    store: SqliteStore, path: Path
) -> None:
    calls = [["rain"], ["snow", "snow"], ["hail", "wind", "hail"], ["sun"]]
    answers = await asyncio.gather(
        *(store.remembered([new_fact(c) for c in call], actor=PERSON) for call in calls)
    )
    assert [[item.status for item in answer] for answer in answers] == [
        ["created"],
        ["created", "confirmed"],
        ["created", "created", "confirmed"],
        ["created"],
    ]
    assert answers[1][0].fact_id == answers[1][1].fact_id
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def recalled(store: SqliteStore, query: str) -> list[str]:
    return [hit.fact.content for hit in store.search(Search(View(LEAD), query, 10)).hits]


async def test_fact_that_gets_the_number_of_one_erased_in_its_commit_is_recalled(
    store: SqliteStore, path: Path
) -> None:
    store.remember([new_fact("rain on Monday")], actor=PERSON)
    (erased,) = store.remember([new_fact("xylophone secret")], actor=PERSON)
    with held_writer(store):  # both writes wait for one commit
        erasing = asyncio.create_task(
            asyncio.to_thread(store.erase, erased.fact_id, ActionContext(PERSON, "private"))
        )
        await asyncio.to_thread(wait_for_queue, store, 1)
        telling = asyncio.create_task(store.remembered([new_fact("hail on Friday")], actor=PERSON))
        await asyncio.to_thread(wait_for_queue, store, 2)
    await asyncio.gather(erasing, telling)
    assert recalled(store, "hail") == ["hail on Friday"]
    assert recalled(store, "xylophone") == []
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


@pytest.mark.parametrize("others", [0, 70])
async def test_fact_that_is_erased_in_the_commit_that_stored_it_leaves_a_tombstone(
    store: SqliteStore, path: Path, others: int
) -> None:
    store.remember([new_fact(f"rain {n}") for n in range(others + 1)], actor=PERSON)
    context = ActionContext(PERSON, "private")

    def tell_and_erase(word: str) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            (told,) = fact_batch_writes.remember_all(tx, [new_fact(word)], PERSON)
            stored_text_erasure.erase(tx, [told.fact_id], actor=PERSON.name, reason=context.reason)

        return work

    with held_writer(store):
        writes = [
            asyncio.create_task(store._writer.submit_async(tell_and_erase("xylophone"))),
            asyncio.create_task(store._writer.submit_async(tell_and_erase("xylophone"))),
            asyncio.create_task(store.remembered([new_fact("xylophone")], actor=PERSON)),
        ]
        await asyncio.sleep(0)
        await asyncio.to_thread(wait_for_queue, store, len(writes))
    await asyncio.gather(*writes)
    assert recalled(store, "xylophone") == ["xylophone"]
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()
