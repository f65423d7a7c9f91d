"""Backups to a bucket: a real S3 server that checks signatures and the rights of a user."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from knowledge_client import KnowledgeClient
from knowledge_client.models import FactIn
from tests.knowledge_process import errand, serving
from tests.s3_server import running as s3_server

FOLDER = "s3://copies/kais"


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.S3Server]:
    with s3_server.running() as server:
        yield server


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "knowledge.db"
    with serving(path) as (_, url), KnowledgeClient(url) as client:
        client.remember(FactIn(content="the ship came in"))
    return path


@pytest.fixture
def folder(server: s3_server.S3Server) -> S3Store:
    """The folder of the bucket, as another client of S3 sees it; empty at the beginning."""
    store = S3Store(
        "copies",
        prefix="kais",
        endpoint=server.url,
        region="us-east-1",
        access_key_id=server.key_id,
        secret_access_key=server.secret,
        client_options={"allow_http": True},
    )
    obstore.delete(store, names(store))
    return store


def names(store: S3Store) -> list[str]:
    return sorted(entry["path"] for entry in obstore.list(store).collect())


def run(
    server: s3_server.S3Server, *arguments: object, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    return errand(*arguments, environment=server.variables() | variables)


def test_a_backup_gets_a_dated_name_and_leaves_nothing_on_the_disk(
    server: s3_server.S3Server, db: Path, folder: S3Store, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    completed = run(server, "backup", "--db", db, "--to", FOLDER, TMPDIR=str(work))
    assert completed.returncode == 0, completed.stderr.decode()
    (name,) = names(folder)
    assert f"{FOLDER}/{name}: a verified copy of {db}" in completed.stderr.decode()
    assert list(work.iterdir()) == []


def test_old_copies_are_deleted_and_other_files_stay(
    server: s3_server.S3Server, db: Path, folder: S3Store
) -> None:
    for name in ("knowledge-20250101T000000Z.db", "knowledge-20250102T000000Z.db", "notes.txt"):
        obstore.put(folder, name, b"older")
    completed = run(server, "backup", "--db", db, "--to", FOLDER, "--keep", 2)
    assert completed.returncode == 0, completed.stderr.decode()
    present = names(folder)
    assert present[0] == "knowledge-20250102T000000Z.db"
    assert present[2] == "notes.txt"
    assert len(present) == 3
    deleted = f"{FOLDER}/knowledge-20250101T000000Z.db: deleted; the bucket keeps 2"
    assert deleted in completed.stderr.decode()


def test_the_newest_copy_or_a_named_one_is_restored(
    server: s3_server.S3Server, db: Path, folder: S3Store, tmp_path: Path
) -> None:
    run(server, "backup", "--db", db, "--to", FOLDER)
    (name,) = names(folder)
    obstore.put(folder, "knowledge-20250101T000000Z.db", b"older, and no database")
    for address, fresh in ((FOLDER, "a.db"), (f"{FOLDER}/{name}", "b.db")):
        restored = run(server, "restore", "--db", tmp_path / fresh, "--from", address)
        assert restored.returncode == 0, restored.stderr.decode()
        assert f"restored from {FOLDER}/{name}" in restored.stderr.decode()
        assert errand("verify", "--db", tmp_path / fresh).returncode == 0


def test_a_copy_that_does_not_verify_is_not_restored(
    server: s3_server.S3Server, db: Path, folder: S3Store
) -> None:
    obstore.put(folder, "knowledge-20250101T000000Z.db", b"no database")
    before = db.read_bytes()
    refused = run(server, "restore", "--db", db, "--from", FOLDER)
    assert refused.returncode == 1
    assert b"Traceback" not in refused.stderr
    assert db.read_bytes() == before


def test_a_wrong_key_an_unknown_bucket_and_no_server_are_explained(
    server: s3_server.S3Server, db: Path, folder: S3Store
) -> None:
    cases = (
        (FOLDER, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "SignatureDoesNotMatch"),
        ("s3://others/kais", {}, "others/kais ("),
        (FOLDER, {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "no answer; check AWS_ENDPOINT_URL"),
    )
    for address, variables, message in cases:
        failed = run(server, "backup", "--db", db, "--to", address, **variables)
        assert failed.returncode == 1, address
        assert message in failed.stderr.decode()
        assert b"Traceback" not in failed.stderr
    assert names(folder) == []


def test_an_empty_folder_and_a_command_without_buckets_say_so(
    server: s3_server.S3Server, db: Path, folder: S3Store
) -> None:
    assert names(folder) == []
    empty = run(server, "restore", "--db", db, "--from", FOLDER)
    assert empty.returncode == 1
    assert "s3://copies/kais has no copy" in empty.stderr.decode()
    refused = run(server, "export", "--db", db, "--to", FOLDER)
    assert refused.returncode == 2
    assert "export takes no bucket, only a file" in refused.stderr.decode()
