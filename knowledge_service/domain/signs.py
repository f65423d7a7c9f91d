"""Which gate need look at a text: known from its words, each of which was looked at before.

A secret has a sign and an order a word of its own, and neither goes beyond a space. So a text whose
words have no sign is masked nowhere, and one without such a word is flagged for nothing. The same
holds for many texts, and for words never met before: put together they are looked at once, and one
by one only when something is found. What is remembered here changes how long an answer takes, never
the answer.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from knowledge_service.domain import prompt_injection, redaction

# A few megabytes; a longer word is a blob that nobody repeats.
_MOST, _LONGEST = 65_536, 64

SECRET, ORDER = 1, 2
"""It may hold a secret (`redaction`); it may be an order (`gate`)."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


class _Memory:
    """Words that were looked at: those without any sign, and what the others may be."""

    def __init__(self) -> None:
        self.plain: set[str] = set()
        self.signed: dict[str, int] = {}

    def signs(self, text: str) -> Mapping[str, int]:
        """Return which words of a text have signs, and what they may be."""
        left = set(_words(text)) - self.plain
        if not left:
            return _NOTHING
        found = {word: self.signed[word] for word in left if word in self.signed}
        new = left - found.keys()
        if len(new) > 1 and not _look(" ".join(new)):
            self.plain.update([word for word in new if len(word) <= _LONGEST])
            return found
        for word in new:
            sign = _look(word)
            if sign:
                found[word] = sign
            if len(word) <= _LONGEST:
                self._remember(word, sign)
        return found

    def _remember(self, word: str, sign: int) -> None:
        if sign:
            self.signed[word] = sign
        else:
            self.plain.add(word)

    @property
    def is_full(self) -> bool:
        """Tell whether it is time to begin anew."""
        return len(self.plain) + len(self.signed) > _MOST


class _Kept:
    memory = _Memory()


_kept = _Kept()


def of(text: str) -> int:
    """Return what a text may be; of what it is not, its gate knows nothing to say."""
    return _any(_signs(text).values())


def of_all(texts: Sequence[str]) -> Sequence[int]:
    """Return what each of some texts may be."""
    signed = _signs("\n".join(texts))
    if not signed:
        return [0] * len(texts)
    has_none = signed.keys().isdisjoint
    return [
        0 if has_none(words := _words(text)) else _any(signed.get(word, 0) for word in words)
        for text in texts
    ]


def _signs(text: str) -> Mapping[str, int]:
    found = _kept.memory.signs(text)
    if _kept.memory.is_full:
        _kept.memory = _Memory()  # to remember which was asked for last would cost more
    return found


def _words(text: str) -> list[str]:
    # Other white space is no end of a word to the gates: it may hide one.
    return text.replace("\n", " ").split(" ")


def _any(signs: Iterable[int]) -> int:
    return functools.reduce(operator.or_, signs, 0)


def _look(words: str) -> int:
    """Look at words with a space between each two: what any of them may be, or more."""
    if not (words.isascii() and words.isprintable()):
        return SECRET | ORDER
    return SECRET * redaction.may_contain_secret(words) | ORDER * prompt_injection.may_match(words)
