"""Equality by schema: which members of the data count, and that an upgrade makes it so."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from knowledge_client.models import Source
from knowledge_service.domain import schema_equality
from knowledge_service.domain.facts import NewFact
from knowledge_service.ports import ActionContext, Store
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.earlier_schemas import drop_outcome_totals
from tests.knowledge_builders import AGENT, OPERATOR, TEAM


def structured(schema: str, **data: Any) -> NewFact:
    return NewFact(
        kind="note", content="pin the base image", data=data, schema=schema, scope=TEAM,
        tags=(), confidence=0.5, source=Source(type="user_input", actor="ada"),
    )  # fmt: skip


BLOCK = {"content": {"title": "pin", "steps": [1, None]}, "embedding": [0.5], "updated_at": 1}
FILE = {"domain": "global", "source_count": 3, "last_confirmed": "2026-02-03"}


@pytest.mark.parametrize(
    ("schema", "data", "changes", "status"),
    [
        ("block/1", BLOCK, {"embedding": [0.25], "updated_at": 2}, "confirmed"),
        ("block/1", BLOCK, {"content": {"title": "pin", "steps": [2, None]}}, "created"),
        ("file/1", FILE, {"source_count": 4, "last_confirmed": "2026-03-01"}, "confirmed"),
        ("file/1", FILE, {"domain": "repos"}, "created"),
        ("other/1", FILE, {"source_count": 4}, "created"),
        ("other/1", FILE, {}, "confirmed"),
    ],
)
def test_only_members_that_count_make_another_fact(
    store: Store, schema: str, data: dict[str, Any], changes: dict[str, Any], status: str
) -> None:
    (first,) = store.remember([structured(schema, **data)], actor=AGENT)
    (second,) = store.remember([structured(schema, **(data | changes))], actor=AGENT)
    assert second.status == status
    assert (second.fact_id == first.fact_id) == (status == "confirmed")


def test_data_of_another_schema_is_compared_completely(store: Store) -> None:
    (first,) = store.remember([structured("file/1", **FILE)], actor=AGENT)
    (second,) = store.remember([structured("other/1", **FILE)], actor=AGENT)
    assert (first.status, second.status) == ("created", "created")


def test_an_older_file_compares_its_facts_by_schema_after_the_upgrade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "knowledge.db"
    with monkeypatch.context() as before, contextlib.closing(SqliteStore(path)) as store:
        before.setattr(schema_equality, "COUNTED_MEMBERS", {})
        others = [structured("other/1", number=number) for number in range(150)]
        erased, *_ = store.remember(others, actor=AGENT)
        (block,) = store.remember([structured("block/1", **BLOCK)], actor=AGENT)
        store.remember([structured("other/1", number=150)], actor=AGENT)
        (twin,) = store.remember(
            [structured("block/1", **(BLOCK | {"updated_at": 9}))], actor=AGENT
        )
        assert (block.status, twin.status) == ("created", "created")
        store.erase(erased.fact_id, ActionContext(OPERATOR, "asked for"))
    db = connection.open_writer(path)
    drop_outcome_totals(db)
    db.execute("DELETE FROM migration WHERE number >= 21")
    db.execute("DROP INDEX run_withheld; DROP TABLE fact_facet")
    db.close()
    with contextlib.closing(SqliteStore(path)) as store:
        (again,) = store.remember(
            [structured("block/1", **(BLOCK | {"embedding": [0.125]}))], actor=AGENT
        )
        assert again.status == "confirmed"
        assert again.fact_id in (block.fact_id, twin.fact_id)
    assert offline_rebuild.rebuild(path).changed == ()
    assert offline_rebuild.verify(path).problems == ()
