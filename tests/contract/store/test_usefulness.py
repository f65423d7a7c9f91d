"""What became of runs weighs in ranking, as far as the reader may see who says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_service.domain.access_control import View
from knowledge_service.ports import FactUsage, Search
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import AGENT, LEAD, OTHER, TEAM, new_fact


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
