"""Receipts of one commit are written together, and say what they say when each is written alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_service.errors import StoreUnavailable
from knowledge_service.ports import NewReceipt
from knowledge_service.store.sqlite.db import deferred_writes
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.test_recall import receipt
from tests.knowledge_builders import PERSON, TEAM, new_fact
from tests.writer_gate import held_writer

TABLES = {
    "receipts": "SELECT id, principal, observer_no, run_id, query_hash, body FROM receipt",
    "what was shown": "SELECT fact_no, receipt, principal, observer_no, run_id FROM served",
    "uses of facts": "SELECT fact_no, observer_no, kind, count FROM usage",
    "uses of scopes": "SELECT scope_no, observer_no, kind, count FROM scope_usage",
}


def filled(path: Path) -> tuple[SqliteStore, list[NewReceipt]]:
    """Open a store with facts of two scopes, and make receipts that share some of them."""
    store = SqliteStore(path)
    remembered_items = [
        store.remember([new_fact(f"rain {n}", TEAM)], actor=PERSON) for n in range(3)
    ]
    remembered_items.append(store.remember([new_fact("sun")], actor=PERSON))
    ids = [items[0].fact_id for items in remembered_items]
    served_ids = (ids, ids[:2], [ids[3], "gone"], [], ids[1:])
    receipts = [receipt(f"r{n}", *facts)[0] for n, facts in enumerate(served_ids)]
    return store, receipts


def rows(path: Path, sql: str) -> list[Any]:
    reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    results = sorted(reading.execute(sql).fetchall(), key=repr)
    reading.close()
    return results


@pytest.mark.parametrize("sql", TABLES.values(), ids=TABLES.keys())
def test_receipts_of_one_commit_count_as_each_alone(tmp_path: Path, sql: str) -> None:
    alone, combined_path = tmp_path / "alone.db", tmp_path / "together.db"
    store, receipts = filled(alone)
    for item in receipts:
        store.record_recall(item, receipt("x")[1], None)
    store.close()
    store, made_too = filled(combined_path)
    with held_writer(store):  # the receipts wait for one commit
        for item in made_too:
            store.record_recall_later(item)
    store.close()

    def named(path: Path, receipts: list[NewReceipt]) -> str:
        """Write rows with facts by their order instead of by the ids that each store made."""
        text = repr(rows(path, sql))
        for number, fact in enumerate(receipts[0].receipt.facts):
            text = text.replace(fact, f"fact {number}")
        return text

    assert named(combined_path, made_too) == named(alone, receipts)
    assert rows(combined_path, sql)


def test_receipts_are_refused_when_the_disk_does_not_keep_up_and_the_rest_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "knowledge.db"
    store, _ = filled(path)
    monkeypatch.setattr(deferred_writes, "_MAX_JOBS", 50)
    with held_writer(store):
        for number in range(50):
            store.record_recall_later(receipt(f"r{number}")[0])
        with pytest.raises(StoreUnavailable, match="50 receipts wait for the disk"):
            store.record_recall_later(receipt("r50")[0])
        assert store.receipts_waiting_s() > 0
    store.close()
    assert len(rows(path, TABLES["receipts"])) == 50
