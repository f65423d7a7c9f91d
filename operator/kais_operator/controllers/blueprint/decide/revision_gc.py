"""Delete revisions that nothing refers to: mark them first, and delete them when the mark is due.

An instance chooses its revision and records its name a moment later. A revision that could be
deleted is therefore marked first; a reference before the mark is due keeps it. The mark is an
annotation, so it survives a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kais import labels
from kais.resources.blueprint_revision import BlueprintRevision
from kais.resources.field_types import rfc3339
from kais_operator.planning.plan import Action, Delete, ObjectRef, PatchMetadata

GRACE = timedelta(minutes=2)
"""Longer than a reconcile and than the longest gap of a watch (90 s); otherwise arbitrary."""


def decide(
    revisions: Sequence[BlueprintRevision], *, unnamed: Sequence[BlueprintRevision], now: datetime
) -> tuple[Action, ...]:
    """Choose the writes; `unnamed` are the `revisions` without references that are not needed."""
    free = {revision.metadata.name for revision in unnamed}
    actions: list[Action] = []
    for revision in revisions:
        due, is_free = _due(revision), revision.metadata.name in free
        if is_free and due is None:
            actions.append(_marked(revision, rfc3339(now + GRACE)))
        elif is_free and due is not None and due <= now:
            actions.append(Delete(_ref(revision), revision.metadata.uid))
        elif not is_free and labels.COLLECT_AFTER in revision.metadata.annotations:
            actions.append(_marked(revision, None))
    return tuple(actions)


def requeue_delay(unnamed: Sequence[BlueprintRevision], now: datetime) -> timedelta | None:
    """Return the delay until the next mark is due; None when there is nothing to delete."""
    delays = [(_due(revision) or now + GRACE) - now for revision in unnamed]
    return max(min(delays), timedelta(seconds=1)) if delays else None


def _due(revision: BlueprintRevision) -> datetime | None:
    text = revision.metadata.annotations.get(labels.COLLECT_AFTER, "")
    try:
        due = datetime.fromisoformat(text)
    except ValueError:
        return None  # the mark is missing or was edited, and is written again
    return due if due.tzinfo is not None else None


def _marked(revision: BlueprintRevision, due: str | None) -> PatchMetadata:
    return PatchMetadata(
        _ref(revision),
        resource_version=revision.metadata.resource_version,
        annotations={labels.COLLECT_AFTER: due},
    )


def _ref(revision: BlueprintRevision) -> ObjectRef:
    metadata = revision.metadata
    return ObjectRef("BlueprintRevision", metadata.namespace, metadata.name)
