"""Detects extracted sentences that repeat what the run remembered itself. Pure."""

from __future__ import annotations

import json
import re

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
    terms = _terms(sentence)
    return bool(terms) and len(terms & _terms(text)) >= _SHARE * len(terms)


def _terms(text: str) -> frozenset[str]:
    tokens = frozenset(match.casefold() for match in _TOKEN.findall(text))
    return tokens - _COMMON
