"""Verifies extracted statements by a second call of the model, which must quote the record.

The model sees what the check of words cannot, such as a negation in other words. It is not trusted:
no verdict outweighs a certain defect, and its quotation must be in the episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from knowledge_service.domain import extraction_verdicts, extraction_verification
from knowledge_service.domain.extraction_verdicts import Verdict
from knowledge_service.domain.extraction_verification import Statement
from knowledge_service.extraction.accounted_calls import (
    AccountedCalls,
    ModelUnavailable,
    ModelUnusable,
)
from knowledge_service.extraction.evidence import check
from knowledge_service.extraction.model_client import Prompt

PROMPT: Final = Prompt(
    extraction_verification.INSTRUCTIONS, extraction_verification.SCHEMA, "verdicts"
)


@dataclass(frozen=True)
class Defect:
    """Why a statement is left out; `detail` is in the words of a model."""

    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Verification:
    """The verdicts by the place of their statement; `problem` is why some have none."""

    verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    problem: str | None = None


def verify(calls: AccountedCalls, statements: Sequence[Statement]) -> Verification:
    """Ask the model for its verdicts. A call that fails is not repeated."""
    message, places = extraction_verification.message(statements)
    count = len(places)
    rest = len(statements) - count
    problem = f"one call has no room for {rest} of {len(statements)} facts" if rest else None
    if not count:
        return Verification(problem=problem)
    try:
        verdicts = calls.ask(PROMPT, message, lambda text: extraction_verdicts.parse(text, count))
    except (ModelUnavailable, ModelUnusable) as exc:
        return Verification(problem=str(exc))
    return Verification(dict(zip(places, verdicts, strict=True)), problem)


def defect(statement: Statement, verdict: Verdict | None) -> Defect | None:
    """Return why a statement is left out; without a verdict, the whole check of words decides."""
    texts = statement.texts
    if verdict is None:
        reason, detail = check.missing_support(statement.text, texts), ""
    elif reason := check.certain_defect(statement.text, texts):
        detail = ""
    else:
        reason, detail = extraction_verdicts.missing_support(verdict, texts), verdict.summary
    return Defect(reason, detail) if reason else None
