"""The index of facets: what it finds, and that changes, upgrades and rebuilds keep it exact."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_client.models import Source
from knowledge_service.domain import facets
from knowledge_service.domain.access_control import View
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports import ActionContext, Listing
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.earlier_schemas import drop_outcome_totals
from tests.knowledge_builders import AGENT, OPERATOR, TEAM

OTHER_TEAM = "realm:demo/formation:other"
VIEW = View(TEAM)
ROWS = "SELECT count(*) FROM fact_facet"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def file_store(path: Path) -> Iterator[SqliteStore]:
    with contextlib.closing(SqliteStore(path)) as opened:
        yield opened


def new_object(content: str, *, scope: str = TEAM, schema: str = "ko/1", **data: Any) -> NewFact:
    return NewFact(
        kind="insight", content=content, data=data, schema=schema, scope=scope, tags=(),
        confidence=0.5, source=Source(type="user_input", actor="ada"),
    )  # fmt: skip


def store_objects(store: SqliteStore, *facts: NewFact) -> list[str]:
    return [stored.fact_id for stored in store.remember(facts, actor=AGENT)]


def contents(store: SqliteStore, *texts: str, **options: Any) -> list[str]:
    conditions = tuple(map(facets.parse, texts))
    listing = Listing(view=VIEW, schema="ko/1", facets=conditions, **{"limit": 50, **options})
    return [fact.content for fact in store.list_facts(listing)]


def count_rows(path: Path) -> int:
    db = connection.open_writer(path)
    try:
        return int(str(next(iter(db.execute(ROWS)))[0]))
    finally:
        db.close()


def test_facts_are_found_newest_first_in_pages(file_store: SqliteStore) -> None:
    ids = store_objects(
        file_store,
        *(new_object(f"fact {n}", project="shop", group=n % 3) for n in range(1_200)),
        new_object("of another schema", schema="block/1", project="shop"),
        new_object("of another team", scope=OTHER_TEAM, project="shop"),
    )
    assert contents(file_store, "project=shop", limit=2) == ["fact 1199", "fact 1198"]
    assert contents(file_store, "project=shop", "group=1", limit=2) == ["fact 1198", "fact 1195"]
    assert contents(file_store, "project=shop", "group=7") == []
    found = contents(file_store, "group=2", limit=1_000, before_id=ids[7])
    assert found == ["fact 5", "fact 2"]


def test_a_fact_with_very_many_values_is_found_by_each(file_store: SqliteStore, path: Path) -> None:
    values = [f"value {n}" for n in range(1_000)]
    store_objects(
        file_store, new_object("many", tags=values, project="shop"), new_object("one", project="x")
    )
    assert contents(file_store, "tags=value 999") == ["many"]
    assert contents(file_store, "tags=value 7", "project=shop") == ["many"]
    assert contents(file_store, "tags=value 7", "project=x") == []
    assert contents(file_store, "project=x") == ["one"]
    file_store.close()
    assert count_rows(path) == 2


def test_what_is_retracted_or_a_draft_is_filtered_as_in_other_lists(
    file_store: SqliteStore,
) -> None:
    retracted, _ = store_objects(
        file_store, new_object("wrong", project="shop"), new_object("right", project="shop")
    )
    file_store.retract(retracted, ActionContext(OPERATOR, "wrong"))
    assert contents(file_store, "project=shop", lifecycle="live") == ["right"]
    assert contents(file_store, "project=shop", lifecycle="retracted") == ["wrong"]


def test_erased_facts_leave_no_entry(file_store: SqliteStore, path: Path) -> None:
    (fact_id,) = store_objects(file_store, new_object("secret", project="shop", tags=["a", "b"]))
    file_store.erase(fact_id, ActionContext(OPERATOR, "asked for"))
    assert contents(file_store, "project=shop") == []
    file_store.close()
    assert count_rows(path) == 0


def test_a_rebuild_and_an_upgrade_make_the_same_entries(path: Path) -> None:
    with contextlib.closing(SqliteStore(path)) as store:
        erased, *_ = store_objects(
            store,
            *(new_object(f"fact {n}", project="shop", number=n) for n in range(20)),
            new_object("many", tags=[f"value {n}" for n in range(1_000)]),
        )
        store.erase(erased, ActionContext(OPERATOR, "asked for"))
    rows = count_rows(path)
    assert rows == 19 * 2 + 1
    assert offline_rebuild.rebuild(path).changed == ()
    assert offline_rebuild.verify(path).problems == ()
    assert count_rows(path) == rows

    db = connection.open_writer(path)
    drop_outcome_totals(db)
    db.execute("DELETE FROM migration WHERE number >= 23; DROP TABLE fact_facet")
    db.close()
    with contextlib.closing(SqliteStore(path)) as store:
        assert contents(store, "number=7") == ["fact 7"]
    assert count_rows(path) == rows
    assert offline_rebuild.verify(path).problems == ()


def test_the_index_says_the_same_as_a_comparison_of_every_fact(file_store: SqliteStore) -> None:
    shapes: list[dict[str, Any]] = [
        {"a": {"b": ["X", {"c": 1}], "d": True}, "e": None},
        {"a": [{"b": "x"}, {"b": [["y"]]}], "e": ""},
        {"a.b": "x", "a": "b"},
        {"": {"": "x"}, "n": 1.5},
    ]
    store_objects(file_store, *(new_object(f"shape {n}", **data) for n, data in enumerate(shapes)))
    for text in ("a.b=x", "a.b=y", "a.b.c=1", "a.d=true", "e=none", "a=b", "n=1.5", "a=x"):
        expected = [
            f"shape {n}"
            for n, data in reversed(list(enumerate(shapes)))
            if facets.has_facet(data, facets.parse(text))
        ]
        assert contents(file_store, text) == expected, text
