"""How the documents of a scope are cut into segments: sentence and case."""

from __future__ import annotations

import pytest

from knowledge_service.search.postings import merge_policy, segment, segment_codec
from knowledge_service.search.postings.segment import Segment
from knowledge_service.search.text import term_ids


@pytest.mark.parametrize(
    ("documents", "first", "sizes"),
    [
        pytest.param(*case, id=sentence)
        for sentence, case in {
            "no documents have no segment": (0, 0, []),
            "one document is a segment": (1, 0, [(0, 1)]),
            "seven documents stay single": (7, 0, [(n, 1) for n in range(7)]),
            "eight documents are one segment": (8, 0, [(0, 8)]),
            "sizes are the digits to the base eight": (
                75, 0, [(0, 64), (64, 8), (72, 1), (73, 1), (74, 1)]
            ),
            "the largest segment comes first": (513, 0, [(0, 512), (512, 1)]),
            "a shard repeats": (8193, 0, [(0, 4096), (4096, 4096), (8192, 1)]),
            "the tail begins at the given document": (75, 64, [(64, 8), (72, 1), (73, 1), (74, 1)]),
            "nothing is left behind the end": (75, 75, []),
        }.items()
    ],
)  # fmt: skip
def test_documents_are_cut_into_segments(
    documents: int, first: int, sizes: list[tuple[int, int]]
) -> None:
    assert merge_policy.segment_sizes(documents, first) == sizes


@pytest.mark.parametrize(
    ("old_count", "new_count", "unchanged"),
    [
        pytest.param(*case, id=sentence)
        for sentence, case in {
            "an empty scope keeps nothing": (0, 5, 0),
            "no new document changes nothing": (75, 75, 75),
            "a new single leaves all others": (72, 73, 72),
            "the eighth single merges the other seven": (7, 8, 0),
            "a merge of singles leaves the larger segments": (71, 72, 64),
            "the eighth segment of eight merges the other seven": (63, 64, 0),
            "a merge of 64 leaves the shard": (4096 + 511, 4096 + 512, 4096),
            "a full shard merges everything before it": (4095, 4096, 0),
            "many new documents leave only whole shards": (4097, 9000, 4096),
        }.items()
    ],
)
def test_segments_before_the_merge_are_unchanged(
    old_count: int, new_count: int, unchanged: int
) -> None:
    assert merge_policy.unchanged_prefix(old_count, new_count) == unchanged
    initial_segment_sizes = merge_policy.segment_sizes(old_count)
    final_segment_sizes = merge_policy.segment_sizes(new_count)
    shared = [part for part in initial_segment_sizes if part[0] < unchanged]
    assert shared == final_segment_sizes[: len(shared)]
    assert sum(size for _, size in shared) == unchanged


def documents_from(first: int, end: int) -> Segment:
    return segment.build(
        [term_ids.document(n, {f"w{n % 7}": 1 + n % 3, "all": 1}) for n in range(first, end)]
    )


@pytest.mark.parametrize(
    ("first", "end"),
    [
        pytest.param(0, 1, id="a single document"),
        pytest.param(0, 9, id="eight documents and one"),
        pytest.param(64, 75, id="a tail behind 64 documents"),
        pytest.param(8, 24, id="two segments of eight"),
        pytest.param(512, 600, id="a tail with four sizes"),
    ],
)
def test_tail_is_packed_by_segments_and_read_back(first: int, end: int) -> None:
    rows = list(merge_policy.pack_tail(documents_from(first, end), first))
    assert [(row.first, row.size) for row in rows] == merge_policy.segment_sizes(end, first)
    numbers = [number for row in rows for number in segment_codec.numbers(row.data).tolist()]
    assert numbers == list(range(first, end))
    merged = merge_policy.unpack_rows(rows)
    for column, expected in zip(
        vars(merged).values(), vars(documents_from(first, end)).values(), strict=True
    ):
        assert column.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("old_count", "new_count"),
    [
        pytest.param(0, 3, id="the first documents"),
        pytest.param(6, 7, id="one more single"),
        pytest.param(7, 8, id="singles that merge"),
        pytest.param(60, 70, id="segments of eight that merge"),
        pytest.param(75, 75, id="nothing new"),
    ],
)
def test_extending_a_scope_packs_what_packing_it_at_once_does(
    old_count: int, new_count: int
) -> None:
    at_once = list(merge_policy.pack_tail(documents_from(0, new_count), 0))
    initial_pack_tail = (
        list(merge_policy.pack_tail(documents_from(0, old_count), 0)) if old_count else []
    )
    first = merge_policy.unchanged_prefix(old_count, new_count)
    rows = [row for row in initial_pack_tail if row.first < first]
    tail = [row for row in initial_pack_tail if row.first >= first]
    singles = [
        segment_codec.unpack_single(next(merge_policy.pack_tail(documents_from(n, n + 1), 0)).data)
        for n in range(old_count, new_count)
    ]
    fresh = [single for single in singles if single is not None]
    assert len(fresh) == new_count - old_count
    assert rows + list(merge_policy.extend(tail, fresh, first)) == at_once
