"""The stream and the audit read the log by scope: what others do costs their callers nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from knowledge_client.models import Receipt
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.ports import AuditCursor, NewReceipt
from knowledge_service.store.sqlite.repositories import base
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.test_shared_fact_cost import Steps
from tests.knowledge_builders import LEAD, OPERATOR, TEAM, new_fact

OWN_SCOPE_RANGES = (ScopeRange(TEAM, subtree=True),)
READS: dict[str, Callable[[SqliteStore], object]] = {
    "bounds": lambda store: bool(store.bounds()),
    "stream": lambda store: store.changes(0, View(LEAD), limit=50).changes,
    "audit": lambda store: store.audit(OWN_SCOPE_RANGES, None, limit=50),
    "audit of a scope": lambda store: store.audit(
        (ScopeRange(LEAD, subtree=False),), None, limit=5
    ),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "knowledge.db")
    try:
        yield store
    finally:
        store.close()


def work(store: SqliteStore, scope: str, count: int) -> None:
    """Remember and recall in one scope; receipts are written with the next fact."""
    for number in range(count):
        bound = store.bounds()[1]
        (remembered,) = store.remember(
            [new_fact(f"{scope} fact {number}", scope=scope)], actor=OPERATOR
        )
        receipt = Receipt(
            id=f"receipt-{bound:06}", principal="demo/x", scopes=(scope,), query_hash="0",
            known_at="2026-03-01T12:00:00Z", ranker="r", analyser="a", facts=(remembered.fact_id,),
            scores=(1.0,), run=None,
        )  # fmt: skip
        store.record_recall_later(NewReceipt(receipt, scope))
    store.remember([new_fact(f"{scope} ends", scope=scope)], actor=OPERATOR)


@pytest.mark.parametrize("name", READS)
def test_log_is_read_in_as_many_steps_however_much_others_did(
    store: SqliteStore, name: str
) -> None:
    def measure() -> tuple[int, object]:
        READS[name](store)  # statements are prepared by the first use of each reader
        with Steps(store) as counted:
            answer = READS[name](store)
        return counted.count, answer

    work(store, LEAD, 8)
    work(store, "realm:other/cell:c", 2)
    initial_measure = measure()
    assert initial_measure[0] > 0
    work(store, "realm:other/cell:c", 100)
    work(store, "realm:third/cell:c", 100)
    assert measure() == initial_measure


def test_events_of_several_scopes_come_in_the_order_of_the_log(store: SqliteStore) -> None:
    view = View(LEAD, (ScopeRange("realm:demo", subtree=True),))
    for number in range(240):
        scope = (LEAD, TEAM, "realm:demo", "realm:other/cell:c")[number % 7 % 4]
        store.remember([new_fact(f"fact {number}", scope=scope)], actor=OPERATOR)
    full_positions = [
        change_record.position for change_record in store.changes(0, view, limit=1000).changes
    ]
    assert len(full_positions) > 150
    assert full_positions == sorted(full_positions)
    paged, position = list[int](), 0
    while True:
        page = store.changes(position, view, limit=7)
        if not page.changes:
            break
        paged += [change_record.position for change_record in page.changes]
        position = page.position
    assert paged == full_positions
    assert position == store.bounds()[1]


def test_stream_of_many_scopes_finds_the_same_by_scope_as_by_the_log(store: SqliteStore) -> None:
    reaches = tuple(ScopeRange(f"realm:g{n}", subtree=False) for n in range(base.MANY_SCOPES + 1))
    view = View(LEAD, reaches)
    facts = [new_fact("a fact", scope=reach.scope) for reach in reaches]
    store.remember(facts, actor=OPERATOR)
    work(store, "realm:other/cell:c", 3)
    last = store.bounds()[1]
    assert last > len(reaches) + 10
    by_scope = store.changes(0, view, limit=10_000)
    by_log = [store.changes(position, view, limit=10_000) for position in (last - 500, last - 20)]
    for change_page in by_log:
        start = last - 500 if change_page is by_log[0] else last - 20
        assert change_page.changes == tuple(
            change_record for change_record in by_scope.changes if change_record.position > start
        )
        assert change_page.position == by_scope.position == last


def test_pages_of_the_audit_merge_changes_and_recalls_of_several_scopes(
    store: SqliteStore,
) -> None:
    reaches = (ScopeRange("realm:demo", subtree=True),)
    for scope in (LEAD, TEAM, "realm:other/cell:c", LEAD):
        work(store, scope, 60)
    full_audit_records = store.audit(reaches, None, limit=10_000)
    assert full_audit_records.next is None
    assert {entry.scope for entry in full_audit_records.entries} == {LEAD, TEAM, "realm:demo"}
    assert [entry.at for entry in full_audit_records.entries] == sorted(
        (entry.at for entry in full_audit_records.entries), reverse=True
    )
    assert sum(entry.action == "recall" for entry in full_audit_records.entries) == 180
    paged: list[object] = []
    audit_cursor: AuditCursor | None = None
    while True:
        page = store.audit(reaches, audit_cursor, limit=11)
        paged += page.entries
        audit_cursor = page.next
        if audit_cursor is None:
            break
    assert paged == list(full_audit_records.entries)


def test_reads_by_scope_use_the_indexes(store: SqliteStore, tmp_path: Path) -> None:
    work(store, LEAD, 2)
    db = apsw.Connection(str(tmp_path / "knowledge.db"))
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    assert {"event_scope", "receipt_observer"} <= names
    db.close()
