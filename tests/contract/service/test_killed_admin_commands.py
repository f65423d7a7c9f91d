"""Errands that are killed at any moment leave a database that has every commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_service import admin_cli, clock
from knowledge_service.errors import StartupError
from knowledge_service.ports import Listing
from knowledge_service.settings import AdminCommand
from knowledge_service.store.sqlite.maintenance import backup_and_restore, offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import ALL, PERSON, new_fact

COPIED, LATER = ["it rains"], ["it rains", "it pours"]


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy from before the last commit."""
    store = SqliteStore(tmp_path / "live" / "knowledge.db")
    store.remember([new_fact("it rains")], actor=PERSON)
    backup_and_restore.backup(tmp_path / "live" / "knowledge.db", tmp_path / "copy.db")
    store.remember([new_fact("it pours")], actor=PERSON)
    (tmp_path / "place").mkdir()
    for suffix in ("", "-wal"):  # as after a kill: the last commit is in the log alone
        shutil.copy(tmp_path / "live" / f"knowledge.db{suffix}", tmp_path / "place")
    store.close()
    return tmp_path / "copy.db"


def contents(path: Path) -> list[str]:
    store = SqliteStore(path)
    try:
        return [fact.content for fact in store.list_facts(Listing(ALL, 9))][::-1]
    finally:
        store.close()


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Kill the process before its nth change to the names in a folder."""
    remaining_items = [number]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **kwargs: Any) -> Any:
            if remaining_items[0] == 0:
                raise Killed
            remaining_items[0] -= 1
            return real(*args, **kwargs)

        return change

    monkeypatch.setattr(os, "link", counted(os.link))
    monkeypatch.setattr(Path, "rename", counted(Path.rename))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))


@pytest.mark.parametrize("number", range(9))
def test_restore_that_is_killed_leaves_the_old_file_with_its_last_commit_or_the_copy(
    copy: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = copy.with_name("place") / "knowledge.db"
    with monkeypatch.context() as killing:
        kill_at(killing, number)
        try:
            backup_and_restore.restore(copy, path, now=clock.now())
        except Killed:
            expected = LATER
        else:
            expected = COPIED
    assert contents(path) == expected
    assert offline_rebuild.verify(path).problems == ()


def test_file_that_is_put_aside_has_the_last_commit(copy: Path) -> None:
    path = copy.with_name("place") / "knowledge.db"
    _, aside = backup_and_restore.restore(copy, path, now=clock.now())
    assert aside is not None
    assert contents(aside) == LATER
    assert contents(path) == COPIED


def test_file_system_without_links_has_a_file_at_the_place_all_the_time(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy.with_name("place") / "knowledge.db"
    rename = Path.rename

    def refused(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    def killed(self: Path, target: Path) -> Path:
        if target == path:
            raise Killed
        return rename(self, target)

    with monkeypatch.context() as killing:
        killing.setattr(os, "link", refused)
        killing.setattr(Path, "rename", killed)
        with pytest.raises(Killed):
            backup_and_restore.restore(copy, path, now=clock.now())
    assert contents(path) == LATER


def test_restore_over_a_file_that_is_being_read_changes_nothing(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_and_restore, "_PATIENCE_MS", 10)
    path = copy.with_name("place") / "knowledge.db"
    reading = apsw.Connection(str(path))
    reading.execute("BEGIN; SELECT count(*) FROM fact").fetchall()
    with pytest.raises(StartupError, match=r"another process reads .*end its backup or export"):
        backup_and_restore.restore(copy, path, now=clock.now())
    reading.close()
    assert contents(path) == LATER


def test_damaged_file_is_put_aside_with_its_log(copy: Path) -> None:
    path = copy.with_name("place") / "knowledge.db"
    path.write_bytes(b"no database any more" * 300)
    _, aside = backup_and_restore.restore(copy, path, now=clock.now())
    assert aside is not None
    assert aside.with_name(aside.name + "-wal").stat().st_size > 0
    assert contents(path) == COPIED


@pytest.mark.parametrize("command", ["export", "import"])
def test_name_of_a_new_file_is_on_the_disk_when_its_errand_is_done(
    copy: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    synced: list[Path] = []
    sync = backup_and_restore.sync
    folder = copy.with_name("exported")
    folder.mkdir()
    admin_cli.run_command(
        AdminCommand("export", copy, folder / "all.jsonl"), write_line=lambda _: None
    )

    def noted(path: Path) -> None:
        drafts = [*path.glob("*.unfinished"), *path.glob(".kais-export-*")]
        assert not drafts, "it has its name before the folder is synced"
        synced.append(path)
        sync(path)

    monkeypatch.setattr(backup_and_restore, "sync", noted)
    if command == "export":
        admin_cli.run_command(
            AdminCommand("export", copy, folder / "again.jsonl"), write_line=lambda _: None
        )
    else:
        admin_cli.run_command(
            AdminCommand("import", folder / "new.db", folder / "all.jsonl"),
            write_line=lambda _: None,
        )
    assert synced == [folder]
