"""Verifies extracted statements by a second call of the model, which must quote the record.

The model sees what the check of words cannot, such as a negation in other words. It is not trusted:
no verdict outweighs a certain defect, and its quotation must be in the episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from knowledge_service.domain import extraction_verdicts, extraction_verification
from knowledge_service.domain.extraction_verdicts import Verdict
from knowledge_service.domain.extraction_verification import Statement
from knowledge_service.extraction.accounted_calls import (
    AccountedCalls,
    BudgetExceeded,
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


class Cause(StrEnum):
    """Why statements have no verdict; the values are labels of a metric."""

    CALL_FAILED = "call_failed"
    BUDGET = "budget"
    NO_ROOM = "no_room"
    NO_VERDICT = "no_verdict"
    INSTRUCTIONS = "instructions"


@dataclass(frozen=True)
class Verification:
    """The verdicts by the place of their statement, and why others have none, by cause."""

    verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    problems: Mapping[Cause, str] = field(default_factory=dict)


def verify(calls: AccountedCalls, statements: Sequence[Statement]) -> Verification:
    """Ask the model for its verdicts. A call that fails is not repeated."""
    message, places = extraction_verification.message(statements)
    count = len(places)
    problems: dict[Cause, str] = {}
    if rest := len(statements) - count:
        problems[Cause.NO_ROOM] = f"one call has no room for {rest}"
    if not count:
        return Verification(problems=problems)
    try:
        verdicts = calls.ask(PROMPT, message, lambda text: extraction_verdicts.parse(text, count))
    except BudgetExceeded as exc:
        return Verification(problems=problems | {Cause.BUDGET: str(exc)})
    except (ModelUnavailable, ModelUnusable) as exc:
        return Verification(problems=problems | {Cause.CALL_FAILED: str(exc)})
    if missing := count - len(verdicts):
        problems[Cause.NO_VERDICT] = f"its answer has no valid verdict on {missing}"
    return Verification({places[n - 1]: verdict for n, verdict in verdicts.items()}, problems)


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
