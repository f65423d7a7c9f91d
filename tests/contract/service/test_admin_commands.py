"""`kais-knowledge verify|rebuild|export|import|backup|restore`, on files and beside a service."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from pathlib import Path

import apsw
import pytest

from knowledge_client import KnowledgeClient
from knowledge_client.models import (
    EpisodesIn,
    ExtractionIn,
    FactIn,
    FactsIn,
    ReasonIn,
    RecallIn,
)
from knowledge_service import clock
from knowledge_service.errors import StartupError
from knowledge_service.event_log import event_payloads
from knowledge_service.event_log.hash_chain import event_hash
from knowledge_service.store.sqlite.maintenance import (
    backup_and_restore,
    exports,
    offline_rebuild,
)
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import PERSON, TEAM, episode, new_fact, run_in
from tests.knowledge_process import errand, serving


def fill(url: str) -> None:
    """Facts, a correction, a run with its record, a recall with its receipt, an erasure-to-be."""
    with KnowledgeClient(url) as client:
        facts = [FactIn(content=f"the {n}th buoy is numbered {n}", scope=TEAM) for n in range(30)]
        client.remember_batch(FactsIn(facts=tuple(facts)))
        first = client.list_facts(scope=TEAM).facts[0]
        client.put_run("r", run_in(mission="m-1"))
        client.add_episodes(EpisodesIn(run_id="r", episodes=(episode("pod a was killed"),)))
        client.recall(
            RecallIn(query="which buoy is numbered 7", run="r", attempt=1, scopes=(TEAM,))
        )
        client.put_run("r", run_in(outcome="Succeeded"))
        client.start_extraction(ExtractionIn(run_id="r"))
        client.retract(first.id, ReasonIn(reason="it was moved"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "knowledge.db"
    with serving(path) as (process, url):
        fill(url)
        process.terminate()
        process.wait(20)
    return path


@pytest.fixture
def db(filled: Path, tmp_path: Path) -> Path:
    """A database of the test's own, closed in good order: its log is folded into the file."""
    return Path(shutil.copy(filled, tmp_path))


def said(result: object) -> str:
    return result.stderr.decode()  # type: ignore[attr-defined]


def test_verify_counts_the_events_of_a_good_file(db: Path) -> None:
    process = errand("verify", "--db", db)
    assert process.returncode == 0, said(process)
    assert said(process).endswith("events: no problems found\n")


def test_verify_names_a_changed_entry_and_ends_with_1(db: Path) -> None:
    connection = apsw.Connection(str(db))
    connection.execute(
        "UPDATE payload SET bytes = CAST(replace(CAST(bytes AS TEXT), 'buoy', 'boat') AS BLOB)"
        " WHERE CAST(bytes AS TEXT) LIKE '%buoy%'"
    )
    assert connection.changes() > 0
    connection.close()
    process = errand("verify", "--db", db)
    assert process.returncode == 1
    assert "has another payload than was recorded" in said(process)


def test_rebuild_of_a_good_file_changes_nothing(db: Path) -> None:
    process = errand("rebuild", "--db", db)
    assert process.returncode == 0, said(process)
    assert said(process).endswith("events replayed; no change\n")


def test_rebuild_mends_a_table_and_says_which(db: Path) -> None:
    connection = apsw.Connection(str(db))
    connection.execute("UPDATE fact SET content = 'made up' WHERE fact_no = 3")
    connection.close()
    assert "these tables differed from the log: fact\n" in said(errand("rebuild", "--db", db))
    assert "no change" in said(errand("rebuild", "--db", db))


def test_an_export_comes_back_to_the_byte(db: Path, tmp_path: Path) -> None:
    first, path = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert errand("export", "--db", db, "--to", first).returncode == 0
    copy = tmp_path / "copy.db"
    process = errand("import", "--db", copy, "--from", first)
    assert process.returncode == 0, said(process)
    assert errand("export", "--db", copy, "--to", path).returncode == 0
    assert path.read_bytes() == first.read_bytes()
    assert errand("verify", "--db", copy).returncode == 0
    assert "no change" in said(errand("rebuild", "--db", copy))


