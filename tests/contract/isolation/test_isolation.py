"""What a reader gets is the same to the bit whether others are there or not.

10,000 cases by default; `KAIS_ISOLATION_CASES` sets another number, as `make soak` does.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_service.domain.visibility import EVERYTHING, View
from knowledge_service.index import scorer
from knowledge_service.index.candidates import Candidate
from knowledge_service.store.sqlite import part, postings, recall, usage
from knowledge_service.store.sqlite.shelf import Reading, Shelf
from tests import settings
from tests.contract.isolation import playing, worlds

CASES = settings.isolation_cases()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder in memory where there is one: nothing here is about disks."""
    memory = Path("/dev/shm")  # noqa: S108 - made by tempfile
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def test_no_tenant_can_tell_whether_the_others_are_there(folder: Path) -> None:
    # More cases in a world are cheaper, more worlds are more varied.
    a_world = 500 if CASES <= 20_000 else 2_000
    part = settings.soak_part()
    assert playing.differences_on_every_core(folder, CASES, a_world, part=part) == 0


def test_worlds_have_what_a_leak_would_need(folder: Path) -> None:
    made = worlds.world(2)
    for tenant in range(worlds.TENANTS):
        own = [fact for fact in made.facts if fact.owner == tenant]
        assert len(own) == worlds.FACTS
        words = set(" ".join(fact.content for fact in own).split())
        assert len(words & set(made.facts[0].content.split())) > 1
        assert any(use.by == tenant for use in made.uses)
        assert len(made.alone(tenant).facts) == worlds.FACTS + 2 * worlds.SHARED
    assert any(fact.promoted for fact in made.facts)
    stored = worlds.Stored(worlds.open_store(folder / "k.db")).tell(made)
    asked = worlds.question(random.Random(1))  # noqa: S311
    assert worlds.recalled(stored, made.homes[0], asked)
    stored.store.close()


class GlobalStatistics(Shelf):
    """Scores with the statistics of the whole table, as a shared full-text index would."""

    def scores(self, terms: Mapping[str, float]) -> scorer.Scores:
        everything = part.scopes_seen(self._connection, EVERYTHING, None)
        self._scores = postings.search(self._connection, everything, terms)
        return self._scores

    def rows(self, numbers: Sequence[int]) -> Iterable[Candidate]:
        return [row for row in super().rows(numbers) if row.scope_no in self.paths]


class SharedUsage(Shelf):
    """Ranks by everybody's uses."""

    def __init__(self, connection: apsw.Connection, *given: Any) -> None:
        paths, reading, known_at = given
        everybody = part.scopes_seen(connection, EVERYTHING, None)
        read_all = Reading(everybody, None, reading.asked_scopes)
        super().__init__(connection, paths, read_all, known_at)


def _global_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "Shelf", GlobalStatistics)


def _shared_usage_in_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "Shelf", SharedUsage)


def _shared_usage_in_impact(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = usage.of_fact
    monkeypatch.setattr(
        usage, "of_fact", lambda db, number, *_: honest(db, number, EVERYTHING, None)
    )


def _links_of_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "sees", lambda _self, _path: True)
    monkeypatch.setattr(part, "asked_scopes", lambda *_: None)


MUTANTS = {
    "statistics of the whole table": _global_statistics,
    "usage of everybody in the ranking": _shared_usage_in_ranking,
    "usage of everybody in what a fact touched": _shared_usage_in_impact,
    "links of everybody": _links_of_everybody,
}


@pytest.mark.parametrize("mutate", MUTANTS.values(), ids=MUTANTS)
def test_mutant_fails_the_suite(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutate(monkeypatch)
    assert playing.differences(folder, 100, a_world=100) > 0
