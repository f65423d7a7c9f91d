"""Debounces the first status of a parent that waits for its new children.

A parent that has just created its children can only report that it waits, and would report their
messages, or that it is ready, a moment later: two writes for each object of a burst. Its first
status is therefore delayed once, and for longer while no child has reported anything, because the
controllers of Kubernetes fall behind in a burst. Readiness and errors are written at once, and so
is every later status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kais import reasons
from kais_operator.planning.plan import Body, ObjectRef

DEBOUNCE_S: Mapping[str, float] = {"Cell": 3.0, "Formation": 4.0}
"""After this, a cell's pod has a name or is ready, and the cells of a formation have reported."""
UNREPORTED_DEBOUNCE_S: Mapping[str, float] = {"Cell": 20.0, "Formation": 22.0}
"""The delay if they have not reported by then; arbitrary, people wait that long."""


class StatusDebounce:
    """Remembers since when an object without a status has only been waiting."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting_since: dict[ObjectRef, float] = {}

    def remaining_s(self, key: ObjectRef, observed: Body, status: Body | None) -> float:
        """Return the seconds for which this status is still held back; 0 to write it now."""
        delays = DEBOUNCE_S if _have_children_reported(status) else UNREPORTED_DEBOUNCE_S
        debounce_s = delays.get(key.kind, 0.0)
        if not debounce_s or observed.get("status") or not _is_only_waiting(status):
            self.forget(key)
            return 0.0
        now = self._monotonic()
        remaining_s = self._waiting_since.setdefault(key, now) + debounce_s - now
        if remaining_s <= 0:
            self.forget(key)
        return max(0.0, remaining_s)

    def forget(self, key: ObjectRef) -> None:
        """Forget an object that has a status or was deleted."""
        self._waiting_since.pop(key, None)


def _have_children_reported(status: Body | None) -> bool:
    """Return whether the status names the pod of a cell, or the phase of each cell of a team."""
    cells = (status or {}).get("cells")
    return all(cell.get("phase") for cell in cells) if cells else "podName" in (status or {})


def _is_only_waiting(status: Body | None) -> bool:
    """Return whether no condition reports an error and the summary, the last one, is not True."""
    conditions = (status or {}).get("conditions")
    if not conditions or conditions[-1]["status"] == "True":
        return False
    return all(condition["reason"] not in reasons.WARNING_REASONS for condition in conditions)
