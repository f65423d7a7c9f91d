"""What the texts of a batch of facts say by themselves: hashes and terms, where no gate objects.

Most of what a fact costs before it is written. It reads nothing else and keeps nothing that
matters, so a process of its own may do it as well (`analysis_worker`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kais import facts as kais_facts
from knowledge_service.domain import signs
from knowledge_service.domain.facts import FactText
from knowledge_service.search.text import term_ids


class AnalysedBatch(msgspec.Struct, frozen=True, array_like=True):
    """What was found, fact by fact."""

    hashes: tuple[bytes | None, ...]
    """Of equality; None for a fact that must be looked at alone."""
    terms: tuple[bytes, ...]
    """As `terms.packed_of` gives them; nothing for a fact that must be looked at alone."""


def analyse_batch(texts: Sequence[FactText]) -> AnalysedBatch:
    """Analyse facts together; what a gate might object to is left to be analysed alone."""
    hashes = tuple(
        [
            None if sign else kais_facts.plain_hash(text.kind, text.content)
            for text, sign in zip(
                texts, signs.of_all([_screened_text(text) for text in texts]), strict=True
            )
        ]
    )
    packed_terms = [
        term_ids.term_ids_of(text.rendering) if content_hash else b""
        for text, content_hash in zip(texts, hashes, strict=True)
    ]
    return AnalysedBatch(hashes, tuple(packed_terms))


def _screened_text(text: FactText) -> str:
    """Return what the gates read of a fact; the end of a line is the end of a word for both."""
    if text.title is None and not text.tags:
        return text.content
    return "\n".join((text.content, text.title or "", *text.tags))
