"""Decides a Blueprint: a revision for each new spec, the last good one serving, old ones collected.

The number of a new revision is written onto the Blueprint before the revision is made, so that no
crash gives a number twice. Numbers go on after a restart, a restore, and a Blueprint made again
under its name. A Blueprint that is gone leaves its revisions until nobody names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kais import labels
from kais.resources import blueprint_revision
from kais.resources.blueprint import Blueprint
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.decide import blueprint_status, revision_history
from kais_operator.decide.plan import (
    Action,
    Create,
    Delete,
    EmitEvent,
    ObjectRef,
    PatchMetadata,
    Plan,
)
from kais_operator.decide.revision_history import Verdict
from knowledge_client import models

_RETRY_COMPILE = timedelta(minutes=1)
_RETRY_COLLECT = timedelta(minutes=5)
_RETRY_STATISTICS = timedelta(seconds=30)
"""Waits that no watch event ends; all arbitrary, and none of them writes anything by itself."""


@dataclass(frozen=True)
class BlueprintObserved:
    """A Blueprint's name as one look found it.

    Attributes:
        blueprint: None when it is gone and only revisions are left.
        revisions: those that are not being deleted.
        number: the present spec's revision, existing or next; 0 without a Blueprint.
        verdicts: by number, as far as the choice of the served one needs them.
        in_use: numbers that an instance, a mission or a running pod names; None when nothing
            could be collected and nobody was asked.
        stats: what the ledger last said; None before it and while the store is away.
        store_problem: why the store does not answer, None when it does.
    """

    blueprint: Blueprint | None
    revisions: tuple[BlueprintRevision, ...] = ()
    number: int = 0
    verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    in_use: frozenset[int] | None = None
    stats: models.BlueprintStats | None = None
    store_problem: str | None = None


def decide_blueprint(observed: BlueprintObserved, now: datetime) -> Plan:
    """Choose the writes that give a Blueprint its revision, and say how it stands."""
    blueprint = observed.blueprint
    if blueprint is None:
        return _collect_all(observed)
    if blueprint.is_deleting:
        return Plan()
    history, creation = _with_present(observed, blueprint, now)
    served = revision_history.serving(
        observed.verdicts,
        present=observed.number,
        annotated=revision_history.annotated(blueprint, labels.SERVED_REVISION),
    )
    collected = _beyond_limit(observed, blueprint, history, served)
    gone = {action.ref.name for action in collected}
    kept = [r for r in history if r.metadata.name not in gone]
    status, events = blueprint_status.status_of(
        blueprint,
        revisions=kept,
        present=blueprint_status.Present(observed.number, served, observed.verdicts),
        ledger=blueprint_status.Ledger(observed.stats, observed.store_problem),
        now=now,
    )
    return Plan(
        (*_annotations(blueprint, history, served), *creation, *collected, *events),
        status=status,
        requeue_after=_requeue(observed),
    )


def _with_present(
    observed: BlueprintObserved, blueprint: Blueprint, now: datetime
) -> tuple[list[BlueprintRevision], tuple[Create | EmitEvent, ...]]:
    """Give the history as it is after this pass, and the creation that makes it so."""
    history = list(observed.revisions)
    if any(revision_history.number_of(r) == observed.number for r in history):
        return history, ()
    body = revision_history.revision_body(blueprint, history, number=observed.number)
    made_at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stored = {**body, "metadata": {**body["metadata"], "creationTimestamp": made_at}}
    changes = body["spec"].get("changes", "the first one")
    made = EmitEvent("Normal", "RevisionMade", f"revision {observed.number}: {changes}")
    return [*history, BlueprintRevision.from_dict(stored)], (Create(body), made)


def _annotations(
    blueprint: Blueprint, history: list[BlueprintRevision], served: int | None
) -> tuple[PatchMetadata, ...]:
    last = max(history, key=revision_history.number_of)
    number, spec_hash = revision_history.number_of(last), blueprint_revision.hash_of(last.spec)
    annotated = revision_history.annotated(blueprint, labels.LAST_REVISION)
    wanted: dict[str, str | None] = {}
    if number > annotated:
        wanted[labels.LAST_REVISION] = str(number)
    if number >= annotated and spec_hash != blueprint.metadata.annotations.get(
        labels.LAST_REVISION_HASH
    ):
        wanted[labels.LAST_REVISION_HASH] = spec_hash
    if served not in (None, revision_history.annotated(blueprint, labels.SERVED_REVISION)):
        wanted[labels.SERVED_REVISION] = str(served)
    if not wanted:
        return ()
    metadata = blueprint.metadata
    return (
        PatchMetadata(
            ObjectRef(blueprint.kind, metadata.namespace, metadata.name),
            resource_version=metadata.resource_version,
            annotations=wanted,
        ),
    )


def _beyond_limit(
    observed: BlueprintObserved,
    blueprint: Blueprint,
    history: list[BlueprintRevision],
    served: int | None,
) -> list[Delete]:
    if observed.in_use is None:
        return []
    old = revision_history.beyond_limit(
        history,
        limit=blueprint.spec.revision_history_limit,
        kept={observed.number, served, *observed.in_use},
    )
    return [_delete(revision) for revision in old]


def _collect_all(observed: BlueprintObserved) -> Plan:
    in_use = observed.in_use or frozenset()
    unused = [r for r in observed.revisions if r.spec.revision not in in_use]
    actions: tuple[Action, ...] = tuple(_delete(r) for r in unused)
    is_left = len(unused) < len(observed.revisions)
    return Plan(actions, requeue_after=_RETRY_COLLECT if is_left else None)


def _delete(revision: BlueprintRevision) -> Delete:
    metadata = revision.metadata
    ref = ObjectRef("BlueprintRevision", metadata.namespace, metadata.name)
    return Delete(ref, metadata.uid)


def _requeue(observed: BlueprintObserved) -> timedelta | None:
    waits = [
        _RETRY_COMPILE if any(v.may_mend for v in observed.verdicts.values()) else None,
        _RETRY_COLLECT if observed.in_use else None,
        _RETRY_STATISTICS if observed.stats is None or observed.store_problem else None,
    ]
    return min((wait for wait in waits if wait is not None), default=None)
