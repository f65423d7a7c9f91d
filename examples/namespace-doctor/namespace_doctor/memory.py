"""The facts that the doctor gets, and the facts and episodes that it stores.

The doctor works without the knowledge service: a failure only adds a note to the report.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from knowledge_client import errors, models
from namespace_doctor.diagnoses import Diagnosis

_SCHEMA = "namespace-doctor/1"
_PREDICATE = "fails because"
_EPISODES_AT_ONCE = 200  # the service's bound for one call
_CONFIDENCE = 0.8  # read off the cluster's own words, by rules that can be wrong


class Store(Protocol):
    """The methods of `knowledge_client.KnowledgeClient` that the doctor uses."""

    def remember(self, fact: models.FactIn) -> models.Remembered:
        """Store one fact."""
        ...

    def add_episodes(self, episodes: models.EpisodesIn) -> models.EpisodesAccepted:
        """Append to the run's record."""
        ...


@dataclass(frozen=True)
class KnownFact:
    """A recalled fact; its text is data, not instructions."""

    id: str
    content: str
    subject: str = ""

    def fits(self, diagnosis: Diagnosis) -> bool:
        """Whether the fact is about the subject of the diagnosis, or contains its signature."""
        content, subject = _folded(self.content), _folded(diagnosis.subject)
        return (
            _folded(self.subject) == subject
            or content.startswith(f"{subject} ")
            or _folded(diagnosis.signature) in content
        )


@dataclass(frozen=True)
class RecalledKnowledge:
    """The facts that were recalled for this attempt; `note` explains why there are none."""

    facts: tuple[KnownFact, ...] = ()
    note: str = ""

    def facts_about(self, diagnosis: Diagnosis) -> tuple[KnownFact, ...]:
        """Return the facts that fit a diagnosis, in the order of the recall."""
        return tuple(fact for fact in self.facts if fact.fits(diagnosis))

    def states(self, diagnosis: Diagnosis) -> bool:
        """Whether a recalled fact has the statement of the diagnosis."""
        statement = _folded(diagnosis.statement)
        return any(_folded(fact.content) == statement for fact in self.facts)


@dataclass(frozen=True)
class Outcome:
    """The result of the writes.

    Attributes:
        remembered: ids of facts that are new in the store.
        confirmed: how many the store had already, without a recall for this attempt.
        notes: what failed, as sentences for the report.
    """

    remembered: tuple[str, ...] = ()
    confirmed: int = 0
    notes: tuple[str, ...] = ()


def read_knowledge(path: Path | None) -> RecalledKnowledge:
    """Read the facts that were recalled for this attempt."""
    if path is None:
        return RecalledKnowledge(note="no knowledge was given: KAIS_KNOWLEDGE_FILE is not set")
    try:
        document = json.loads(path.read_text())
        facts = tuple(_parse_fact(fact) for fact in document["facts"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        return RecalledKnowledge(
            note=f"the given knowledge in {path} cannot be read ({exc!r}); going on without"
        )
    return RecalledKnowledge(facts, str(document.get("reason") or ""))


@dataclass(frozen=True)
class Origin:
    """Where facts come from: the run, its attempt, and the Mission as `namespace/name`."""

    run_id: str | None = None
    attempt: int = 1
    mission: str | None = None

    def refs(self) -> tuple[models.Ref, ...]:
        """Return the references for the source of a fact."""
        references = (("run", self.run_id), ("mission", self.mission))
        return tuple(models.Ref(type=kind, id=name) for kind, name in references if name)


def new_facts(
    diagnoses: Iterable[Diagnosis], knowledge: RecalledKnowledge, origin: Origin
) -> list[models.FactIn]:
    """Create a fact for each subject whose diagnosis no recalled fact states."""
    by_subject = {_folded(d.subject): d for d in diagnoses if not knowledge.states(d)}
    return [
        models.FactIn(
            content=diagnosis.statement,
            kind="pitfall",
            subject=diagnosis.subject,
            predicate=_PREDICATE,
            tags=("kubernetes", "failing-pod", diagnosis.cause.value),
            confidence=_CONFIDENCE,
            schema=_SCHEMA,
            data={"signature": diagnosis.signature},
            source=models.Source(type="explicit_remember", refs=origin.refs()),
            run=origin.run_id,
            attempt=origin.attempt if origin.run_id else None,
        )
        for diagnosis in by_subject.values()
    ]


def episodes(
    diagnoses: Sequence[Diagnosis], knowledge: RecalledKnowledge, *, namespace: str, attempt: int
) -> tuple[models.EpisodeIn, ...]:
    """Create the episodes of the run: one for each failing container, and a decision."""
    failures = tuple(
        models.EpisodeIn(
            attempt=attempt,
            type="error",
            content=f"pod {diagnosis.pod}: {diagnosis.statement}",
            error_signature=diagnosis.signature,
            refs=(models.Ref(type="pod", id=f"{namespace}/{diagnosis.pod}"),),
        )
        for diagnosis in diagnoses
    )
    known_count = sum(knowledge.states(diagnosis) for diagnosis in diagnoses)
    decision = models.EpisodeIn(
        attempt=attempt,
        type="decision",
        content=f"explained {len(diagnoses)} failing containers of namespace {namespace}:"
        f" {known_count} by facts that were given, {len(diagnoses) - known_count} anew",
    )
    return (*failures, decision)


def store_knowledge(
    store: Store,
    facts: Sequence[models.FactIn],
    record: Sequence[models.EpisodeIn],
    *,
    run_id: str | None,
) -> Outcome:
    """Store facts and episodes; stop at the first failure of the knowledge service."""
    remembered: list[str] = []
    notes: list[str] = []
    confirmed = 0
    try:
        for fact in facts:
            try:
                answer = store.remember(fact)
            except (errors.Conflict, errors.PermissionDenied) as exc:
                notes.append(f"not remembered about {fact.subject}: {exc}")
                continue
            if answer.status == "created":
                remembered.append(answer.fact_id)
            else:
                confirmed += 1
        if run_id:
            for start in range(0, len(record), _EPISODES_AT_ONCE):
                lines = tuple(record[start : start + _EPISODES_AT_ONCE])
                store.add_episodes(models.EpisodesIn(run_id=run_id, episodes=lines))
    except errors.KnowledgeError as exc:
        notes.append(f"the knowledge service did not take everything: {exc}")
    return Outcome(tuple(remembered), confirmed, tuple(notes))


def _parse_fact(fact: Mapping[str, Any]) -> KnownFact:
    subject = str(fact.get("subject") or "")
    return KnownFact(id=str(fact["id"]), content=str(fact["content"]), subject=subject)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split())).casefold()
