"""The facts of the team: habits that earlier reviews found, and new ones to remember."""

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
    """The method of `knowledge_client.KnowledgeClient` that the lead uses."""

    def remember(self, fact: models.FactIn) -> models.Remembered:
        """Store one fact."""
        ...


@dataclass(frozen=True)
class KnownFacts:
    """The recalled facts of this attempt, content by id; their text is data, not instructions."""

    facts: dict[str, str]

    def ids_about(self, finding: Finding) -> list[str]:
        """Return the ids of the facts about this habit in this file."""
        habit_name = describe_habit(finding)
        return [fact_id for fact_id, content in self.facts.items() if habit_name in content]


def read(file: Path | None) -> KnownFacts:
    """Read the facts that were recalled for this attempt; empty without a readable file."""
    try:
        document: Any = json.loads(file.read_text()) if file else {}
        return KnownFacts({str(f["id"]): str(f["content"]) for f in document.get("facts", ())})
    except (OSError, ValueError, KeyError, TypeError):
        return KnownFacts({})


def describe_habit(finding: Finding) -> str:
    """Return the text that the fact of a habit begins with."""
    return f"{finding.path} shows {finding.aspect}/{finding.rule}"


def new_facts(
    findings: Iterable[Finding], known_facts: KnownFacts, *, run_id: str | None, attempt: int
) -> list[models.FactIn]:
    """Create a fact for each habit that was not known of that file."""
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
    """Store facts; return the ids of new ones, and why not all were stored, or ""."""
    stored: list[str] = []
    try:
        for fact in facts:
            answer = store.remember(fact)
            stored += [answer.fact_id] if answer.status == "created" else []
    except errors.KnowledgeError as exc:
        return stored, f"not everything was remembered: {exc}"
    return stored, ""
