"""Ids: of what is named before it is written, and of what the writer stores."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta

from knowledge_service import uuid7

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_early_ids_sort_by_their_moments() -> None:
    moments = [NOW + timedelta(milliseconds=n) for n in range(50)]
    provisional_ids = [uuid7.provisional_id(moment) for moment in moments]
    assert provisional_ids == sorted(provisional_ids)
    assert {uuid.UUID(item).version for item in provisional_ids} == {7}


def test_early_ids_of_one_moment_are_told_apart_by_chance() -> None:
    provisional_ids = {uuid7.provisional_id(NOW) for _ in range(1000)}
    assert len(provisional_ids) == 1000
    assert {uuid.UUID(item).variant for item in provisional_ids} == {uuid.RFC_4122}


def number(fact_id: str) -> int:
    """Return the 74 bits behind the time of an id, without version and variant."""
    value = uuid.UUID(fact_id).int
    return (value >> 64 & 0xFFF) << 62 | value & (1 << 62) - 1


def test_ids_of_one_millisecond_increase_by_steps_that_tell_nobody_how_many_came_between() -> None:
    maker = uuid7.Uuid7Generator()
    created = [maker.generate(NOW) for _ in range(1000)]
    assert created == sorted(set(created))
    steps = [number(b) - number(a) for a, b in itertools.pairwise(created)]
    assert len(set(steps)) > 990
    assert min(steps) >= 1
    assert 0.45 < sum(steps) / len(steps) / 2**32 < 0.55


def test_batches_of_one_millisecond_are_as_far_apart_whatever_their_sizes() -> None:
    gaps = {1: 0.0, 200: 0.0}
    for size in gaps:
        maker = uuid7.Uuid7Generator()
        batches = [maker.generate_batch(NOW, size) for _ in range(1000)]
        assert [fact_id for batch in batches for fact_id in batch] == sorted(
            fact_id for batch in batches for fact_id in batch
        )
        between = [number(b[0]) - number(a[-1]) for a, b in itertools.pairwise(batches)]
        gaps[size] = sum(between) / len(between) / 2**32
    assert all(0.45 < gap < 0.55 for gap in gaps.values()), gaps


def test_ids_follow_the_last_one_of_an_earlier_generator() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    ids = [uuid7.Uuid7Generator().generate(moment)]
    for _ in range(20):
        ids.append(uuid7.Uuid7Generator(ids[-1]).generate(moment))
    assert ids == sorted(set(ids))
    low, high = uuid7.id_range(moment)
    assert all(low < each < high for each in ids)
    assert uuid7.Uuid7Generator(ids[-1]).generate(moment + timedelta(seconds=1)) > high
