"""Query expansion: derivations and synonyms of a query's terms.

Added terms weigh less than the query's own terms. Facts are indexed unexpanded. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from knowledge_service.search import thesaurus
from knowledge_service.search.text import analyser
from knowledge_service.search.thesaurus import Group

# Assigned instead of imported by name: the version of the ranker depends on the order of these
# constants, and a formatter sorts imports.
_QUERY_STOP_WORDS, _WEAK_WORDS = thesaurus.QUERY_STOP_WORDS, thesaurus.WEAK_WORDS
_STOP_WORDS = thesaurus.STOP_WORDS
RELATED_WEIGHT = 0.8
"""The weight of an added term relative to the query's term that it stands for."""
# The maximum number of terms from each table. More would cost more reads than they find.
_MOST_DERIVATIONS, _MOST_SYNONYMS = 16, 24
_LIGHT, _FRAME = 0.4, 0.6
Table = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ExpandedTerms:
    """The weights of a query's terms, followed by the weights of added terms.

    `related` maps each added term to the query's terms that it is related to.
    """

    weights: Mapping[str, float]
    related: Mapping[str, tuple[str, ...]]


def expand_terms(
    query_terms: Sequence[str], synonyms: Sequence[Sequence[str]] = ()
) -> ExpandedTerms:
    """Add related terms to those of a query.

    Words such as "get" and "kind", which say little in any text, weigh less and add no terms. Words
    that phrase a question, such as "happen" and "new", weigh a little less. Before the thesaurus,
    each word of the query, even one that weighs less, adds the other words of its groups in
    `synonyms`.
    """
    reduced = _reduced_weights()
    weights = {term: reduced.get(term, 1.0) for term in query_terms}
    expandable = [term for term in query_terms if weights[term] != _LIGHT]
    related: dict[str, list[str]] = {}
    if synonyms:
        declared = _mutual_terms(map(_declared_terms, synonyms))
        _add_related(weights, related, query_terms, declared, _MOST_SYNONYMS)
    for table, limit in related_tables():
        _add_related(weights, related, expandable, table, limit)
    return ExpandedTerms(weights, {term: tuple(own) for term, own in related.items()})


def _add_related(
    weights: dict[str, float],
    related: dict[str, list[str]],
    query_terms: Sequence[str],
    table: Table,
    limit: int,
) -> None:
    remaining = limit
    for term in query_terms:
        for added_term in table.get(term, ()):
            if added_term in related:
                related[added_term].append(term)
            elif added_term not in weights and remaining:
                remaining -= 1
                weights[added_term] = RELATED_WEIGHT
                related[added_term] = [term]


def applicable_synonyms(query: str, groups: Iterable[Sequence[str]]) -> tuple[Group, ...]:
    """Return the groups that add a term to a query: those with one of its words."""
    query_terms = set(analyser.sequence(query))
    return tuple(
        tuple(group) for group in groups if not query_terms.isdisjoint(_declared_terms(group))
    )


@functools.cache
def _reduced_weights() -> dict[str, float]:
    """Return the weights of words that weigh less than the default."""
    frame = dict.fromkeys(map(analyser.stem, _QUERY_STOP_WORDS), _FRAME)
    return frame | dict.fromkeys(map(analyser.stem, _WEAK_WORDS), _LIGHT)


@functools.cache
def related_tables() -> tuple[tuple[Table, int], ...]:
    """Return the tables of the thesaurus, each with the maximum number of terms that it adds."""
    return (
        (_mutual(thesaurus.DERIVATIONS), _MOST_DERIVATIONS),
        (_mutual(thesaurus.SYNONYMS), _MOST_SYNONYMS),
    )


def _mutual(groups: Iterable[Group]) -> Table:
    return _mutual_terms(map(_terms, groups))


def _mutual_terms(groups: Iterable[Group]) -> Table:
    """Index groups of terms; each term adds the others of its groups."""
    table: dict[str, dict[str, None]] = {}
    for terms in groups:
        for term in terms:
            table.setdefault(term, {}).update(dict.fromkeys(terms))
    return {term: tuple(expansions) for term, expansions in table.items()}


def _terms(vocabulary: Iterable[str]) -> tuple[str, ...]:
    return tuple(analyser.stem(entry) for entry in vocabulary if entry not in _STOP_WORDS)


def _declared_terms(vocabulary: Iterable[str]) -> Group:
    """Return the term of each word; of an identifier, the whole and not its parts."""
    return tuple(
        terms[0] for terms in (tuple(analyser.sequence(word)) for word in vocabulary) if terms
    )
