"""The operator's finalizer, and how long it holds a deleted object.

A deleted Mission is held until its run is closed in the knowledge service, a deleted
KnowledgeScope until its knowledge is deleted there. Each waits at most `KNOWLEDGE_TIMEOUT` for the
service, whether it is unavailable or refuses, because the namespace may wait for the object. Then
the remaining calls go to the outbox and the finalizer is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kais import labels
from kais.resources.base import Resource
from kais_operator.planning.plan import Body, ObjectRef, PatchMetadata

KNOWLEDGE_TIMEOUT = timedelta(seconds=30)
"""How long a deleted object waits for the knowledge service."""
_MIN_DELAY = timedelta(seconds=1)


def is_held(resource: Resource) -> bool:
    """Whether the finalizer keeps the object when it is deleted."""
    return labels.FINALIZER in resource.metadata.finalizers


def has_timed_out(deleted_at: datetime, now: datetime) -> bool:
    """Whether a deletion has waited long enough for the knowledge service."""
    return now - deleted_at >= KNOWLEDGE_TIMEOUT


def remaining_wait(deleted_at: datetime, now: datetime) -> timedelta:
    """Return the delay until the deletion has waited long enough; at least 1 s."""
    return max(deleted_at + KNOWLEDGE_TIMEOUT - now, _MIN_DELAY)


def added(finalizers: Sequence[str]) -> tuple[str, ...]:
    """Return the finalizers of an object with the operator's as the last one."""
    return (*removed(finalizers), labels.FINALIZER)


def removed(finalizers: Sequence[str]) -> tuple[str, ...]:
    """Return the finalizers of an object without the operator's."""
    return tuple(finalizer for finalizer in finalizers if finalizer != labels.FINALIZER)


def add(resource: Resource) -> PatchMetadata:
    """Choose the write that adds the finalizer."""
    return _patch(resource, added(resource.metadata.finalizers))


def release(resource: Resource) -> PatchMetadata:
    """Choose the write that removes the finalizer and lets a deletion complete."""
    return _patch(resource, removed(resource.metadata.finalizers))


def release_body(kind: str, metadata: Body) -> tuple[PatchMetadata, ...]:
    """Release an object that cannot be parsed; no write if the finalizer does not hold it."""
    finalizers: list[str] = metadata.get("finalizers") or []
    if labels.FINALIZER not in finalizers:
        return ()
    ref = ObjectRef(kind, metadata["namespace"], metadata["name"])
    version = metadata["resourceVersion"]
    return (PatchMetadata(ref, resource_version=version, finalizers=removed(finalizers)),)


def _patch(resource: Resource, finalizers: tuple[str, ...]) -> PatchMetadata:
    metadata = resource.metadata
    return PatchMetadata(
        ObjectRef(resource.kind, metadata.namespace, metadata.name),
        resource_version=metadata.resource_version,
        finalizers=finalizers,
    )
