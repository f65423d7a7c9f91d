"""Terms as numbers, so that postings are arrays: the first 64 bits of a hash without a key.

Two terms of one number would be one term for the index; among a million terms that happens once in
tens of millions of stores, and it never reaches beyond the scopes that have both.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

from knowledge_service.index.segments import Document


@functools.lru_cache(maxsize=65_536)
def number(term: str) -> int:
    """Return the term's number, signed."""
    digest = hashlib.blake2b(term.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def document(fact_no: int, counts: Mapping[str, int]) -> Document:
    """Make what the index keeps of a fact whose text has these terms."""
    found = sorted([(number(term), count) for term, count in counts.items()])
    terms, frequencies = zip(*found, strict=True) if found else ((), ())
    return Document(fact_no, sum(frequencies), terms, frequencies)
