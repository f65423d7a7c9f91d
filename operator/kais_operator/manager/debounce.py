"""Debounces the first status of a parent with new children, and in a burst progress and Events.

A parent that has just created its children can only report that it waits, and would report their
messages, or that it is ready, a moment later: two writes for each object of a burst. Its first
status is therefore delayed once, and for longer while no child has reported anything, because the
controllers of Kubernetes fall behind in a burst.

While there is a backlog, that is while new objects wait for the operator, creating comes before
reporting: a status that only shows progress waits for the end of the backlog, and is merged with
those after it. Events that are no warnings wait as well. Readiness, its loss, outcomes and errors
are always written at once, and so is every status but a first one when there is no backlog. A
parent that has just created its children is not even decided again until then. What is held is not
stored: another operator decides the same status again, and Events only repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kais.reasons import WARNING_REASONS, Reason
from kais.resources.formation import FormationPhase
from kais_operator.planning.plan import Body, Create, ObjectRef, Plan

DEBOUNCE_S: Mapping[str, float] = {"Cell": 3.0, "Formation": 4.0}
"""After this, a cell's pod has a name or is ready, and the cells of a formation have reported."""
UNREPORTED_DEBOUNCE_S: Mapping[str, float] = {"Cell": 20.0, "Formation": 22.0}
"""The delay if they have not reported by then; arbitrary, people wait that long."""


BEHIND_S = 1.0
"""There is a backlog if a new or changed object has waited this long; nobody notices less."""
BACKLOG_DEBOUNCE_S = 120.0
"""The longest that progress waits for the end of a backlog; 1,000 instances take that long."""
_BEFORE_FIRST = frozenset({"Cell", "Formation"})
_IN_BACKLOG = _BEFORE_FIRST | {"BlueprintInstance"}
"""Kinds whose progress waits; an instance reports first that its team is stored."""
_LAST_CHILDREN = {"Cell": "Deployment", "Formation": "Cell"}
"""By the kind of a parent, the children after whose creation it only waits for them."""
_PROGRESS_REASONS = frozenset(
    {
        Reason.DELETING,
        Reason.NOT_CONNECTED,
        Reason.NOT_REGISTERED,
        Reason.RECONCILING,
        Reason.RUNNING,
        Reason.WAITING_FOR_CELLS,
        Reason.WAITING_FOR_PODS,
    }
)
"""Reasons of conditions that are not True yet and become so without anybody's action."""


class _Debounce:
    """Remembers since when each object waits, and which wait for the end of a backlog.

    `backlog_age_s` returns how long the oldest new or changed object has waited for the operator.
    """

    def __init__(
        self, monotonic: Callable[[], float], *, backlog_age_s: Callable[[], float]
    ) -> None:
        self._monotonic = monotonic
        self._backlog_age_s = backlog_age_s
        self._waiting_since: dict[ObjectRef, float] = {}
        self._held_by_backlog: set[ObjectRef] = set()
        self._released_at: dict[ObjectRef, float] = {}

    def released(self) -> tuple[ObjectRef, ...]:
        """Return the objects that waited for the end of a backlog that is over, once.

        Their children have just been created, so a first status waits for them as usual.
        """
        if not self._held_by_backlog or self._is_behind():
            return ()
        released = tuple(self._held_by_backlog)
        self._released_at.update(dict.fromkeys(released, self._monotonic()))
        self._held_by_backlog.clear()
        return released

    def forget(self, key: ObjectRef) -> None:
        """Forget an object that waits no longer, or was deleted."""
        self._waiting_since.pop(key, None)
        self._held_by_backlog.discard(key)
        self._released_at.pop(key, None)

    def _is_behind(self) -> bool:
        return self._backlog_age_s() >= BEHIND_S

    def _wait_s(self, key: ObjectRef, debounce_s: float) -> float:
        """Return how much longer an object waits that may wait for so long; 0 ends the wait."""
        if not debounce_s:
            self.forget(key)
            return 0.0
        now = self._monotonic()
        waiting_since = self._waiting_since.setdefault(key, now)
        until = self._released_at.get(key, waiting_since) + debounce_s
        remaining_s = min(until, waiting_since + max(debounce_s, BACKLOG_DEBOUNCE_S)) - now
        if remaining_s <= 0:
            self.forget(key)
        elif debounce_s == BACKLOG_DEBOUNCE_S:
            self._held_by_backlog.add(key)
        return max(0.0, remaining_s)


class EventDebounce(_Debounce):
    """Remembers since when the Events of an object wait for the end of a backlog."""

    def remaining_s(self, key: ObjectRef, *, is_urgent: bool) -> float:
        """Return the seconds for which the Events still wait; 0 to write them now."""
        is_held = self._is_behind() and not is_urgent
        return self._wait_s(key, BACKLOG_DEBOUNCE_S if is_held else 0.0)


class StatusDebounce(_Debounce):
    """Remembers since when the status of an object has only shown that it waits."""

    def remaining_s(self, key: ObjectRef, observed: Body, status: Body | None) -> float:
        """Return the seconds for which this status is still held back; 0 to write it now."""
        previous = observed.get("status") or {}
        return self._wait_s(key, self._debounce_s(key.kind, previous, status or {}))

    def after_creation_s(self, key: ObjectRef, observed: Body, plan: Plan) -> float:
        """Return how long an object need not be decided again whose children were just created.

        In a backlog its next decision could only be a first status that is held back. 0 if it must
        be decided at once.
        """
        is_first = not observed.get("status") and _creates_last_children(key.kind, plan)
        if not is_first or not self._is_behind() or not _is_only_waiting(plan.status or {}):
            return 0.0
        return self._wait_s(key, BACKLOG_DEBOUNCE_S)

    def _debounce_s(self, kind: str, previous: Body, status: Body) -> float:
        """Return how long this status may wait from the moment on when it could be written."""
        if kind not in _IN_BACKLOG or status == previous or not _is_progress(previous, status):
            return 0.0
        if self._is_behind() and (previous or kind in _BEFORE_FIRST):
            return BACKLOG_DEBOUNCE_S
        if previous:
            return 0.0
        delays = DEBOUNCE_S if _have_children_reported(status) else UNREPORTED_DEBOUNCE_S
        return delays.get(kind, 0.0)


def _creates_last_children(kind: str, plan: Plan) -> bool:
    created = (a.body["kind"] for a in plan.actions if isinstance(a, Create))
    return _LAST_CHILDREN.get(kind) in created


def _have_children_reported(status: Body) -> bool:
    """Return whether the status names the pod of a cell, or the phase of each cell of a team."""
    cells = status.get("cells")
    return all(cell.get("phase") for cell in cells) if cells else "podName" in status


def _is_progress(previous: Body, status: Body) -> bool:
    """Return whether a status only waits, and the one before had no readiness, error or outcome."""
    return _is_only_waiting(status) and (not previous or _is_only_waiting(previous))


def _is_only_waiting(status: Body) -> bool:
    """Return whether a status waits for nobody's action, and the summary, the last, is not True."""
    conditions = status.get("conditions")
    if not conditions or conditions[-1]["status"] == "True" or status.get("outcome"):
        return False
    if status.get("phase") == FormationPhase.FAILED:  # the conditions only name the failed cell
        return False
    return all(map(_is_true_or_progress, conditions))


def _is_true_or_progress(condition: Body) -> bool:
    reason = condition["reason"]
    is_true = condition["status"] == "True" and reason not in WARNING_REASONS
    return is_true or reason in _PROGRESS_REASONS
