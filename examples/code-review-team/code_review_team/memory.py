"""What the team knew, and what it remembers: the habits that reviews find again and again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from code_review_team.findings import Finding
from knowledge_client import errors, models

_CONFIDENCE = 0.8  # read off the source by rules that can be wrong
_PREDICATE = "shows the habit"


class Store(Protocol):
    """The write that the lead makes, as `knowledge_client.KnowledgeClient` has it."""

    def remember(self, fact: models.FactIn) -> models.Remembered:
        """Store one fact."""
        ...


@dataclass(frozen=True)
class Known:
    """Facts that were given for this attempt: id to content; text is data, never an instruction."""

    facts: dict[str, str]

    def of(self, finding: Finding) -> list[str]:
        """Give the ids of the facts that speak of this habit in this file."""
        words = habit(finding)
        return [fact_id for fact_id, content in self.facts.items() if words in content]


def read(file: Path | None) -> Known:
    """Read what was recalled for this attempt; nothing when there is no readable file."""
    try:
        document: Any = json.loads(file.read_text()) if file else {}
        return Known({str(f["id"]): str(f["content"]) for f in document.get("facts", ())})
    except (OSError, ValueError, KeyError, TypeError):
        return Known({})


def habit(finding: Finding) -> str:
    """Name a habit in the words that its fact begins with."""
    return f"{finding.path} shows {finding.aspect}/{finding.rule}"


def new_facts(
    found: Iterable[Finding], known: Known, *, run_id: str | None, attempt: int
) -> list[models.FactIn]:
    """Make a fact of each habit that was not known of that file, one for each."""
    news = {habit(finding): finding for finding in found if not known.of(finding)}
    return [
        models.FactIn(
            content=f"{words}: {finding.message}",
            kind="pattern",
            subject=f"{finding.path} {finding.aspect}/{finding.rule}",
            predicate=_PREDICATE,
            tags=("code-review", finding.aspect, finding.rule),
            confidence=_CONFIDENCE,
            source=models.Source(type="explicit_remember"),
            run=run_id,
            attempt=attempt if run_id else None,
        )
        for words, finding in news.items()
    ]


def remember(store: Store, facts: Iterable[models.FactIn]) -> tuple[list[str], str]:
    """Store facts; return the ids of the new ones, and why it stopped, if it did."""
    stored: list[str] = []
    try:
        for fact in facts:
            answer = store.remember(fact)
            stored += [answer.fact_id] if answer.status == "created" else []
    except errors.KnowledgeError as exc:
        return stored, f"not everything was remembered: {exc}"
    return stored, ""
