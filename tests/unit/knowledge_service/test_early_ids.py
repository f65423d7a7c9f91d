"""Ids of what is named before it is written."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from knowledge_service import ids

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_early_ids_sort_by_their_moments() -> None:
    moments = [NOW + timedelta(milliseconds=n) for n in range(50)]
    made = [ids.early_id(moment) for moment in moments]
    assert made == sorted(made)
    assert {uuid.UUID(each).version for each in made} == {7}


def test_early_ids_of_one_moment_are_told_apart_by_chance() -> None:
    made = {ids.early_id(NOW) for _ in range(1000)}
    assert len(made) == 1000
    assert {uuid.UUID(each).variant for each in made} == {uuid.RFC_4122}
