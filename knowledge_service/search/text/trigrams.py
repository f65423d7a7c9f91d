"""Trigrams of texts: which texts can contain another text, whatever its case.

The trigrams of a text are a superset of those that a match needs, so the text of a candidate is
compared afterwards. Each character begins a trigram, also the last two, so that a text of one or
two characters is the prefix of a trigram.
"""

from __future__ import annotations

from collections.abc import Iterable

SIZE = 3
# The index cuts terms at ASCII characters other than letters and digits.
_SEPARATORS = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}
_END = "\ue0ff" * (SIZE - 1)
# All trigrams of a query of 26 characters; more of a longer text exclude few further candidates.
_MAX_TRIGRAMS = 24


def document(parts: Iterable[str | None]) -> str:
    """Return the different trigrams of some texts, separated by spaces, in order."""
    trigrams: set[str] = set()
    for part in parts:
        if part:
            text = _normalize(part) + _END
            trigrams.update(text[at : at + SIZE] for at in range(len(text) - len(_END)))
    return " ".join(sorted(trigrams))


def of_query(text: str) -> list[str]:
    """Return different trigrams that the document of each text with `text` in it has.

    A text of one or two characters has one term, which is shorter.
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
