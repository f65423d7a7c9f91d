"""Errands on files that are torn, foreign or newer, and onto disks that are full.

Each says what is wrong and where, ends with 1, and leaves nothing half-made.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from kais_cluster.host import ports
from knowledge_client import KnowledgeClient
from knowledge_client.models import FactIn, FactsIn
from tests.knowledge_builders import TEAM
from tests.knowledge_process import ROOT, errand, serving


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "knowledge.db"
    with serving(path) as (process, url), KnowledgeClient(url) as client:
        for start in range(0, 2000, 200):
            facts = [
                FactIn(content=f"the {n}th buoy is numbered {n} and painted", scope=TEAM)
                for n in range(start, start + 200)
            ]
            client.remember_batch(FactsIn(facts=tuple(facts)))
        process.terminate()
        process.wait(20)
    return path


@pytest.fixture
def db(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path))


def said(completed: subprocess.CompletedProcess[bytes]) -> str:
    text = completed.stderr.decode()
    assert "Traceback" not in text
    return text


def on_a_small_disk(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run an errand that may write no file of more than 100 KiB, as on a disk with no more room."""
    command = [sys.executable, "-m", "knowledge_service.main", *map(str, arguments)]
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "bash", *command]
    return subprocess.run(limited, cwd=ROOT, capture_output=True, check=False)


def names(folder: Path) -> set[str]:
    """Name what is there but locks, and what SQLite keeps beside a file that was read."""
    passing = (".lock", "knowledge.db-wal", "knowledge.db-shm", "copy.db-wal", "copy.db-shm")
    return {path.name for path in folder.iterdir() if not path.name.endswith(passing)}


@pytest.mark.parametrize(
    ("command", "option", "message"),
    [
        ("export", "--to", "cannot write {file} (File too large)"),
        ("backup", "--to", "cannot copy {db} to {file}"),
    ],
)
def test_what_does_not_fit_the_disk_leaves_nothing(
    db: Path, tmp_path: Path, command: str, option: str, message: str
) -> None:
    file = tmp_path / "half"
    completed = on_a_small_disk(command, "--db", db, option, file)
    assert completed.returncode == 1
    assert message.format(db=db, file=file) in said(completed)
    assert "not an error" not in said(completed)
    assert names(tmp_path) == {"knowledge.db"}


