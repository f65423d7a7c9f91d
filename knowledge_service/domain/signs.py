"""Signs: which write gate must check a text, derived from its words and cached by word.

Every secret has a sign, and every order a signal word, and neither spans a space. So a text whose
words have no sign needs no masking, and one without a signal word gets no flag. The same holds for
several texts and for new words: they are checked together first, and one by one only if a sign is
found. The cache affects how long an answer takes, never the answer.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from knowledge_service.domain import prompt_injection, redaction

# A few megabytes; a longer word is a blob that hardly ever repeats.
_MOST, _LONGEST = 65_536, 64

SECRET, ORDER = 1, 2
"""The text may hold a secret (`redaction`), or an order (`prompt_injection`)."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


class _Memory:
    """A cache of checked words: those without a sign, and the signs of the others."""

    def __init__(self) -> None:
        self.plain: set[str] = set()
        self.signed: dict[str, int] = {}

    def signs(self, text: str) -> Mapping[str, int]:
        """Return the words of a text that have signs, with their signs."""
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
        """Return whether the cache must be replaced."""
        return len(self.plain) + len(self.signed) > _MOST


class _Kept:
    memory = _Memory()


_kept = _Kept()


def of(text: str) -> int:
    """Return the signs of a text; a gate need not check a text without its sign."""
    return _any(_signs(text).values())


def of_all(texts: Sequence[str]) -> Sequence[int]:
    """Return the signs of each text."""
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
        _kept.memory = _Memory()  # tracking the order of use would cost more
    return found


def _words(text: str) -> list[str]:
    # Other white space does not end a word for the gates: it may hide one.
    return text.replace("\n", " ").split(" ")


def _any(signs: Iterable[int]) -> int:
    return functools.reduce(operator.or_, signs, 0)


def _look(words: str) -> int:
    """Check words separated by spaces; return the signs of any of them, or more."""
    if not (words.isascii() and words.isprintable()):
        return SECRET | ORDER
    return SECRET * redaction.may_contain_secret(words) | ORDER * prompt_injection.may_match(words)
