"""The power goes at any moment: what was acknowledged is there, and the file is whole.

150 cuts by default; `KAIS_POWER_CUTS` sets another number, as `make soak` does.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from knowledge_service.errors import StartupError, StoreUnavailable
from knowledge_service.ports import IdempotencyKey, Listing
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests import faulty_filesystem, settings
from tests.knowledge_builders import ALL, OPERATOR, PERSON, new_fact, run_in, run_key

WRITES = 24
NAME = "knowledge.db"
_HONEST = connection.open_writer


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder in memory where there is one: the disk is a made-up one anyway."""
    memory = Path("/dev/shm")  # noqa: S108 - made by tempfile
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as created:
        yield Path(created)


@dataclass
class Story:
    """What the store said it has, until the power went."""

    disk: faulty_filesystem.Disk
    told: dict[str, str]
    """Each acknowledged fact's id and content."""
    runs: list[str]


def play(folder: Path, seed: int, *, is_new: bool, cut_at: int | None) -> Story:
    """Write until the power goes at a changing call, or to the end."""
    rng = random.Random(seed)  # noqa: S311
    disk = faulty_filesystem.Disk(folder / "live", seed)
    if not is_new:
        shutil.copy(folder.parent / NAME, disk.folder / NAME)
    disk.cut_at = cut_at
    story = Story(disk, {}, [])
    with faulty_filesystem.mounted(disk), suppress(StoreUnavailable, StartupError, apsw.IOError):
        store = SqliteStore(disk.folder / NAME)
        # Fold the log into the file often, so that the power goes there, too: by the thread
        # beside the writer, or by the writer alone.
        final_state = rng.choice((4, 30, 1000))
        store._writer._checkpointer._checkpoint_pages = final_state
        if rng.random() < 0.5:
            store._writer._commits._connection.wal_autocheckpoint(final_state)
        try:
            _write(store, rng, story)
        finally:
            store.close()
    return story


def _write(store: SqliteStore, rng: random.Random, story: Story) -> None:
    for number in range(WRITES):
        if rng.random() < 0.1:
            _refused_once(store, story.disk)
        if number % 6 == 5:
            run_id = f"run-{number}"
            store.put_run(run_id, run_in(), actor=OPERATOR)
            story.runs.append(run_id)
        contents = [f"fact {number} {part}: {rng.random()}" for part in range(rng.randint(1, 3))]
        first_idempotency_key = IdempotencyKey("ada", f"key-{number}", "0") if number % 2 else None
        facts = [new_fact(content) for content in contents]
        remembered = store.remember(facts, actor=PERSON, idempotency_key=first_idempotency_key)
        story.told |= {
            item.fact_id: content for item, content in zip(remembered, contents, strict=True)
        }


def _refused_once(store: SqliteStore, disk: faulty_filesystem.Disk) -> None:
    """Have the disk be full for one write, which leaves half of it behind."""
    disk.fault = {"write": faulty_filesystem.error(apsw.FullError, "database or disk is full")}
    with suppress(StoreUnavailable):
        store.remember([new_fact("never acknowledged")], actor=PERSON)
    disk.fault = {}


def losses(story: Story, to: Path) -> list[str]:
    """Start over on what the disk has, and list what is missing, doubled or damaged."""
    path = story.disk.survive(to) / NAME
    try:
        return _differences(story, path)
    except (StartupError, StoreUnavailable) as exc:
        # Damage shows wherever a page is first read: at the start, in a list, or in a rebuild.
        return [str(exc)]


def _differences(story: Story, path: Path) -> list[str]:
    store = SqliteStore(path)
    try:
        contents = [fact.content for fact in store.list_facts(Listing(ALL, 1000))]
        missing = [content for content in story.told.values() if content not in contents]
        missing += [run_id for run_id in story.runs if store.run(run_key(run_id), ALL) is None]
        doubled = sorted({content for content in contents if contents.count(content) > 1})
        with suppress(StoreUnavailable):
            store.remember([new_fact("written after the power came back")], actor=PERSON)
    finally:
        store.close()
    rebuilt = offline_rebuild.rebuild(path).changed
    return [*missing, *doubled, *offline_rebuild.verify(path).problems, *rebuilt]


@pytest.fixture
def calls(folder: Path) -> dict[bool, int]:
    """Make the file that most cuts begin with; count the calls of a run that nothing ends."""
    SqliteStore(folder / NAME).close()
    fields = {}
    for is_new in (False, True):
        story = play(folder / f"whole-{is_new}", 0, is_new=is_new, cut_at=None)
        assert len(story.told) > WRITES
        assert losses(story, folder / f"whole-{is_new}" / "after") == []
        fields[is_new] = story.disk.calls
    return fields


def cuts(folder: Path, calls: dict[bool, int], number: int) -> Iterator[tuple[int, list[str]]]:
    """Cut the power that many times; give each cut that lost something, with what was lost."""
    for seed in range(number):
        is_new = seed % 6 == 0
        at = random.Random(seed).randint(1, calls[is_new])  # noqa: S311
        room = folder / f"cut-{seed}"
        story = play(room, seed, is_new=is_new, cut_at=at)
        assert story.disk.is_off or at > story.disk.calls
        lost = losses(story, room / "after")
        shutil.rmtree(room)
        if lost:
            yield seed, lost


def test_whatever_was_acknowledged_outlives_a_power_cut(
    folder: Path, calls: dict[bool, int]
) -> None:
    assert list(cuts(folder, calls, settings.power_cuts())) == []


def _synced(mode: str) -> Callable[[Path], apsw.Connection]:
    def opened(path: Path) -> apsw.Connection:
        honest = _HONEST(path)
        honest.execute(f"PRAGMA synchronous={mode}")
        return honest

    return opened


@pytest.mark.parametrize("damage_kind", ["OFF", "NORMAL"])
def test_store_that_does_not_wait_for_the_disk_fails_the_suite(
    folder: Path, calls: dict[bool, int], monkeypatch: pytest.MonkeyPatch, damage_kind: str
) -> None:
    monkeypatch.setattr(connection, "open_writer", _synced(damage_kind))
    assert next(cuts(folder, calls, 60), None)
