"""How a run ended, kept on the Mission itself.

The outcome is an annotation because it must outlive status. Beside it stands what a report needs:
Jobs and pods may be gone later, and an object that was saved and applied again has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kais import labels
from kais.outcomes import Outcome
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_summary
from kais_operator.controllers.mission.decide.attempt_summary import Try
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body, ObjectRef, PatchMetadata
from knowledge_client import models


@dataclass(frozen=True)
class Ending:
    """How a run ended. Of a run that never started, `started_at` is None."""

    outcome: Outcome
    words: str
    finished_at: datetime | None = None
    started_at: datetime | None = None
    tries: tuple[Try, ...] = ()
    receipt: str | None = None
    injected: int | None = None
    attempt: int = 0


def read(mission: Mission, ledger: models.Run | None) -> Ending | None:
    """Read how a mission's run ended; None while it has not.

    A Mission that was made anew has the outcome only; then the ledger says when. Where the ledger
    closed the run with another outcome, the ledger's stands.
    """
    given = mission.metadata.annotations.get(labels.OUTCOME)
    if given is None or given not in set(Outcome):
        return None
    outcome = Outcome(given)
    kept = _parse(outcome, mission.metadata.annotations.get(labels.ENDING))
    ending = kept or _from_ledger(outcome, ledger)
    if ledger is not None and ledger.outcome is not None and ledger.outcome != given:
        return by_ledger(ledger, ending, given=given)
    return ending


def by_ledger(ledger: models.Run, ending: Ending, *, given: str) -> Ending:
    """Take the ledger's outcome, and say which one it takes the place of."""
    words = f"the ledger has this run closed as {ledger.outcome}, which stands; seen here: {given}"
    return Ending(
        outcome=Outcome(str(ledger.outcome)),
        words=words,
        finished_at=ledger.finished_at or ending.finished_at,
        started_at=ending.started_at or ledger.started_at,
        tries=ending.tries,
        receipt=ending.receipt,
        injected=ending.injected,
        attempt=ending.attempt,
    )


def stamp(mission: Mission, ending: Ending) -> PatchMetadata:
    """Write an ending onto its Mission, before anybody else is told."""
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={
            labels.OUTCOME: ending.outcome.value,
            labels.ENDING: _dump(ending),
            labels.ATTEMPTS: None,
        },
    )


def _dump(ending: Ending) -> str:
    kept: Body = {
        "words": ending.words,
        "attempt": ending.attempt,
        "startedAt": attempt_summary.dump_time(ending.started_at),
        "finishedAt": attempt_summary.dump_time(ending.finished_at),
        "receipt": ending.receipt,
        "injected": ending.injected,
        "tries": [attempt_summary.dump(one) for one in ending.tries],
    }
    return json.dumps(kept, ensure_ascii=False, sort_keys=True)


def _parse(outcome: Outcome, text: str | None) -> Ending | None:
    try:
        kept = annotation_values.parse(text)
        return _from_kept(outcome, kept) if kept else None
    except annotation_values.BROKEN:
        return None  # somebody edited the annotation; the outcome still counts


def _from_kept(outcome: Outcome, kept: Mapping[str, Any]) -> Ending:
    return Ending(
        outcome=outcome,
        words=annotation_values.words(kept.get("words")) or f"the run ended {outcome}",
        finished_at=annotation_values.time(kept.get("finishedAt")),
        started_at=annotation_values.time(kept.get("startedAt")),
        tries=tuple(
            attempt_summary.parse(one) for one in (kept.get("tries") or ())[: attempt_summary.KEPT]
        ),
        receipt=annotation_values.words(kept.get("receipt")) or None,
        injected=annotation_values.optional_number(kept.get("injected")),
        attempt=annotation_values.number(kept.get("attempt") or 0),
    )


def _from_ledger(outcome: Outcome, ledger: models.Run | None) -> Ending:
    words = f"the run ended {outcome} before this object was made; it is not run again"
    if ledger is None:
        return Ending(outcome, words)
    return Ending(
        outcome,
        words,
        finished_at=ledger.finished_at,
        started_at=ledger.started_at,
        injected=ledger.counters.get("injected"),
        attempt=ledger.attempts or 0,
    )
