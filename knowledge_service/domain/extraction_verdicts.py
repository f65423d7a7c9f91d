"""Reads what a model says of extracted statements. Pure; the answer is untrusted input.

Each verdict is read by itself: one that is malformed says nothing about the others.

A statement counts as supported only if the passage that the model quotes is in the episodes of that
statement.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge_service.domain import extraction_answer
from knowledge_service.domain.extraction_answer import MalformedAnswer

_MAX_VERDICTS = 50
_LEAST_QUOTED, _MOST_QUOTED = 8, 600
_MAX_DIFFERENCE = 200
_QUOTATION_MARKS = str.maketrans(
    dict.fromkeys("\"'`\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2032\u2033", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-")
)
_OMISSION = re.compile(r"\[?(?:\u2026|\.\.\.)\]?|\n")
_EDGES = " '.,;:"


class Verdict(BaseModel):
    """What a model says of the statement with a number, from 1."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    number: int
    quote: str
    difference: str
    verdict: Literal["supported", "contradicted", "not_stated"]

    @property
    def summary(self) -> str:
        """The difference on one line, of a bounded length, without control characters."""
        printable = "".join(each if each.isprintable() else " " for each in self.difference)
        return " ".join(printable.split())[:_MAX_DIFFERENCE]


class _Answer(BaseModel):
    verdicts: list[Any] = Field(max_length=_MAX_VERDICTS)


def parse(text: str, count: int) -> Mapping[int, Verdict]:
    """Read the verdicts on the statements 1 to `count`, by number.

    A statement has none if its verdict is missing, malformed, or one of several, valid or not.

    Raises:
        MalformedAnswer: the text is not such JSON, or no statement has a verdict.
    """
    answer = extraction_answer.read_json(_Answer, text)
    verdicts: list[Verdict] = []
    for entry in answer.verdicts:
        with suppress(ValidationError):
            verdicts.append(Verdict.model_validate(entry))
    numbers = [entry.get("number") for entry in answer.verdicts if isinstance(entry, dict)]
    uses = Counter(number for number in numbers if isinstance(number, int))
    valid = {
        verdict.number: verdict
        for verdict in verdicts
        if 1 <= verdict.number <= count and uses[verdict.number] == 1
    }
    if not valid:
        raise MalformedAnswer(
            f"it must have one verdict for each of the items 1 to {count}: an object with number, "
            "quote, difference and verdict (supported, contradicted or not_stated)"
        )
    return valid


def missing_support(verdict: Verdict, texts: Sequence[str]) -> str | None:
    """Return why the verdict does not support its statement; None if it does.

    `texts` are those of the episodes that the statement names.
    """
    if verdict.verdict == "supported":
        return _missing_quote(verdict.quote, texts)
    if verdict.verdict == "contradicted":
        return "the model says that its episodes contradict it"
    return "the model says that its episodes do not state it"


def _missing_quote(quote: str, texts: Sequence[str]) -> str | None:
    if len(quote) > _MOST_QUOTED:
        return f"the model quotes more than {_MOST_QUOTED} characters as its support"
    episodes = [_normalised(text) for text in texts]
    passages = [_normalised(part).strip(_EDGES) for part in _OMISSION.split(quote)]
    passages = [passage for passage in passages if passage]
    is_quoted = all(any(passage in text for text in episodes) for passage in passages)
    is_long_enough = any(
        len(passage) >= _LEAST_QUOTED or passage in {text.strip(_EDGES) for text in episodes}
        for passage in passages
    )
    if is_quoted and is_long_enough:
        return None
    return "the passage that the model quotes as its support is not in its episodes"


def _normalised(text: str) -> str:
    return " ".join(html.unescape(text).translate(_QUOTATION_MARKS).casefold().split())
