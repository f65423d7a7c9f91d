"""However much there is, what belongs to a fact is found without a look at the rest."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.projections import erased_facts as projected_erasure
from knowledge_service.store.sqlite.projections import hash_index_table
from knowledge_service.store.sqlite.repositories import (
    fact_unit_of_work,
    link_rows,
    link_traversal,
    links,
    recall_snapshot,
    stored_text_erasure,
    usage_erasure,
)
from knowledge_service.store.sqlite.store import SqliteStore

QUESTIONS = {
    "a page of a fact's links, closed ones too": links._PAGE,
    "a fact's links for what is written about it": fact_unit_of_work._LINKS,
    "links from the best of a recall": recall_snapshot._LINKED[0],
    "links to the best of a recall": recall_snapshot._LINKED[1],
    "links from a crowded fact of a recall": recall_snapshot._LINKED_SEEN[0],
    "links to a crowded fact of a recall": recall_snapshot._LINKED_SEEN[1],
    "whether many links begin here": link_traversal.CROWDED[0],
    "whether many links end here": link_traversal.CROWDED[1],
    "how many links an erasure takes": stored_text_erasure._LINKS,
    "what an erasure takes": next(sql for sql in projected_erasure._DELETE_FACT if " link " in sql),
    "one step along links that begin here": link_traversal._NEIGHBOURS[0],
    "one step along links that end here": link_traversal._NEIGHBOURS[1],
    "links among facts": link_rows._AMONG,
}


def plan(path: Path, sql: str) -> str:
    SqliteStore(path).close()
    reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    values = max([int(n) for n in re.findall(r"\?(\d)", sql)], default=sql.count("?"))
    steps = reading.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * values)
    message = "\n".join(step[3] for step in steps)
    reading.close()
    return message


@pytest.mark.parametrize("sql", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_links_are_found_by_their_ends(tmp_path: Path, sql: str) -> None:
    reported_plan = plan(tmp_path / "knowledge.db", sql)
    assert "link_out (from_no=?" in reported_plan or "link_in (to_no=?" in reported_plan
    for full_text in ("SCAN link", "SCAN l", "SCAN x"):
        assert full_text not in reported_plan.splitlines()


@pytest.mark.parametrize("sql", [*link_traversal._NEIGHBOURS, *link_traversal._NEIGHBOURS_BY_SCOPE])
def test_a_walk_reads_nothing_but_an_index(tmp_path: Path, sql: str) -> None:
    assert "SEARCH x USING COVERING INDEX" in plan(tmp_path / "knowledge.db", sql)


def test_outcomes_are_found_beside_however_many_recalls(tmp_path: Path) -> None:
    reported_plan = plan(tmp_path / "knowledge.db", recall_snapshot._USES)
    assert "SEARCH usage USING COVERING INDEX usage_outcome (fact_no=?)" in reported_plan
    plan_of_all = plan(tmp_path / "all.db", recall_snapshot._USES_OF_ALL)
    assert "SEARCH fact_outcome USING PRIMARY KEY (fact_no=?)" in plan_of_all


def test_facts_that_may_be_equal_are_found_by_their_numbers(tmp_path: Path) -> None:
    for sql in (fact_unit_of_work._EQUAL, hash_index_table._AMONG):
        reported_plan = plan(tmp_path / "knowledge.db", sql)
        assert "USING INTEGER PRIMARY KEY (rowid=?)" in reported_plan
        assert "(scope_no=?" not in reported_plan


ERASING = {
    "tags of a fact": projected_erasure._UNTAG,
    "a fact, and whatever refers to it": "DELETE FROM fact WHERE fact_no = ?",
    "answers that hold a fact": stored_text_erasure._FORGET_ANSWERS,
    "answers that hold a name": stored_text_erasure._NAMED_ANSWERS,
    "events of a fact's operations": stored_text_erasure._EVENTS_OF_OPERATIONS,
    "runs that had a fact in front of them": stored_text_erasure._FORGET_RUNS,
    "whether it is famous": usage_erasure._COUNT,
    "who was given a famous fact": usage_erasure._FORGET[0],
    "who used a famous fact": usage_erasure._FORGET[1],
    "what facts that are adopted were indexed by": projection_rebuild._RECORDED,
}


@pytest.mark.parametrize("sql", ERASING.values(), ids=ERASING.keys())
def test_erasure_looks_through_no_whole_table(tmp_path: Path, sql: str) -> None:
    reported_plan = plan(tmp_path / "knowledge.db", sql)
    scans = [line for line in reported_plan.splitlines() if line.startswith("SCAN")]
    bounded = (
        "idempotency_content",
        "idempotency_named",
        "gone",
        "VIRTUAL",
        "(subquery",
        "CONSTANT ROW",
    )
    assert [line for line in scans if not any(item in line for item in bounded)] == []


def test_nothing_that_refers_to_facts_makes_their_deletion_look_through_it(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    SqliteStore(path).close()
    reading = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [name for (name,) in reading.execute("SELECT name FROM sqlite_schema")]
    for table in tables:
        keys = reading.execute('SELECT "from", "table" FROM pragma_foreign_key_list(?)', (table,))
        for column, parent in keys.fetchall():
            if parent == "fact":
                message = f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE {column} = 1"  # noqa: S608
                steps = reading.execute(message)
                assert all("SCAN" not in str(step[3]) for step in steps), (table, column)
    reading.close()
