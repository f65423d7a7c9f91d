"""Keeps our own status writes from asking for another look at the same object.

A status written from what was read changes nothing that a decision reads, so its watch event tells
that object nothing. Parents still hear of it. Only a write onto exactly the object that was read
counts: an edit that came between makes the event worth a look.
"""

from __future__ import annotations

from collections import OrderedDict

from kais_operator.decide.plan import Body, ObjectRef

_BOUND = 20_000  # an arbitrary size: far more than the writes of a watch's delay
_MOVES = frozenset({"resourceVersion", "managedFields"})


class Echoes:
    """The resourceVersions of our last status writes."""

    def __init__(self) -> None:
        self._versions: OrderedDict[ObjectRef, str] = OrderedDict()

    def note(self, ref: ObjectRef, *, read: Body, written: Body) -> None:
        """Note a status write, if it met the object as it was read."""
        if _decided_upon(read) != _decided_upon(written):
            return
        self._versions[ref] = written["metadata"]["resourceVersion"]
        self._versions.move_to_end(ref)
        if len(self._versions) > _BOUND:
            self._versions.popitem(last=False)

    def is_echo(self, ref: ObjectRef, body: Body) -> bool:
        """Whether an event tells of nothing but our own last status write."""
        version = self._versions.get(ref)
        return version is not None and version == body["metadata"].get("resourceVersion")


def _decided_upon(body: Body) -> tuple[object, object]:
    metadata = {key: value for key, value in body["metadata"].items() if key not in _MOVES}
    return metadata, body.get("spec")
