"""Rows of facts as ranking reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from knowledge_service.search.ranking.candidates import Candidate

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def candidate(content: str = "it works", number: int = 1, **columns: object) -> Candidate:
    """Return a live fact of scope 1, recorded at NOW, with the default confidence."""
    row = Candidate(
        number, 1, "fact", None, content, "[]", None, None, None, None, "{}", 0.5, "live", "none",
        None, None, None, microseconds(NOW), None,
    )  # fmt: skip
    return row._replace(**columns)
