"""What a fact does to the live facts of its key: a sentence for each rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import pytest

from knowledge_service.domain.supersession import (
    Holder,
    SupersessionVerdict,
    decide_supersession,
)

JANUARY, FEBRUARY, MARCH, APRIL = (datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 5))


class Case(NamedTuple):
    holders: tuple[Holder, ...]
    verdict: SupersessionVerdict
    since: datetime = FEBRUARY
    by: Literal["human", "agent", "system"] = "agent"
    is_approved: bool = False


def holder(fact_id: str, since: datetime, *, is_approved: bool = False) -> Holder:
    return Holder(fact_id, since, is_approved)


def verdict(**values: Any) -> SupersessionVerdict:
    return SupersessionVerdict(**values)


CASES: dict[str, Case] = {
    "the first fact of a key closes nothing": Case((), verdict()),
    "an earlier statement is closed": Case((holder("a", JANUARY),), verdict(closes=("a",))),
    "all earlier statements are closed, in their order": Case(
        (holder("a", JANUARY), holder("b", JANUARY)), verdict(closes=("a", "b"))
    ),
    "a statement of the same moment contradicts": Case(
        (holder("a", FEBRUARY),), verdict(contradicts=("a",))
    ),
    "a later statement supersedes the new one from its beginning on": Case(
        (holder("a", MARCH),), verdict(superseded_by="a", closed_at=MARCH)
    ),
    "of several later statements the nearest supersedes": Case(
        (holder("a", APRIL), holder("b", MARCH)), verdict(superseded_by="b", closed_at=MARCH)
    ),
    "a statement in between closes the earlier and is superseded by the later": Case(
        (holder("a", JANUARY), holder("b", MARCH)),
        verdict(closes=("a",), superseded_by="b", closed_at=MARCH),
    ),
    "an agent contradicts an approved statement and does not close it": Case(
        (holder("a", JANUARY, is_approved=True),), verdict(contradicts=("a",))
    ),
    "an agent's fact is not superseded by an approved later one either": Case(
        (holder("a", MARCH, is_approved=True),), verdict(contradicts=("a",))
    ),
    "a person closes an approved statement": Case(
        (holder("a", JANUARY, is_approved=True),), verdict(closes=("a",)), by="human"
    ),
    "the service closes an approved statement": Case(
        (holder("a", JANUARY, is_approved=True),), verdict(closes=("a",)), by="system"
    ),
    "an approved draft stays live beside a later fact without approval": Case(
        (holder("a", MARCH),), verdict(contradicts=("a",)), by="human", is_approved=True
    ),
    "an approved draft is superseded by a later approved fact": Case(
        (holder("a", MARCH, is_approved=True),),
        verdict(superseded_by="a", closed_at=MARCH), by="human", is_approved=True,
    ),
    "an approved draft closes what is earlier": Case(
        (holder("a", JANUARY),), verdict(closes=("a",)), by="human", is_approved=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_verdict(case: Case) -> None:
    supersession_verdict = decide_supersession(
        case.holders, case.since, case.by, is_approved=case.is_approved
    )
    assert supersession_verdict == case.verdict
