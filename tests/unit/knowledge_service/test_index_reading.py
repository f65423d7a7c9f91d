"""What is kept of the index gives the same scores, to the bit, as reading it anew."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_service.search.postings import merge_policy, reader, segment, segment_codec
from knowledge_service.search.postings.cache import LruCache, VersionedCache
from knowledge_service.search.ranking import bm25
from knowledge_service.search.text import term_ids
from tests.fakes import recall_snapshot

WORDS = [f"w{n}" for n in range(40)]
ROOMY = 1 << 24


def documents(seed: int, count: int) -> list[segment.Document]:
    dice = random.Random(seed)  # noqa: S311 - cases of a test
    texts = [[*dice.choices(WORDS, k=dice.randint(0, 12)), f"own{n}"] for n in range(count)]
    return [term_ids.document(7 * n, Counter(text)) for n, text in enumerate(texts)]


def packed(found: list[segment.Document]) -> list[segment_codec.Row]:
    return list(merge_policy.pack_tail(segment.build(found), 0)) if found else []


def scores(source: recall_snapshot.MemoryRows, question: list[str], kept: LruCache) -> bm25.Scores:
    weighed = {word: 1.0 + place / 10 for place, word in enumerate(question)}
    return recall_snapshot.scored_rows(source, weighed, kept)


def assert_equal(one: bm25.Scores, other: bm25.Scores) -> None:
    assert one.values.tobytes() == other.values.tobytes()
    for mine, theirs in zip(one.best(20), other.best(20), strict=True):
        assert mine.tolist() == theirs.tolist()
    number = int(one.best(1)[0][0]) if one.values.any() else 0
    assert one.parts(number) == other.parts(number)


@pytest.mark.parametrize("most_bytes", [ROOMY, 20_000], ids=["room for all", "room for little"])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.lists(
        st.tuples(st.integers(0, 600), st.lists(st.sampled_from(WORDS), max_size=6)),
        min_size=1,
        max_size=4,
    ),
)
def test_growing_scopes_score_as_if_nothing_were_kept(
    most_bytes: int, seed: int, steps: list[tuple[int, list[str]]]
) -> None:
    kept = LruCache(most_bytes)
    own, other = documents(seed, 600), packed(documents(seed + 1, 70))
    for count, question in sorted(steps) + steps:  # also snapshots that are older than the kept
        source = recall_snapshot.MemoryRows({1: packed(own[:count]), 2: other})
        assert_equal(scores(source, question, kept), scores(source, question, LruCache(0)))
    assert kept.size_bytes <= most_bytes


def test_split_runs_score_as_if_nothing_were_kept() -> None:
    own = documents(3, 2 * segment_codec.SHARD_SIZE + 700)
    kept, dice = LruCache(ROOMY), random.Random(5)  # noqa: S311
    for count in (4095, 4096, 4700, 8191, 8192, len(own), 4096, 4800):
        source = recall_snapshot.MemoryRows({1: packed(own[:count])})
        for question in (dice.sample(WORDS, 4), ["own17", "w3", "own8100", "none"]):
            assert_equal(scores(source, question, kept), scores(source, question, LruCache(0)))


def test_question_asked_again_reads_nothing() -> None:
    source = recall_snapshot.MemoryRows({1: packed(documents(3, segment_codec.SHARD_SIZE + 100))})
    kept = LruCache(ROOMY)
    scores(source, ["w1", "w2", "none"], kept)
    before = source.reads
    scores(source, ["w2", "none", "w1"], kept)
    assert source.reads == before


def test_term_that_lies_across_two_others_is_not_found() -> None:
    # The bytes of terms 1 and 2 hold those of `across`, off by half a term.
    across = 2 << 32
    found = [segment.Document(n, 2, (1, 2), (1, 1)) for n in range(segment_codec.SHARD_SIZE)]
    rows = recall_snapshot.MemoryRows({1: packed(found)})
    postings = reading_of(rows, across)
    assert postings == 0
    assert reading_of(rows, 2) == segment_codec.SHARD_SIZE


def reading_of(source: recall_snapshot.MemoryRows, term: int) -> int:
    (texts,) = reader.read(source, LruCache(0), [1], np.array([term], dtype=np.int64))
    return sum(len(found.postings.ordinals) for found in texts.postings)


def test_least_used_goes_when_there_is_no_room() -> None:
    kept = LruCache(3 * 1_900)
    for name in "abc":
        kept.put(name, name.upper(), 1_000)
    assert kept.get("a") == "A"
    kept.put("d", "D", 1_000)
    assert kept.get_all(["a", "b", "c", "d"]) == ["A", None, "C", "D"]
    kept.put("e", "E", 10_000)
    assert kept.get("e") is None
    assert kept.get("d") == "D"


def test_snapshot_shares_only_what_is_of_its_edition() -> None:
    keeping = VersionedCache(ROOMY)
    first = keeping.for_snapshot(0, 0)
    first.put("a", 1, 10)
    assert keeping.for_snapshot(0, 0) is first
    assert keeping.for_snapshot(0, 1).get("a") is None, "an erasure began while the snapshot did"
    during = keeping.for_snapshot(1, 1)
    assert during.get("a") is None, "an erasure is under way"
    assert keeping.for_snapshot(1, 1) is not during, "one of them may be from before it"
    second = keeping.for_snapshot(2, 2)
    assert second.get("a") is None
    late = keeping.for_snapshot(0, 0)
    assert late is not first, "who comes late with an old edition gets nothing that is shared"
    assert late is not second, "and shares nothing that he reads"
    assert keeping.for_snapshot(2, 2) is second
