"""Why a recall leaves a fact out: a sentence for each condition."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from knowledge_client.models import Fact, Source
from knowledge_service.domain.facets import Facet
from knowledge_service.domain.recall_filters import Filters, exclusion_reason, is_match

JANUARY, FEBRUARY, MARCH = (datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 4))


def fact(title_of: str | None = None, **values: Any) -> Fact:
    del title_of  # a store derives it from what the fact is about
    required = {"id": "f", "scope": "realm:demo", "kind": "fact", "content": "x"}
    rest = {"confidence": 0.5, "source": Source(), "recorded_at": FEBRUARY}
    return Fact(**(required | rest | values))


INJECTION = Filters(is_injection=True)
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
        {"flags": ("instructions",)}, INJECTION,
        "it is flagged (instructions) until a person confirms it",
    ),
    "the name of a part of a chart, of an injection": (
        {"kind": "entity", "schema": "graph/1", "subject": "current_reality"}, INJECTION,
        "it is the name of a part of a chart, and runs get what is true",
    ),
    "the title of a chart, of an injection": (
        {"title_of": "structural_tension_chart"}, INJECTION,
        "it only says when a chart was created, and runs get what is true",
    ),
    "a desired outcome, of an injection": (
        {"title_of": "desired_outcome"}, INJECTION,
        "it is the desired outcome of a chart, and runs get what is true",
    ),
    "an action step, of an injection": (
        {"title_of": "action_step"}, INJECTION,
        "it is an action step of a chart, and runs get what is true",
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
    "one of another schema": (
        {"schema": "ko/1"}, Filters(schema="other/1"), "its schema is ko/1, not other/1",
    ),
    "one without a schema": ({}, Filters(schema="ko/1"), "its schema is not set, not ko/1"),
    "one without the value of a facet": (
        {"data": {"colour": "blue"}, "schema": "ko/1"},
        Filters(schema="ko/1", facets=(Facet("colour", "blue"), Facet("size", "large"))),
        "its data does not have size=large",
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
    title_of = values.get("title_of")
    assert str(exclusion_reason(fact(**values), filters, title_of)) == reason
    assert not is_match(fact(**values), filters, title_of)


SERVED: dict[str, tuple[dict[str, Any], Filters]] = {
    "a live fact, without conditions": ({}, Filters()),
    "an approved fact": ({"review": "approved"}, Filters()),
    "a flagged fact, when it is not put into a prompt": ({"flags": ("instructions",)}, Filters()),
    "the name of a part of a chart, when it is not put into a prompt": (
        {"kind": "entity", "schema": "graph/1", "subject": "action_step"}, Filters(),
    ),
    "a desired outcome, when it is not put into a prompt": (
        {"title_of": "desired_outcome"}, Filters(),
    ),
    "the current reality of a chart, of an injection": ({"title_of": "current_reality"}, INJECTION),
    "the title of any other entity, of an injection": ({"title_of": "person"}, INJECTION),
    "the name of any other entity, of an injection": (
        {"kind": "entity", "schema": "graph/1", "subject": "person"}, INJECTION,
    ),
    "an entity that is in no graph, of an injection": (
        {"kind": "entity", "subject": "action_step"}, INJECTION,
    ),
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
    title_of = values.get("title_of")
    assert exclusion_reason(fact(**values), filters, title_of) is None
    assert is_match(fact(**values), filters, title_of)


LARGE = "k" * 100_000


@pytest.mark.parametrize(
    "filters",
    [
        Filters(kinds=(LARGE,)),
        Filters(tags=(LARGE,)),
        Filters(schema=LARGE),
        Filters(facets=(Facet("colour", LARGE),)),
    ],
    ids=["kinds", "tags", "schema", "facets"],
)
def test_reasons_of_many_facts_share_the_values_of_the_filter(filters: Filters) -> None:
    rejected = fact()
    tracemalloc.start()
    try:
        reasons = [exclusion_reason(rejected, filters, None) for _ in range(100)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(LARGE in str(reason) for reason in reasons)
    assert peak < 10 * len(LARGE)