def test_restore_that_does_not_fit_leaves_what_was_there(db: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert errand("backup", "--db", db, "--to", copy).returncode == 0
    original_bytes = db.read_bytes()
    completed = on_a_small_disk("restore", "--db", db, "--from", copy)
    assert completed.returncode == 1
    assert f"cannot copy {copy} to {db}" in said(completed)
    assert names(tmp_path) == {"knowledge.db", "copy.db"}
    assert db.read_bytes() == original_bytes


def test_import_that_does_not_fit_can_be_repeated(db: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "a.jsonl", tmp_path / "new.db"
    assert errand("export", "--db", db, "--to", file).returncode == 0
    completed = on_a_small_disk("import", "--db", new, "--from", file)
    assert completed.returncode == 1
    assert f"cannot import into {new} (" in said(completed)
    assert "nothing was imported" in said(completed)
    second_run = errand("import", "--db", new, "--from", file)
    assert second_run.returncode == 0, said(second_run)


def test_reader_of_an_export_that_goes_away_is_no_fault(db: Path) -> None:
    command = [sys.executable, "-m", "knowledge_service.main", "export", "--db", db, "--to", "-"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def damage_log(db: Path) -> None:
    connection = apsw.Connection(str(db))
    connection.execute("UPDATE payload SET bytes = CAST('{\"a\" 1}' AS BLOB) WHERE seq = 4")
    connection.close()


def forge_log(db: Path) -> None:
    connection = apsw.Connection(str(db))
    connection.execute(
        "UPDATE payload SET bytes = CAST(replace(CAST(bytes AS TEXT), 'buoy', 'boat') AS BLOB)"
        " WHERE seq = 4"
    )
    connection.close()


@pytest.mark.parametrize("harm", [damage_log, forge_log])
def test_rebuild_from_a_log_that_does_not_verify_is_refused_with_the_place(db, harm) -> None:
    harm(db)
    original_bytes = db.read_bytes()
    completed = errand("rebuild", "--db", db)
    assert completed.returncode == 1
    assert "event 4 has another payload than was recorded" in said(completed)
    assert "nothing was changed; restore a copy" in said(completed)
    assert db.read_bytes() == original_bytes


def root_page(db: Path, name: str) -> int:
    connection = apsw.Connection(str(db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        return int(next(iter(connection.execute(query, (name,))))[0])
    finally:
        connection.close()


def scribble(db: Path, table: str) -> None:
    """Write over the middle of a table's first page, as a failing disk does."""
    with db.open("r+b") as file:
        file.seek((root_page(db, table) - 1) * 4096 + 8)
        file.write(b"\xff" * 2000)


def test_verify_of_a_damaged_file_says_in_which_table(db: Path) -> None:
    scribble(db, "posting")
    completed = errand("verify", "--db", db)
    assert completed.returncode == 1
    assert "posting" in said(completed)
    assert "the log itself is whole: `export` it and `import` that into a new file" in said(
        completed
    )


def test_what_verify_advises_for_a_damaged_table_works(db: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    errand("export", "--db", db, "--to", good)
    scribble(db, "posting")
    file, new = tmp_path / "a.jsonl", tmp_path / "new.db"
    assert errand("export", "--db", db, "--to", file).returncode == 0
    assert file.read_bytes() == good.read_bytes()
    assert errand("import", "--db", new, "--from", file).returncode == 0
    assert errand("verify", "--db", new).returncode == 0


def test_verify_of_a_damaged_log_says_how_far_it_can_be_read(db: Path) -> None:
    scribble(db, "payload")
    completed = errand("verify", "--db", db)
    assert completed.returncode == 1
    assert "the log cannot be read behind event 0" in said(completed)
    assert "restore a copy" in said(completed)


def on_file(command: str, path: Path, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run an errand on a file; what it makes of it is `x` or `new.db` in the folder."""
    arguments = {
        "export": ("--db", path, "--to", folder / "x"),
        "backup": ("--db", path, "--to", folder / "x"),
        "restore": ("--db", folder / "new.db", "--from", path),
        "serve": ("--db", path, "--auth", "none", "--port", ports.free_ports(1)[0]),
    }.get(command, ("--db", path))
    return errand(command, *arguments)


@pytest.mark.parametrize("command", ["verify", "rebuild", "export", "backup", "restore", "serve"])
@pytest.mark.parametrize("kind", ["empty", "foreign"])
def test_file_of_somebody_else_is_left_alone(tmp_path: Path, command: str, kind: str) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    if kind == "foreign":
        connection.execute("CREATE TABLE recipe(name); INSERT INTO recipe VALUES('soup')")
    connection.close()
    path.touch()
    if command == "serve" and kind == "empty":
        return  # a new database begins as an empty file
    original_bytes = path.read_bytes()
    completed = on_file(command, path, tmp_path)
    assert completed.returncode == 1
    assert f"{path} is not a database of kais-knowledge" in said(completed)
    assert path.read_bytes() == original_bytes
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("command", ["verify", "rebuild", "export", "backup", "restore", "serve"])
def test_file_of_a_newer_version_is_left_to_it(db: Path, tmp_path: Path, command: str) -> None:
    connection = apsw.Connection(str(db))
    connection.execute("INSERT INTO migration VALUES(99, 'm099_later', 0)")
    connection.close()
    completed = on_file(command, db, tmp_path)
    assert completed.returncode == 1
    assert "has schema 99, this version of kais-knowledge knows up to" in said(completed)
    assert not (tmp_path / "new.db").exists()


def test_port_that_is_taken_is_said_before_the_database_is_opened(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        completed = errand("serve", "--db", db, "--auth", "none", "--port", port)
    assert completed.returncode == 1
    assert said(completed) == (
        f"kais-knowledge: cannot listen on 127.0.0.1:{port} (Address already in use);"
        " stop what listens there, or choose another with --host and --port"
        " (KAIS_HOST, KAIS_PORT)\n"
    )
    assert names(tmp_path) == set()


def test_service_that_could_know_nobody_does_not_start(tmp_path: Path) -> None:
    db = tmp_path / "knowledge.db"
    (port,) = ports.free_ports(1)
    completed = errand("serve", "--db", db, "--auth", "kubernetes", "--port", port)
    assert completed.returncode == 1
    assert "Outside a cluster use --auth token, or --auth none on localhost" in said(completed)
    assert names(tmp_path) == set()


def test_version_is_told() -> None:
    completed = errand("--version")
    assert completed.returncode == 0
    assert completed.stdout.startswith(b"kais-knowledge 0.")


def test_mistake_in_a_setting_shows_the_usage_of_its_command(tmp_path: Path) -> None:
    completed = errand("serve", "--db", tmp_path / "x", "--auth", "none", "--port", "soon")
    assert completed.returncode == 2
    assert said(completed).startswith("usage: kais-knowledge serve ")
    assert "--port (KAIS_PORT): 'soon' is not a port; use 1 to 65535" in said(completed)
