"""How messages name the end of a fact."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from knowledge_client.models import Fact, Source
from knowledge_service.domain.closure_messages import describe_closure

CASES = {
    "the reason follows the state": ("retracted", "it was noon", "", "retracted: it was noon"),
    "a reason that begins with the state is not repeated": (
        "superseded", "superseded by f-2", "", "superseded by f-2",
    ),
    "an adverb stands behind the state": (
        "retracted", "it was noon", "already", "retracted already: it was noon",
    ),
    "an adverb stands before the rest of such a reason": (
        "superseded", "superseded by f-2", "already", "superseded already by f-2",
    ),
    "a fact without a reason": ("archived", None, "", "archived: "),
}  # fmt: skip


@pytest.mark.parametrize(("lifecycle", "reason", "adverb", "expected"), CASES.values(), ids=CASES)
def test_closure(lifecycle: str, reason: str | None, adverb: str, expected: str) -> None:
    closed = Fact.model_validate(
        {
            "id": "f", "scope": "realm:demo", "kind": "fact", "content": "x", "confidence": 0.5,
            "source": Source(), "recorded_at": datetime(2026, 3, 2, tzinfo=UTC),
            "lifecycle": lifecycle, "closed_reason": reason,
        }
    )  # fmt: skip
    assert describe_closure(closed, adverb) == expected
