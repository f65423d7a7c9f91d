"""What became of runs weighs in ranking, as far as the reader may see who says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_service.domain.access_control import EVERYTHING, View
from knowledge_service.ports import FactUsage, Search
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import AGENT, LEAD, OTHER, PERSON, TEAM, new_fact


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "k.db")
    yield opened
    opened.close()


def scores(store: SqliteStore, home: str = LEAD) -> dict[str, tuple[float, float | None]]:
    hits = store.search(Search(View(home), "which gate", 10)).hits
    return {hit.fact.content: (hit.score, hit.parts.get("x_usefulness")) for hit in hits}


def told(store: SqliteStore) -> list[str]:
    facts = [new_fact("the red gate", "platform"), new_fact("the blue gate", "platform")]
    return [remembered.fact_id for remembered in store.remember(facts, actor=AGENT)]


def test_fact_that_helped_comes_before_its_like_that_did_not(store: SqliteStore) -> None:
    red, blue = told(store)
    store.count_usage([FactUsage(blue, "succeeded", 6)], observer=TEAM, actor="x")
    store.count_usage([FactUsage(red, "failed", 6)], observer=TEAM, actor="x")
    matching_scores = scores(store)
    assert list(matching_scores) == ["the blue gate", "the red gate"]
    # (6 + 4/2) / (6 + 4) and (0 + 4/2) / (6 + 4), both around the scope's own rate of one half.
    assert matching_scores["the blue gate"][1] == pytest.approx(0.8 + 0.4 * 0.8)
    assert matching_scores["the red gate"][1] == pytest.approx(0.8 + 0.4 * 0.2)


def test_uses_of_observers_out_of_sight_move_nothing(store: SqliteStore) -> None:
    _, blue = told(store)
    initial_scores = scores(store)
    store.count_usage([FactUsage(blue, "succeeded", 50)], observer=OTHER, actor="x")
    assert scores(store) == initial_scores
    assert scores(store, OTHER)["the blue gate"] != initial_scores["the blue gate"]


def test_uses_that_say_nothing_of_an_outcome_do_not_weigh(store: SqliteStore) -> None:
    _, blue = told(store)
    initial_scores = scores(store)
    store.count_usage([FactUsage(blue, "consulted", 50)], observer=TEAM, actor="x")
    assert scores(store) == initial_scores


def test_reader_of_everything_counts_each_observer_that_is_not_retired(store: SqliteStore) -> None:
    def useful() -> float | None:
        hits = store.search(Search(EVERYTHING, "which gate", 10)).hits
        parts = {hit.fact.content: hit.parts for hit in hits}
        return parts["the blue gate"].get("x_usefulness")

    _, blue = told(store)
    store.count_usage([FactUsage(blue, "failed", 2)], observer=TEAM, actor="x")
    store.count_usage([FactUsage(blue, "succeeded", 1)], observer=TEAM, actor="x")
    of_one_observer = useful()
    assert of_one_observer is not None
    store.count_usage([FactUsage(blue, "succeeded", 9)], observer=OTHER, actor="x")
    of_both = useful()
    assert of_both is not None
    assert of_both > of_one_observer
    store.delete_scope(OTHER, actor=PERSON)
    assert useful() == of_one_observer
