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

_BOUND = 5_000  # an arbitrary size: far more than the writes of a watch's delay
_MOVES = frozenset({"resourceVersion", "managedFields"})


class Echoes:
    """The state up to which a key has seen each object that it wrote."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[ObjectRef, ObjectRef], str] = OrderedDict()

    def note(self, written: Body, *, seen_by: ObjectRef) -> None:
        """Note that a key looks again after this write."""
        metadata = written["metadata"]
        ref = ObjectRef(written["kind"], metadata.get("namespace") or "", metadata["name"])
        self._versions[ref, seen_by] = metadata["resourceVersion"]
        self._versions.move_to_end((ref, seen_by))
        if len(self._versions) > _BOUND:
            self._versions.popitem(last=False)

    def note_status(self, ref: ObjectRef, *, read: Body, written: Body) -> None:
        """Note a status write, if it met the object as it was read."""
        if _decided_upon(read) == _decided_upon(written):
            self.note(written, seen_by=ref)

    def is_echo(self, ref: ObjectRef, version: str, *, to: ObjectRef) -> bool:
        """Whether this state of an object tells a key nothing new."""
        seen = self._versions.get((ref, to))
        return seen is not None and not is_newer(version, seen)


class Triggers:
    """Between events and the queue: passes on what is worth a look."""

    def __init__(self, echoes: Echoes, add: Callable[[ObjectRef, float], None]) -> None:
        self._echoes = echoes
        self._add = add
        self._held: dict[ObjectRef | None, list[tuple[ObjectRef, ObjectRef, str, float]]] = {}

    def tell(
        self,
        key: ObjectRef,
        *,
        of: ObjectRef,
        version: str | None,
        after_s: float,
        made_by: ObjectRef | None = None,
    ) -> None:
        """Have a key look because of an object's state; no version stands for its end.

        With `made_by` it waits for the end of that one's look: who makes comes first.
        """
        if version is None:
            self._add(key, after_s)
        elif not self._echoes.is_echo(of, version, to=key):
            by = key if key in self._held else made_by
            if by in self._held:
                self._held[by].append((key, of, version, after_s))
            else:
                self._add(key, after_s)

    @contextlib.contextmanager
    def looking(self, key: ObjectRef) -> Iterator[None]:
        """Hold back what concerns a key while it looks."""
        self._held[key] = []
        try:
            yield
        finally:
            for whose, of, version, after_s in self._held.pop(key):
                self.tell(whose, of=of, version=version, after_s=after_s)


def _decided_upon(body: Body) -> tuple[object, object]:
    metadata = {key: value for key, value in body["metadata"].items() if key not in _MOVES}
    return metadata, body.get("spec")
