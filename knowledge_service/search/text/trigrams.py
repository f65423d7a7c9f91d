"""Trigrams of texts, which narrow a case-insensitive search for a part of a text.

A text that has the trigrams of a query need not contain the query, so the text of each candidate is
compared afterwards. Each character begins a trigram, even the last two, so a query of one or two
characters is the prefix of a trigram.
"""

from __future__ import annotations

from collections.abc import Iterable

SIZE = 3
# The index cuts terms at ASCII characters other than letters and digits.
_SEPARATORS = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}
_END = "\ue0ff" * (SIZE - 1)
# All trigrams of a query of 26 characters; further ones would exclude few more candidates.
_MAX_TRIGRAMS = 24


def document(parts: Iterable[str | None]) -> str:
    """Return the distinct trigrams of some texts, sorted and separated by spaces."""
    trigrams: set[str] = set()
    for part in parts:
        if part:
            text = _normalize(part) + _END
            trigrams.update(text[at : at + SIZE] for at in range(len(text) - len(_END)))
    return " ".join(sorted(trigrams))


def of_query(text: str) -> list[str]:
    """Return distinct trigrams that the document of every text containing `text` has.

    A text of one or two characters gives a single, shorter term.
    """
    normalized = _normalize(text)
    last = len(normalized) - SIZE
    parts = min(last, _MAX_TRIGRAMS - 1)
    starts = [last * part // parts for part in range(parts + 1)] if parts > 0 else [0]
    return list(dict.fromkeys(normalized[at : at + SIZE] for at in starts))


def expression(terms: Iterable[str]) -> str:
    """Return the FTS5 expression that documents with all these terms match."""
    return " AND ".join(f'"{term}"' if len(term) == SIZE else f'"{term}" *' for term in terms)


def _normalize(text: str) -> str:
    return text.casefold().translate(_SEPARATORS)
