"""`kais-knowledge export --to FILE` writes the whole file or none, and no other file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from knowledge_service import admin_cli
from knowledge_service.errors import StartupError
from knowledge_service.settings import AdminCommand
from knowledge_service.store.sqlite.maintenance import exports
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import PERSON, new_fact


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    store.remember([new_fact("it rains")], actor=PERSON)
    store.close()
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for nothing but the export."""
    path = tmp_path / "exported"
    path.mkdir()
    return path


@pytest.fixture(params=["hard links", "no hard links"])
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system of the test, with and without hard links."""

    def refuse_link(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if request.param == "no hard links":
        monkeypatch.setattr(os, "link", refuse_link)


def export(db: Path, file: Path) -> str:
    lines: list[str] = []
    assert admin_cli.run_command(AdminCommand("export", db, file), write_line=lines.append) == 0
    return "\n".join(lines)


@pytest.mark.usefixtures("file_system")
def test_export_leaves_a_file_named_unfinished_as_it_is(db: Path, folder: Path) -> None:
    file, own = folder / "all.jsonl", folder / "all.jsonl.unfinished"
    own.write_text("mine")
    assert export(db, file).startswith("exported ")
    assert own.read_text() == "mine"
    assert "it rains" in file.read_text()
    assert sorted(folder.iterdir()) == [file, own]


def test_export_that_fails_leaves_a_file_named_unfinished_as_it_is(
    db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = folder / "all.jsonl.unfinished"
    own.write_text("mine")

    def fill_disk(_: Path, stream: BinaryIO) -> None:
        stream.write(b"{}\n")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exports, "export", fill_disk)
    with pytest.raises(StartupError, match=r"No space left on device\); nothing is left of it"):
        export(db, folder / "all.jsonl")
    assert [(path, path.read_text()) for path in folder.iterdir()] == [(own, "mine")]


@pytest.mark.usefixtures("file_system")
def test_export_refuses_a_name_that_another_program_takes_meanwhile(
    db: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "all.jsonl"
    write_export = exports.export

    def take_name(source: Path, stream: BinaryIO) -> exports.ExportCounts:
        file.write_text("mine")
        return write_export(source, stream)

    monkeypatch.setattr(exports, "export", take_name)
    with pytest.raises(StartupError) as refusal:
        export(db, file)
    assert str(refusal.value) == f"{file} exists already; choose another name"
    assert [(path, path.read_text()) for path in folder.iterdir()] == [(file, "mine")]


def test_export_refuses_a_link_that_leads_nowhere(db: Path, folder: Path) -> None:
    file = folder / "all.jsonl"
    file.symlink_to("nowhere")
    with pytest.raises(StartupError, match="exists already; choose another name"):
        export(db, file)
    assert list(folder.iterdir()) == [file]
    assert file.is_symlink()


def test_export_below_a_file_says_that_it_cannot_write(db: Path, folder: Path) -> None:
    (folder / "other").write_text("mine")
    file = folder / "other" / "all.jsonl"
    with pytest.raises(StartupError) as refusal:
        export(db, file)
    assert str(refusal.value) == f"cannot write {file} (Not a directory); nothing is left of it"


@pytest.mark.usefixtures("file_system")
def test_exported_file_has_the_mode_of_any_new_file(db: Path, folder: Path) -> None:
    other, file = folder / "other", folder / "all.jsonl"
    other.touch()
    export(db, file)
    assert oct(file.stat().st_mode) == oct(other.stat().st_mode)
