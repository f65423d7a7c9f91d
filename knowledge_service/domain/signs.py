"""Which gate need look at a text: known from its words, each of which was looked at before.

A secret has a sign and an order a word of its own, and neither goes beyond a space. So a text whose
words have no sign is masked nowhere, and one without such a word is flagged for nothing. What is
remembered here changes how long an answer takes, never the answer.
"""

from __future__ import annotations

import functools
import operator

from knowledge_service.domain import gate, redaction

# A few megabytes; a longer word is a blob that nobody repeats.
_MOST, _LONGEST = 65_536, 64

SECRET, ORDER = 1, 2
"""It may hold a secret (`redaction`); it may be an order (`gate`)."""


class _Words(dict[str, int]):
    def __missing__(self, word: str) -> int:
        found = SECRET | ORDER
        if word.isascii() and word.isprintable():
            found = SECRET * redaction.has_sign(word) | ORDER * gate.has_sign(word)
        if len(word) <= _LONGEST:
            self[word] = found
        return found


class _Memory:
    words = _Words()


_memory = _Memory()


def of(text: str) -> int:
    """Return what a text may be; of what it is not, its gate knows nothing to say."""
    known = _memory.words
    # Other white space is no end of a word to the gates: it may hide one.
    found = set(map(known.__getitem__, text.replace("\n", " ").split(" ")))
    if len(known) > _MOST:
        _memory.words = _Words()  # to remember which was asked for last would cost more
    return functools.reduce(operator.or_, found)
