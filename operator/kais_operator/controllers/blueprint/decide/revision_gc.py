"""Takes revisions away that nobody names: marked first, deleted when the mark is due.

A use chooses its revision and writes its name down a moment later. A revision that could go is
therefore marked and left for a while; whoever names it until then keeps it. The mark is an
annotation, so it outlives a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kais import labels
from kais.resources.blueprint_revision import BlueprintRevision
from kais.resources.field_types import rfc3339
from kais_operator.planning.plan import Action, Delete, ObjectRef, PatchMetadata

GRACE = timedelta(minutes=2)
"""Longer than a pass takes and than a watch may be blind (90 s); otherwise arbitrary."""


def decide(
    revisions: Sequence[BlueprintRevision], *, unnamed: Sequence[BlueprintRevision], now: datetime
) -> tuple[Action, ...]:
    """Choose the writes: `unnamed` are those of `revisions` that nobody names and nobody needs."""
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
    """Say when the next mark is due; None when nothing is to go."""
    delays = [(_due(revision) or now + GRACE) - now for revision in unnamed]
    return max(min(delays), timedelta(seconds=1)) if delays else None


def _due(revision: BlueprintRevision) -> datetime | None:
    text = revision.metadata.annotations.get(labels.COLLECT_AFTER, "")
    try:
        due = datetime.fromisoformat(text)
    except ValueError:
        return None  # no mark, or one that somebody edited: it is written anew
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
