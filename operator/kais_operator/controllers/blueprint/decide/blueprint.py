"""Decide about a Blueprint: create, serve and collect its revisions.

Each new spec gets a revision. The latest one that compiles is served, and old ones are collected.
The number of a new revision is recorded on the Blueprint before the revision is created, so that
no crash leads to a second use of a number. Numbers continue after a restart, after a restore, and
when a Blueprint of the same name is created again. The revisions of a deleted Blueprint stay until
nothing refers to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kais import canary, labels
from kais.reasons import Reason
from kais.resources import blueprint_revision
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.controllers.blueprint.decide import (
    blueprint_status,
    canary_rollout,
    revision_gc,
    revision_history,
)
from kais_operator.controllers.blueprint.decide.revision_history import Verdict
from kais_operator.controllers.blueprint_instance.decide import child_manifests
from kais_operator.planning import children, status_and_events
from kais_operator.planning.plan import (
    Body,
    Create,
    Delete,
    EmitEvent,
    ObjectRef,
    PatchMetadata,
    Plan,
)
from knowledge_client import models

_CHANGES_LIMIT = 900  # characters; an Event's message holds 1024
_RETRY_COLLECT = timedelta(minutes=5)
_RETRY_NUMBER = timedelta(seconds=5)
_RETRY_STATISTICS = timedelta(seconds=30)
"""Delays that no watch event ends; all are arbitrary, and none causes a write by itself."""


@dataclass(frozen=True)
class BlueprintObserved:
    """The observed state of a Blueprint's name.

    Attributes:
        blueprint: None when it is gone and only revisions are left.
        revisions: those that are not being deleted.
        number: number of the present spec's revision, existing or next; 0 without a Blueprint, and
            while the spec has no number.
        unnumbered: why the present spec has no number yet; None when it has one.
        verdicts: verdicts by number, as far as the choice of the served revision needs them.
        in_use: numbers to which an instance, a mission or a running pod refers; None if they were
            not read, because no revision could be deleted.
        stats: the last statistics from the ledger; None before the first, and while the knowledge
            service does not answer.
        store_problem: why the knowledge service does not answer; None when it does.
        canary_counts: the runs that drew their revision for the canary; None when they are not
            known, or no canary runs.
        is_name_taken: whether another object has the name of the revision to create.
    """

    blueprint: Blueprint | None
    revisions: tuple[BlueprintRevision, ...] = ()
    number: int = 0
    verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    in_use: frozenset[int] | None = None
    stats: models.BlueprintStats | None = None
    store_problem: str | None = None
    is_name_taken: bool = False
    unnumbered: str | None = None
    canary_counts: tuple[models.CanaryCounts, ...] | None = None


def decide_blueprint(observed: BlueprintObserved, now: datetime) -> Plan:
    """Choose the writes for a Blueprint and its revisions, and compute its status."""
    blueprint = observed.blueprint
    if blueprint is None:
        return _collect_all(observed, now)
    if blueprint.is_deleting:
        return Plan()
    outcome = _with_present_revision(observed, blueprint, now)
    last_served = revision_history.last_served(blueprint)
    verdicts = _verdicts(observed, outcome, last_served)
    served = None
    if observed.unnumbered is None:
        served = revision_history.serving(verdicts, present=observed.number, annotated=last_served)
    is_suspended = status_and_events.is_suspended(blueprint)
    rollout = _canary(observed, blueprint, outcome.history, served, now)
    if rollout.canary is not None:
        served = rollout.canary.served
    unnamed = [] if is_suspended else _beyond_limit(observed, blueprint, outcome.history, served)
    collected = revision_gc.decide(observed.revisions, unnamed=unnamed, now=now)
    deleted_names = {action.ref.name for action in collected if isinstance(action, Delete)}
    remaining = [r for r in outcome.history if r.metadata.name not in deleted_names]
    status, events = blueprint_status.status_of(
        blueprint,
        revisions=remaining,
        present=blueprint_status.Present(
            observed.number,
            served,
            verdicts,
            observed.unnumbered,
            note=f"; {status_and_events.SUSPENDED}" if is_suspended else "",
        ),
        rollout=rollout,
        ledger=blueprint_status.Ledger(observed.stats, observed.store_problem),
        now=now,
    )
    records: tuple[PatchMetadata, ...] = ()
    if not is_suspended:
        records = _annotations(blueprint, outcome.history, served, rollout.canary)
        changed = {a.ref.name for a in collected if isinstance(a, Delete | PatchMetadata)}
        unpatched = [r for r in observed.revisions if r.metadata.name not in changed]
        records += canary_rollout.copy_to_revisions(unpatched, rollout)
    return Plan(
        (*records, *outcome.actions, *collected, *rollout.events, *events),
        status=status,
        requeue_after=_requeue(observed, unnamed, rollout.canary, now),
    )


def _canary(
    observed: BlueprintObserved,
    blueprint: Blueprint,
    history: list[BlueprintRevision],
    candidate: int | None,
    now: datetime,
) -> canary_rollout.CanaryDecision:
    """Decide about the canary; it stays while the spec has no number or the object is suspended."""
    if observed.unnumbered is not None or status_and_events.is_suspended(blueprint):
        current = canary_rollout.recorded(blueprint, history)
        numbers = {revision_history.number_of(revision) for revision in history}
        is_valid = current is not None and current.served in numbers
        is_valid = is_valid and blueprint.spec.rollout is not None
        return canary_rollout.CanaryDecision(current if is_valid else None)
    return canary_rollout.decide(
        blueprint,
        history,
        present=observed.number,
        candidate=candidate,
        counted=observed.canary_counts,
        now=now,
    )


@dataclass(frozen=True)
class _History:
    """The revisions after this reconcile.

    Attributes:
        history: the revisions.
        actions: the creation of the present revision, with its Event.
        verdict: why the present revision cannot be created; None when it can, or exists.
    """

    history: list[BlueprintRevision]
    actions: tuple[Create | EmitEvent, ...] = ()
    verdict: Verdict | None = None


def _with_present_revision(
    observed: BlueprintObserved, blueprint: Blueprint, now: datetime
) -> _History:
    history = list(observed.revisions)
    if observed.unnumbered is not None:
        return _History(history)
    if any(revision_history.number_of(r) == observed.number for r in history):
        return _History(history)
    body = revision_history.revision_body(blueprint, history, number=observed.number)
    problem = _creation_problem(observed, blueprint, body)
    if problem is not None:
        return _History(history, verdict=problem)
    made_at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stored = {**body, "metadata": {**body["metadata"], "creationTimestamp": made_at}}
    changes = body["spec"].get("changes", "the first one")[:_CHANGES_LIMIT]
    event = EmitEvent("Normal", "RevisionMade", f"revision {observed.number}: {changes}")
    return _History([*history, BlueprintRevision.from_dict(stored)], (Create(body), event))


def _creation_problem(
    observed: BlueprintObserved, blueprint: Blueprint, body: Body
) -> Verdict | None:
    """Return why a revision cannot be created: suspended, name taken or too large; else None."""
    if status_and_events.is_suspended(blueprint):
        return Verdict(False, Reason.SUSPENDED, status_and_events.SUSPENDED, is_not_created=True)
    name = str(children.ref_of(body))
    if observed.is_name_taken:
        message = f"{name} exists already and is no revision of this Blueprint; delete it"
        return Verdict(False, Reason.NAME_TAKEN, message, is_not_created=True)
    large = child_manifests.too_large(body, name=name)
    if large is not None:
        return Verdict(False, Reason.TOO_LARGE, large, is_not_created=True)
    return None


def _verdicts(observed: BlueprintObserved, outcome: _History, annotated: int) -> dict[int, Verdict]:
    """Return the verdicts to choose from.

    If the present revision cannot be created, the one that was served stays served.
    """
    if outcome.verdict is None:
        return dict(observed.verdicts)
    numbers = [revision_history.number_of(revision) for revision in outcome.history]
    last_good = Verdict(True, Reason.COMPILED, "it served before")
    inherited = {annotated: last_good} if annotated in numbers else {}
    return {**inherited, **observed.verdicts, observed.number: outcome.verdict}


def _annotations(
    blueprint: Blueprint,
    history: list[BlueprintRevision],
    served: int | None,
    current: canary.Canary | None,
) -> tuple[PatchMetadata, ...]:
    last = max(history, key=revision_history.number_of, default=None)
    if last is None:
        return ()
    number, spec_hash = revision_history.number_of(last), blueprint_revision.hash_of(last.spec)
    annotated = revision_history.annotated(blueprint, labels.LAST_REVISION)
    annotations: dict[str, str | None] = {}
    if number > annotated:
        annotations[labels.LAST_REVISION] = str(number)
    if number >= annotated and spec_hash != blueprint.metadata.annotations.get(
        labels.LAST_REVISION_HASH
    ):
        annotations[labels.LAST_REVISION_HASH] = spec_hash
    if served not in (None, revision_history.annotated(blueprint, labels.SERVED_REVISION)):
        annotations[labels.SERVED_REVISION] = str(served)
    desired = {
        labels.CANARY: None if current is None else canary.dump(current),
        labels.CANARY_REQUEST: None,
    }
    annotations |= {
        name: value
        for name, value in desired.items()
        if blueprint.metadata.annotations.get(name) != value
    }
    if not annotations:
        return ()
    metadata = blueprint.metadata
    return (
        PatchMetadata(
            ObjectRef(blueprint.kind, metadata.namespace, metadata.name),
            resource_version=metadata.resource_version,
            annotations=annotations,
        ),
    )


def _beyond_limit(
    observed: BlueprintObserved,
    blueprint: Blueprint,
    history: list[BlueprintRevision],
    served: int | None,
) -> list[BlueprintRevision]:
    if observed.in_use is None:
        return []
    return revision_history.beyond_limit(
        history,
        limit=blueprint.spec.revision_history_limit,
        protected={observed.number, served, *observed.in_use},
    )


def _collect_all(observed: BlueprintObserved, now: datetime) -> Plan:
    in_use = observed.in_use or frozenset()
    unused = [r for r in observed.revisions if r.spec.revision not in in_use]
    actions = revision_gc.decide(observed.revisions, unnamed=unused, now=now)
    delays = [revision_gc.requeue_delay(unused, now)]
    delays += [_RETRY_COLLECT] if len(unused) < len(observed.revisions) else []
    return Plan(actions, requeue_after=min((w for w in delays if w is not None), default=None))


def _requeue(
    observed: BlueprintObserved,
    unnamed: list[BlueprintRevision],
    current: canary.Canary | None,
    now: datetime,
) -> timedelta | None:
    is_canary_running = current is not None and current.verdict is None
    delays = [
        canary_rollout.EVALUATION_INTERVAL if is_canary_running else None,
        *(verdict.retry_after for verdict in observed.verdicts.values()),
        _RETRY_COLLECT if observed.in_use or observed.is_name_taken else None,
        _RETRY_NUMBER if observed.unnumbered is not None else None,
        _RETRY_STATISTICS if observed.stats is None or observed.store_problem else None,
        revision_gc.requeue_delay(unnamed, now),
    ]
    return min((wait for wait in delays if wait is not None), default=None)
