"""What only the store in a file promises: durability, one owner, migrations, the event log."""

from __future__ import annotations

import hashlib
import json
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_service import clock, migrations
from knowledge_service.domain.access_control import View
from knowledge_service.errors import FileLocked, SchemaTooNew, StartupError, StoreUnavailable
from knowledge_service.event_log.hash_chain import event_hash
from knowledge_service.ports import Listing, Search
from knowledge_service.store.sqlite.db import connection, transaction
from knowledge_service.store.sqlite.maintenance import backup_and_restore
from knowledge_service.store.sqlite.repositories import fact_rows
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.store.sqlite.upgrade import migrate
from tests.contract.store.test_recall import SCOPES, SENTENCE, STRANGE, assert_isolated
from tests.knowledge_builders import ALL, LEAD, OPERATOR, PERSON, TEAM, new_fact, run_in

VIEW = View(LEAD)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(
    own_facts=st.lists(st.tuples(st.sampled_from(SCOPES), SENTENCE), max_size=8),
    other_facts=st.lists(st.tuples(st.sampled_from(STRANGE), SENTENCE), max_size=8),
    query=SENTENCE,
)
def test_other_tenants_change_neither_order_nor_scores(
    tmp_path_factory: pytest.TempPathFactory,
    own_facts: list[tuple[str, str]],
    other_facts: list[tuple[str, str]],
    query: str,
) -> None:
    folder = tmp_path_factory.mktemp("isolation")
    alone, shared = SqliteStore(folder / "alone.db"), SqliteStore(folder / "shared.db")
    try:
        assert_isolated(alone, shared, own_facts, other_facts, query)
    finally:
        alone.close()
        shared.close()


def test_everything_is_there_after_a_restart(path: Path) -> None:
    store = SqliteStore(path)
    identity = store.identity()
    store.remember([new_fact("rain in spring")], actor=PERSON)
    hits_before = store.search(Search(VIEW, "rain", 5)).hits
    store.close()
    reopened = SqliteStore(path)
    assert reopened.search(Search(VIEW, "rain", 5)).hits == hits_before
    assert reopened.identity().id == identity.id
    reopened.close()


_WRITE = """
import sys
from pathlib import Path
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import PERSON, new_fact
store = SqliteStore(Path(sys.argv[1]))
for n in range(100000):
    store.remember([new_fact(f"acknowledged {n}")], actor=PERSON)
    print(n, flush=True)
"""


