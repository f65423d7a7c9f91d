"""Why a recall leaves a fact out: a sentence for each condition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_client.models import Fact, Source
from knowledge_service.domain.recall_filters import Filters, exclusion_reason, is_match

JANUARY, FEBRUARY, MARCH = (datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 4))


def fact(**values: Any) -> Fact:
    required = {"id": "f", "scope": "realm:demo", "kind": "fact", "content": "x"}
    rest = {"confidence": 0.5, "source": Source(), "recorded_at": FEBRUARY}
    return Fact(**(required | rest | values))


CLOSED = {"lifecycle": "superseded", "closed_at": MARCH}
LEFT_OUT: dict[str, tuple[dict[str, Any], Filters, str]] = {
    "a draft": (
        {"review": "draft"}, Filters(),
        "its review is draft; only reviewed facts and those without are served",
    ),
    "a rejected fact": (
        {"review": "rejected"}, Filters(),
        "its review is rejected; only reviewed facts and those without are served",
    ),
    "a flagged fact, of an injection": (
        {"flags": ("instructions",)}, Filters(is_injection=True),
        "it is flagged (instructions) until a person confirms it",
    ),
    "one below the confidence asked for": (
        {}, Filters(min_confidence=0.6), "its confidence 0.5 is below 0.6",
    ),
    "one of another kind": (
        {}, Filters(kinds=("pitfall", "method")), "its kind fact is not among pitfall, method",
    ),
    "one with only one of two tags": (
        {"tags": ("deploy",)}, Filters(tags=("deploy", "night")),
        "it does not have all of the tags deploy, night",
    ),
    "a closed one": ({"lifecycle": "retracted"}, Filters(), "it is retracted"),
    "a retracted one, although asked for what held then": (
        {"lifecycle": "retracted"}, Filters(valid_at=FEBRUARY), "it is retracted",
    ),
    "one recorded later than the moment asked about": (
        {}, Filters(known_at=JANUARY), "it was not known at 2026-01-01T00:00:00+00:00",
    ),
    "one closed by then": (
        CLOSED, Filters(known_at=MARCH), "it was closed before 2026-03-01T00:00:00+00:00",
    ),
    "one that holds only later": (
        {"valid_from": MARCH}, Filters(valid_at=FEBRUARY),
        "it holds only from 2026-03-01T00:00:00+00:00 on",
    ),
    "one that held only before": (
        {"valid_until": FEBRUARY}, Filters(valid_at=FEBRUARY),
        "it held only until 2026-02-01T00:00:00+00:00",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "filters", "reason"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_left_out(values: dict[str, Any], filters: Filters, reason: str) -> None:
    assert exclusion_reason(fact(**values), filters) == reason
    assert not is_match(fact(**values), filters)


SERVED: dict[str, tuple[dict[str, Any], Filters]] = {
    "a live fact, without conditions": ({}, Filters()),
    "an approved fact": ({"review": "approved"}, Filters()),
    "a flagged fact, when it is not put into a prompt": ({"flags": ("instructions",)}, Filters()),
    "a fact with exactly the confidence asked for": ({}, Filters(min_confidence=0.5)),
    "tags in any spelling": ({"tags": ("Deploy", "night")}, Filters(tags=("DEPLOY",))),
    "a closed one when closed ones are asked for": (CLOSED, Filters(include_closed=True)),
    "a superseded one when asked what held then": (CLOSED, Filters(valid_at=FEBRUARY)),
    "one closed only after the moment": (CLOSED, Filters(known_at=FEBRUARY)),
    "one closed by then when closed ones are asked for": (
        CLOSED, Filters(known_at=MARCH, include_closed=True),
    ),
    "one recorded at that very moment": ({}, Filters(known_at=FEBRUARY)),
    "one whose validity begins at that very moment": (
        {"valid_from": FEBRUARY}, Filters(valid_at=FEBRUARY),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "filters"), SERVED.values(), ids=SERVED)
def test_served(values: dict[str, Any], filters: Filters) -> None:
    assert exclusion_reason(fact(**values), filters) is None
    assert is_match(fact(**values), filters)
