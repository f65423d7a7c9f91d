"""What the store says when its file, its directory or its disk is taken from it."""

from __future__ import annotations

import io
import logging
import re
import struct
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.errors import StartupError, StoreUnavailable
from knowledge_service.ports import Search
from knowledge_service.store.sqlite.db import transaction
from knowledge_service.store.sqlite.maintenance import exports, file_verification, offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.store.sqlite.upgrade import migrate
from tests.knowledge_builders import ALL, OTHER, PERSON, TEAM, new_fact


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "knowledge.db"


class Disk:
    """The writing connection, on a disk that answers COMMIT with an error of one's choice."""

    def __init__(self, inner: apsw.Connection, error: Exception) -> None:
        self._inner = inner
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, sql: str, *bindings: Any) -> Any:
        if sql == "COMMIT":
            raise self._error
        return self._inner.execute(sql, *bindings)


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(path: Path, replaced: bool) -> None:
    store = SqliteStore(path)
    store.remember([new_fact("rain")], actor=PERSON)
    path.unlink()
    if replaced:
        path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match=r"was removed or replaced while it was in use; put"):
        store.remember([new_fact("snow")], actor=PERSON)
    for call in (store.check, store.check_alive):
        with pytest.raises(StoreUnavailable, match="restart the service"):
            call()
    store.close()


def test_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match=r"file/k\.db cannot be opened \(.*\); .* writable for"):
        SqliteStore(tmp_path / "file" / "k.db")


def test_damaged_file_is_said_and_let_go_of(path: Path) -> None:
    store = SqliteStore(path)
    store.remember([new_fact(f"fact {number}") for number in range(200)], actor=PERSON)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"\xff" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(StartupError, match=r"is damaged \(.*\); restore a copy of it"):
            SqliteStore(path)


FULL = "the disk is full"
REFUSALS = {
    apsw.FullError("database or disk is full"): FULL,
    apsw.IOError("disk I/O error"): "the disk failed, is full or limits the size of files",
    apsw.CantOpenError("unable to open database file"): "unable to open database file",
    apsw.ReadOnlyError("attempt to write a readonly database"): "attempt to write a readonly",
    apsw.BusyError("database is locked"): "database is locked",
}


@pytest.mark.parametrize("error", REFUSALS, ids=str)
@pytest.mark.parametrize("does", ["serve", "rebuild", "export", "verify"])
def test_disk_that_gives_no_room_while_a_file_is_opened_is_not_taken_for_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: apsw.Error, does: str
) -> None:
    SqliteStore(path).close()

    def refused(*_: object, **__: object) -> None:
        raise error

    module, step, run = {
        "serve": (migrate, "migrate", lambda: SqliteStore(path)),
        "rebuild": (migrate, "migrate", lambda: offline_rebuild.rebuild(path)),
        "export": (exports, "write_tables", lambda: exports.export(path, io.BytesIO())),
        "verify": (file_verification, "verify", lambda: offline_rebuild.verify(path)),
    }[does]
    monkeypatch.setattr(module, step, refused)
    with pytest.raises(StartupError) as caught:
        run()
    message = str(caught.value)
    assert message.startswith(f"database {path} cannot be used ({REFUSALS[error]}")
    assert message.endswith("); check its disk and permissions, then try again")
    assert "damaged" not in message
    assert "restore" not in message