def test_every_acknowledged_write_survives_kill_9(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            if int(line) == 40:
                process.send_signal(signal.SIGKILL)
                break
        acknowledged = 41 + len(output.read().split())
    process.wait()
    store = SqliteStore(path)
    kept_count = len(store.list_facts(Listing(ALL, 100_000)))
    assert acknowledged <= kept_count <= acknowledged + 1
    assert len(store.search(Search(VIEW, "acknowledged", 100_000)).hits) == kept_count
    store.close()


def test_second_owner_of_the_file_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(FileLocked, match="in use by another kais-knowledge process; stop that"):
        SqliteStore(path)
    store.close()
    SqliteStore(path).close()


def test_path_that_is_no_database_is_said(path: Path) -> None:
    path.write_bytes(b"not a database, " * 100)
    message_pattern = (
        r"is damaged \(it is not a database\); restore a copy of it, or choose another file"
    )
    with pytest.raises(StartupError, match=message_pattern):
        SqliteStore(path)
    with pytest.raises(StartupError, match=message_pattern):
        backup_and_restore.backup(path, path.with_name("copy.db"))


def test_thirty_two_writers_lose_nothing(path: Path) -> None:
    store = SqliteStore(path)

    def write(writer: int) -> None:
        for n in range(10):
            store.remember([new_fact(f"writer {writer} says {n}")], actor=PERSON)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = store.list_facts(Listing(VIEW, 1000))
    assert len(listed) == len({fact.id for fact in listed}) == 320
    assert [fact.id for fact in listed] == sorted((fact.id for fact in listed), reverse=True)
    assert store.scope_stats([TEAM], ALL)[0].facts == 320
    store.close()


def test_answers_do_not_depend_on_how_facts_were_grouped_into_writes(tmp_path: Path) -> None:
    vocabulary = ["rain", "sun", "wind", "snow", "fog", "hail", "ice", "storm"]
    facts = [new_fact(f"{vocabulary[n % 8]} {vocabulary[n % 7]} number{n}") for n in range(900)]
    answers, indexes = [], []
    for name, size in (("one", 1), ("few", 7), ("many", 300)):
        store = SqliteStore(tmp_path / name)
        for start in range(0, 900, size):
            store.remember(facts[start : start + size], actor=PERSON)
        hits = store.search(Search(VIEW, "rain and fog", 50)).hits
        answers.append([(hit.fact.content, hit.score) for hit in hits])
        store.close()
        db = connection.open_writer(tmp_path / name)
        indexes.append(db.execute("SELECT * FROM posting ORDER BY key").fetchall())
        db.close()
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 50
    assert indexes[0] == indexes[1] == indexes[2]


class TestMigrations:
    def steps(self, *scripts: str) -> tuple[tuple[int, str, str], ...]:
        return tuple((n, f"m{n:03}", script) for n, script in enumerate(scripts, start=1))

    def open(self, path: Path) -> apsw.Connection:
        return connection.open_writer(path)

    def test_empty_file_gets_every_table_and_its_record(self, path: Path) -> None:
        SqliteStore(path).close()
        db = self.open(path)
        records: list[Any] = db.execute("SELECT number, name FROM migration").fetchall()
        assert records == [(number, name) for number, name, _ in migrations.SQLITE]
        names: list[Any] = db.execute("SELECT name FROM sqlite_schema").fetchall()
        promised = (
            "fact alias sequence link confirmation review promotion usage run episode receipt"
            " event payload scope principal extraction idempotency posting"
        )
        assert {name for (name,) in names} >= set(promised.split())

    def test_making_a_new_file_is_told_once_and_not_step_by_step(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, logger="knowledge_service.startup_progress")
        SqliteStore(path).close()
        assert [record.__dict__["fields"]["doing"] for record in caplog.records] == [
            *("making a new database",) * 2,
            *("rebuilding the index",) * 2,
        ]

    def test_failing_migration_rolls_back_with_its_record(self, path: Path) -> None:
        db = self.open(path)
        base = "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL)"
        broken = "CREATE TABLE a(x); CREATE TABLE nonsense("
        with pytest.raises(apsw.SQLError):
            migrate.migrate(db, clock.now, self.steps(base, broken))
        assert db.execute("SELECT max(number) FROM migration").fetchall() == [(1,)]
        assert db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'a'").fetchall() == []
        migrate.migrate(db, clock.now, self.steps(base, "CREATE TABLE a(x)"))
        assert db.execute("SELECT max(number) FROM migration").fetchall() == [(2,)]

    def test_newer_schema_is_refused(self, path: Path) -> None:
        SqliteStore(path).close()
        db = self.open(path)
        db.execute("INSERT INTO migration VALUES(99, 'm099', 0)")
        db.close()
        with pytest.raises(SchemaTooNew, match=r"has schema 99, this version .* knows up to \d+;"):
            SqliteStore(path)


def test_every_change_is_in_the_event_log_and_its_chain_holds(path: Path) -> None:
    store = SqliteStore(path)
    (remembered,) = store.remember([new_fact()], actor=PERSON)
    store.remember([new_fact()], actor=PERSON)
    store.correct(remembered.fact_id, "old", "new words", actor=PERSON)
    store.put_run("r", run_in(outcome="Succeeded"), actor=OPERATOR)
    store.close()
    db = connection.open_writer(path)
    rows: list[Any] = db.execute(
        "SELECT seq, scope_no, type, actor, at, payload_hash, prev_hash FROM event ORDER BY seq"
    ).fetchall()
    previous = bytes(32)
    for row in rows:
        assert row[6] == previous
        previous = event_hash(row)
    payloads: list[Any] = db.execute("SELECT salt, bytes FROM payload ORDER BY seq").fetchall()
    assert [row[5] for row in rows] == [hashlib.sha256(s + b).digest() for s, b in payloads]
    kinds = [row[2] for row in rows]
    assert kinds[-6:] == [
        "fact.recorded",
        "fact.confirmed",
        "fact.closed",
        "fact.recorded",
        "link.made",
        "run.closed",
    ]
    assert json.loads(payloads[kinds.index("fact.recorded")][1])["content"] == new_fact().content


def test_upkeep_holds_no_table_in_memory_and_serving_no_savepoint_in_a_file(path: Path) -> None:
    upkeep = connection.open_writer(path)
    assert upkeep.execute("PRAGMA temp_store").fetchall() == [(0,)]
    upkeep.close()
    store = SqliteStore(path)
    assert store._writer._commits._connection.execute("PRAGMA temp_store").fetchall() == [(2,)]
    store.close()


def test_disk_that_takes_no_writes_is_unavailable_and_reading_goes_on(path: Path) -> None:
    store = SqliteStore(path)
    store.remember([new_fact("rain")], actor=PERSON)

    def full(_: transaction.Transaction) -> None:
        raise apsw.FullError("database or disk is full")

    with pytest.raises(StoreUnavailable, match="FullError"):
        store._writer.submit(full)
    assert len(store.search(Search(VIEW, "rain", 5)).hits) == 1
    assert store.remember([new_fact("snow")], actor=PERSON)[0].status == "created"
    store.close()


def test_commit_that_failed_is_never_tried_again(path: Path) -> None:
    store = SqliteStore(path)
    inner = store._writer._commits._connection

    class FailingDisk:
        """The connection on a disk whose fsync fails."""

        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def execute(self, sql: str, *bindings: Any) -> Any:
            if sql == "COMMIT":
                raise apsw.IOError("disk I/O error")
            return inner.execute(sql, *bindings)

    store.check()
    store.check_alive()
    store._writer._commits._connection = FailingDisk()  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable, match=r"a commit failed .* restart the service"):
        store.remember([new_fact("lost")], actor=PERSON)
    store._writer._commits._connection = inner
    for call in (store.check, store.check_alive):
        with pytest.raises(StoreUnavailable, match="a commit failed"):
            call()
    assert store.list_facts(Listing(ALL, 10)) == ()
    store.close()


