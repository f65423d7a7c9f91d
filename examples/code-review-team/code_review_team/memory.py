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
class KnownFacts:
    """Facts that were given for this attempt: id to content; text is data, never an instruction."""

    facts: dict[str, str]

    def ids_about(self, finding: Finding) -> list[str]:
        """Give the ids of the facts that speak of this habit in this file."""
        habit_name = describe_habit(finding)
        return [fact_id for fact_id, content in self.facts.items() if habit_name in content]


def read(file: Path | None) -> KnownFacts:
    """Read what was recalled for this attempt; nothing when there is no readable file."""
    try:
        document: Any = json.loads(file.read_text()) if file else {}
        return KnownFacts({str(f["id"]): str(f["content"]) for f in document.get("facts", ())})
    except (OSError, ValueError, KeyError, TypeError):
        return KnownFacts({})


def describe_habit(finding: Finding) -> str:
    """Name a habit in the words that its fact begins with."""
    return f"{finding.path} shows {finding.aspect}/{finding.rule}"


def new_facts(
    findings: Iterable[Finding], known_facts: KnownFacts, *, run_id: str | None, attempt: int
) -> list[models.FactIn]:
    """Make a fact of each habit that was not known of that file, one for each."""
    new_habits = {
        describe_habit(finding): finding
        for finding in findings
        if not known_facts.ids_about(finding)
    }
    return [
        models.FactIn(
            content=f"{habit_name}: {finding.message}",
            kind="pattern",
            subject=f"{finding.path} {finding.aspect}/{finding.rule}",
            predicate=_PREDICATE,
            tags=("code-review", finding.aspect, finding.rule),
            confidence=_CONFIDENCE,
            source=models.Source(type="explicit_remember"),
            run=run_id,
            attempt=attempt if run_id else None,
        )
        for habit_name, finding in new_habits.items()
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
