"""Terms as numbers, so that postings are arrays: the first 64 bits of a hash without a key.

Two terms of one number would be one term for the index; among a million terms that happens once in
tens of millions of stores, and it never reaches beyond the scopes that have both.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping
from itertools import chain

from knowledge_service.index import analyser
from knowledge_service.index.segments import Document


@functools.lru_cache(maxsize=32_768)
def number(term: str) -> int:
    """Return the term's number, signed."""
    return _hash(term)


def _hash(term: str) -> int:
    digest = hashlib.blake2b(term.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def document_of(fact_no: int, text: str) -> Document:
    """Make what the index keeps of a fact with this text."""
    found, dated = analyser.tokens(text)
    numbers = sorted(chain.from_iterable(map(_known.__getitem__, found)))
    if dated:
        numbers = sorted((*numbers, *map(number, dated)))
    if len(set(numbers)) < len(numbers):
        return _document(fact_no, Counter(numbers))
    return Document(fact_no, len(numbers), tuple(numbers), (1,) * len(numbers))


def document(fact_no: int, counts: Mapping[str, int]) -> Document:
    """Make what the index keeps of a fact whose text has these terms."""
    return _document(fact_no, {number(term): count for term, count in counts.items()})


def _document(fact_no: int, counts: Mapping[int, int]) -> Document:
    terms = tuple(sorted(counts))
    frequencies = tuple([counts[term] for term in terms])
    return Document(fact_no, sum(frequencies), terms, frequencies)


class _Tokens(dict[str, tuple[int, ...]]):
    """The numbers of tokens: texts share most of their words, so most cost one lookup.

    Emptied when it is full: to remember which token was asked for last would cost more.
    """

    def __missing__(self, token: str) -> tuple[int, ...]:
        if len(self) >= _MOST:
            self.clear()
        found = self[token] = tuple([_hash(term) for term in analyser.of_token(token)])
        return found


_MOST = 131_072
_known = _Tokens()