def test_every_error_of_the_driver_is_either_the_environments_or_ours() -> None:
    """A new class of apsw fails here until somebody says which of the two it is."""
    own_errors = {
        "Error",
        "SQLError",
        "ConstraintError",
        "MismatchError",
        "MisuseError",
        "RangeError",
        "BindingsError",
        "ExecutionCompleteError",
        "ForkingViolationError",
        "IncompleteExecutionError",
        "ThreadingViolationError",
        "VFSNotImplementedError",
        "VFSFileClosedError",
        "ExtensionLoadingError",
        "CursorClosedError",
        "InternalError",
        "AbortError",
        "AuthError",
        "SchemaChangeError",
        "TooBigError",
        "EmptyError",
        "FormatError",
        "NotFoundError",
        "InvalidContextError",
        "ExecTraceAbort",
        "NoFTS5Error",
        "ConnectionNotClosedError",
    }
    classes = {
        name: item
        for name, item in vars(apsw).items()
        if isinstance(item, type) and issubclass(item, Exception)
    }
    unmapped = {
        name
        for name, item in classes.items()
        if not issubclass(item, connection.ENVIRONMENTAL) and name not in own_errors
    }
    assert unmapped == set()


def test_a_store_may_be_closed_twice(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "knowledge.db")
    store.close()
    store.close()
    SqliteStore(tmp_path / "knowledge.db").close()


def test_many_large_facts_are_read_in_several_texts(path: Path) -> None:
    store = SqliteStore(path)
    store.remember([new_fact(f"{n} {'x' * 2000}") for n in range(1000)], actor=PERSON)
    store.close()
    reading = apsw.Connection(str(path))
    reading.limit(apsw.SQLITE_LIMIT_LENGTH, 1_600_000)
    numbers = [int(str(number)) for (number,) in reading.execute("SELECT fact_no FROM fact")]
    assert list(fact_rows.by_numbers(reading, numbers)) == numbers
    reading.close()
