"""What is equal is found: after a restart, a failure, an erasure, and beside what begins alike."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_client.models import Remembered
from knowledge_service import clock
from knowledge_service.errors import PreviouslyRetracted, StoreUnavailable
from knowledge_service.migrations import m008_equality
from knowledge_service.ports import ActionContext
from knowledge_service.search.postings import hash_index
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.projections import hash_index_table
from knowledge_service.store.sqlite.projections.hash_index_table import HashIndexTable, Tombstone
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.store.sqlite.upgrade import migrate
from tests.knowledge_builders import PERSON, new_fact
from tests.step_count import count_steps

ROWS = "SELECT key, data FROM equal ORDER BY key"
COUNT = "SELECT coalesce(sum(length(data)), 0) / 12 FROM equal WHERE key >> 24 = ?"
FACT = """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source,
  source_type, recorded_at, content_hash)
  VALUES(?1, ?1, ?2, 'fact', 'x', '[]', 1, '{}', 'x', 0, ?3)"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


def status(store: SqliteStore, content: str) -> str:
    (remembered,) = store.remember([new_fact(content)], actor=PERSON)
    return remembered.status


def rows(path: Path) -> list[Any]:
    db = apsw.Connection(str(path))
    result: list[Any] = db.execute(ROWS).fetchall()
    db.close()
    return result


def test_equal_is_found_by_who_opens_the_file_again(path: Path) -> None:
    contents = [f"number {n}" for n in range(200)]
    store = SqliteStore(path)
    assert {status(store, content) for content in contents} == {"created"}
    store.close()
    store = SqliteStore(path)
    assert {status(store, content) for content in contents} == {"confirmed"}
    store.close()
    assert len(rows(path)) == 4  # 64 to a block


def test_hash_that_only_begins_like_another_is_another_fact(path: Path) -> None:
    store = SqliteStore(path)
    status(store, "rain")
    store.close()
    db = apsw.Connection(str(path))
    begin = new_fact("sun").content_hash[:8]
    db.execute("UPDATE equal SET data = CAST(? || substr(data, 9) AS BLOB)", (begin,))
    db.close()
    store = SqliteStore(path)
    assert status(store, "sun") == "created"
    assert status(store, "sun") == "confirmed"
    store.close()


async def test_what_a_refused_call_told_is_not_known_to_the_next_of_the_commit(
    path: Path,
) -> None:
    store = SqliteStore(path)
    (old,) = store.remember([new_fact("rain")], actor=PERSON)
    store.retract(old.fact_id, ActionContext(PERSON, "it is dry"))
    calls = [["sun", "rain"], ["sun"], ["sun", "wind"], ["wind", "rain"], ["wind"]]
    report = await asyncio.gather(
        *(store.remembered([new_fact(c) for c in call], actor=PERSON) for call in calls),
        return_exceptions=True,
    )
    matching_status = [
        [item.status for item in answer] if isinstance(answer, tuple) else type(answer)
        for answer in report
    ]
    refused = PreviouslyRetracted
    assert matching_status == [
        refused,
        ["created"],
        ["confirmed", "created"],
        refused,
        ["confirmed"],
    ]
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def test_what_was_not_committed_is_not_known(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    assert status(store, "rain") == "created"
    with monkeypatch.context() as full:
        full.setattr(store._writer._commits, "_end_transaction", _full)
        with pytest.raises(StoreUnavailable):
            status(store, "sun")
    assert [status(store, content) for content in ("sun", "sun", "rain")] == [
        "created", "confirmed", "confirmed",
    ]  # fmt: skip
    assert sum(map(len, store._writer._commits._hash_index._known.values())) == 2
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def _full() -> None:
    raise apsw.FullError("database or disk is full")


def test_nothing_of_an_erased_fact_is_left_among_the_hashes(path: Path) -> None:
    store = SqliteStore(path)
    remembered = store.remember([new_fact(f"number {n}") for n in range(150)], actor=PERSON)
    begin = new_fact("number 70").content_hash[:8]
    assert begin in b"".join(data for _, data in rows(path))
    store.erase(remembered[70].fact_id, ActionContext(PERSON, "asked for"))
    assert begin not in b"".join(data for _, data in rows(path))
    assert [status(store, f"number {n}") for n in (69, 70, 71, 149)] == [
        "confirmed", "created", "confirmed", "confirmed",
    ]  # fmt: skip
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()


def test_file_of_before_is_filled_as_a_rebuild_would(path: Path) -> None:
    store = SqliteStore(path)
    report: tuple[Remembered, ...] = ()
    for scope in ("realm:a", "realm:b"):
        report = store.remember([new_fact(f"{n}", scope) for n in range(100)], actor=PERSON)
    store.close()
    rows_before = rows(path)
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE equal; CREATE INDEX fact_equal ON fact(scope_no, content_hash)")
    with db:
        db.execute(m008_equality.SQLITE)
        hash_index_table.fill(db)
    db.close()
    store = SqliteStore(path)
    assert rows(path) == rows_before
    (result,) = store.remember([new_fact("99", "realm:b")], actor=PERSON)
    assert result.fact_id == report[99].fact_id
    store.close()


SCOPES = st.integers(1, 3)
HASHES = st.integers(0, 40)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), SCOPES, st.lists(HASHES, min_size=1, max_size=90)),
        st.tuples(st.just("refused"), SCOPES, st.lists(HASHES, min_size=1, max_size=5)),
        st.tuples(st.just("erase"), SCOPES, st.integers(0, 300)),
        st.tuples(st.just("move"), SCOPES, SCOPES),
        st.tuples(st.just("commit")),
        st.tuples(st.just("fail")),
    ),
    max_size=12,
)


