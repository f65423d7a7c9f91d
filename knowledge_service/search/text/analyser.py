"""The analyser, which turns the texts of facts and queries into terms.

Words are case-folded, stop words dropped, irregular forms and spellings unified, and the rest
stemmed (English Snowball). An identifier such as `ImagePullBackOff`, `snake_case`, `pkg/mod.py`,
`E1234` or `1.29.3` is kept whole and also split, so that both `ImagePullBackOff` and "pull the
image" match it. Whole, joined words are one word: `imagepullbackoff`. `GPUs` are `GPU`. Dates
become terms of their own (`d:2023-05-07`, `d:2023-05`). Accents are dropped. Scripts without spaces
give pairs of characters. Change `VERSION` with every change that gives any text other terms.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import Stemmer

from kais.normalization import normalized
from knowledge_service.search.text import dates
from knowledge_service.search.thesaurus import IRREGULAR_FORMS, STOP_WORDS

VERSION = "en-5"

# 64 characters: longer tokens are hashes and blobs, whose tails distinguish nothing in practice.
_MAX_TERM = 64
_TOKEN = re.compile(r"\w+(?:[-./:@]+\w+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
# The plural of an acronym: `GPUs`, `listPVCsOf`.
_PLURAL = re.compile(r"(?<=[A-Z]{2})s(?![a-z])")
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_VERSION = re.compile(r"[vV]?\d+(?:\.\d+)+")
_ISO_DATE = re.compile(r"(?:19|20)\d{2}-\d{2}(?:-\d{2})?")
_ENDING = re.compile(r"(?<=\w)(?:n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_JOINTS = re.compile(r"[-_]")
_DIGIT = re.compile(r"\d")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_ISE_ENDING = re.compile(r"(?<=\w{3})is(?=(?:e|es|ed|er|ing|ation|ations)$)")
_MARKS = re.compile(r"[\u0300-\u036f]")
_local = threading.local()


def terms(text: str) -> Counter[str]:
    """Count the terms of a text; empty for a text of only stop words."""
    return Counter(sequence(text))


def sequence(text: str) -> Iterator[str]:
    """Yield the terms of a text in text order, followed by those of the dates that it names."""
    token_texts, date_terms = tokens(text)
    return chain(chain.from_iterable(map(_token, token_texts)), date_terms)


def tokens(text: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the tokens of a text, as `of_token` takes them, and the terms of its named dates."""
    plain = _plain(text)
    token_texts = _TOKEN.findall(plain)
    if dates.MONTH_WORDS.isdisjoint(token_texts) or not has_digits(plain):
        return token_texts, ()
    date_terms = chain.from_iterable(moment.terms for moment in dates.named_dates(plain))
    return token_texts, tuple(dict.fromkeys(date_terms))


def of_chunk(chunk: str) -> tuple[tuple[str, ...], bool]:
    """Return the terms of a text between two spaces, and whether it may name a month.

    The terms of a text are those of its chunks (`str.split`), because no token spans a space, and
    those of its dates. An ASCII text has dates only if it has a month's name and a digit.
    """
    token_texts = _TOKEN.findall(_plain(chunk))
    terms = tuple(chain.from_iterable(map(of_token, token_texts)))
    return terms, not dates.MONTH_WORDS.isdisjoint(token_texts)


def has_digits(text: str) -> bool:
    """Return whether the text has a digit."""
    return _DIGIT.search(text) is not None


def unspaced(text: str) -> int:
    """Count the characters of scripts that do not separate words by spaces."""
    return 0 if text.isascii() else sum(map(len, _UNSPACED.findall(text)))


def _plain(text: str) -> str:
    """Drop accents, endings after an apostrophe, and thousands separators."""
    plain = text if text.isascii() else _folded(text)
    if "'" in plain or "\u2019" in plain:
        plain = _ENDING.sub("", plain)
    return _THOUSANDS.sub("", plain) if "," in plain else plain


def stem(text: str) -> str:
    """Return the term of one plain word."""
    return _stem(text.casefold()[:_MAX_TERM])


def _folded(text: str) -> str:
    """Drop accents of Latin, Greek and Cyrillic; other scripts keep their marks."""
    return normalized("NFKC", _MARKS.sub("", normalized("NFKD", text)))


def of_token(token: str) -> tuple[str, ...]:
    """Return the terms of one token."""
    whole, parts = split_token(token)
    return whole + parts


def split_token(token: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the term of a whole identifier, and the terms of its parts or of any other token."""
    if token.isalpha() and token.islower() and token.isascii():
        return (), () if token in STOP_WORDS else (_stem(token[:_MAX_TERM]),)
    if "-" in token and _ISO_DATE.fullmatch(token):
        return (), tuple(term for moment in dates.iso_dates(token) for term in moment.terms)
    if "." in token and _VERSION.fullmatch(token):
        return (), tuple(_version(token))
    if not token.isascii() and _UNSPACED.search(token):
        return (), tuple(_pairs(token))
    plain = _PLURAL.sub("", token)
    parts = _PART.findall(plain)
    is_identifier = len(parts) > 1 or "_" in token or _HUMP.search(plain)
    folded_parts = [part.casefold() for part in parts or [token]]
    return (
        (_whole(token, len(parts)),) if is_identifier else (),
        tuple([_stem(part[:_MAX_TERM]) for part in folded_parts if part not in STOP_WORDS]),
    )


def _whole(token: str, part_count: int) -> str:
    """Return the term of a whole identifier.

    Words that are joined by case, hyphens or underscores are one word, so that `configmap` matches
    `ConfigMap`, and `failover` matches `fail-over`. Any other identifier is neither stemmed nor
    treated as a stop word.
    """
    word = _JOINTS.sub("", token).casefold()
    if part_count > 1 and word.isalpha() and word not in STOP_WORDS:
        return _stem(word[:_MAX_TERM])
    return "=" + token.casefold()[:_MAX_TERM]


def _token(token: str) -> tuple[str, ...]:
    """Return the terms of one token, from a cache if it is short, because texts share their words.

    A long token is a blob that hardly ever repeats, and may be as long as a fact.
    """
    return _cached_terms(token) if len(token) <= _MAX_TERM else of_token(token)


_cached_terms = functools.lru_cache(maxsize=32_768)(of_token)


def _version(token: str) -> Iterator[str]:
    """Yield a version whole and at each level but the first: `1.29.3` is also a `1.29`."""
    numbers = token.lstrip("vV").split(".")
    for end in range(2, len(numbers) + 1):
        yield "=" + ".".join(numbers[:end])[:_MAX_TERM]


def _pairs(token: str) -> Iterator[str]:
    for run in _UNSPACED.findall(token):
        yield from (run[i : i + 2] for i in range(max(len(run) - 1, 1)))
    for rest in _PART.findall(_UNSPACED.sub(" ", token)):
        yield _stem(rest.casefold()[:_MAX_TERM])


def _stem(folded: str) -> str:
    if folded.isdecimal():
        return folded.lstrip("0") or "0"
    base = IRREGULAR_FORMS.get(folded) or _ISE_ENDING.sub("iz", folded)
    if base.isdecimal():
        return base
    # The stemmer keeps state between calls, so each thread has its own.
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)  # 0: we cache words
    return str(stemmer.stemWord(base))
