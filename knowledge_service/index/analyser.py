"""From text to terms: the same for facts and for questions.

Words are case-folded, stop words dropped, the rest stemmed (English Snowball). An identifier such
as `ImagePullBackOff`, `snake_case`, `pkg/mod.py` or `E1234` is kept whole and also split into its
words, so that both `ImagePullBackOff` and "pull the image" find it. `VERSION` changes whenever any
text gives other terms.
"""

from __future__ import annotations

import functools
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator

import snowballstemmer

VERSION = "en-1"

# 64 characters: longer runs are hashes and blobs, whose tails tell nothing apart in practice.
_MAX_TERM = 64
_TOKEN = re.compile(r"\w+(?:[-./:@]+\w+)*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_ENGLISH = """
a about after again all also am an and any are as at be because been before being but by can could
did do does doing for from further had has have having he her here him his how i if in into is it
its just me more most my no nor not now of off on once only or other our out over own same she
should so some such than that the their them then there these they this those through to too under
until up very was we were what when where which while who why will with would you your
"""
_STOP_WORDS = frozenset(_ENGLISH.split())
_local = threading.local()


def terms(text: str) -> Counter[str]:
    """Count the terms of a text. Empty for a text of nothing but stop words."""
    return Counter(_terms(unicodedata.normalize("NFKC", text)))


def _terms(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match.group()
        parts = _PART.findall(token)
        if _is_identifier(token, parts):
            # A whole identifier is never stemmed, and never a stop word.
            yield "=" + token.casefold()[:_MAX_TERM]
        for part in parts or [token]:
            word = part.casefold()
            if word not in _STOP_WORDS:
                yield _stem(word[:_MAX_TERM])


def _is_identifier(token: str, parts: list[str]) -> bool:
    return len(parts) > 1 or "_" in token or bool(_HUMP.search(token))


@functools.lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    # The stemmer keeps state between calls, so each thread has its own.
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        stemmer = _local.stemmer = snowballstemmer.stemmer("english")
    return str(stemmer.stemWord(word))