class Played:
    """Equals beside a table of facts, which is asked in full what is equal."""

    def __init__(self, db: apsw.Connection, most: int) -> None:
        self.db = db
        self.equals = HashIndexTable(db, max_cached=most)
        self.last = 0
        self.tombstones: list[Tombstone] = []
        self.committed: list[Tombstone] = []
        db.execute("BEGIN")

    def tell(self, scope_no: int, values: list[int]) -> None:
        numbers = range(self.last + 1, self.last + len(values) + 1)
        hashes = [hash_of(item) for item in values]
        self.last += len(values)
        self.db.executemany(
            FACT, [(no, scope_no, h) for no, h in zip(numbers, hashes, strict=True)]
        )
        self.equals.add(scope_no, hashes, numbers)

    def refused(self, scope_no: int, value: list[int]) -> None:
        mark = self.equals.savepoint()
        self.db.execute("SAVEPOINT job")
        self.tell(scope_no, value)
        self.db.execute("ROLLBACK TO job; RELEASE job")
        self.equals.rollback(mark)

    def erase(self, scope_no: int, number: int) -> None:
        request = (number, scope_no)
        deleted = "DELETE FROM fact WHERE fact_no = ? AND scope_no = ? RETURNING content_hash"
        result: Any = self.db.execute(deleted, request).fetchall()
        for (content_hash,) in result:
            self.equals.erase(scope_no, number, content_hash)
            # No number is given twice here, so that entries are in their order.
            self.tombstones.append(Tombstone(scope_no, number, number))

    def move(self, scope_no: int, to: int) -> None:
        found: Any = self.db.execute("SELECT fact_no FROM fact WHERE scope_no = ?", (scope_no,))
        moving = [number for (number,) in found]
        there: Any = self.db.execute("SELECT max(fact_no) FROM fact WHERE scope_no = ?", (to,))
        newest = there.fetchall()[0][0] or 0
        if scope_no == to or (moving and min(moving) < newest):
            return  # only facts that are newer than those of the other scope are moved
        self.db.execute("UPDATE fact SET scope_no = ? WHERE scope_no = ?", (to, scope_no))
        self.equals.move(scope_no, to, moving)
        self.tombstones = [
            tombstone for tombstone in self.tombstones if tombstone.scope_no != scope_no
        ]

    def commit(self) -> None:
        self.equals.write()
        self.db.execute("COMMIT")
        self.equals.commit()
        self.committed = list(self.tombstones)
        self.db.execute("BEGIN")

    def fail(self) -> None:
        self.equals.write()
        self.db.execute("ROLLBACK")
        self.equals.forget()
        self.tombstones = list(self.committed)
        self.db.execute("BEGIN")

    def check(self) -> None:
        interval = [hash_of(number) for number in range(41)]
        for scope_no in (1, 2, 3):
            found: Any = self.db.execute(
                "SELECT DISTINCT content_hash FROM fact WHERE scope_no = ?", (scope_no,)
            ).fetchall()
            assert self.equals.find_existing(scope_no, interval) == {number for (number,) in found}
        stored_record = self.equals._known.items()
        assert self.equals._size == sum(
            len(known_value) + hash_index_table._SCOPE_OVERHEAD for _, known_value in stored_record
        )
        for scope_no, known_value in stored_record:
            counted: Any = self.db.execute(COUNT, (scope_no,)).fetchall()
            added, _ = self.equals._added.get(scope_no, ([], []))
            assert len(known_value) == counted[0][0] + len(added)


