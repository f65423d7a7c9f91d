"""Holds back the first status of a parent while its children have not said anything yet.

A parent that has just made its children could only say that it waits, and would say so again in
the children's words a moment later: two writes for each object of a burst. So its first status is
written a moment late, once. Good news and trouble are told at once, and so is all that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kais_operator.planning import status_and_events
from kais_operator.planning.plan import Body, ObjectRef

HELD_S: Mapping[str, float] = {"Cell": 0.3}
"""A cell's pod is named by then. A formation that waits like this is looked at more often, and is
told of no less often (measured)."""


class FirstWords:
    """Remembers since when an object has had nothing to say but that it waits."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[ObjectRef, float] = {}

    def held_s(self, key: ObjectRef, read: Body, wanted: Body | None) -> float:
        """Say how long this status shall still wait; 0 to write it now."""
        longest = HELD_S.get(key.kind, 0.0)
        if not longest or read.get("status") or not _only_waits(wanted):
            self.forget(key)
            return 0.0
        now = self._monotonic()
        left = self._since.setdefault(key, now) + longest - now
        if left <= 0:
            self.forget(key)
        return max(0.0, left)

    def forget(self, key: ObjectRef) -> None:
        """Forget an object that has a status, or is gone."""
        self._since.pop(key, None)


def _only_waits(status: Body | None) -> bool:
    """Whether no condition tells of trouble, and the summary, which is the last, is not True."""
    told = (status or {}).get("conditions")
    if not told or told[-1]["status"] == "True":
        return False
    return all(one["reason"] not in status_and_events.TROUBLES for one in told)
