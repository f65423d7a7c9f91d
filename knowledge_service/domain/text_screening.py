"""A fast filter before the two write gates, secret masking and prompt injection detection.

Most texts need neither gate. Each gate can match only a text with a suspicious word, and words are
separated by spaces, so a text without such words needs no gate. The verdict on each word is cached.
New words are screened together first, and one by one only if one of them is suspicious. The cache
saves time and never changes a result.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from knowledge_service.domain import prompt_injection, redaction

# Limit the cache to a few megabytes. A longer word is not cached, because it rarely repeats.
_MAX_CACHED_WORDS = 65_536
_MAX_WORD_LENGTH = 64

SECRET, INSTRUCTION = 1, 2
"""The gates as bits: `redaction` must check the text, or `prompt_injection` must."""
_NO_SUSPICIOUS_WORDS: Mapping[str, int] = MappingProxyType({})


class _WordCache:
    """The words that were screened: clean ones, and suspicious ones with the gates for them."""

    def __init__(self) -> None:
        self.clean_words: set[str] = set()
        self.gates_by_word: dict[str, int] = {}

    def suspicious_words_of(self, text: str) -> Mapping[str, int]:
        """Return the suspicious words of a text, with the gates that must check them."""
        unresolved = set(_words(text)) - self.clean_words
        if not unresolved:
            return _NO_SUSPICIOUS_WORDS
        gates_by_suspicious_word = {
            word: self.gates_by_word[word] for word in unresolved if word in self.gates_by_word
        }
        uncached = unresolved - gates_by_suspicious_word.keys()
        if len(uncached) > 1 and not _screen_words(" ".join(uncached)):
            self.clean_words.update([word for word in uncached if len(word) <= _MAX_WORD_LENGTH])
            return gates_by_suspicious_word
        for word in uncached:
            gates = _screen_words(word)
            if gates:
                gates_by_suspicious_word[word] = gates
            if len(word) <= _MAX_WORD_LENGTH:
                self._add(word, gates)
        return gates_by_suspicious_word

    def _add(self, word: str, gates: int) -> None:
        if gates:
            self.gates_by_word[word] = gates
        else:
            self.clean_words.add(word)

    @property
    def is_full(self) -> bool:
        """Return whether the cache must be replaced."""
        return len(self.clean_words) + len(self.gates_by_word) > _MAX_CACHED_WORDS


class _CacheHolder:
    cache = _WordCache()


_cache_holder = _CacheHolder()


def screen(text: str) -> int:
    """Return the gates that must check a text: 0, `SECRET`, `INSTRUCTION` or both."""
    return _combine_gates(_suspicious_words_of(text).values())


def screen_all(texts: Sequence[str]) -> Sequence[int]:
    """Screen each text like `screen`."""
    gates_by_suspicious_word = _suspicious_words_of("\n".join(texts))
    if not gates_by_suspicious_word:
        return [0] * len(texts)
    is_clean = gates_by_suspicious_word.keys().isdisjoint
    return [
        0
        if is_clean(words := _words(text))
        else _combine_gates(gates_by_suspicious_word.get(word, 0) for word in words)
        for text in texts
    ]


def _suspicious_words_of(text: str) -> Mapping[str, int]:
    gates_by_suspicious_word = _cache_holder.cache.suspicious_words_of(text)
    if _cache_holder.cache.is_full:
        _cache_holder.cache = _WordCache()  # tracking the order of use would cost more
    return gates_by_suspicious_word


def _words(text: str) -> list[str]:
    # Other white space does not end a word for the gates: it may hide one.
    return text.replace("\n", " ").split(" ")


def _combine_gates(gates: Iterable[int]) -> int:
    return functools.reduce(operator.or_, gates, 0)


def _screen_words(words: str) -> int:
    """Return the gates for words separated by spaces; may return more than needed."""
    if not (words.isascii() and words.isprintable()):
        return SECRET | INSTRUCTION
    return SECRET * redaction.may_contain_secret(words) | INSTRUCTION * prompt_injection.may_match(
        words
    )
