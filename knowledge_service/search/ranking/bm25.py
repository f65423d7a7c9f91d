"""BM25 over postings: exhaustive and deterministic, with the statistics of the given scopes.

All documents are matched by the sum of all terms. The text score of a candidate counts each concept
of the query once (`Scores.text_scores`): a term of the query, or the best of its related terms.

The caller passes visible scopes only. Documents, lengths and frequencies are counted in these, so
nothing invisible can affect a score. The postings of a document are summed in the order of the
terms' numbers, wherever the document is stored, because the order affects floating-point results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.postings import posting_lists, reader
from knowledge_service.search.postings.cache import LruCache
from knowledge_service.search.postings.index_rows import Source
from knowledge_service.search.postings.posting_lists import Columns, ScopePostings
from knowledge_service.search.query import expansion
from knowledge_service.search.text import term_ids

# Usual values for short passages: the length of a sentence says less than that of a page.
_K1 = 0.9
_B = 0.4
# Up to this number of documents, the threshold is found by one partition of all scores. Beyond it,
# only the best score of each chunk is partitioned.
_PARTITION_LIMIT = 16_384
_CHUNK = 64

# The number of postings to weigh at once: few enough for the CPU cache, enough to outweigh the
# calls.
_BATCH_POSTINGS = 65_536

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bm25Weights:
    """The parameters of the score: a factor for each term, and the mean length."""

    factors: Floats
    mean: float

    def weights(self, factors: Any, lengths: Any, tf: Any) -> Any:
        """Return the weights of one or many postings; `factors` is overwritten with the result."""
        norm = lengths * (_K1 * _B / self.mean)
        norm += _K1 * (1 - _B)
        norm += tf
        factors *= tf
        factors /= norm
        return factors


@dataclass(frozen=True, slots=True)
class WeightedPostings:
    """The posting lists of some scopes, one after the other, with the weight of each posting.

    Attributes:
        first: the position of the first document of these scopes.
        count: the number of their documents.
        ordinals: the position of each posting's document, counted from `first`.
        terms: the number of the term of each posting list.
        ends: the index behind the last posting of each list.
    """

    first: int
    count: int
    ordinals: NDArray[np.int32]
    weights: Floats
    terms: NDArray[np.intp]
    ends: NDArray[np.intp]

    def matches(
        self, is_chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.intp], NDArray[np.int32], Floats]:
        """Return the term, the document's position and the weight of postings of chosen documents.

        `is_chosen` says of every visible document whether it is.
        """
        inside = is_chosen[self.first : self.first + self.count]
        hits = inside[self.ordinals].nonzero()[0]
        terms = self.terms[self.ends.searchsorted(hits, side="right")]
        return terms, self.ordinals[hits] + self.first, self.weights[hits]


_NO_WEIGHTS = Bm25Weights(np.empty(0), 1.0)
Related = Mapping[str, Sequence[str]]
"""Maps each term that was added to a query to the query's own terms that it is related to."""


