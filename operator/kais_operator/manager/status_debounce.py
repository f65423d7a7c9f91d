"""Holds back the first status of a parent while its children have not said anything yet.

A parent that has just made its children could only say that it waits, and would say so again in
the children's words a moment later: two writes for each object of a burst. So its first status is
written a moment late, once. Good news and trouble are told at once, and so is all that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kais_operator.planning import status_and_events
from kais_operator.planning.plan import Body, ObjectRef

DEBOUNCE_S: Mapping[str, float] = {"Cell": 0.3}
"""A cell's pod is named by then. A formation that waits like this is looked at more often, and is
told of no less often (measured)."""


class StatusDebounce:
    """Remembers since when an object has had nothing to say but that it waits."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting_since: dict[ObjectRef, float] = {}

    def remaining_s(self, key: ObjectRef, observed: Body, status: Body | None) -> float:
        """Say how long this status shall still wait; 0 to write it now."""
        debounce_s = DEBOUNCE_S.get(key.kind, 0.0)
        if not debounce_s or observed.get("status") or not _is_only_waiting(status):
            self.forget(key)
            return 0.0
        now = self._monotonic()
        remaining_s = self._waiting_since.setdefault(key, now) + debounce_s - now
        if remaining_s <= 0:
            self.forget(key)
        return max(0.0, remaining_s)

    def forget(self, key: ObjectRef) -> None:
        """Forget an object that has a status, or is gone."""
        self._waiting_since.pop(key, None)


def _is_only_waiting(status: Body | None) -> bool:
    """Whether no condition tells of trouble, and the summary, which is the last, is not True."""
    conditions = (status or {}).get("conditions")
    if not conditions or conditions[-1]["status"] == "True":
        return False
    return all(condition["reason"] not in status_and_events.TROUBLES for condition in conditions)
