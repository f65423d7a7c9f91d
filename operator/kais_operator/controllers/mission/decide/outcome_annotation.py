"""The annotations that record how a run ended.

The outcome is an annotation because it must survive a lost status. A second annotation keeps what
reports need after Jobs and pods are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kais import labels
from kais.agent_results import AgentUsage
from kais.outcomes import Outcome
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_record, mind_usage
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body, ObjectRef, PatchMetadata
from knowledge_client import models


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended. `started_at` is None if the run never started.

    `usage` is the sum over all attempts; None if none of them reported any. `review_usage` is the
    part of it that the reviewing cell used.
    """

    outcome: Outcome
    message: str
    finished_at: datetime | None = None
    started_at: datetime | None = None
    attempts: tuple[AttemptSummary, ...] = ()
    receipt: str | None = None
    injected: int | None = None
    last_attempt: int = 0
    usage: AgentUsage | None = None
    review_usage: AgentUsage | None = None


def read(mission: Mission, ledger_run: models.Run | None) -> RunOutcome | None:
    """Read how a mission's run ended; None while it continues.

    A re-created Mission has only the outcome; its times then come from the ledger. If the ledger
    has a different outcome, the ledger wins.
    """
    outcome_value = mission.metadata.annotations.get(labels.OUTCOME)
    if outcome_value is None or outcome_value not in set(Outcome):
        return None
    outcome = Outcome(outcome_value)
    recorded = _parse(outcome, mission.metadata.annotations.get(labels.ENDING))
    run_outcome = recorded or _from_ledger(outcome, ledger_run)
    if (
        ledger_run is not None
        and ledger_run.outcome is not None
        and ledger_run.outcome != outcome_value
    ):
        return from_ledger_conflict(ledger_run, run_outcome, observed_outcome=outcome_value)
    return run_outcome


def from_ledger_conflict(
    ledger_run: models.Run, run_outcome: RunOutcome, *, observed_outcome: str
) -> RunOutcome:
    """Return the ledger's outcome, with a message that contains the observed one."""
    message = (
        f"the knowledge service recorded the outcome {ledger_run.outcome}, which is kept; "
        f"this operator observed {observed_outcome}"
    )
    return replace(
        run_outcome,
        outcome=Outcome(str(ledger_run.outcome)),
        message=message,
        finished_at=ledger_run.finished_at or run_outcome.finished_at,
        started_at=run_outcome.started_at or ledger_run.started_at,
    )


def outcome_patch(mission: Mission, run_outcome: RunOutcome) -> PatchMetadata:
    """Return the patch that stores the outcome on its Mission before it is reported elsewhere."""
    metadata = mission.metadata
    return PatchMetadata(
        ObjectRef(mission.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        annotations={
            labels.OUTCOME: run_outcome.outcome.value,
            labels.ENDING: _dump(run_outcome),
            labels.ATTEMPTS: None,
        },
    )


def _dump(run_outcome: RunOutcome) -> str:
    record: Body = {
        "words": run_outcome.message,
        "attempt": run_outcome.last_attempt,
        "startedAt": attempt_record.dump_time(run_outcome.started_at),
        "finishedAt": attempt_record.dump_time(run_outcome.finished_at),
        "receipt": run_outcome.receipt,
        "injected": run_outcome.injected,
        "tries": [attempt_record.dump(summary) for summary in run_outcome.attempts],
    }
    if run_outcome.usage is not None:
        record["usage"] = mind_usage.dump_usage(run_outcome.usage)
    if run_outcome.review_usage is not None:
        record["reviewUsage"] = mind_usage.dump_usage(run_outcome.review_usage)
    return json.dumps(record, ensure_ascii=False, sort_keys=True)


def _parse(outcome: Outcome, text: str | None) -> RunOutcome | None:
    try:
        record = annotation_values.parse(text)
        return _from_record(outcome, record) if record else None
    except annotation_values.BROKEN:
        return None  # edited by hand: keep the outcome, ignore the rest


def _from_record(outcome: Outcome, record: Mapping[str, Any]) -> RunOutcome:
    return RunOutcome(
        outcome=outcome,
        message=annotation_values.parse_text(record.get("words")) or f"the run ended {outcome}",
        finished_at=annotation_values.time(record.get("finishedAt")),
        started_at=annotation_values.time(record.get("startedAt")),
        attempts=tuple(
            attempt_record.parse(summary)
            for summary in (record.get("tries") or ())[: attempt_record.MAX_ATTEMPTS]
        ),
        receipt=annotation_values.parse_text(record.get("receipt")) or None,
        injected=annotation_values.optional_number(record.get("injected")),
        last_attempt=annotation_values.number(record.get("attempt") or 0),
        usage=mind_usage.parse_usage(record.get("usage")),
        review_usage=mind_usage.parse_usage(record.get("reviewUsage")),
    )


def _from_ledger(outcome: Outcome, ledger_run: models.Run | None) -> RunOutcome:
    message = f"the run ended {outcome} before this Mission was created; it is not repeated"
    if ledger_run is None:
        return RunOutcome(outcome, message)
    return RunOutcome(
        outcome,
        message,
        finished_at=ledger_run.finished_at,
        started_at=ledger_run.started_at,
        injected=ledger_run.counters.get("injected"),
        last_attempt=ledger_run.attempts or 0,
    )
