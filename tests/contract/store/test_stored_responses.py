"""Responses that an earlier version stored: an upgrade removes what they may not contain."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_client.models import ErasureResult
from knowledge_service.ports import ActionContext, IdempotencyKey
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.test_retention_and_erasure import recall_of
from tests.earlier_schemas import drop_outcome_totals
from tests.knowledge_builders import ALL, PERSON, TEAM, new_fact

KEY = IdempotencyKey("ada", "k", "body")
CONTEXT = ActionContext(PERSON, "because", KEY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def change_as_earlier_version(path: Path, key: str, **members: Any) -> None:
    """Change a stored response, and have the next start upgrade the file again."""
    database = connection.open_writer(path)
    response = json.loads(read_response(database, key)) | members
    database.execute(
        "UPDATE idempotency SET response = ? WHERE key = ?", (json.dumps(response), key)
    )
    drop_outcome_totals(database)
    database.execute("DELETE FROM migration WHERE number >= 24")
    database.close()


def read_response(database: apsw.Connection, key: str) -> str:
    rows = database.execute("SELECT response FROM idempotency WHERE key = ?", (key,))
    return str(next(iter(rows))[0])


def keys(path: Path) -> list[str]:
    database = connection.open_writer(path)
    rows: Any = database.execute("SELECT key FROM idempotency ORDER BY key").fetchall()
    database.close()
    return [key for (key,) in rows]


def test_result_of_an_earlier_erasure_names_nothing_that_its_caller_may_not_see(
    path: Path,
) -> None:
    with contextlib.closing(SqliteStore(path)) as store:
        (stored,) = store.remember([new_fact("rain")], actor=PERSON)
        first = store.erase(stored.fact_id, CONTEXT)
    change_as_earlier_version(path, "k", derived=["of-others"], links=3, events=7)
    with contextlib.closing(SqliteStore(path)) as store:
        repeated = store.erased(KEY)
        assert isinstance(repeated, ErasureResult)
        assert (repeated.derived, repeated.links, repeated.events) == ((), None, None)
        assert (repeated.facts, repeated.erased_at) == (first.facts, first.erased_at)


def test_response_of_an_earlier_recall_with_an_erased_fact_is_deleted(path: Path) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    with contextlib.closing(SqliteStore(path)) as store:
        key = IdempotencyKey("ada", "stored", "body")
        (stored,) = store.remember([new_fact("rain")], actor=PERSON, idempotency_key=key)
        fact = store.fact(stored.fact_id, ALL)
        assert fact is not None
        for name in ("live", "erased"):
            key = IdempotencyKey("ada", name, "body")
            store.record_recall(*recall_of(fact, name, at), key)
        key = IdempotencyKey("ada", "retracted", "body")
        store.retract(stored.fact_id, ActionContext(PERSON, "because", key))
    erased = {**fact.model_dump(mode="json", by_alias=True), "id": "erased"}
    change_as_earlier_version(path, "erased", facts=[erased | {"rank": 1, "score": 1.0}])
    assert keys(path) == ["erased", "live", "retracted", "stored"]
    SqliteStore(path).close()
    assert keys(path) == ["live", "retracted", "stored"]


def test_response_of_an_earlier_recall_with_a_fact_of_a_deleted_scope_is_deleted(
    path: Path,
) -> None:
    with contextlib.closing(SqliteStore(path)) as store:
        (stored,) = store.remember([new_fact("rain")], actor=PERSON)
        fact = store.fact(stored.fact_id, ALL)
        assert fact is not None
        store.delete_scope(TEAM, actor=PERSON)
        new, answer = recall_of(fact, "deleted", datetime(2026, 3, 1, tzinfo=UTC))
        store.record_recall(new, answer.model_copy(update={"facts": ()}), KEY)
    change_as_earlier_version(path, "k", facts=answer.model_dump(mode="json")["facts"])
    assert keys(path) == ["k"]
    SqliteStore(path).close()
    assert keys(path) == []


def test_damaged_response_does_not_prevent_the_upgrade(path: Path) -> None:
    with contextlib.closing(SqliteStore(path)) as store:
        (stored,) = store.remember([new_fact("rain")], actor=PERSON)
        store.erase(stored.fact_id, CONTEXT)
    change_as_earlier_version(path, "k")
    database = connection.open_writer(path)
    database.execute("""UPDATE idempotency SET response = '{"content":1,"backups":"'""")
    database.close()
    SqliteStore(path).close()
    assert keys(path) == ["k"]
