"""Detects extracted sentences that repeat what the run remembered itself. Pure."""

from __future__ import annotations

import json
import re

from knowledge_client.models import Fact

_TOKEN = re.compile(r"[^\W_]+(?:[._/-][^\W_]+)*")
# Words of grammar and of the extractor's own sentences: no two statements differ by them.
_COMMON_WORDS = """
a after again an and are as at be because been but by check did error fails failure for from had
has have helped in into is it its not of on or recurs seen that the their then there they this
to was were when which while with without
"""
_COMMON = frozenset(_COMMON_WORDS.split())
# So much of what a sentence says must stand in the other; arbitrary, and held by a corpus.
_SHARE = 0.6


def text_of(fact: Fact) -> str:
    """Return all that a fact says, its data included."""
    data = json.dumps(fact.data, ensure_ascii=False) if fact.data else None
    parts = (fact.title, fact.content, fact.subject, *fact.tags, data)
    return "\n".join(part for part in parts if part)


def is_repetition(sentence: str, text: str) -> bool:
    """Tell whether most words of a sentence that tell something stand in a text."""
    terms = _terms(sentence)
    return bool(terms) and len(terms & _terms(text)) >= _SHARE * len(terms)


def _terms(text: str) -> frozenset[str]:
    tokens = frozenset(match.casefold() for match in _TOKEN.findall(text))
    return tokens - _COMMON