def test_page_that_is_found_damaged_while_serving_ends_writing_and_readiness(path: Path) -> None:
    store = SqliteStore(path)
    facts = [new_fact(f"ship number {number} is at sea") for number in range(200)]
    remembered = store.remember(facts, actor=PERSON)
    store.close()
    data = bytearray(path.read_bytes())
    # In the table of facts: the log has the words with their name before them.
    damage_match = re.search(rb'(?<!:")ship number 150 is', data)
    assert damage_match is not None
    page = damage_match.start() // 4096 * 4096
    data[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(data)

    store = SqliteStore(path)
    store.check()
    message_pattern = (
        r"the database is corrupt \(.*\); the store is read-only. Restore a copy of it"
    )
    with pytest.raises(StoreUnavailable, match=message_pattern):
        [store.fact(result.fact_id, ALL) for result in remembered]
    with pytest.raises(StoreUnavailable, match=message_pattern):
        store.check()
    with pytest.raises(StoreUnavailable, match=message_pattern):
        store.remember([new_fact("a copy would not have it")], actor=PERSON)
    store.check_alive()  # a restart would not help
    assert store.fact(remembered[0].fact_id, ALL) is not None
    store.close()


def spoilt(data: bytes, damage_kind: str) -> bytes | None:
    """Damage a row of the index as a disk may, which the database does not notice."""
    n, u, m = struct.unpack_from("<III", data)
    width = 0 if n == 1 else 1 if 0 < n <= 64 else 2
    counts = 12 + 8 * u
    spans = {
        "all of it": (0, len(data)),
        "the head": (0, 12),
        "the counts": (counts, counts + width * u),
        "the places": (counts + width * u, counts + width * (u + m)),
    }
    if damage_kind in spans:
        start, end = spans[damage_kind]
        return data[:start] + b"\xff" * (end - start) + data[end:]
    return {"the end": data[:-1], "nothing left": b"", "no row": None}[damage_kind]


def search(store: SqliteStore, query: str) -> list[str]:
    return [hit.fact.content for hit in store.search(Search(View(TEAM), query, 10)).hits]


@pytest.mark.parametrize("count", [20, 700, 4100])
@pytest.mark.parametrize(
    "damage_kind",
    ["all of it", "the head", "the counts", "the places", "the end", "nothing left", "no row"],
)
def test_index_that_is_damaged_unnoticed_is_said_and_made_anew_by_rebuild(
    path: Path, count: int, damage_kind: str
) -> None:
    store = SqliteStore(path)
    facts = [new_fact(f"ship number {number} is at sea", scope=TEAM) for number in range(count)]
    remembered = store.remember(facts, actor=PERSON)
    hits_before = search(store, "ship")
    store.close()
    db = apsw.Connection(str(path))
    # Also the last documents alone, which the next write puts together with others.
    for key, size, data in db.execute("SELECT key, size, data FROM posting").fetchall():
        if size > 1 or damage_kind in ("all of it", "nothing left"):
            spoiled = spoilt(data, damage_kind)
            if spoiled is None:
                db.execute("DELETE FROM posting WHERE key = ?", (key,))
            else:
                db.execute("UPDATE posting SET data = ? WHERE key = ?", (spoiled, key))
    db.close()

    store = SqliteStore(path)
    message_pattern = r"the index is corrupt \(.*\); .*run `kais-knowledge rebuild`"
    with pytest.raises(StoreUnavailable, match=message_pattern):
        search(store, "ship")
    with pytest.raises(StoreUnavailable, match=message_pattern):
        store.check()
    with pytest.raises(StoreUnavailable, match=message_pattern):
        store.remember([new_fact("somewhere else", scope=OTHER)], actor=PERSON)
    store.check_alive()
    assert store.fact(remembered[0].fact_id, ALL) is not None
    store.close()
    assert offline_rebuild.verify(path).problems == ()
    offline_rebuild.rebuild(path)
    store = SqliteStore(path)
    assert set(search(store, "ship")) >= set(hits_before)
    store.close()


def test_damage_of_the_index_that_a_write_meets_takes_it_back_and_is_said(path: Path) -> None:
    store = SqliteStore(path)
    store.remember([new_fact(f"ship {number}") for number in range(7)], actor=PERSON)
    store.close()
    db = apsw.Connection(str(path))
    db.execute("UPDATE posting SET data = substr(data, 2)")
    db.close()
    store = SqliteStore(path)
    message_pattern = (
        "the index is corrupt (a row of the index has another size than it says); the store"
    )
    for content in ("the eighth, with which all are put together", "another one"):
        with pytest.raises(StoreUnavailable, match=re.escape(message_pattern)):
            store.remember([new_fact(content)], actor=PERSON)
    store.close()
    assert offline_rebuild.verify(path).events == 4  # three scopes, and what was told first
    assert offline_rebuild.rebuild(path).changed == ("posting",)


@pytest.mark.parametrize("spoiled", [b"\xf8", b"{", b"{}\n{}"])
def test_log_that_is_damaged_unnoticed_is_said_where_it_is_read(path: Path, spoiled: bytes) -> None:
    store = SqliteStore(path)
    (remembered,) = store.remember([new_fact("ship")], actor=PERSON)
    store.close()
    db = apsw.Connection(str(path))
    db.execute("UPDATE payload SET bytes = ?", (spoiled,))
    db.close()
    store = SqliteStore(path)
    message_pattern = r"the database is corrupt \(an event says nothing that can be read\)"
    with pytest.raises(StoreUnavailable, match=message_pattern):
        store.audit((ScopeRange("platform", subtree=True),), None, limit=10)
    with pytest.raises(StoreUnavailable, match=message_pattern):
        store.check()
    assert store.fact(remembered.fact_id, ALL) is not None
    store.close()
    assert len(offline_rebuild.verify(path).problems) == 4


def test_disk_that_is_full_is_logged_when_it_begins_and_when_it_ends(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="knowledge_service")
    store = SqliteStore(path)

    def full(_: transaction.Transaction) -> None:
        raise apsw.FullError("database or disk is full")

    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store._writer.submit(full)
    store.remember([new_fact("snow")], actor=PERSON)
    log_records = [r for r in caplog.records if r.name.endswith("write_health")]
    assert [r.message for r in log_records] == [
        "the store takes no writes",
        "the store takes writes again",
    ]
    assert "database or disk is full" in log_records[0].fields["why"]  # type: ignore[attr-defined]
    store.close()


def test_error_that_nobody_foresaw_ends_no_writer_and_asks_for_a_restart(path: Path) -> None:
    store = SqliteStore(path)
    inner = store._writer._commits._connection
    store._writer._commits._connection = Disk(inner, apsw.ConstraintError("odd"))  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable, match=r"ConstraintError: odd"):
        store.remember([new_fact("lost")], actor=PERSON)
    store._writer._commits._connection = inner
    with pytest.raises(StoreUnavailable, match="restart the service"):
        store.check_alive()
    with pytest.raises(StoreUnavailable):
        store.remember([new_fact("lost")], actor=PERSON)
    store.close()
