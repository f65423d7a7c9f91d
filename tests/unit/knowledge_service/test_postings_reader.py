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
from knowledge_service.search.postings.documents import Document
from knowledge_service.search.ranking import bm25
from knowledge_service.search.text import term_ids
from tests.fakes import recall_snapshot

MESSAGES = [f"w{n}" for n in range(40)]
ROOMY = 1 << 24


def documents(seed: int, count: int) -> list[Document]:
    dice = random.Random(seed)  # noqa: S311 - cases of a test
    texts = [[*dice.choices(MESSAGES, k=dice.randint(0, 12)), f"own{n}"] for n in range(count)]
    return [term_ids.document(7 * n, Counter(text)) for n, text in enumerate(texts)]


def packed(matching_documents: list[Document]) -> list[segment_codec.Row]:
    return (
        list(merge_policy.pack_tail(segment.build(matching_documents), 0))
        if matching_documents
        else []
    )


def scores(source: recall_snapshot.MemoryRows, question: list[str], cache: LruCache) -> bm25.Scores:
    weighed = {term: 1.0 + location / 10 for location, term in enumerate(question)}
    return recall_snapshot.scored_rows(source, weighed, cache)


def assert_equal(first_scores: bm25.Scores, other_scores: bm25.Scores) -> None:
    assert first_scores.values.tobytes() == other_scores.values.tobytes()
    for mine, theirs in zip(first_scores.best(20), other_scores.best(20), strict=True):
        assert mine.tolist() == theirs.tolist()
    number = int(first_scores.best(1)[0][0]) if first_scores.values.any() else 0
    assert first_scores.parts(number) == other_scores.parts(number)


@pytest.mark.parametrize("most_bytes", [ROOMY, 20_000], ids=["room for all", "room for little"])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    steps=st.lists(
        st.tuples(st.integers(0, 600), st.lists(st.sampled_from(MESSAGES), max_size=6)),
        min_size=1,
        max_size=4,
    ),
)
def test_growing_scopes_score_as_if_nothing_were_kept(
    most_bytes: int, seed: int, steps: list[tuple[int, list[str]]]
) -> None:
    cache = LruCache(most_bytes)
    own_documents, second = documents(seed, 600), packed(documents(seed + 1, 70))
    for count, question in sorted(steps) + steps:  # also snapshots that are older than the kept
        source = recall_snapshot.MemoryRows({1: packed(own_documents[:count]), 2: second})
        assert_equal(scores(source, question, cache), scores(source, question, LruCache(0)))
    assert cache.size_bytes <= most_bytes


def test_split_runs_score_as_if_nothing_were_kept() -> None:
    own_documents = documents(3, 2 * segment_codec.SHARD_SIZE + 700)
    cache, dice = LruCache(ROOMY), random.Random(5)  # noqa: S311
    for count in (4095, 4096, 4700, 8191, 8192, len(own_documents), 4096, 4800):
        source = recall_snapshot.MemoryRows({1: packed(own_documents[:count])})
        for question in (dice.sample(MESSAGES, 4), ["own17", "w3", "own8100", "none"]):
            assert_equal(scores(source, question, cache), scores(source, question, LruCache(0)))


def test_scopes_without_documents_change_no_score_and_cost_nothing() -> None:
    own_documents, question = packed(documents(3, 700)), ["w3", "w4", "own17"]
    empty = dict.fromkeys((0, 2, 3, 9), packed([]))
    among_empty = scores(
        recall_snapshot.MemoryRows({1: own_documents} | empty), question, LruCache(ROOMY)
    )
    alone = scores(recall_snapshot.MemoryRows({1: own_documents}), question, LruCache(ROOMY))
    assert_equal(among_empty, alone)
    assert len(among_empty.scopes) == len(alone.scopes) == 1
    nothing = scores(recall_snapshot.MemoryRows(empty), question, LruCache(ROOMY))
    assert (len(nothing.values), len(nothing.scopes)) == (0, 0)


def test_question_asked_again_reads_nothing() -> None:
    source = recall_snapshot.MemoryRows({1: packed(documents(3, segment_codec.SHARD_SIZE + 100))})
    cache = LruCache(ROOMY)
    scores(source, ["w1", "w2", "none"], cache)
    initial_state = source.reads
    scores(source, ["w2", "none", "w1"], cache)
    assert source.reads == initial_state


def test_term_that_lies_across_two_others_is_not_found() -> None:
    # The bytes of terms 1 and 2 hold those of `across`, off by half a term.
    across = 2 << 32
    matching_documents = [Document(n, 2, (1, 2), (1, 1)) for n in range(segment_codec.SHARD_SIZE)]
    rows = recall_snapshot.MemoryRows({1: packed(matching_documents)})
    postings = reading_of(rows, across)
    assert postings == 0
    assert reading_of(rows, 2) == segment_codec.SHARD_SIZE


def reading_of(source: recall_snapshot.MemoryRows, term: int) -> int:
    (texts,) = reader.read(source, LruCache(0), [1], np.array([term], dtype=np.int64))
    return sum(len(posting.postings.ordinals) for posting in texts.postings)


def test_least_used_goes_when_there_is_no_room() -> None:
    cache = LruCache(3 * 1_900)
    for name in "abc":
        cache.put(name, name.upper(), 1_000)
    assert cache.get("a") == "A"
    cache.put("d", "D", 1_000)
    assert cache.get_all(["a", "b", "c", "d"]) == ["A", None, "C", "D"]
    cache.put("e", "E", 10_000)
    assert cache.get("e") is None
    assert cache.get("d") == "D"


def test_snapshot_shares_only_what_is_of_its_edition() -> None:
    versioned_cache = VersionedCache(ROOMY)
    first = versioned_cache.for_snapshot(0, 0)
    first.put("a", 1, 10)
    assert versioned_cache.for_snapshot(0, 0) is first
    assert versioned_cache.for_snapshot(0, 1).get("a") is None, (
        "an erasure began while the snapshot did"
    )
    during = versioned_cache.for_snapshot(1, 1)
    assert during.get("a") is None, "an erasure is under way"
    assert versioned_cache.for_snapshot(1, 1) is not during, "one of them may be from before it"
    second = versioned_cache.for_snapshot(2, 2)
    assert second.get("a") is None
    late = versioned_cache.for_snapshot(0, 0)
    assert late is not first, "who comes late with an old edition gets nothing that is shared"
    assert late is not second, "and shares nothing that he reads"
    assert versioned_cache.for_snapshot(2, 2) is second