def test_what_was_imported_answers_as_before(db: Path, tmp_path: Path) -> None:
    now = clock.now()  # facts age, so that both are asked as of one moment
    question = RecallIn(query="which buoy is numbered 7", scopes=(TEAM,), known_at=now)
    answers = []
    exported = errand("export", "--db", db, "--to", "-").stdout
    copy = tmp_path / "copy.db"
    errand("import", "--db", copy, "--from", "-", stdin=exported)
    for path in (db, copy):
        with serving(path) as (_, url), KnowledgeClient(url) as client:
            recalled_facts = client.recall(question).facts
            history = client.list_facts(scope=TEAM, lifecycle="retracted").facts
            answers.append(
                ([(f.id, f.score) for f in recalled_facts], history, client.get_run("r"))
            )
    assert answers[0] == answers[1]
    assert answers[0][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "the export is incomplete after line"),
        (lambda lines: [*lines[:-1], lines[-1][:9]], "is incomplete or not JSON"),
        (lambda lines: [*lines[:9], *lines[10:]], "nothing was imported"),
        (lambda lines: [*lines[:-2], lines[-1]], "the export was changed or lines are missing"),
        (lambda lines: [line.replace(b"buoy", b"boat") for line in lines], "another payload"),
        (lambda lines: [b'{"format": "x"}\n', *lines[1:]], "this is not an export of kais-"),
        (lambda lines: [lines[0].replace(b'ma":', b'ma":9'), *lines[1:]], "newer version"),
        (lambda lines: [lines[0], b'{"table":"x; y","row":{}}\n'], "there is no table x; y"),
        (lambda _: [], "incomplete after line 0"),
    ],
    ids=[
        "without its end", "torn last line", "a line left out", "an event left out",
        "other words", "another file", "a newer schema", "another table", "empty",
    ],
)  # fmt: skip
def test_a_damaged_export_is_refused_as_a_whole(db: Path, tmp_path: Path, change, message) -> None:
    lines = errand("export", "--db", db, "--to", "-").stdout.splitlines(keepends=True)
    copy = tmp_path / "copy.db"
    process = errand("import", "--db", copy, "--from", "-", stdin=b"".join(change(lines)))
    assert process.returncode == 1
    assert message in said(process)
    assert "Traceback" not in said(process)
    good = errand("import", "--db", copy, "--from", "-", stdin=b"".join(lines))
    assert good.returncode == 0, said(good)


def forged(lines: list[bytes], *added: bytes) -> list[bytes]:
    """Return an export with more lines and the end that belongs to it."""
    rows = [line for line in added if line.startswith(b'{"row"')]
    events = [line for line in added if line not in rows]
    changed = [lines[0], *rows, *lines[1:-1], *events]
    end = json.loads(lines[-1])["end"]
    end = {"events": end["events"] + len(events), "rows": end["rows"] + len(rows)}
    end["sha256"] = hashlib.sha256(b"".join(changed)).hexdigest()
    return [*changed, json.dumps({"end": end}).encode() + b"\n"]


def next_event(lines: list[bytes], kind: str, *parts: bytes) -> bytes:
    """Return an event that follows the last one of an export."""
    seq, scope_no, last_kind, actor, at, *hashes = json.loads(lines[-2])["event"]
    row = (seq, scope_no, last_kind, actor, at, *map(bytes.fromhex, hashes))
    payload, payload_hash = event_payloads.encode_lines(parts)
    event = [seq + 1, 1, kind, actor, at, payload_hash.hex(), event_hash(row).hex()]
    texts = [part.decode() for part in parts]
    return json.dumps({"event": event, "salt": payload.salt.hex(), "lines": texts}).encode() + b"\n"


FORGED_EVENTS = {
    "an unknown type": ("fact.exploded", b'{"a":1}'),
    "a fact without its text": ("fact.recorded", b'{"no":9,"fact":"f"}'),
    "a part that is no object": ("fact.recorded", b"[1]"),
    "a part that is no JSON": ("fact.recorded", b"{nope"),
    "a run without its fields": ("run.recorded", b'{"run":{},"realm":1}'),
    "a number beyond the index": (
        "fact.recorded",
        (
            b'{"no":1099511627776,"fact":"f","kind":"fact","content":"x","tags":[],"confidence":0.5,'
            b'"source":{"type":"user_input","actor":"a"},"review":"none"}'
        ),
    ),
}


def exported(db: Path) -> list[bytes]:
    stream = io.BytesIO()
    exports.export(db, stream)
    return stream.getvalue().splitlines(keepends=True)


