"""Predicates of watch events: drops those that only report our own writes.

A reconcile that wrote observes again before it ends, or in a backlog later if it only created
children (`debounce`). So the watch events of its writes need no further reconcile of its key; other
keys still get them. The status is written last and no decision reads it, so its event is dropped
too, unless someone edited the object between the read and the write.

An event can arrive before the response to the write that caused it. Events that concern a key under
reconcile are therefore deferred and checked when the reconcile has ended.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator

from kais_operator.informer.cache import is_newer
from kais_operator.planning.plan import Body, ObjectRef

_MAX_VERSIONS = 5_000  # arbitrary: far more than the writes during the delay of a watch
_VOLATILE_METADATA = frozenset({"resourceVersion", "managedFields"})


class OwnWriteFilter:
    """Remembers which version of each object a key has written, until its watch event arrives."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[ObjectRef, ObjectRef], str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._versions)

    def record_write(self, body: Body, *, key: ObjectRef) -> None:
        """Record a write after which the key is observed again."""
        metadata = body["metadata"]
        ref = ObjectRef(body["kind"], metadata.get("namespace") or "", metadata["name"])
        self._versions[ref, key] = metadata["resourceVersion"]
        self._versions.move_to_end((ref, key))
        if len(self._versions) > _MAX_VERSIONS:
            self._versions.popitem(last=False)

    def record_status_write(self, ref: ObjectRef, *, observed: Body, updated: Body) -> None:
        """Record a status write, unless the object was edited between read and write."""
        if _decision_inputs(observed) == _decision_inputs(updated):
            self.record_write(updated, key=ref)

    def is_own_write(self, ref: ObjectRef, version: str, *, key: ObjectRef) -> bool:
        """Return whether the key has already observed this version of an object."""
        written_version = self._versions.get((ref, key))
        return written_version is not None and not is_newer(version, written_version)

    def forget_reported(self, ref: ObjectRef, version: str | None, *, key: ObjectRef) -> None:
        """Forget a write whose watch event has arrived, or whose object was deleted.

        Later events have later versions. An earlier one, from a slower watch, causes one reconcile.
        """
        if version is None or self._versions.get((ref, key)) == version:
            self._versions.pop((ref, key), None)


class EventEnqueuer:
    """Adds keys to the work queue for the events that need a reconcile."""

    def __init__(self, own_writes: OwnWriteFilter, add: Callable[[ObjectRef, float], None]) -> None:
        self._own_writes = own_writes
        self._add = add
        self._deferred: dict[ObjectRef | None, list[tuple[ObjectRef, ObjectRef, str, float]]] = {}

    def enqueue(
        self,
        key: ObjectRef,
        *,
        source: ObjectRef,
        version: str | None,
        delay_s: float,
        creator: ObjectRef | None = None,
    ) -> None:
        """Queue a key because `source` has changed; `version` is None if it was deleted.

        While `creator` is being reconciled, the key waits for the end of that reconcile.
        """
        reconciling_key = key if key in self._deferred else creator
        if version is None:
            self._own_writes.forget_reported(source, version, key=key)
            self._add(key, delay_s)
        elif reconciling_key in self._deferred:
            self._deferred[reconciling_key].append((key, source, version, delay_s))
        elif self._own_writes.is_own_write(source, version, key=key):
            self._own_writes.forget_reported(source, version, key=key)
        else:
            self._add(key, delay_s)

    @contextlib.contextmanager
    def reconciling(self, key: ObjectRef) -> Iterator[None]:
        """Defer the events that concern a key while it is reconciled."""
        self._deferred[key] = []
        try:
            yield
        finally:
            for target, source, version, delay_s in self._deferred.pop(key):
                self.enqueue(target, source=source, version=version, delay_s=delay_s)


def _decision_inputs(body: Body) -> tuple[object, object]:
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in _VOLATILE_METADATA
    }
    return metadata, body.get("spec")
