from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_service.search.postings import (
    merge_policy,
    posting_lists,
    segment,
    segment_codec,
)
from knowledge_service.search.postings.documents import Document
from knowledge_service.search.ranking import bm25
from knowledge_service.search.text import analyser, term_ids
from tests.fakes import recall_snapshot

TEXTS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), min_size=1, max_size=90)


def documents(texts: list[list[str]]) -> list[Document]:
    return [term_ids.document(100 + n, Counter(text)) for n, text in enumerate(texts)]


def packed(texts: list[list[str]]) -> list[segment_codec.Row]:
    return list(merge_policy.pack_tail(segment.build(documents(texts)), 0))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The pods were failing", {"pod", "fail"}),
        ("ImagePullBackOff", {"imagepullbackoff", "imag", "pull", "back"}),
        ("imagepullbackoff", {"imagepullbackoff"}),
        ("StatefulSets", {"statefulset", "state", "set"}),
        ("statefulset", {"statefulset"}),
        ("max_open_files", {"maxopenfil", "max", "open", "file"}),
        ("maxOpenFiles", {"maxopenfil", "max", "open", "file"}),
        ("max-open-files", {"maxopenfil", "max", "open", "file"}),
        ("fail-over", {"failov", "fail"}),
        ("failover", {"failov"}),
        ("node-7", {"=node-7", "node", "7"}),
        ("__init__", {"=__init__", "init"}),
        ("he-re", {"=he-re", "re"}),
        ("pkg/mod.py", {"=pkg/mod.py", "pkg", "mod", "py"}),
        ("E1234", {"=e1234", "e", "1234"}),
        ("HTTPServer", {"httpserver", "http", "server"}),
        ("GPUs, PVCs and APIs", {"gpu", "pvc", "api"}),
        ("gpus, pvcs and apis", {"gpu", "pvc", "api"}),
        ("GPU, PVC and API", {"gpu", "pvc", "api"}),
        ("listPVCsOf", {"listpvcsof", "list", "pvc"}),
        ("größe", {"gross"}),
        ("what is the of", set()),
        ("", set()),
    ],
)
def test_text_becomes_terms(text: str, terms: set[str]) -> None:
    assert set(analyser.terms(text)) == terms


@given(TEXTS)
def test_rows_give_back_what_was_packed(texts: list[list[str]]) -> None:
    run = merge_policy.unpack_rows(packed(texts))
    counts = [Counter[int]() for _ in texts]
    for term, location, tf in zip(
        run.terms.tolist(), run.ordinals.tolist(), run.frequencies.tolist(), strict=True
    ):
        counts[location][term] = tf
    assert counts == [
        Counter({term_ids.number(t): n for t, n in Counter(x).items()}) for x in texts
    ]
    assert run.numbers.tolist() == [100 + n for n in range(len(texts))]
    assert run.lengths.tolist() == [len(text) for text in texts]


@given(TEXTS, st.integers(0, 90))
def test_rows_depend_on_the_documents_and_not_on_how_they_came(
    texts: list[list[str]], at: int
) -> None:
    new = documents(texts)
    initial_state = min(at, len(new))
    rows = (
        list(merge_policy.pack_tail(segment.build(new[:initial_state]), 0)) if initial_state else []
    )
    first = merge_policy.unchanged_prefix(initial_state, len(new))
    run = segment.build(new[initial_state:]) if initial_state < len(new) else None
    old = [row for row in rows if row.first >= first]
    last = [segment_codec.unpack(row.data) for row in old] + ([run] if run else [])
    final_rows = [row for row in rows if row.first < first]
    final_rows += merge_policy.pack_tail(segment.join(last), first) if last else []
    assert final_rows == packed(texts)


def test_large_scope_is_split_and_scores_as_if_it_were_not() -> None:
    texts = [[f"w{n % 97}", f"w{n % 89}", f"x{n}"] for n in range(4100)]
    rows = packed(texts)
    assert [(row.first, row.size) for row in rows if row.bucket == segment_codec.DOCUMENTS] == [
        (0, 4096), (4096, 1), (4097, 1), (4098, 1), (4099, 1)
    ]  # fmt: skip
    assert merge_policy.unpack_rows(rows).terms.size == sum(len(set(text)) for text in texts)
    scores = recall_snapshot.scored(
        {1: documents(texts)}, dict.fromkeys(["w5", "w7", "x4098", "none"], 1.0)
    )
    assert scores.values.tolist() == by_hand(texts, ["w5", "w7", "x4098", "none"])


