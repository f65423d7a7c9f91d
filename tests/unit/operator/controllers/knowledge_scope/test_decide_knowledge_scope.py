"""What is decided about a KnowledgeScope, case by case."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kais import labels
from kais.resources.knowledge_scope import KnowledgeScope
from kais_operator.controllers.knowledge_scope.decide import knowledge_scope
from kais_operator.controllers.knowledge_scope.decide.knowledge_scope import (
    KnowledgeScopeObserved,
)
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning.plan import EmitEvent
from tests.fakes import teams

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATH = "realm:demo/formation:team"


def declared(name: str = "memory", **metadata: Any) -> KnowledgeScope:
    spec = metadata.pop("spec", {})
    body = teams.scope(name, **spec)
    created = {"uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    body["metadata"] |= {**created, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return KnowledgeScope.from_dict(body)


OBSERVED = KnowledgeScopeObserved(
    declared=declared(),
    other_scopes=(),
    is_configured=True,
    refusal=None,
    stats=None,
    store_problem=None,
    endpoint="http://knowledge",
    operator_namespace="kais-system",
)
PENDING = outbox.body("kais-system", key="scope-1", calls=[outbox.delete_scope(PATH)])
ERASING = {"deletionPolicy": "Delete"}
DELETED = {"deletionTimestamp": NOW.isoformat(), "finalizers": [labels.FINALIZER]}
DELETED_LONG_AGO = {**DELETED, "deletionTimestamp": (NOW - timedelta(minutes=1)).isoformat()}
OLDER = declared("older", creationTimestamp="2025-01-01T00:00:00Z")

CASES: dict[str, tuple[KnowledgeScopeObserved, list[str], str | None]] = {
    "settings that the service has are left alone": (OBSERVED, [], "Configured"),
    "settings that it lacks are sent": (
        replace(OBSERVED, is_configured=False),
        ["PutScope"],
        "Reconciling",
    ),
    "settings that it rejected wait": (
        replace(OBSERVED, is_configured=False, refusal="ttl is too long"),
        [],
        "ConfigurationFailed",
    ),
    "while it is away the settings are tried, and the condition says so": (
        replace(OBSERVED, is_configured=False, store_problem="no answer"),
        ["PutScope"],
        "StoreUnavailable",
    ),
    "a duplicate of an older object sends nothing": (
        replace(OBSERVED, other_scopes=(OLDER,), is_configured=False),
        [],
        "Duplicate",
    ),
    "one whose earlier knowledge is yet to be deleted sends nothing": (
        replace(OBSERVED, is_configured=True, pending_deletion=PENDING),
        [],
        "DeletionPending",
    ),
    "a suspended object sends nothing": (
        replace(
            OBSERVED,
            declared=declared(annotations={labels.RECONCILE: labels.RECONCILE_SUSPENDED}),
            is_configured=False,
        ),
        [],
        "Suspended",
    ),
    "one whose knowledge is deleted with it gets a finalizer": (
        replace(OBSERVED, declared=declared(spec=ERASING)),
        ["PatchMetadata"],
        "Configured",
    ),
    "its deletion deletes the knowledge, then releases the finalizer": (
        replace(OBSERVED, declared=declared(spec=ERASING, **DELETED)),
        ["DeleteScope", "PatchMetadata"],
        None,
    ),
    "its deletion goes to the outbox when the service does not answer": (
        replace(
            OBSERVED,
            declared=declared(spec=ERASING, **DELETED_LONG_AGO),
            store_problem="no answer",
        ),
        ["Create", "PatchMetadata"],
        None,
    ),
    "the deletion of one that retains its knowledge only releases the finalizer": (
        replace(OBSERVED, declared=declared(**DELETED)),
        ["PatchMetadata"],
        None,
    ),
    "the deletion of a duplicate deletes no knowledge": (
        replace(OBSERVED, declared=declared(spec=ERASING, **DELETED), other_scopes=(OLDER,)),
        ["PatchMetadata"],
        None,
    ),
}


@pytest.mark.parametrize(("observed", "writes", "reason"), CASES.values(), ids=CASES)
def test_a_knowledge_scope(
    observed: KnowledgeScopeObserved, writes: list[str], reason: str | None
) -> None:
    plan = knowledge_scope.decide_knowledge_scope(observed, NOW)
    actions = [
        type(create).__name__ for create in plan.actions if not isinstance(create, EmitEvent)
    ]
    assert actions == writes
    conditions = {c["type"]: c for c in (plan.status or {}).get("conditions") or ()}
    assert conditions.get("Configured", {}).get("reason") == reason
