"""Detects extracted sentences that repeat what the run remembered itself. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from knowledge_client.models import Fact

_TOKEN = re.compile(r"[^\W_]+(?:[._/-][^\W_]+)*")
# Words of grammar and of the extractor's own sentences, which distinguish no two statements.
_COMMON_WORDS = """
a after again an and are as at be because been but by check did error fails failure for from had
has have helped in into is it its not of on or recurs seen that the their then there they this
to was were when which while with without
"""
_COMMON = frozenset(_COMMON_WORDS.split())
# The share of a sentence's terms that the other text must have; arbitrary, tested with a corpus.
_SHARE = 0.6


def text_of(fact: Fact) -> str:
    """Return all text of a fact, including its data."""
    data = json.dumps(fact.data, ensure_ascii=False) if fact.data else None
    parts = (fact.title, fact.content, fact.subject, *fact.tags, data)
    return "\n".join(part for part in parts if part)


def is_repetition(sentence: str, text: str) -> bool:
    """Return whether a text has most of a sentence's significant words."""
    return _is_covered(_terms(sentence), _terms(text))


def find_repetitions(sentences: Sequence[str], texts: Iterable[str]) -> list[bool]:
    """Return for each sentence whether `is_repetition` holds for one of the texts.

    Each text is split into terms once: a run may remember hundreds of facts, and its episodes may
    give thousands of sentences.
    """
    terms_of_sentences = [_terms(sentence) for sentence in sentences]
    vocabulary = frozenset[str]().union(*terms_of_sentences)
    results = [False] * len(sentences)
    for text in texts:
        terms = _terms(text) & vocabulary
        for place, own_terms in enumerate(terms_of_sentences):
            if not results[place]:
                results[place] = _is_covered(own_terms, terms)
    return results


def _is_covered(terms: frozenset[str], other_terms: frozenset[str]) -> bool:
    return bool(terms) and len(terms & other_terms) >= _SHARE * len(terms)


def _terms(text: str) -> frozenset[str]:
    tokens = frozenset(match.casefold() for match in _TOKEN.findall(text))
    return tokens - _COMMON