@dataclass(frozen=True)
class Scores:
    """The score of every document of the visible scopes; 0 without any term.

    Documents are identified by their position: scope after scope, each in insertion order.
    `batches` has the weighted postings of all scopes, and is empty without related terms.
    `concepts` maps the number of each related term to that of the query's term that it stands for,
    and the number of that term to itself.
    """

    scopes: Sequence[ScopePostings]
    values: Floats
    batches: Sequence[WeightedPostings] = ()
    terms: tuple[str, ...] = ()
    weights: Bm25Weights = _NO_WEIGHTS
    concepts: Mapping[int, int] = field(default_factory=dict)

    def document_counts(self) -> dict[str, int]:
        """Return in how many documents of the visible scopes each term is."""
        counts = dict.fromkeys(self.terms, 0)
        for scope in self.scopes:
            for term, _, (ordinals, *_) in scope.postings:
                counts[self.terms[term]] += len(ordinals)
        return counts

    def numbers(self, ordinals: NDArray[np.intp]) -> NDArray[np.uint32]:
        """Return the fact numbers at the given positions, which must be ascending."""
        numbers = np.empty(len(ordinals), dtype=np.uint32)
        base = copied = 0
        for fact_numbers in chain.from_iterable([scope.numbers for scope in self.scopes]):
            if copied == len(ordinals):
                break
            end = int(ordinals.searchsorted(base + len(fact_numbers)))
            if end > copied:
                numbers[copied:end] = fact_numbers[ordinals[copied:end] - base]
            base, copied = base + len(fact_numbers), end
        return numbers

    def ordinal_of(self, fact_no: int) -> int | None:
        """Return the position of a fact; None when it is not in the index of these scopes."""
        base = 0
        for fact_numbers in chain.from_iterable([scope.numbers for scope in self.scopes]):
            positions = np.flatnonzero(fact_numbers == fact_no)
            if len(positions):
                return base + int(positions[0])
            base += len(fact_numbers)
        return None

    def best(self, size: int) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
        """Return the numbers and positions of the best facts, equal scores by number.

        At least `size` if that many have a score, and all with the same score as the last of them.
        """
        ordinals = self._reaching(size)
        numbers = self.numbers(ordinals)
        order = np.lexsort((numbers, -self.values[ordinals]))
        return numbers[order], ordinals[order]

    def text_scores(self, ordinals: NDArray[np.int64]) -> Floats:
        """Return the scores of some documents in which each concept counts once.

        Only the best term of a concept counts. Lucene's SynonymQuery also scores synonyms as one
        term. `ordinals` must be ascending.
        """
        text_scores = self.values[ordinals]
        concepts = sorted(set(self.concepts.values()))
        if not (concepts and len(ordinals)):
            return text_scores
        row_of = {concept: row for row, concept in enumerate(concepts)}
        rows = np.full(len(self.terms), -1)
        rows[list(self.concepts)] = [row_of[concept] for concept in self.concepts.values()]
        is_chosen = np.zeros(len(self.values), dtype=bool)
        is_chosen[ordinals] = True
        matches = [batch.matches(is_chosen) for batch in self.batches]
        terms, positions, weights = [
            np.concatenate(column) for column in zip(*matches, strict=True)
        ]
        is_related = rows[terms] >= 0
        cells = rows[terms[is_related]] * len(ordinals)
        cells += ordinals.searchsorted(positions[is_related])
        shares = weights[is_related]
        shape = len(concepts), len(ordinals)
        sums: Any = np.bincount(cells, weights=shares, minlength=shape[0] * shape[1])
        best = np.zeros(len(sums))
        np.maximum.at(best, cells, shares)
        for excess in (sums - best).reshape(shape):
            text_scores -= excess
        return text_scores

    def parts(self, fact_no: int) -> dict[str, float]:
        """Return the share of each term in a fact's text score."""
        ordinal = self.ordinal_of(fact_no)
        base = 0
        for scope in self.scopes:
            if ordinal is not None and base <= ordinal < base + scope.count:
                return self._parts(scope, ordinal - base)
            base += scope.count
        return {}

    def _parts(self, scope: ScopePostings, ordinal: int) -> dict[str, float]:
        best: dict[int, tuple[float, int]] = {}
        for term, share in self._term_shares(scope, ordinal):
            concept = self.concepts.get(term, term)
            if concept not in best or share > best[concept][0]:
                best[concept] = share, term
        return {self.terms[term]: share for share, term in best.values()}

    def _term_shares(self, scope: ScopePostings, ordinal: int) -> Iterator[tuple[int, float]]:
        for term, first, (ordinals, frequencies, lengths) in scope.postings:
            index = int(ordinals.searchsorted(ordinal - first))
            if index < len(ordinals) and ordinals[index] == ordinal - first:
                factor, length = float(self.weights.factors[term]), float(lengths[index])
                yield term, self.weights.weights(factor, length, int(frequencies[index]))

    def _reaching(self, size: int) -> NDArray[np.intp]:
        values = self.values
        if size < len(values) // _CHUNK and len(values) > _PARTITION_LIMIT:
            ordinals = _in_best_chunks(values, size)
        else:
            ordinals = np.flatnonzero(values)
        if 0 < size < len(ordinals):
            candidates = values[ordinals]
            floor = np.partition(candidates, len(candidates) - size)[len(candidates) - size]
            ordinals = ordinals[candidates >= floor]
        ordinals.sort()
        return ordinals


def _in_best_chunks(values: Floats, size: int) -> NDArray[np.intp]:
    """Return the positions of at least the best `size`, reading only the best chunks."""
    count = len(values) // _CHUNK
    # A chunk has every `count`th document, so one reduction finds the maximum of all chunks.
    tops = values[: count * _CHUNK].reshape(_CHUNK, count).max(axis=0)
    # At least `size` chunks, and therefore documents, have a value of at least this.
    floor = np.partition(tops, count - size)[count - size] if size else 0.0
    if floor <= 0:
        return np.flatnonzero(values)
    chunks = np.flatnonzero(tops >= floor)
    candidates = (chunks[:, np.newaxis] + np.arange(_CHUNK) * count).ravel()
    candidates = np.append(candidates, np.arange(count * _CHUNK, len(values)))
    ordinals: NDArray[np.intp] = candidates[values[candidates] >= floor]
    return ordinals


