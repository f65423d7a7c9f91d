"""Filters the facts that a recall may return. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from kais import facts
from knowledge_service.domain import chart_statements
from knowledge_service.domain.facets import Facet, has_facet

_SERVED = ("none", "approved")


@dataclass(frozen=True)
class Filters:
    """Conditions that must all be met; empty tuples and None match every fact.

    Attributes:
        tags: tags that a fact must all have; the comparison ignores case.
        facets: values that the data of a fact must all have.
        known_at: match facts that were live at this time.
        valid_at: match facts that were valid in the world at this time, even if superseded since.
        include_closed: also match closed facts.
        is_injection: the facts are put into prompts, so flagged facts do not match, and of charts
            only what states what is true.
    """

    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    min_confidence: float = 0.0
    valid_at: datetime | None = None
    known_at: datetime | None = None
    is_injection: bool = False
    include_closed: bool = False
    schema: str | None = None
    facets: tuple[Facet, ...] = ()


class Reason(NamedTuple):
    """Why a fact is left out; `str` makes the clause.

    A search rejects thousands of facts, so each reason refers to the values of the filter instead
    of a copy of them.
    """

    text: str
    values: tuple[str, ...] = ()
    separator: str = ", "

    def __str__(self) -> str:
        """Return the text and the values, as a clause."""
        return self.text + self.separator.join(self.values)


class Record(Protocol):
    """The fields of a fact that filters read, from a whole fact or a row of ranking."""

    # fmt: off
    @property
    def kind(self) -> str: ...  # noqa: D102 - named as in the wire model
    @property
    def tags(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102
    @property
    def lifecycle(self) -> str: ...  # noqa: D102
    @property
    def review(self) -> str: ...  # noqa: D102
    @property
    def flags(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def valid_from(self) -> datetime | None: ...  # noqa: D102
    @property
    def valid_until(self) -> datetime | None: ...  # noqa: D102
    @property
    def recorded_at(self) -> datetime: ...  # noqa: D102
    @property
    def closed_at(self) -> datetime | None: ...  # noqa: D102
    @property
    def schema_(self) -> str | None: ...  # noqa: D102
    @property
    def subject(self) -> str | None: ...  # noqa: D102
    @property
    def data(self) -> Any: ...  # noqa: D102
    # fmt: on


def is_match(fact: Record, filters: Filters, title_of: str | None) -> bool:
    """Return whether the fact may be returned and meets the conditions."""
    return exclusion_reason(fact, filters, title_of) is None


def exclusion_reason(fact: Record, filters: Filters, title_of: str | None) -> Reason | None:
    """Return why the fact is left out; None when it passes.

    `title_of` is the type of the entity of the fact's scope whose title the fact is.
    """
    if fact.review not in _SERVED:
        return Reason(
            f"its review is {fact.review}; only reviewed facts and those without are served"
        )
    if filters.is_injection:
        reason = _reason_not_injected(fact, title_of)
        if reason is not None:
            return reason
    if fact.confidence < filters.min_confidence:
        return Reason(f"its confidence {fact.confidence:g} is below {filters.min_confidence:g}")
    if filters.kinds and fact.kind not in filters.kinds:
        return Reason(f"its kind {fact.kind} is not among ", filters.kinds)
    if filters.tags and not _has_tags(fact, filters.tags):
        return Reason("it does not have all of the tags ", filters.tags)
    return (
        _reason_other_data(fact, filters)
        or _reason_not_known(fact, filters)
        or _reason_not_valid(fact, filters.valid_at)
    )


def _reason_not_injected(fact: Record, title_of: str | None) -> Reason | None:
    if fact.flags:
        return Reason(f"it is flagged ({', '.join(fact.flags)}) until a person confirms it")
    reason = chart_statements.reason_untrue(fact.kind, fact.schema_, fact.subject, title_of)
    return Reason(f"{reason}, and runs get what is true") if reason else None


def _has_tags(fact: Record, tags: tuple[str, ...]) -> bool:
    fact_tags = {facts.normalize_tag(tag) for tag in fact.tags}
    return fact_tags.issuperset(facts.normalize_tag(tag) for tag in tags)


def _reason_other_data(fact: Record, filters: Filters) -> Reason | None:
    if filters.schema is not None and fact.schema_ != filters.schema:
        return Reason(f"its schema is {fact.schema_ or 'not set'}, not ", (filters.schema,))
    if not filters.facets:  # each recall filters dozens of rows, and few have facets
        return None
    missing = (facet for facet in filters.facets if not has_facet(fact.data, facet))
    lacking = next(missing, None)
    return Reason("its data does not have ", lacking, separator="=") if lacking else None


def _reason_not_known(fact: Record, filters: Filters) -> Reason | None:
    at = filters.known_at
    if at is None:
        served = (
            fact.lifecycle == "live"
            or filters.include_closed
            or (filters.valid_at is not None and fact.lifecycle == "superseded")
        )
        return None if served else Reason(f"it is {fact.lifecycle}")
    if fact.recorded_at > at:
        return Reason(f"it was not known at {at.isoformat()}")
    if fact.closed_at is not None and fact.closed_at <= at and not filters.include_closed:
        return Reason(f"it was closed before {at.isoformat()}")
    return None


def _reason_not_valid(fact: Record, at: datetime | None) -> Reason | None:
    if at is None:
        return None
    if fact.valid_from is not None and fact.valid_from > at:
        return Reason(f"it holds only from {fact.valid_from.isoformat()} on")
    if fact.valid_until is not None and fact.valid_until <= at:
        return Reason(f"it held only until {fact.valid_until.isoformat()}")
    return None
