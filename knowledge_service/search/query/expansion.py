"""Query expansion: derivations and synonyms of a query's terms.

Added terms weigh less than the query's own terms. Facts are indexed unexpanded. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from knowledge_service.search import thesaurus
from knowledge_service.search.text import analyser
from knowledge_service.search.thesaurus import Group

# Not imported by name: the order of constants is part of the ranker's name, and a formatter sorts
# imports.
_QUERY_STOP_WORDS, _WEAK_WORDS = thesaurus.QUERY_STOP_WORDS, thesaurus.WEAK_WORDS
_STOP_WORDS = thesaurus.STOP_WORDS
# The weight of an added term relative to the query's term, and the maximum number of terms from
# each table. More terms would cost more reads than they find. Tuned on half of bench/recall.
_DERIVATION, _SYNONYM = (0.8, 16), (0.5, 24)
_LIGHT, _FRAME = 0.4, 0.6
Table = Mapping[str, Sequence[str]]


def expand_terms(
    query_terms: Sequence[str], synonyms: Sequence[Sequence[str]] = ()
) -> dict[str, float]:
    """Return the weights of a query's terms, followed by those of the terms added to them.

    Words such as "get" and "kind", which say little in any text, weigh less and add no terms. Words
    that phrase a question, such as "happen" and "new", weigh a little less. The groups of
    `synonyms` are added first, each word of a group for the others, also for words that weigh less:
    somebody who declares them means them.
    """
    reduced = _reduced_weights()
    weights = {term: reduced.get(term, 1.0) for term in query_terms}
    expandable = [term for term in query_terms if weights[term] != _LIGHT]
    if synonyms:
        declared = _mutual_terms(map(_declared_terms, synonyms))
        _add_expansions(weights, query_terms, declared, _SYNONYM)
    for table, limits in _tables():
        _add_expansions(weights, expandable, table, limits)
    return weights


def _add_expansions(
    weights: dict[str, float], query_terms: Sequence[str], table: Table, limits: tuple[float, int]
) -> None:
    weight, remaining = limits
    for term in query_terms:
        for expansion in table.get(term, ()):
            if expansion not in weights:
                if not remaining:
                    return
                remaining -= 1
                weights[expansion] = weight


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
def _tables() -> tuple[tuple[Table, tuple[float, int]], ...]:
    return (
        (_mutual(thesaurus.DERIVATIONS), _DERIVATION),
        (_mutual(thesaurus.SYNONYMS), _SYNONYM),
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
    """Return the term of each word: an identifier stands for itself, not for its parts."""
    return tuple(
        terms[0] for terms in (tuple(analyser.sequence(word)) for word in vocabulary) if terms
    )
