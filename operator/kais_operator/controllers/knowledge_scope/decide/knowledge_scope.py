"""Decide about a KnowledgeScope: send its settings to the service, and report statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kais import conditions
from kais.conditions import ConditionType, DesiredCondition
from kais.reasons import Reason
from kais.resources.knowledge_scope import (
    DeletionPolicy,
    KnowledgeScope,
    KnowledgeScopeDisplay,
    KnowledgeScopeStatus,
)
from kais.scopes import Level
from kais_operator.controllers.cell.decide import cell_identity
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.planning import children, finalizers, status_and_events
from kais_operator.planning.plan import (
    Action,
    Body,
    Create,
    DeleteScope,
    Plan,
    PutScope,
)
from knowledge_client import models

STORE_RETRY_INTERVAL = timedelta(seconds=10)
"""How often an unavailable knowledge service is checked; no watch event reports its return."""
NOT_MEASURED = "-"
"""Text of the column before any run received facts of the scope."""
REFUSAL_RETRY_INTERVAL = timedelta(hours=1)
"""How often rejected settings are sent again: the service may have been upgraded."""
DUPLICATE_RETRY_INTERVAL = timedelta(minutes=1)
"""How often a duplicate checks for the older object, whose events do not name the duplicate."""


@dataclass(frozen=True)
class KnowledgeScopeObserved:
    """The observed state of a KnowledgeScope.

    Attributes:
        declared: the object.
        other_scopes: every other KnowledgeScope of the namespace.
        is_configured: whether the knowledge service was sent exactly these settings.
        refusal: why the service rejects exactly these settings; None when it does not.
        failure: why the service does not take these settings now; None when it does.
        stats: the last statistics of the path; None before the first.
        store_problem: why the service does not answer; None when it does.
        endpoint: address of the service.
        operator_namespace: the only namespace in which the platform's scope may be declared.
        pending_deletion: the outbox that has yet to delete the earlier knowledge of the path.
    """

    declared: KnowledgeScope
    other_scopes: Sequence[KnowledgeScope]
    is_configured: bool
    refusal: str | None
    stats: models.ScopeStats | None
    store_problem: str | None
    endpoint: str
    operator_namespace: str
    pending_deletion: Body | None = None
    failure: str | None = None


def decide_knowledge_scope(observed: KnowledgeScopeObserved, now: datetime) -> Plan:
    """Choose the calls for a scope, and report its statistics. Reads no clock."""
    declared = observed.declared
    older = _older_duplicate(observed)
    if declared.is_deleting:
        return _decide_deletion(
            observed, now, is_served=older is None and not _is_outside_operator_namespace(observed)
        )
    refused = _refused(observed, older)
    if refused is not None:
        reachable = _reachable(observed)
        desired_conditions = [
            reachable,
            refused,
            conditions.false(ConditionType.READY, refused.reason, refused.message),
        ]
        plan = _plan(observed, desired_conditions, now, actions=())
        return Plan(plan.actions, plan.status, plan.requeue_after or DUPLICATE_RETRY_INTERVAL)
    desired_conditions = [_reachable(observed), _configured(observed)]
    desired_conditions.append(
        conditions.summary(
            desired_conditions, message=f"{_path(observed)} has its declared settings"
        )
    )
    if status_and_events.is_suspended(declared):
        desired_conditions = status_and_events.with_suspension(
            desired_conditions, write_condition=ConditionType.CONFIGURED
        )
        return _plan(observed, desired_conditions, now, actions=())
    actions: list[Action] = list(_finalizer(declared))
    if observed.pending_deletion is not None:
        return _plan(observed, desired_conditions, now, actions=actions)
    if observed.refusal is not None:
        plan = _plan(observed, desired_conditions, now, actions=actions)
        return Plan(plan.actions, plan.status, plan.requeue_after or REFUSAL_RETRY_INTERVAL)
    if not observed.is_configured:
        actions.append(PutScope(_path(observed), config_of(declared)))
    return _plan(observed, desired_conditions, now, actions=actions)


def config_of(declared: KnowledgeScope) -> models.ScopeConfig:
    """Convert the spec to the settings that the knowledge service accepts."""
    spec = declared.spec
    fields: dict[str, Any] = {
        "read_only": spec.read_only,
        "inherit": spec.inherit,
        "promotion": {
            "policy": spec.promotion.policy.value,
            "min_missions": spec.promotion.min_missions,
            "min_confidence": spec.promotion.min_confidence,
        },
        "synonyms": spec.synonyms,
        "injection": injection_of(declared).model_dump(),
        "extraction": {
            "enabled": spec.extraction.enabled,
            "max_facts": spec.extraction.max_facts,
            "model": spec.extraction.model,
        },
    }
    if spec.retention is not None:
        days = spec.retention.ttl_days
        fields["retention"] = {
            "max_facts": spec.retention.max_facts,
            "ttl_days": days or None,
            "half_life_days": spec.retention.half_life_days,
        }
    return models.ScopeConfig.model_validate(fields)


def injection_of(declared: KnowledgeScope | None) -> models.Injection:
    """Return the limits of injected knowledge; defaults without a KnowledgeScope."""
    if declared is None:
        return models.Injection()
    spec = declared.spec.injection
    return models.Injection(
        enabled=spec.enabled,
        max_facts=spec.max_facts,
        max_tokens=spec.max_tokens,
        min_confidence=spec.min_confidence,
    )


def _path(observed: KnowledgeScopeObserved) -> str:
    return str(cell_identity.scope_path(observed.declared))


def _older_duplicate(observed: KnowledgeScopeObserved) -> KnowledgeScope | None:
    """Return the oldest object with the same path if it takes precedence over this one."""
    declared = observed.declared
    path = cell_identity.scope_path(declared)
    duplicates = [
        scope for scope in observed.other_scopes if cell_identity.scope_path(scope) == path
    ]
    older = [
        scope
        for scope in duplicates
        if cell_identity.age_key(scope) < cell_identity.age_key(declared)
    ]
    return min(older, key=cell_identity.age_key, default=None)


def _is_outside_operator_namespace(observed: KnowledgeScopeObserved) -> bool:
    declared = observed.declared
    is_platform = declared.spec.level is Level.PLATFORM
    return is_platform and declared.metadata.namespace != observed.operator_namespace


def _refused(
    observed: KnowledgeScopeObserved, older: KnowledgeScope | None
) -> DesiredCondition | None:
    if _is_outside_operator_namespace(observed):
        return conditions.false(
            ConditionType.CONFIGURED,
            Reason.PLATFORM_NOT_ALLOWED,
            "level platform is declared in the operator's namespace "
            f"{observed.operator_namespace} only; use level realm here",
        )
    if older is not None:
        return conditions.false(
            ConditionType.CONFIGURED,
            Reason.DUPLICATE,
            f"{older.ref} is older and describes {_path(observed)} already; delete one of the two",
        )
    return None


def _reachable(observed: KnowledgeScopeObserved) -> DesiredCondition:
    if observed.store_problem is not None:
        return conditions.false(
            ConditionType.STORE_REACHABLE, Reason.STORE_UNAVAILABLE, observed.store_problem
        )
    message = f"the knowledge service answers at {observed.endpoint}"
    return conditions.true(ConditionType.STORE_REACHABLE, Reason.STORE_REACHABLE, message)


def _configured(observed: KnowledgeScopeObserved) -> DesiredCondition:
    if observed.pending_deletion is not None:
        message = _pending_message(observed, observed.pending_deletion)
        return conditions.false(ConditionType.CONFIGURED, Reason.DELETION_PENDING, message)
    if observed.is_configured or _was_configured(observed):
        message = f"the knowledge service has the settings of {_path(observed)}"
        return conditions.true(ConditionType.CONFIGURED, Reason.CONFIGURED, message)
    if observed.refusal is not None:
        message = (
            f"the knowledge service rejected the settings: {observed.refusal}; correct the spec"
        )
        return conditions.false(ConditionType.CONFIGURED, Reason.CONFIGURATION_FAILED, message)
    if observed.failure is not None:
        message = f"{observed.failure}; the settings are sent again until the service takes them"
        return conditions.false(ConditionType.CONFIGURED, Reason.STORE_UNAVAILABLE, message)
    if observed.store_problem is not None:
        message = "the settings are sent when the knowledge service answers"
        return conditions.false(ConditionType.CONFIGURED, Reason.STORE_UNAVAILABLE, message)
    return conditions.unknown(
        ConditionType.CONFIGURED,
        Reason.RECONCILING,
        "the settings are being sent to the knowledge service",
    )


def _pending_message(observed: KnowledgeScopeObserved, pending: Body) -> str:
    return (
        f"{children.ref_of(pending)} has yet to delete the earlier knowledge of {_path(observed)},"
        " and all that is stored until then; the settings are sent after that"
    )


def _was_configured(observed: KnowledgeScopeObserved) -> bool:
    """Whether the same settings were sent before; sending them again changes nothing."""
    return observed.store_problem is None and observed.declared.is_true(ConditionType.CONFIGURED)


def _finalizer(declared: KnowledgeScope) -> tuple[Action, ...]:
    """Keep the finalizer exactly as long as a deletion also deletes knowledge in the service."""
    is_held = finalizers.is_held(declared)
    is_needed = declared.spec.deletion_policy is DeletionPolicy.DELETE
    if is_held == is_needed:
        return ()
    return (finalizers.release(declared) if is_held else finalizers.add(declared),)


def _decide_deletion(observed: KnowledgeScopeObserved, now: datetime, *, is_served: bool) -> Plan:
    declared = observed.declared
    if not finalizers.is_held(declared):
        return Plan()
    is_erasing = declared.spec.deletion_policy is DeletionPolicy.DELETE and is_served
    if not is_erasing:
        return Plan((finalizers.release(declared),))
    deleted_at = declared.metadata.deletion_timestamp or now
    if not finalizers.has_timed_out(deleted_at, now):
        actions = (DeleteScope(_path(observed)), finalizers.release(declared))
        remaining = finalizers.remaining_wait(deleted_at, now)
        if observed.store_problem is None:
            return Plan(actions, requeue_after=remaining)
        desired_conditions = [
            conditions.false(ConditionType.READY, Reason.DELETING, _waiting_message(observed))
        ]
        plan = _plan(observed, desired_conditions, now, actions=actions)
        return Plan(plan.actions, plan.status, remaining)
    outbox_body = outbox.body(
        observed.operator_namespace,
        key=outbox.key_of_scope(declared.metadata.uid),
        calls=[outbox.delete_scope(_path(observed))],
    )
    return Plan((Create(outbox_body), finalizers.release(declared)))


def _waiting_message(observed: KnowledgeScopeObserved) -> str:
    path = _path(observed)
    return (
        f"the knowledge of {path} is deleted when the knowledge service answers:"
        f" {observed.store_problem}"
    )


def _plan(
    observed: KnowledgeScopeObserved,
    desired_conditions: list[DesiredCondition],
    now: datetime,
    *,
    actions: Sequence[Action],
) -> Plan:
    declared = observed.declared
    timed_conditions = status_and_events.with_transition_times(declared, desired_conditions, now)
    stats = observed.stats
    usefulness = None if stats is None or stats.usefulness is None else round(stats.usefulness, 3)
    status = KnowledgeScopeStatus(
        observed_generation=declared.metadata.generation,
        conditions=timed_conditions,
        path=_path(observed),
        endpoint=observed.endpoint,
        facts=stats.facts if stats else declared.status.facts,
        recalls=stats.recalls if stats else declared.status.recalls,
        usefulness=usefulness if stats else declared.status.usefulness,
        last_write_time=stats.last_write_at if stats else declared.status.last_write_time,
        display=KnowledgeScopeDisplay(
            useful=f"{usefulness:.0%}" if usefulness is not None else NOT_MEASURED
        ),
    )
    events = status_and_events.transition_events(
        declared, timed_conditions, types=(ConditionType.READY,)
    )
    retry_after = STORE_RETRY_INTERVAL if observed.store_problem is not None else None
    return Plan((*actions, *events), status_and_events.body_of(status), retry_after)
