"""The outbox: calls that the knowledge service missed while their object was being deleted.

They are kept in a ConfigMap in the operator's namespace, so that no deletion has to wait for the
service. The calls are made in order once the service answers; each call may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kais import labels, names, scopes
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
_PREFIX = "kais-outbox-"
_OF_SCOPE = "scope-"


@dataclass(frozen=True)
class OutboxObserved:
    """One outbox as read."""

    outbox: Body


def decide_outbox(observed: OutboxObserved, now: datetime) -> Plan:
    """Choose the missed calls, in order, and delete the outbox after the last one.

    An outbox with a permanently rejected call is kept and skipped until its annotation is removed.

    Raises:
        ValueError: The outbox contains an unknown call.
    """
    del now  # the decision does not depend on time; all have the same signature
    metadata = observed.outbox["metadata"]
    if metadata.get("deletionTimestamp") or is_refused(observed.outbox):
        return Plan()
    calls = json.loads(observed.outbox["data"][KEY])
    ref = children.ref_of(observed.outbox)
    refused = SetAside(ref, metadata["resourceVersion"])
    deletion = Delete(ref, uid=metadata["uid"], waits_for_knowledge=True)
    return Plan((*(_action(call) for call in calls), refused, deletion))


def key_of(namespace: str, run_id: str) -> str:
    """Return the key of a run's calls.

    It contains the namespace, because a mission of another namespace may have the same run-id, as a
    copy or on purpose.
    """
    return f"{run_id}-{names.short_hash(namespace)}"


def key_of_scope(uid: str) -> str:
    """Return the key of the calls of a deleted KnowledgeScope."""
    return f"{_OF_SCOPE}{uid}"


def name_of(key: str) -> str:
    """Return the name of an outbox by its key."""
    return names.cut(f"{_PREFIX}{key}")


def body(namespace: str, *, key: str, calls: Sequence[Body]) -> Body:
    """Build an outbox. It has no owner, because its object is being deleted."""
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
    """Return the record of a call that opens or closes a run."""
    return {"call": "put_run", "run_id": run_id, "run": _dumped(run)}


def close_run(action: CloseRun) -> Body:
    """Return the record of a call that closes a run of which only the id is known."""
    return {
        "call": "close_run",
        "run_id": action.run_id,
        "outcome": action.outcome.value,
        "finished_at": action.finished_at.isoformat(),
        "namespace": action.namespace,
        "mission": action.mission,
    }


def record_episodes(action: RecordEpisodes) -> Body:
    """Return the record of a call that adds episodes to a run."""
    return {
        "call": "record_episodes",
        "run_id": action.run_id,
        "namespace": action.namespace,
        "episodes": [_dumped(episode) for episode in action.episodes],
    }


def request_extraction(action: RequestExtraction) -> Body:
    """Return the record of a call that requests the extraction of a run's facts."""
    return {
        "call": "request_extraction",
        "run_id": action.run_id,
        "namespace": action.namespace,
        "max_facts": action.max_facts,
    }


def delete_scope(path: str) -> Body:
    """Return the record of a call that deletes the knowledge of a scope."""
    return {"call": "delete_scope", "path": path}


def deleted_scopes(outbox: Body) -> frozenset[scopes.Scope]:
    """Return the scopes that an outbox has yet to delete; none if somebody broke its contents.

    A deletion that the knowledge service rejected for good is not made, until a person asks for it.
    """
    metadata = outbox["metadata"]
    role = (metadata.get("labels") or {}).get(labels.ROLE)
    is_of_scope = role == labels.ROLE_OUTBOX and metadata["name"].startswith(_PREFIX + _OF_SCOPE)
    if not is_of_scope or is_refused(outbox):
        return frozenset()
    try:
        calls = json.loads(outbox["data"][KEY])
        paths = [call["path"] for call in calls if call["call"] == "delete_scope"]
        return frozenset(map(scopes.Scope.parse, paths))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()


def is_refused(outbox: Body) -> bool:
    """Return whether the knowledge service rejected a call of an outbox for good."""
    return labels.REFUSED in (outbox["metadata"].get("annotations") or {})


def _dumped(model: models.RunIn | models.EpisodeIn) -> Body:
    return model.model_dump(mode="json", exclude_unset=True, exclude_none=True)


def _action(call: dict[str, Any]) -> Action:
    match call["call"]:
        case "put_run":
            return PutRun(call["run_id"], models.RunIn.model_validate(call["run"]))
        case "close_run":
            ended = datetime.fromisoformat(call["finished_at"])
            outcome = Outcome(call["outcome"])
            mission_key = call.get("namespace"), call.get("mission")
            return CloseRun(call["run_id"], outcome, ended, *mission_key)
        case "record_episodes":
            episodes = tuple(models.EpisodeIn.model_validate(e) for e in call["episodes"])
            return RecordEpisodes(call["run_id"], call.get("namespace"), episodes)
        case "request_extraction":
            return RequestExtraction(call["run_id"], call.get("namespace"), call["max_facts"])
        case "delete_scope":
            return DeleteScope(call["path"])
        case other:
            raise ValueError(f"an outbox holds an unknown call: {other}")
