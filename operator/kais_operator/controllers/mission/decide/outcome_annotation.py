"""The annotations that record how a run ended.

The outcome is an annotation because it must survive the loss of the status. A second annotation
contains what a report needs, because Jobs and pods may be gone later, and an object that was saved
and applied again has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kais import labels
from kais.outcomes import Outcome
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_summary
from kais_operator.controllers.mission.decide.attempt_summary import AttemptSummary
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body, ObjectRef, PatchMetadata
from knowledge_client import models


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. `started_at` is None if the run never started."""

    outcome: Outcome
    message: str
    finished_at: datetime | None = None
    started_at: datetime | None = None
    attempts: tuple[AttemptSummary, ...] = ()
    receipt: str | None = None
    injected: int | None = None
    attempt: int = 0


def read(mission: Mission, ledger: models.Run | None) -> RunOutcome | None:
    """Read how a mission's run ended; None while it continues.

    A Mission that was created again has only the outcome; its times come from the ledger. If the
    ledger has the run with another outcome, that one takes precedence.
    """
    outcome_value = mission.metadata.annotations.get(labels.OUTCOME)
    if outcome_value is None or outcome_value not in set(Outcome):
        return None
    outcome = Outcome(outcome_value)
    recorded = _parse(outcome, mission.metadata.annotations.get(labels.ENDING))
    ending = recorded or _from_ledger(outcome, ledger)
    if ledger is not None and ledger.outcome is not None and ledger.outcome != outcome_value:
        return from_ledger_conflict(ledger, ending, observed_outcome=outcome_value)
    return ending


def from_ledger_conflict(
    ledger: models.Run, ending: RunOutcome, *, observed_outcome: str
) -> RunOutcome:
    """Return the ledger's outcome, with a message that contains the observed one."""
    message = (
        f"the ledger has this run closed as {ledger.outcome}, which stands; "
        f"seen here: {observed_outcome}"
    )
    return replace(
        ending,
        outcome=Outcome(str(ledger.outcome)),
        message=message,
        finished_at=ledger.finished_at or ending.finished_at,
        started_at=ending.started_at or ledger.started_at,
    )


def write_patch(mission: Mission, ending: RunOutcome) -> PatchMetadata:
    """Choose the write that records an ending on its Mission, before it is reported elsewhere."""
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


def _dump(ending: RunOutcome) -> str:
    record: Body = {
        "words": ending.message,
        "attempt": ending.attempt,
        "startedAt": attempt_summary.dump_time(ending.started_at),
        "finishedAt": attempt_summary.dump_time(ending.finished_at),
        "receipt": ending.receipt,
        "injected": ending.injected,
        "tries": [attempt_summary.dump(summary) for summary in ending.attempts],
    }
    return json.dumps(record, ensure_ascii=False, sort_keys=True)


def _parse(outcome: Outcome, text: str | None) -> RunOutcome | None:
    try:
        record = annotation_values.parse(text)
        return _from_record(outcome, record) if record else None
    except annotation_values.BROKEN:
        return None  # the annotation was edited; the outcome still counts


def _from_record(outcome: Outcome, record: Mapping[str, Any]) -> RunOutcome:
    return RunOutcome(
        outcome=outcome,
        message=annotation_values.parse_text(record.get("words")) or f"the run ended {outcome}",
        finished_at=annotation_values.time(record.get("finishedAt")),
        started_at=annotation_values.time(record.get("startedAt")),
        attempts=tuple(
            attempt_summary.parse(summary)
            for summary in (record.get("tries") or ())[: attempt_summary.MAX_ATTEMPTS]
        ),
        receipt=annotation_values.parse_text(record.get("receipt")) or None,
        injected=annotation_values.optional_number(record.get("injected")),
        attempt=annotation_values.number(record.get("attempt") or 0),
    )


def _from_ledger(outcome: Outcome, ledger: models.Run | None) -> RunOutcome:
    message = f"the run ended {outcome} before this object was made; it is not run again"
    if ledger is None:
        return RunOutcome(outcome, message)
    return RunOutcome(
        outcome,
        message,
        finished_at=ledger.finished_at,
        started_at=ledger.started_at,
        injected=ledger.counters.get("injected"),
        attempt=ledger.attempts or 0,
    )
