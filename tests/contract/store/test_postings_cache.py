"""A store that has kept what it decoded recalls as one that has just been opened."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from knowledge_service.domain.access_control import View
from knowledge_service.ports import ActionContext, Hit, Search
from knowledge_service.search.postings import scope_layout
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import LEAD, PERSON, TEAM, new_fact

MESSAGES = [f"word{n}" for n in range(30)]
ACTION_CONTEXT = ActionContext(PERSON, "asked to")


def asked(store: SqliteStore, query: str) -> list[tuple[str, float, dict[str, float]]]:
    hits: tuple[Hit, ...] = store.search(Search(View(LEAD), query, 10, explain=True)).hits
    return [(hit.fact.id, hit.score, dict(hit.parts)) for hit in hits]


def of_a_copy(path: Path, copy: Path, queries: list[str]) -> list[object]:
    """Ask a store that has just been opened over a copy of the file and its log.

    It keeps entries by term for no scope without a full run.
    """
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    fresh = SqliteStore(copy)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scope_layout, "_MIN_CACHED_BY_TERM", scope_layout.SHARD_SIZE)
            return [asked(fresh, query) for query in queries]
    finally:
        fresh.close()


@pytest.mark.parametrize("min_cached_by_term", [1, 20])
@pytest.mark.parametrize("seed", range(3))
def test_histories_with_erasures_are_recalled_as_by_a_store_just_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, min_cached_by_term: int
) -> None:
    monkeypatch.setattr(scope_layout, "_MIN_CACHED_BY_TERM", min_cached_by_term)
    dice = random.Random(seed)  # noqa: S311 - cases of a test
    path = tmp_path / "k.db"
    store = SqliteStore(path)
    known_names: list[str] = []
    try:
        for step in range(12):
            facts = [
                new_fact(
                    f"{' '.join(dice.choices(MESSAGES, k=6))} n{step}x{n}",
                    scope=dice.choice((LEAD, TEAM)),
                )
                for n in range(dice.choice((1, 1, 7, 60)))
            ]
            known_names += [
                remembered.fact_id for remembered in store.remember(facts, actor=PERSON)
            ]
            queries = [" ".join(dice.sample(MESSAGES, 3)) for _ in range(3)]
            for query in queries:
                asked(store, query)
            if dice.random() < 0.6:
                # Often the newest: its number is given to the next fact.
                deleted_name = (
                    known_names.pop()
                    if dice.random() < 0.7
                    else known_names.pop(dice.randrange(len(known_names)))
                )
                store.erase(deleted_name, ACTION_CONTEXT)
                duplicate = new_fact(
                    " ".join(dice.choices(MESSAGES, k=6)) + f" s{step}", scope=LEAD
                )
                known_names += [
                    remembered.fact_id for remembered in store.remember([duplicate], actor=PERSON)
                ]
            results = [asked(store, query) for query in queries]
            assert results == of_a_copy(path, tmp_path / f"copy{step}.db", queries)
    finally:
        store.close()


def test_successor_of_an_erased_fact_is_found_by_its_own_words_only(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "k.db")
    try:
        store.remember([new_fact("apples in autumn")], actor=PERSON)
        (last,) = store.remember([new_fact("pears in spring")], actor=PERSON)
        assert [fact for fact, _, _ in asked(store, "pears")] == [last.fact_id]
        store.erase(last.fact_id, ACTION_CONTEXT)
        (new,) = store.remember([new_fact("plums in summer")], actor=PERSON)
        assert asked(store, "pears") == []
        assert [fact for fact, _, _ in asked(store, "plums")] == [new.fact_id]
    finally:
        store.close()


def test_word_kept_in_the_midst_of_a_large_run_is_read_on_when_that_is_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "k.db"
    store = SqliteStore(path)
    try:
        for first, end in ((0, 5000), (5000, 8300)):  # a run has 4,096
            # The rarer word is in few facts of each run, and in none of the newest.
            facts = [
                new_fact(f"rain {'snow' if n % 500 == 7 else 'sun'} n{n}", scope=TEAM)
                for n in range(first, end)
            ]
            store.remember(facts, actor=PERSON)
            results = asked(store, "snow")
        assert [results] == of_a_copy(path, tmp_path / "copy.db", ["snow"])
        assert len(results) == 10
    finally:
        store.close()