def hash_of(number: int) -> bytes:
    """Hash; of three each two begin alike."""
    begin = hashlib.sha256(b"%d" % (number // 3)).digest()[:8]
    return begin + hashlib.sha256(b"%d" % number).digest()[8:]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    open_writer = connection.open_writer(tmp_path_factory.mktemp("equals") / "knowledge.db")
    migrate.migrate(open_writer, clock.now)
    for number in (1, 2, 3):
        open_writer.execute(
            "INSERT INTO scope(scope_no, path, realm_no, created_at) VALUES(?1, ?1, ?1, 0)",
            (number,),
        )
    yield open_writer
    open_writer.close()


@settings(max_examples=150)
@given(STEPS, st.sampled_from([1, 100, 2_000_000]))
def test_whatever_is_told_taken_back_erased_and_moved_the_equals_are_those_of_the_facts(
    db: apsw.Connection, steps: list[Any], most: int
) -> None:
    db.execute("DELETE FROM fact; DELETE FROM equal")
    played = Played(db, most)
    for name, *values in steps:
        getattr(played, name)(*values)
        played.check()
    played.commit()
    write = db.execute(ROWS).fetchall()
    hash_index_table.refill(db, sorted(played.tombstones, key=lambda each: each.number))
    assert db.execute(ROWS).fetchall() == write
    db.execute("COMMIT")


def test_many_entries_are_found_before_and_after_they_are_put_to_the_rest() -> None:
    begins = hash_index.hash_prefixes([hashlib.sha256(b"%d" % n).digest() for n in range(9_000)])
    known_prefix_set = hash_index.PrefixSet(
        hash_index.unpack(hash_index.pack(begins[:3_000], range(3_000)))
    )
    for first in range(3_000, 9_000, 200):
        known_prefix_set.add(begins[first : first + 200], range(first, first + 200))
        known_prefix_set.merge()
    assert len(known_prefix_set) == 9_000
    assert known_prefix_set.intersection([*begins, 5]) == set(begins)
    assert [known_prefix_set.numbers(begin) for begin in begins] == [[n] for n in range(9_000)]


def test_numbers_of_what_came_last_are_found_without_going_through_all_that_came_last() -> None:
    def steps_among(recent: int) -> int:
        end = 10_000 + recent
        begins = [n << 40 for n in range(end)]
        known_prefix_set = hash_index.PrefixSet(
            hash_index.unpack(hash_index.pack(begins[:10_000], range(10_000)))
        )
        known_prefix_set.add(begins[10_000:], range(10_000, end))
        numbers: list[int] = []
        steps = count_steps(lambda: numbers.extend(known_prefix_set.numbers(begins[-1])))
        assert numbers == [end - 1]
        return steps

    assert steps_among(1_000) == steps_among(60_000)
