"""Term numbers, so that postings are arrays: the first 64 bits of an unkeyed hash.

The index would treat two terms with the same number as one term. Among a million terms that happens
once in tens of millions of stores, and it affects only the scopes that have both terms.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections import Counter
from collections.abc import Mapping

from knowledge_service.search.postings.documents import Document
from knowledge_service.search.text import analyser


def number(term: str) -> int:
    """Return the term's number, signed."""
    return int.from_bytes(_packed(term), "little", signed=True)


def term_ids_of(text: str) -> bytes:
    """Return the numbers of a text's terms, 8 bytes each, repeated as often as the term occurs.

    Every stored text passes through here, and most of its words are cached.
    """
    if text.isascii():
        cached, chunks = _memory.chunks, text.split()
        packed = b"".join(map(cached.__getitem__, chunks))
        if len(cached) >= _MAX_CHUNKS or cached.long >= _MAX_LONG_CHARACTERS:
            # The local variable keeps the old cache, which this call still reads below.
            _memory.chunks = cached.next()
        if cached.months.isdisjoint(chunks) or not analyser.has_digits(text):
            return packed
    return b"".join(map(_packed, analyser.sequence(text)))


def document_of(fact_no: int, text: str) -> Document:
    """Return the index document of a fact with this text."""
    return document_packed(fact_no, term_ids_of(text))


def document_packed(fact_no: int, packed: bytes) -> Document:
    """Return the index document of a fact from the packed numbers of its terms."""
    numbers = sorted(struct.unpack(f"<{len(packed) // 8}q", packed))
    if len(set(numbers)) < len(numbers):
        return _document(fact_no, Counter(numbers))
    return Document(fact_no, len(numbers), tuple(numbers), (1,) * len(numbers))


def document(fact_no: int, counts: Mapping[str, int]) -> Document:
    """Return the index document of a fact from the counts of its terms."""
    return _document(fact_no, {number(term): count for term, count in counts.items()})


def _document(fact_no: int, counts: Mapping[int, int]) -> Document:
    terms = tuple(sorted(counts))
    frequencies = tuple([counts[term] for term in terms])
    return Document(fact_no, sum(frequencies), terms, frequencies)


class _ChunkCache(dict[str, bytes]):
    """A cache of packed term numbers by chunk: the text between two spaces, which often repeats.

    A full cache is replaced by a new one, which takes over the entries that are used. Tracking the
    order of use would cost more. An empty new cache would lose frequent words only because many
    numbers, which never repeat, filled the old one.
    """

    def __init__(self, previous: _ChunkCache | None = None) -> None:
        super().__init__()
        self._before = previous
        self.months: set[str] = set()
        """The chunks that may name a month, including long ones."""
        self.long = 0
        """An upper bound of the characters of the long chunks in `months`."""

    def next(self) -> _ChunkCache:
        """Return the successor of this cache; drop entries unused since the last successor."""
        self._before = None
        return _ChunkCache(self)

    def __missing__(self, chunk: str) -> bytes:
        previous = self._before
        cached = None if previous is None else previous.get(chunk)
        if previous is not None and cached is not None:
            self[chunk] = cached
            if chunk in previous.months:
                self.months.add(chunk)
            return cached
        terms, has_month = analyser.of_chunk(chunk)
        if has_month:
            self.months.add(chunk)
        packed = b"".join(map(_packed, terms))
        if len(chunk) <= _MAX_CACHED_CHARACTERS:
            self[chunk] = packed
        elif has_month:
            self.long += len(chunk)
        return packed


def _packed(term: str) -> bytes:
    # Terms with digits rarely occur again.
    return _cached_id(term) if term.isalpha() else _hashed(term)


def _hashed(term: str) -> bytes:
    return _blake2b(term.encode(), digest_size=8).digest()


_blake2b = hashlib.blake2b
_cached_id = functools.lru_cache(maxsize=32_768)(_hashed)


_MAX_CHUNKS = 32_768  # in each of two caches
_MAX_CACHED_CHARACTERS = (
    64  # a longer chunk is a blob that hardly ever repeats, and may be as long as a fact
)
_MAX_LONG_CHARACTERS = 1 << 20  # arbitrary; a small part of what the short chunks take


class _SharedCache:
    chunks = _ChunkCache()


_memory = _SharedCache()
