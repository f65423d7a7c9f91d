"""Query expansion: derivations of a query's terms, their synonyms, hyponyms and paraphrases.

Added terms weigh less than the query's own terms. Facts are indexed unexpanded. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from knowledge_service.search import thesaurus
from knowledge_service.search.text import analyser
from knowledge_service.search.thesaurus import (
    FRAME_WORDS,
    LIGHT_WORDS,
    STOP_WORDS,
    Expansion,
    Group,
)

# The weight of an added term relative to the query's term, and the maximum number of terms from
# each table. More terms would cost more reads than they find. Tuned on half of bench/recall.
_DERIVATION, _SYNONYM, _HYPONYM = (0.8, 16), (0.5, 24), (0.4, 40)
_PARAPHRASE, _EVERYDAY_KIND = (0.5, 12), (0.3, 10)
_LIGHT, _FRAME = 0.4, 0.6
Table = Mapping[str, Sequence[str]]


def expand_terms(query_terms: Sequence[str]) -> dict[str, float]:
    """Return the weights of a query's terms, followed by those of the terms added to them.

    Words such as "get" and "kind", which say little in any text, weigh less and add no terms. Words
    that phrase a question, such as "happen" and "new", weigh a little less.
    """
    reduced = _reduced_weights()
    weights = {term: reduced.get(term, 1.0) for term in query_terms}
    expandable = [term for term in query_terms if weights[term] != _LIGHT]
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


@functools.cache
def _reduced_weights() -> dict[str, float]:
    """Return the weights of words that weigh less than the default."""
    frame = dict.fromkeys(map(analyser.stem, FRAME_WORDS), _FRAME)
    return frame | dict.fromkeys(map(analyser.stem, LIGHT_WORDS), _LIGHT)


@functools.cache
def _tables() -> tuple[tuple[Table, tuple[float, int]], ...]:
    return (
        (_mutual(thesaurus.DERIVATIONS + thesaurus.DERIVATIONS_EVERYDAY), _DERIVATION),
        (_mutual(thesaurus.SYNONYMS), _SYNONYM),
        (_one_way(thesaurus.HYPONYMS), _HYPONYM),
        (_one_way(thesaurus.PARAPHRASES + thesaurus.PARAPHRASES_EVERYDAY), _PARAPHRASE),
        (_one_way(thesaurus.HYPONYMS_EVERYDAY), _EVERYDAY_KIND),
    )


def _mutual(groups: Iterable[Group]) -> Table:
    """Index groups of words; each word adds the others of its groups."""
    table: dict[str, dict[str, None]] = {}
    for group in groups:
        terms = _terms(group)
        for term in terms:
            table.setdefault(term, {}).update(dict.fromkeys(terms))
    return {term: tuple(expansions) for term, expansions in table.items()}


def _one_way(expansions: Iterable[Expansion]) -> Table:
    """Index words that add others, but not the reverse."""
    table: dict[str, dict[str, None]] = {}
    for sources, targets in expansions:
        for source in sources:
            table.setdefault(analyser.stem(source), {}).update(dict.fromkeys(_terms(targets)))
    return {term: tuple(targets) for term, targets in table.items()}


def _terms(vocabulary: Iterable[str]) -> tuple[str, ...]:
    return tuple(analyser.stem(entry) for entry in vocabulary if entry not in STOP_WORDS)
