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
from knowledge_service import backup_bucket
from knowledge_service.errors import StartupError
from tests.knowledge_process import errand, serving
from tests.s3_server import answers as s3_answers
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
    name = f"{FOLDER}/knowledge-20250101T000000Z.db"
    reason = f"{name} is not a readable copy of a kais database (it is not a database)"
    assert refused.stderr.decode() == f"kais-knowledge: {reason}\n"
    assert db.read_bytes() == before
    assert [path.name for path in db.parent.iterdir() if "restore" in path.name] == []


def test_a_copy_never_replaces_another_one(
    server: s3_server.S3Server,
    folder: S3Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in server.variables().items():
        monkeypatch.setenv(name, value)
    obstore.put(folder, "knowledge-20250101T000000Z.db", b"of another installation")
    copy = tmp_path / "knowledge-20250101T000000Z.db"
    copy.write_bytes(b"mine")
    with pytest.raises(StartupError, match=r"exists already.* a folder of its own"):
        backup_bucket.BackupBucket(FOLDER).upload(copy)
    stored = obstore.get(folder, copy.name).bytes()
    assert bytes(stored) == b"of another installation"


def test_a_service_that_runs_is_named_before_anything_is_downloaded(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with serving(path), s3_answers.serve(b"a copy") as answers:
        refused = errand(
            "restore",
            "--db",
            path,
            "--from",
            f"{FOLDER}/knowledge-20250101T000000Z.db",
            environment=answers.variables(),
        )
    assert refused.returncode == 1
    assert "is in use by another kais-knowledge process" in refused.stderr.decode()
    assert answers.requests == []


def test_a_place_that_cannot_be_written_is_named(server: s3_server.S3Server, db: Path) -> None:
    refused = run(server, "restore", "--db", "/proc/none/knowledge.db", "--from", FOLDER)
    assert "database /proc/none/knowledge.db cannot be opened" in refused.stderr.decode()
    copy = f"{FOLDER}/knowledge-20250101T000000Z.db"
    refused = run(server, "restore", "--db", "/proc/knowledge.db", "--from", copy)
    assert "database /proc/knowledge.db cannot be opened" in refused.stderr.decode()


def test_a_large_copy_is_read_in_parts_so_that_no_request_lasts_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * 4096 * 11  # 11 MiB
    with s3_answers.serve(content) as answers:
        for name, value in answers.variables().items():
            monkeypatch.setenv(name, value)
        bucket = backup_bucket.BackupBucket(FOLDER)
        bucket.download("knowledge-20250101T000000Z.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == content
    sizes = [size for method, size in answers.requests if method == "GET"]
    assert sum(sizes) == len(content)
    assert max(sizes) <= 5 * 1024 * 1024


def test_a_bucket_of_another_region_is_explained(tmp_path: Path) -> None:
    with s3_answers.serve(b"", status=301) as answers:
        failed = errand(
            "restore",
            "--db",
            tmp_path / "a.db",
            "--from",
            FOLDER,
            environment=answers.variables(),
        )
    message = f"cannot list {FOLDER} (the bucket is in another region; set AWS_REGION)"
    assert failed.stderr.decode() == f"kais-knowledge: {message}\n"


def test_a_server_with_tls_needs_an_authority_that_is_trusted(tmp_path: Path) -> None:
    copy = f"{FOLDER}/knowledge-20250101T000000Z.db"
    with s3_answers.serve(b"no database", certificates=tmp_path) as answers:
        refused = errand(
            "restore", "--db", tmp_path / "a.db", "--from", copy, environment=answers.variables()
        )
        assert "not trusted; set SSL_CERT_FILE" in refused.stderr.decode()
        trusting = answers.variables() | {"SSL_CERT_FILE": str(tmp_path / "authority.pem")}
        trusted = errand("restore", "--db", tmp_path / "a.db", "--from", copy, environment=trusting)
    assert f"{copy} is not a readable copy" in trusted.stderr.decode()


def test_an_address_without_tls_needs_a_variable(server: s3_server.S3Server, db: Path) -> None:
    failed = run(server, "backup", "--db", db, "--to", FOLDER, AWS_ALLOW_HTTP="false")
    assert "an address without TLS needs AWS_ALLOW_HTTP=true" in failed.stderr.decode()


def test_an_address_with_a_key_is_refused_and_not_repeated(
    server: s3_server.S3Server, db: Path
) -> None:
    for address in ("s3://AKIA1:hunter2@copies/kais", "s3://", "s3://copies/kais?secret=hunter2"):
        refused = run(server, "backup", "--db", db, "--to", address)
        assert refused.returncode == 2
        assert "the address of a bucket is s3://BUCKET or s3://BUCKET/FOLDER" in (
            refused.stderr.decode()
        )
        assert "hunter2" not in refused.stderr.decode()


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
