"""Retention chooses by readers; the writer archives little at a time, and checks again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_client.models import ApproveIn, Retention, ScopeConfig
from knowledge_service.domain.retention import Choice
from knowledge_service.event_log import event_payloads
from knowledge_service.ports import Listing
from knowledge_service.store.sqlite.repositories import retention as repositories_retention
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.test_query_plans import plan
from tests.fact_actions import WHY, live, shown, told
from tests.knowledge_builders import ALL, LEAD, OTHER, PERSON, TEAM, new_fact

ARCHIVED = """SELECT p.salt, p.bytes FROM event JOIN payload p USING(seq)
  WHERE type = 'fact.archived' ORDER BY seq"""

BREAK = "UPDATE scope SET config = json_set(config, '$.retention.ttl_days', -1) WHERE path = ?"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened_store = SqliteStore(path)
    yield opened_store
    opened_store.close()


def bound(store: SqliteStore, max_facts: int, scope: str = TEAM) -> None:
    config = ScopeConfig(retention=Retention(max_facts=max_facts))
    store.put_scope(scope, config, actor=PERSON)


def archive(store: SqliteStore, *fact_ids: str, version: int = 1) -> int:
    """Archive what was chosen some time ago, as the writer does."""
    chosen = [Choice(fact_id, version, "was the least useful") for fact_id in fact_ids]
    with store._readers.snapshot() as reading:
        ((scope_no,),) = reading.execute("SELECT scope_no FROM scope WHERE path = ?", (TEAM,))
    return store._writer.submit(
        lambda tx: repositories_retention.archive(tx, int(scope_no), chosen)
    )


def test_writer_archives_a_bounded_number_in_one_commit(store: SqliteStore, path: Path) -> None:
    store.remember([new_fact(f"rain {n}") for n in range(350)], actor=PERSON)
    bound(store, 30)
    assert store.retain() == 320
    reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows: Any = reading.execute(ARCHIVED).fetchall()
    reading.close()
    assert [len(event_payloads.decode(event_payloads.StoredPayload(*row))) for row in rows] == [
        100,
        100,
        100,
        20,
    ]


def test_writes_get_in_while_a_scope_is_looked_through(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories_retention, "_PAGE", 10)
    store.remember([new_fact(f"rain {n}") for n in range(35)], actor=PERSON)
    bound(store, 30)
    page, pages = store._retention._page, []

    def noted(scope_no: int, last: str) -> list[tuple[Any, ...]]:
        told(store, f"written beside page {len(pages)}", scope=OTHER)
        pages.append(page(scope_no, last))
        return pages[-1]

    monkeypatch.setattr(store._retention, "_page", noted)
    assert store.retain() == 5
    assert [len(each) for each in pages] == [10, 10, 10, 5, 0]
    assert len(store.list_facts(Listing(ALL, 50, scopes=(OTHER,)))) == 5


def test_fact_that_was_approved_since_it_was_chosen_stays(store: SqliteStore) -> None:
    fact_id, _ = told(store, "rain", confidence=0.1), told(store, "sun")
    bound(store, 1)
    store.approve(fact_id, WHY, ApproveIn(reason="r"))
    assert archive(store, fact_id) == archive(store, fact_id, version=2) == 0
    assert live(store) == ["rain", "sun"]


def test_fact_that_was_confirmed_since_it_was_chosen_is_looked_at_again(
    store: SqliteStore,
) -> None:
    fact_id, _ = told(store, "rain", confidence=0.1), told(store, "sun")
    bound(store, 1)
    told(store, "rain", confidence=0.9)
    assert archive(store, fact_id) == 0


def test_fact_that_an_open_run_was_given_since_it_was_chosen_stays(store: SqliteStore) -> None:
    fact_id, _ = told(store, "rain", confidence=0.1), told(store, "sun")
    bound(store, 1)
    shown(store, fact_id, run="open", outcome=None)
    assert archive(store, fact_id) == 0


def test_copy_that_was_promoted_since_it_was_chosen_stays(store: SqliteStore) -> None:
    origin = told(store, "rain", scope=LEAD)
    copy, _ = store.promote(origin, WHY).copy_id, told(store, "sun")
    bound(store, 1)
    assert archive(store, copy) == 0


def test_no_more_are_archived_than_are_too_many_when_it_is_committed(store: SqliteStore) -> None:
    fact_ids = [told(store, f"rain {n}") for n in range(4)]
    bound(store, 2)
    store.retract(fact_ids[3], WHY)
    assert archive(store, *fact_ids[:2]) == 1
    bound(store, 9)
    assert archive(store, *fact_ids[1:3]) == 0


def test_large_scope_rests_after_a_pass_over_it(store: SqliteStore) -> None:
    now_s = [0.0]

    def clock() -> float:
        now_s[0] += 1.0
        return now_s[0]

    retention = repositories_retention.Retention(store._readers, store._writer, clock)
    store.remember([new_fact(f"rain {n}") for n in range(5)], actor=PERSON)
    bound(store, 4)
    assert retention.retain() == 1
    bound(store, 3)
    assert retention.retain() == 0, "the pass took 1 s: it rests for 10"
    now_s[0] += 10
    assert retention.retain() == 1


def test_scope_that_keeps_its_facts_for_ever_leaves_retention_to_the_others(
    store: SqliteStore,
) -> None:
    forever = Retention(max_facts=1, ttl_days=9_999_999)
    store.put_scope(TEAM, ScopeConfig(retention=forever), actor=PERSON)
    bound(store, 1, OTHER)
    new_facts = [new_fact(f"rain {n}", scope=scope) for scope in (TEAM, OTHER) for n in range(3)]
    store.remember(new_facts, actor=PERSON)
    assert store.retain() == 4


def test_scope_in_which_retention_fails_is_named_and_stops_no_other(
    store: SqliteStore, path: Path
) -> None:
    new_facts = [new_fact(f"rain {n}", scope=scope) for scope in (TEAM, OTHER) for n in range(3)]
    store.remember(new_facts, actor=PERSON)
    for scope in (TEAM, OTHER):
        bound(store, 1, scope)
    database = apsw.Connection(str(path))
    database.execute(BREAK, (TEAM,))
    database.close()
    with pytest.raises(ExceptionGroup, match=f"scopes: {TEAM}$"):
        store.retain()
    scopes = [fact.scope for fact in store.list_facts(Listing(ALL, 9, lifecycle="live"))]
    assert (scopes.count(TEAM), scopes.count(OTHER)) == (3, 1)


@pytest.mark.parametrize("sql", [repositories_retention._FACTS, repositories_retention._MAY_GO])
def test_retention_looks_through_no_whole_table(tmp_path: Path, sql: str) -> None:
    steps = plan(tmp_path / "knowledge.db", sql).splitlines()
    assert [step for step in steps if step.startswith("SCAN") and "VIRTUAL" not in step] == []
    assert not any("SEARCH f USING" in step and "(scope_no=?)" in step for step in steps)
