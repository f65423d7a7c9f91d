"""The totals of outcomes are those of all observers that exist, whatever happens to these."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_service.errors import Conflict
from knowledge_service.ports import ActionContext, FactUsage
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import exports, offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.earlier_schemas import drop_outcome_totals
from tests.knowledge_builders import ALL, LEAD, OPERATOR, OTHER, TEAM, new_fact

OBSERVERS = (LEAD, TEAM, OTHER, "realm:other")
KINDS = ("succeeded", "failed", "recalled")
CONTEXT = ActionContext(OPERATOR, "asked for")
STEP = st.tuples(
    st.sampled_from(("use", "use", "use", "delete scope", "adopt scope", "erase fact")),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 4),
)
SETTINGS = settings(max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True)
TOTALS = (
    "SELECT fact_no, kind, count FROM fact_outcome ORDER BY 1, 2",
    "SELECT scope_no, kind, count FROM scope_outcome ORDER BY 1, 2",
)
SUMS = (
    """SELECT u.fact_no, u.kind, sum(u.count) FROM usage u
  JOIN scope s ON s.scope_no = u.observer_no WHERE s.retired_at IS NULL
  AND u.kind IN ('succeeded', 'failed') GROUP BY 1, 2 ORDER BY 1, 2""",
    """SELECT u.scope_no, u.kind, sum(u.count) FROM scope_usage u
  JOIN scope s ON s.scope_no = u.observer_no WHERE s.retired_at IS NULL
  AND u.kind IN ('succeeded', 'failed') GROUP BY 1, 2 ORDER BY 1, 2""",
)


def check_totals(path: Path) -> list[Any]:
    """Compare the totals with the sums of the rows; return the totals of facts."""
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    totals = [database.execute(sql).fetchall() for sql in TOTALS]
    assert totals == [database.execute(sql).fetchall() for sql in SUMS]
    database.close()
    return totals[0]


def take(store: SqliteStore, fact_ids: list[str], step: tuple[str, int, int, int]) -> None:
    verb, fact, observer, count = step
    if verb == "use":
        use = FactUsage(fact_ids[fact], KINDS[count % len(KINDS)], count)
        store.count_usage([use], observer=OBSERVERS[observer], actor="x")
    elif verb == "delete scope":
        store.delete_scope(OBSERVERS[observer], actor=OPERATOR)
    elif verb == "adopt scope":
        with contextlib.suppress(Conflict):
            store.adopt_scope(OBSERVERS[observer], actor=OPERATOR)
    elif store.fact(fact_ids[fact], ALL):
        store.erase(fact_ids[fact], CONTEXT)


def fill(store: SqliteStore) -> list[str]:
    facts = [new_fact(f"gate {n}", scope) for n, scope in enumerate(("platform", *OBSERVERS[:3]))]
    return [remembered.fact_id for remembered in store.remember(facts, actor=OPERATOR)]


@SETTINGS
@given(history=st.lists(STEP, max_size=20))
def test_totals_are_the_sums_after_any_history_and_after_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("totals") / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        fact_ids = fill(store)
        for step in history:
            take(store, fact_ids, step)
            check_totals(path)
    totals = check_totals(path)
    assert offline_rebuild.rebuild(path).changed == ()
    assert check_totals(path) == totals


def test_outcomes_of_a_deleted_scope_return_with_it(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        fact_id = fill(store)[0]
        for observer, count in ((TEAM, 2), (OTHER, 3)):
            use = FactUsage(fact_id, "succeeded", count)
            store.count_usage([use], observer=observer, actor="x")
        assert check_totals(path) == [(1, "succeeded", 5)]
        store.delete_scope(OTHER, actor=OPERATOR)
        assert check_totals(path) == [(1, "succeeded", 2)]
        store.adopt_scope(OTHER, actor=OPERATOR)
        assert check_totals(path) == [(1, "succeeded", 5)]
        store.erase(fact_id, CONTEXT)
        assert check_totals(path) == []


def test_an_import_has_the_totals_of_what_was_exported(tmp_path: Path) -> None:
    path, copy, stream = tmp_path / "knowledge.db", tmp_path / "copy.db", io.BytesIO()
    with contextlib.closing(SqliteStore(path)) as store:
        fact_id = fill(store)[0]
        for observer in OBSERVERS:
            store.count_usage([FactUsage(fact_id, "failed", 2)], observer=observer, actor="x")
        store.delete_scope(OTHER, actor=OPERATOR)
    exports.export(path, stream)
    exports.import_export(copy, io.BytesIO(stream.getvalue()))
    assert check_totals(copy) == check_totals(path) == [(1, "failed", 6)]


@pytest.mark.parametrize(
    "damage",
    ["UPDATE fact_outcome SET count = 9", "DELETE FROM fact_outcome", "DELETE FROM scope_outcome"],
)
def test_a_rebuild_mends_totals_and_names_them(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        use = FactUsage(fill(store)[0], "succeeded", 2)
        store.count_usage([use], observer=TEAM, actor="x")
    database = connection.open_writer(path)
    database.execute(damage)
    database.close()
    (changed,) = offline_rebuild.rebuild(path).changed
    assert changed in damage
    assert check_totals(path) == [(1, "succeeded", 2)]


def test_file_of_an_earlier_version_gets_the_totals_of_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        fact_id = fill(store)[0]
        for observer in OBSERVERS:
            uses = [FactUsage(fact_id, "succeeded", 2), FactUsage(fact_id, "failed", 1)]
            store.count_usage(uses, observer=observer, actor="x")
        store.delete_scope(LEAD, actor=OPERATOR)
    database = connection.open_writer(path)
    drop_outcome_totals(database)
    database.execute("DELETE FROM migration WHERE number >= 25")
    database.close()
    SqliteStore(path).close()
    assert check_totals(path) == [(1, "failed", 3), (1, "succeeded", 6)]
