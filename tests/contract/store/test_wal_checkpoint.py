"""The log is folded into the file beside the writer: no commit waits, and it stays short."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from knowledge_service.ports import Listing
from knowledge_service.store.sqlite.db.wal_checkpoint import Checkpointer
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import ALL, PERSON, new_fact

FINAL_STATE, PAGE = 40, 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with contextlib.closing(SqliteStore(path)) as closing:
        closing._writer._checkpointer._checkpoint_pages = FINAL_STATE
        yield closing


def write(store: SqliteStore, count: int, by: str = "x") -> None:
    for number in range(count):
        store.remember([new_fact(f"rain {by} {number}")], actor=PERSON)


def log_pages(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size // PAGE


def facts_in(path: Path) -> int:
    store = SqliteStore(path)
    count = len(store.list_facts(Listing(ALL, 10_000)))
    store.close()
    return count


def test_log_stays_short_under_writers_that_never_rest(store: SqliteStore, path: Path) -> None:
    writers = [threading.Thread(target=write, args=(store, 120, str(n))) for n in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    # Each fact alone writes some ten pages: without an end the log would have thousands.
    assert log_pages(path) < 12 * FINAL_STATE
    store.close()
    assert facts_in(path) == 480
    assert offline_rebuild.verify(path).problems == ()


def test_thread_folds_beside_the_writer(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer: Checkpointer = store._writer._checkpointer
    synced = threading.Event()
    monkeypatch.setattr(checkpointer, "finish", lambda _: None)
    # After its first commit the writer folds by itself, in case something was erased before.
    monkeypatch.setattr(store._writer._wal_truncation, "step", lambda **_: None)
    monkeypatch.setattr(checkpointer._file, "sync", synced.set)
    write(store, 200)
    assert synced.wait(10)
    with checkpointer.at_work:
        alone = path.with_name("alone.db")
        shutil.copy(path, alone)
    db = apsw.Connection(str(alone))  # no log is beside it
    ((count,),) = db.execute("SELECT count(*) FROM fact").fetchall()
    assert count >= 1
    db.close()


def test_writer_folds_alone_when_the_thread_cannot(store: SqliteStore, path: Path) -> None:
    checkpointer: Checkpointer = store._writer._checkpointer
    checkpointer._connection.close()
    write(store, 200)
    assert log_pages(path) < 12 * FINAL_STATE
    store.close()
    assert facts_in(path) == 200


def test_writers_go_on_while_the_thread_is_held(store: SqliteStore, path: Path) -> None:
    with store._writer._checkpointer.at_work:
        write(store, 200)
        assert log_pages(path) < 12 * FINAL_STATE
    store.close()
    assert facts_in(path) == 200


def test_thread_leaves_the_log_to_who_folds_it_at_the_moment_and_complains_not(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(store, 2)
    reader, other_connection = apsw.Connection(str(path)), apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM fact").fetchall()
    other_connection.execute("SELECT count(*) FROM fact").fetchall()
    write(store, 2, "again")
    is_waiting, event = threading.Event(), threading.Event()

    def wait_for_the_reader(_: int) -> bool:
        is_waiting.set()
        return not event.wait(10)

    other_connection.set_busy_handler(wait_for_the_reader)
    folder = threading.Thread(target=fold_whole, args=(other_connection,))
    folder.start()
    assert is_waiting.wait(10)
    store._writer._checkpointer._checkpoint()
    event.set()
    folder.join()
    reader.close()
    other_connection.close()
    assert "the write-ahead log was not checkpointed" not in caplog.messages


def fold_whole(other_connection: apsw.Connection) -> None:
    with contextlib.suppress(apsw.BusyError):
        other_connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