@pytest.mark.parametrize(("kind", "part"), FORGED_EVENTS.values(), ids=FORGED_EVENTS)
def test_event_that_no_version_recorded_is_refused_and_leaves_an_empty_file(
    db: Path, tmp_path: Path, kind: str, part: bytes
) -> None:
    lines, copy = exported(db), tmp_path / "copy.db"
    changed = forged(lines, next_event(lines, kind, part))
    with pytest.raises(StartupError, match="an event of the export cannot be applied"):
        exports.import_export(copy, changed)
    exports.import_export(copy, forged(lines))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"1180591620717411303424", "line 2 is not a line of an export"),
        (b"[" * 100_000 + b"]" * 100_000, "line 2 of the export is incomplete or not JSON"),
    ],
    ids=["a huge number", "a deep list"],
)
def test_row_that_cannot_be_read_is_refused_with_its_line(
    db: Path, tmp_path: Path, value: bytes, message: str
) -> None:
    row = b'{"row":{"key":"x","value":%b},"table":"meta"}\n' % value
    with pytest.raises(StartupError, match=message):
        exports.import_export(tmp_path / "copy.db", forged(exported(db), row))


def test_row_of_an_older_schema_is_refused_with_what_to_do(db: Path, tmp_path: Path) -> None:
    lines = exported(db)
    lines[0] = b'{"format":"kais-export/1","schema":1}\n'
    row = b'{"row":{"scope":1},"table":"block"}\n'
    with pytest.raises(StartupError, match="`rebuild` the database with this version"):
        exports.import_export(tmp_path / "copy.db", forged(lines, row))


def test_an_import_into_a_file_with_facts_is_refused(db: Path) -> None:
    exported = errand("export", "--db", db, "--to", "-").stdout
    process = errand("import", "--db", db, "--from", "-", stdin=exported)
    assert process.returncode == 1
    assert said(process) == "kais-knowledge: the database is not empty; import into a new file\n"


def test_a_backup_is_made_while_facts_are_written_and_holds_all_that_were_acknowledged(
    tmp_path: Path,
) -> None:
    db, copy = tmp_path / "knowledge.db", tmp_path / "copy.db"
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        fill(url)
        acknowledged = client.remember(FactIn(content="the pilot is called Oda", scope=TEAM))
        process = errand("backup", "--db", db, "--to", copy)
        assert process.returncode == 0, said(process)
        client.remember(FactIn(content="after the copy", scope=TEAM))
    with serving(copy) as (_, url), KnowledgeClient(url) as client:
        assert client.get_fact(acknowledged.fact_id).content == "the pilot is called Oda"
        contents = [fact.content for fact in client.list_facts(scope=TEAM).facts]
    assert "after the copy" not in contents