@given(TEXTS, st.lists(st.sampled_from("abcdefghz"), max_size=5))
def test_scores_are_those_of_the_formula_to_the_bit(
    texts: list[list[str]], question: list[str]
) -> None:
    scores = recall_snapshot.scored({1: documents(texts)}, dict.fromkeys(question, 1.0))
    assert scores.values.tolist() == by_hand(texts, question)
    numbers, positions = scores.best(3)
    for number, location in zip(numbers.tolist(), positions.tolist(), strict=True):
        assert math.isclose(sum(scores.parts(number).values()), scores.values[location])
        assert scores.ordinal_of(number) == location


@given(TEXTS, TEXTS, st.lists(st.sampled_from("abcdefgh"), max_size=5))
def test_scopes_score_together_as_one(
    first: list[list[str]], second: list[list[str]], question: list[str]
) -> None:
    both = {1: documents(first), 2: documents(second)}
    combined_scores = recall_snapshot.scored(both, dict.fromkeys(question, 1.0))
    assert combined_scores.values.tolist() == by_hand(first + second, question)


@given(TEXTS, st.integers(0, 89))
def test_blanked_document_leaves_the_index_as_if_it_had_come_without_a_word(
    texts: list[list[str]], at: int
) -> None:
    at = min(at, len(texts) - 1)
    empty = Document(segment.TOMBSTONE, 0, (), ())
    remaining_documents = [empty if n == at else d for n, d in enumerate(documents(texts))]
    blanked = [
        segment_codec.erase_document(row, at - row.first) if 0 <= at - row.first < row.size else row
        for row in packed(texts)
    ]
    assert blanked == list(merge_policy.pack_tail(segment.build(remaining_documents), 0))


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), max_size=30), st.integers(1, 10))
def test_best_come_first_and_all_that_are_as_good_as_the_last(
    values: list[float], size: int
) -> None:
    numbers, _ = scores_of(values).best(size)
    results = sorted((n for n, v in enumerate(values) if v), key=lambda n: (-values[n], n))
    seconds = values[results[:size][-1]] if results else 0
    assert numbers.tolist() == [n for n in results if values[n] >= seconds]


def test_best_of_many_are_the_best_of_all() -> None:
    values = [float((n * 7919) % 5003) for n in range(40_000)]
    numbers, positions = scores_of(values).best(200)
    expected = sorted(range(40_000), key=lambda n: (-values[n], n))
    assert numbers.tolist() == positions.tolist() == expected[: len(numbers)]
    assert len(numbers) >= 200


def scores_of(values: list[float]) -> bm25.Scores:
    numbers = np.arange(len(values), dtype=np.uint32)
    cut = len(values) // 3
    pieces = (numbers[: cut // 2], numbers[cut // 2 : cut])
    scopes = [
        posting_lists.ScopePostings(pieces, cut, cut, cut, ()),
        posting_lists.ScopePostings(
            (numbers[cut:],), len(values) - cut, len(values) - cut, len(values) - cut, ()
        ),
    ]
    return bm25.Scores(scopes, np.array(values, dtype=np.float64))


def by_hand(texts: list[list[str]], question: list[str]) -> list[float]:
    """BM25 as it is written down, in plain Python."""
    mean = sum(map(len, texts)) / len(texts) or 1e-9
    counted = [Counter(text) for text in texts]
    scores = [0.0] * len(texts)
    for _, term in sorted((term_ids.number(term), term) for term in set(question)):
        df = sum(count[term] > 0 for count in counted)
        idf = float(np.log(1 + (len(texts) - df + 0.5) / (df + 0.5)))
        for n, count in enumerate(counted):
            if count[term]:
                norm = len(texts[n]) * (0.9 * 0.4 / mean) + 0.9 * (1 - 0.4) + count[term]
                scores[n] += idf * (0.9 + 1) * count[term] / norm
    return scores
