"""What the words of a question bring along: words of one root, for one another, and of a kind.

A question's word brings others at less than its own weight; facts are indexed as they are. Pure.
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

# What each word counts beside the one that was asked for, and how many of a table are brought along
# at most: more would cost more reading than they find. Found on half of bench/recall.
_FAMILY, _EXCHANGED, _KIND = (0.8, 16), (0.5, 24), (0.4, 40)
_INSTEAD, _OF_DAYS = (0.5, 12), (0.3, 10)
_LIGHT, _FRAME = 0.4, 0.6
Table = Mapping[str, Sequence[str]]


def weighted(own: Sequence[str]) -> dict[str, float]:
    """Weigh the terms of a question, and those that they bring along after them.

    Words such as "get" and "kind", which say little wherever they stand, count less and bring none.
    Those that questions are put with, such as "happen" and "new", count a little less.
    """
    light = _weights()
    found = {term: light.get(term, 1.0) for term in own}
    telling = [term for term in own if found[term] != _LIGHT]
    for table, worth in _tables():
        _bring(found, telling, table, worth)
    return found


def _bring(
    found: dict[str, float], own: Sequence[str], table: Table, worth: tuple[float, int]
) -> None:
    weight, left = worth
    for term in own:
        for other in table.get(term, ()):
            if other not in found:
                if not left:
                    return
                left -= 1
                found[other] = weight


@functools.cache
def _weights() -> dict[str, float]:
    """Return what words weigh that do not weigh as much as any other."""
    frame = dict.fromkeys(map(analyser.word, FRAME_WORDS), _FRAME)
    return frame | dict.fromkeys(map(analyser.word, LIGHT_WORDS), _LIGHT)


@functools.cache
def _tables() -> tuple[tuple[Table, tuple[float, int]], ...]:
    return (
        (_mutual(thesaurus.DERIVATIONS + thesaurus.DERIVATIONS_EVERYDAY), _FAMILY),
        (_mutual(thesaurus.SYNONYMS), _EXCHANGED),
        (_one_way(thesaurus.HYPONYMS), _KIND),
        (_one_way(thesaurus.PARAPHRASES + thesaurus.PARAPHRASES_EVERYDAY), _INSTEAD),
        (_one_way(thesaurus.HYPONYMS_EVERYDAY), _OF_DAYS),
    )


def _mutual(groups: Iterable[Group]) -> Table:
    """Index groups of words, each of which brings the others of its groups."""
    table: dict[str, dict[str, None]] = {}
    for group in groups:
        terms = _terms(group)
        for term in terms:
            table.setdefault(term, {}).update(dict.fromkeys(terms))
    return {term: tuple(others) for term, others in table.items()}


def _one_way(expansions: Iterable[Expansion]) -> Table:
    """Index words that bring others, which do not bring them."""
    table: dict[str, dict[str, None]] = {}
    for words, others in expansions:
        for word in words:
            table.setdefault(analyser.word(word), {}).update(dict.fromkeys(_terms(others)))
    return {term: tuple(others) for term, others in table.items()}


def _terms(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(analyser.word(word) for word in words if word not in STOP_WORDS)
