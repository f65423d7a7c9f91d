"""Analyses the texts of a batch of facts: hashes and terms, unless a write gate may object.

This is most of the work before a fact is written. It depends on nothing but the texts and keeps no
state that affects results, so another process may do it (`analysis_worker`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kais import facts as kais_facts
from knowledge_service.domain import text_screening
from knowledge_service.domain.fact_text import FactText
from knowledge_service.search.text import term_ids


class AnalysedBatch(msgspec.Struct, frozen=True, array_like=True):
    """The results of an analysis, fact by fact."""

    hashes: tuple[bytes | None, ...]
    """The hash of equality; None for a fact that must be analysed alone."""
    terms: tuple[bytes, ...]
    """The result of `term_ids.term_ids_of`; empty for a fact that must be analysed alone."""


def analyse_batch(texts: Sequence[FactText]) -> AnalysedBatch:
    """Analyse facts together; facts that a gate might object to are left to be analysed alone."""
    hashes = tuple(
        [
            None if sign else kais_facts.simple_equality_digest(text.kind, text.content)
            for text, sign in zip(
                texts,
                text_screening.screen_all([_screened_text(text) for text in texts]),
                strict=True,
            )
        ]
    )
    packed_terms = [
        term_ids.term_ids_of(text.rendering) if content_hash else b""
        for text, content_hash in zip(texts, hashes, strict=True)
    ]
    return AnalysedBatch(hashes, tuple(packed_terms))


def _screened_text(text: FactText) -> str:
    """Return the text of a fact that the gates read; both treat a line end as a word end."""
    if text.title is None and not text.tags:
        return text.content
    return "\n".join((text.content, text.title or "", *text.tags))
