"""The outbox: calls that the store missed while their object was being deleted.

A ConfigMap in the operator's namespace holds them, so that nothing has to wait for the store in
order to be deleted. It is emptied in order once the store answers; each call may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kais import labels, names
from kais.outcomes import Outcome
from kais_operator.planning import children
from kais_operator.planning.plan import (
    Action,
    Body,
    CloseRun,
    Delete,
    DeleteScope,
    Plan,
    PutRun,
    RecordEpisodes,
    RequestExtraction,
    SetAside,
)
from knowledge_client import models

KEY = "calls.json"
SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER},{labels.ROLE}={labels.ROLE_OUTBOX}"
"""Label selector of all outboxes."""


@dataclass(frozen=True)
class OutboxObserved:
    """One outbox as it was read."""

    outbox: Body


def decide_outbox(observed: OutboxObserved, now: datetime) -> Plan:
    """Tell the store what it missed, in order, and remove the outbox after the last call.

    One whose call was refused for good is kept and left alone until its annotation is taken away.
    """
    del now  # nothing here depends on time; every decision has this shape
    metadata = observed.outbox["metadata"]
    if metadata.get("deletionTimestamp") or labels.REFUSED in (metadata.get("annotations") or {}):
        return Plan()
    calls = json.loads(observed.outbox["data"][KEY])
    ref = children.ref_of(observed.outbox)
    refused = SetAside(ref, metadata["resourceVersion"])
    deletion = Delete(ref, uid=metadata["uid"], after_store=True)
    return Plan((*(_action(call) for call in calls), refused, deletion))


def key_of(namespace: str, run_id: str) -> str:
    """Give the key of a run's calls.

    The namespace is in it: another one's mission may bear the same run-id, as a copy or by intent.
    """
    return f"{run_id}-{names.short_hash(namespace)}"


def name_of(key: str) -> str:
    """Name an outbox by its key."""
    return names.cut(f"kais-outbox-{key}")


def body(namespace: str, *, key: str, calls: Sequence[Body]) -> Body:
    """Make an outbox. It has no owner: its object is on its way out."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_of(key),
            "namespace": namespace,
            "labels": {labels.MANAGED_BY: labels.MANAGER, labels.ROLE: labels.ROLE_OUTBOX},
        },
        "data": {KEY: json.dumps(list(calls), ensure_ascii=False, sort_keys=True)},
    }


def put_run(run_id: str, run: models.RunIn) -> Body:
    """Write down that a run is to be opened or closed."""
    return {"call": "put_run", "run_id": run_id, "run": _dumped(run)}


def close_run(action: CloseRun) -> Body:
    """Write down that a run is to be closed of which only the id is known."""
    return {
        "call": "close_run",
        "run_id": action.run_id,
        "outcome": action.outcome.value,
        "finished_at": action.finished_at.isoformat(),
        "namespace": action.namespace,
        "mission": action.mission,
    }


def record_episodes(action: RecordEpisodes) -> Body:
    """Write down what is to be added to a run's record."""
    return {
        "call": "record_episodes",
        "run_id": action.run_id,
        "namespace": action.namespace,
        "episodes": [_dumped(episode) for episode in action.episodes],
    }


def request_extraction(action: RequestExtraction) -> Body:
    """Write down that a run's facts are to be extracted."""
    return {
        "call": "request_extraction",
        "run_id": action.run_id,
        "namespace": action.namespace,
        "max_facts": action.max_facts,
    }


def delete_scope(path: str) -> Body:
    """Write down that a scope's knowledge is to be deleted."""
    return {"call": "delete_scope", "path": path}


def _dumped(model: models.RunIn | models.EpisodeIn) -> Body:
    return model.model_dump(mode="json", exclude_unset=True, exclude_none=True)


def _action(call: dict[str, Any]) -> Action:
    match call["call"]:
        case "put_run":
            return PutRun(call["run_id"], models.RunIn.model_validate(call["run"]))
        case "close_run":
            ended = datetime.fromisoformat(call["finished_at"])
            outcome = Outcome(call["outcome"])
            of = call.get("namespace"), call.get("mission")
            return CloseRun(call["run_id"], outcome, ended, *of)
        case "record_episodes":
            episodes = tuple(models.EpisodeIn.model_validate(e) for e in call["episodes"])
            return RecordEpisodes(call["run_id"], call.get("namespace"), episodes)
        case "request_extraction":
            return RequestExtraction(call["run_id"], call.get("namespace"), call["max_facts"])
        case "delete_scope":
            return DeleteScope(call["path"])
        case other:
            raise ValueError(f"an outbox holds an unknown call: {other}")
