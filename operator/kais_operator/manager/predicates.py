"""Keeps our own writes from asking for another look at what was looked at after them.

A pass that wrote looks again before it ends, so the watch event of such a write tells its key
nothing; others still hear of it. The status is written last and changes nothing that a decision
reads, so its event tells the object itself nothing either, if the write met the object as it was
read: an edit that came between makes the event worth a look.

An event may come before the answer to the write that it tells of. So what concerns a key that is
being looked at is held back, and judged when that look has ended.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator

from kais_operator.informer.cache import is_newer
from kais_operator.planning.plan import Body, ObjectRef

_MAX_VERSIONS = 5_000  # an arbitrary size: far more than the writes of a watch's delay
_VOLATILE_METADATA = frozenset({"resourceVersion", "managedFields"})


class OwnWriteFilter:
    """The state up to which a key has seen each object that it wrote."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[ObjectRef, ObjectRef], str] = OrderedDict()

    def record_write(self, body: Body, *, key: ObjectRef) -> None:
        """Note that a key looks again after this write."""
        metadata = body["metadata"]
        ref = ObjectRef(body["kind"], metadata.get("namespace") or "", metadata["name"])
        self._versions[ref, key] = metadata["resourceVersion"]
        self._versions.move_to_end((ref, key))
        if len(self._versions) > _MAX_VERSIONS:
            self._versions.popitem(last=False)

    def record_status_write(self, ref: ObjectRef, *, observed: Body, updated: Body) -> None:
        """Note a status write, if it met the object as it was read."""
        if _decision_inputs(observed) == _decision_inputs(updated):
            self.record_write(updated, key=ref)

    def is_own_write(self, ref: ObjectRef, version: str, *, key: ObjectRef) -> bool:
        """Whether this state of an object tells a key nothing new."""
        written_version = self._versions.get((ref, key))
        return written_version is not None and not is_newer(version, written_version)


class EventEnqueuer:
    """Between events and the queue: passes on what is worth a look."""

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
        """Have a key look because of an object's state; no version stands for its end.

        With `made_by` it waits for the end of that one's look: who makes comes first.
        """
        if version is None:
            self._add(key, delay_s)
        elif not self._own_writes.is_own_write(source, version, key=key):
            reconciling_key = key if key in self._deferred else creator
            if reconciling_key in self._deferred:
                self._deferred[reconciling_key].append((key, source, version, delay_s))
            else:
                self._add(key, delay_s)

    @contextlib.contextmanager
    def reconciling(self, key: ObjectRef) -> Iterator[None]:
        """Hold back what concerns a key while it looks."""
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