def test_a_backup_never_replaces_another_file(db: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    process = errand("backup", "--db", db, "--to", tmp_path / "there")
    assert process.returncode == 1
    assert "exists already; a copy never replaces another one" in said(process)
    assert (tmp_path / "there").read_text() == "mine"


def test_a_folder_gets_dated_copies_and_keeps_the_newest(db: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    for name in ("knowledge-20250101T000000Z.db", "knowledge-20260101T000000Z.db", "notes.db"):
        (folder / name).write_text("earlier")
    completed = errand("backup", "--db", db, "--to", folder, "--keep", "2")
    assert completed.returncode == 0, said(completed)
    older, newer, foreign = sorted(path.name for path in folder.iterdir())
    assert (older, foreign) == ("knowledge-20260101T000000Z.db", "notes.db")
    assert "knowledge-20250101T000000Z.db: deleted; the folder keeps 2" in said(completed)
    assert errand("verify", "--db", folder / newer).returncode == 0


def test_rest_of_a_killed_backup_is_deleted_when_it_no_longer_grows(
    db: Path, tmp_path: Path
) -> None:
    """It has the text of facts that were erased since."""
    folder = tmp_path / "copies"
    folder.mkdir()
    rest, growing = "knowledge-20250101T000000Z.db.unfinished", "knowledge-20250102T000000Z.db"
    names = (rest, f"{rest}-journal", f"{growing}.unfinished", "notes.unfinished")
    for name in names:
        (folder / name).write_text("earlier")
    for name in (rest, f"{rest}-journal", "notes.unfinished"):
        os.utime(folder / name, (1_700_000_000, 1_700_000_000))
    completed = errand("backup", "--db", db, "--to", folder, "--keep", "2")
    assert completed.returncode == 0, said(completed)
    left = {path.name for path in folder.iterdir()}
    assert left & set(names) == {f"{growing}.unfinished", "notes.unfinished"}
    assert f"{rest}: deleted; its backup was interrupted" in said(completed)


def test_a_failed_backup_deletes_no_earlier_copy(tmp_path: Path) -> None:
    (tmp_path / "knowledge-20250101T000000Z.db").write_text("earlier")
    completed = errand("backup", "--db", tmp_path / "none.db", "--to", tmp_path, "--keep", "1")
    assert completed.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["knowledge-20250101T000000Z.db"]


def test_copies_are_counted_in_a_folder_only(db: Path, tmp_path: Path) -> None:
    completed = errand("backup", "--db", db, "--to", tmp_path / "one.db", "--keep", "3")
    assert completed.returncode == 1
    assert "is no folder; --keep counts the copies of a folder" in said(completed)


class WritesWhileCopying:
    """The number of pages of a step, before each of which a fact is written to the store."""

    def __init__(self, store: SqliteStore) -> None:
        self.written = 0
        self._store = store

    def __index__(self) -> int:
        self._store.remember([new_fact(f"ship {self.written} came in")], actor=PERSON)
        self.written += 1
        assert self.written < 500, "the copy begins anew at each write, and never ends"
        return 10


def test_a_backup_of_a_store_that_is_written_to_all_the_time_comes_to_its_end(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(db)
    large = [new_fact(f"manifest {n}", data={"cargo": f"{n} " * 9_000}) for n in range(20)]
    store.remember(large, actor=PERSON)  # more than is copied in a step
    writes = WritesWhileCopying(store)
    monkeypatch.setattr(backup_and_restore, "_PAGES", writes)
    backup_and_restore.backup(db, tmp_path / "copy.db")
    store.close()
    assert writes.written > 10
    assert offline_rebuild.verify(tmp_path / "copy.db").problems == ()


def test_a_restore_puts_the_old_file_aside(db: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    errand("backup", "--db", db, "--to", copy)
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        client.remember(FactIn(content="after the copy", scope=TEAM))
    process = errand("restore", "--db", db, "--from", copy)
    assert process.returncode == 0, said(process)
    glob = sorted(tmp_path.glob("knowledge.db.before-*"))
    aside = next(path for path in glob if not path.name.endswith(("-wal", "-shm")))
    assert f"what was there is now {aside}" in said(process)
    with serving(db) as (_, url), KnowledgeClient(url) as client:
        contents = [fact.content for fact in client.list_facts(scope=TEAM).facts]
    assert "after the copy" not in contents
    assert contents


def test_a_restore_that_is_killed_never_leaves_a_place_without_a_file(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.db"
    backup_and_restore.backup(db, copy)
    initial_events = offline_rebuild.verify(db).events
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if target == db:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        backup_and_restore.restore(copy, db, now=clock.now())
    monkeypatch.undo()
    assert offline_rebuild.verify(db).events == initial_events
    process = errand("restore", "--db", db, "--from", copy)
    assert process.returncode == 0, said(process)


def test_a_restore_of_a_file_that_is_served_is_refused(db: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    errand("backup", "--db", db, "--to", copy)
    with serving(db):
        process = errand("restore", "--db", db, "--from", copy)
    assert process.returncode == 1
    assert "is in use by another kais-knowledge process" in said(process)


def test_a_copy_that_does_not_verify_is_never_put_in_place(db: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    errand("backup", "--db", db, "--to", copy)
    connection = apsw.Connection(str(copy))
    connection.execute("DELETE FROM payload WHERE seq = 4")
    connection.close()
    initial_content = db.read_bytes()
    process = errand("restore", "--db", db, "--from", copy)
    assert process.returncode == 1
    assert "does not verify: event 4 has lost its payload" in said(process)
    assert db.read_bytes() == initial_content


@pytest.mark.parametrize("command", ["verify", "rebuild"])
def test_a_file_that_is_no_database_is_said(tmp_path: Path, command: str) -> None:
    path = tmp_path / "knowledge.db"
    path.write_text("no database at all, only words " * 200)
    process = errand(command, "--db", path)
    assert process.returncode == 1
    assert "Traceback" not in said(process)
    assert str(path) in said(process)


def test_a_database_that_is_not_there_is_said(tmp_path: Path) -> None:
    process = errand("verify", "--db", tmp_path / "none.db")
    assert said(process) == (
        f"kais-knowledge: there is no database {tmp_path}/none.db; name one with --db\n"
    )


def test_every_table_is_exported_or_made_from_the_log(db: Path) -> None:
    lines = errand("export", "--db", db, "--to", "-").stdout.splitlines()
    tables = {json.loads(line)["table"] for line in lines if line.startswith(b'{"row"')}
    assert {"meta", "receipt", "usage"} <= tables
