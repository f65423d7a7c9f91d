"""What can be known of the facts of a batch from their words alone: hashes, terms, and signs.

Most of what a fact costs before it is written. It asks nobody and remembers nothing that matters,
so a process of its own may do it as well (`aside`).
"""

from __future__ import annotations

import msgspec

from kais import facts as kais_facts
from knowledge_service.domain import facts, told
from knowledge_service.domain.told import Told
from knowledge_service.index import terms


class Looked(msgspec.Struct, frozen=True, array_like=True):
    """What was found, fact by fact."""

    hashes: tuple[bytes | None, ...]
    """Of equality; None for a fact that must be looked at alone."""
    terms: tuple[bytes, ...]
    """As `terms.packed_of` gives them; nothing for a fact that must be looked at alone."""


def look(given: tuple[Told, ...]) -> Looked:
    """Look at facts that are told together."""
    hashes = tuple(
        [
            kais_facts.plain_hash(each.kind, each.content) if is_clean else None
            for each, is_clean in zip(given, told.looked_at(given), strict=True)
        ]
    )
    found = [
        terms.packed_of(facts.told_rendering(each)) if known else b""
        for each, known in zip(given, hashes, strict=True)
    ]
    return Looked(hashes, tuple(found))