def search(
    source: Source,
    cache: LruCache,
    scope_nos: Iterable[int],
    term_weights: Mapping[str, float],
    related: Related | None = None,
) -> Scores:
    """Score the documents of some scopes; nothing outside them is read.

    `term_weights` are the weights of all terms, also of the `related` ones. Decoded postings are
    read from `cache` and added to it.
    """
    ascending = sorted((term_ids.number(term), term) for term in term_weights)
    query_terms = np.array([number for number, _ in ascending], dtype=np.int64)
    scopes = reader.read(source, cache, sorted(scope_nos), query_terms)
    return _scores(scopes, tuple([term for _, term in ascending]), term_weights, related)


def _scores(
    scopes: Sequence[ScopePostings],
    query_terms: tuple[str, ...],
    term_weights: Mapping[str, float],
    related: Related | None,
) -> Scores:
    documents = sum([scope.count for scope in scopes])
    live = sum([scope.live for scope in scopes])
    weights = _weights_of(scopes, live, [term_weights[term] for term in query_terms])
    concepts = _limit_related(weights.factors, query_terms, related) if related else {}
    values = np.empty(documents)
    first, weighted = 0, []
    for batch in _batches(scopes):
        postings = _weighted(batch, first, weights)
        end = first + postings.count
        values[first:end] = np.bincount(
            postings.ordinals, weights=postings.weights, minlength=postings.count
        )
        if concepts:  # nothing else reads them, and a broad query has millions
            weighted.append(postings)
        first = end
    return Scores(scopes, values, weighted, query_terms, weights, concepts)


def _weights_of(
    scopes: Sequence[ScopePostings], documents: int, term_weights: Sequence[float]
) -> Bm25Weights:
    counts = [0] * len(term_weights)
    for scope in scopes:
        for term, _, postings in scope.postings:
            counts[term] += len(postings.ordinals)
    df = np.array(counts, dtype=np.float64)
    idf = np.log(1 + (documents - df + 0.5) / (df + 0.5))
    idf *= term_weights
    length = sum([scope.total_length for scope in scopes])
    return Bm25Weights(idf * (_K1 + 1), max(length / max(documents, 1), 1e-9))


def _limit_related(factors: Floats, query_terms: Sequence[str], related: Related) -> dict[int, int]:
    """Limit the factors of related terms; return the concepts.

    A related term stands for the rarest of the query's terms that it is related to, whatever their
    order, and counts as if it were at least as frequent.
    """
    number_of = {term: number for number, term in enumerate(query_terms)}
    concepts: dict[int, int] = {}
    for term, own_terms in related.items():
        number = number_of[term]
        own_number = max([number_of[own] for own in own_terms], key=lambda own: (factors[own], own))
        factors[number] = min(factors[number], expansion.RELATED_WEIGHT * factors[own_number])
        concepts[number] = concepts[own_number] = own_number
    return concepts


def _batches(scopes: Sequence[ScopePostings]) -> Iterator[list[ScopePostings]]:
    batch: list[ScopePostings] = []
    postings = 0
    for scope in scopes:
        batch.append(scope)
        postings += sum([len(match.postings.ordinals) for match in scope.postings])
        if postings >= _BATCH_POSTINGS:
            yield batch
            batch, postings = [], 0
    if batch:
        yield batch


def _weighted(
    scopes: Sequence[ScopePostings], first: int, bm25_weights: Bm25Weights
) -> WeightedPostings:
    """Weigh the postings of scopes; those of a document are in the order of the terms."""
    terms: list[int] = []
    bases: list[int] = []
    columns: list[Columns] = []
    base = 0
    for scope in scopes:
        for term, first_of_list, postings in scope.postings:
            terms.append(term)
            bases.append(base + first_of_list)
            columns.append(postings)
        base += scope.count
    ordinals, tf, lengths = [
        np.concatenate(column)
        for column in zip(*(columns or [posting_lists.NO_POSTINGS]), strict=True)
    ]
    sizes = [len(postings.ordinals) for postings in columns]
    term_numbers = np.array(terms, dtype=np.intp)
    ordinals += np.repeat(np.array(bases, dtype=np.int32), sizes)
    weights = bm25_weights.weights(
        np.repeat(bm25_weights.factors[term_numbers], sizes), lengths, tf
    )
    return WeightedPostings(first, base, ordinals, weights, term_numbers, np.cumsum(sizes))
