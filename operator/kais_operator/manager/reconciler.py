"""Reconciles a key of any kind: (observe -> decide -> apply) until stable -> status -> Events.

The only place that turns errors into delays, and the only one that logs reconciles.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from kais import labels
from kais_operator import errors
from kais_operator.apply import apply_failed_status, executor, status
from kais_operator.controllers.base import Controller, Observation
from kais_operator.manager.debounce import EventDebounce, StatusDebounce
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.workqueue import Backoff
from kais_operator.planning.plan import Body, EmitEvent, ObjectRef, Plan
from kais_operator.ports import World
from knowledge_client.errors import KnowledgeError

logger = logging.getLogger(__name__)

KNOWLEDGE_BACKOFF_CAP_S = 30.0
"""Longest delay of what waits for the knowledge service."""
RENDERER_BACKOFF_CAP_S = 30.0
"""Longest delay of what waits for the renderer."""
NAME_CONFLICT_RETRY_S = 1.0
TERMINATING_RETRY_S = 10.0
NOT_LEADING_RETRY_S = 2.0
"""A late renewal restores the Lease within the same leader session; a session that ends drops its
keys."""
BUSY_RETRY_S = 1.0
"""Delay of a key that still had something to do after `MAX_ITERATIONS`."""
MAX_ITERATIONS = 7
"""Iterations of one reconcile: what it wrote may be what the next step waits for.

The end of a mission takes most: outcome, cost of cell and reviewer, release of what it reserved,
mark, ledger, status.
"""
FORBIDDEN_EVENT_PERIOD_S = 1800.0
"""A lasting refusal is reported again: the API server keeps Events for an hour."""
_EVENT_WRITERS = 8
"""Events that an operator which ends writes at once; arbitrary, reconciles still run."""
RELEASE_DELAY_S = 0.1
"""Delay of keys whose status waited for the end of a backlog: as delayed keys they are no backlog
of their own, and children come before their parents."""
MAX_BUSY_ITERATIONS = 20
"""After this many iterations in a row with something to do, a key is slowed down."""
_REPORTED_ERRORS = (
    errors.Forbidden,
    errors.Invalid,
    errors.WriteFailed,
    errors.PatchUnavailable,
)
"""Errors of writes that a condition of the object reports."""


@dataclass(frozen=True)
class _Iteration:
    """The result of one iteration: the delay, and whether to iterate again because it acted."""

    requeue_after_s: float | None
    is_unfinished: bool = False


@dataclass(frozen=True)
class _PendingEvents:
    """Events that an iteration decided, and a reference to the object as it was then."""

    events: tuple[EmitEvent, ...]
    involved: Body


class Reconciler:
    """Reconciles keys; called by the work queue.

    `requeue` takes a key and a delay in seconds. It is called when a template is rendered for which
    a reconcile ended, and for each status that waited when a backlog ends. `backlog_age_s` returns
    how long the oldest new or changed object has waited.
    """

    def __init__(
        self,
        world: World,
        controllers: Mapping[str, Controller],
        own_writes: OwnWriteFilter,
        *,
        requeue: Callable[[ObjectRef, float], None],
        backlog_age_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._world = world
        self._requeue = requeue
        self._controllers = controllers
        self._own_writes = own_writes
        self._busy_iterations: dict[ObjectRef, int] = {}
        self._announced: dict[ObjectRef, frozenset[EmitEvent]] = {}
        self._observed_bodies: dict[ObjectRef, Body] = {}
        self._pending_events: dict[ObjectRef, list[_PendingEvents]] = {}
        self._forbidden: dict[ObjectRef, tuple[str, float]] = {}
        self._status_debounce = StatusDebounce(world.clock.monotonic, backlog_age_s=backlog_age_s)
        self._event_debounce = EventDebounce(world.clock.monotonic, backlog_age_s=backlog_age_s)
        self._is_ending = False

    async def __call__(self, key: ObjectRef) -> float | None:
        """Reconcile a key; returns the seconds to the next time, None to wait for an event.

        Raises:
            Backoff: The reconcile is to be repeated, with growing delays.
        """
        controller = self._controllers.get(key.kind)
        if controller is None:
            return None
        try:
            return await self._run_guarded(controller, key)
        except asyncio.CancelledError:
            # A cancelled reconcile announces nothing.
            self._pending_events.pop(key, None)
            raise
        except Exception as exc:
            # The error is only logged and recorded here, with the fields of the object.
            self._log_failure(key, exc)
            self._record_forbidden(key, exc)
            raise
        finally:
            self._observed_bodies.pop(key, None)
            for released in (*self._status_debounce.released(), *self._event_debounce.released()):
                self._requeue(released, RELEASE_DELAY_S)
            await self._emit_due_events(key)

    async def _run_guarded(self, controller: Controller, key: ObjectRef) -> float | None:
        """Reconcile, and turn errors into a delay or a Backoff."""
        try:
            requeue_after_s = await self._reconcile(controller, key)
        except errors.RenderingPending as exc:
            exc.completion.add_done_callback(lambda _: self._requeue(key, 0.0))
            return exc.requeue_after_s
        except errors.NotReady as exc:
            return exc.requeue_after_s
        except errors.NotLeading as exc:
            self._log_failure(key, exc)
            return NOT_LEADING_RETRY_S
        except errors.NamespaceTerminating as exc:
            self._log_failure(key, exc)
            return TERMINATING_RETRY_S
        except errors.RendererUnavailable as exc:
            raise Backoff(str(exc), cap_s=RENDERER_BACKOFF_CAP_S) from exc
        except errors.OperatorError as exc:
            raise Backoff(str(exc)) from exc
        except KnowledgeError as exc:
            raise Backoff(str(exc), cap_s=KNOWLEDGE_BACKOFF_CAP_S) from exc
        self._record_allowed(key)
        return requeue_after_s

    async def _emit_due_events(self, key: ObjectRef) -> None:
        """Write the Events of a key, or queue the key for it.

        Without a warning among them they wait for the end of a backlog, like progress in a status.
        """
        events = [
            event for pending in self._pending_events.get(key, ()) for event in pending.events
        ]
        is_warning = any(event.type == "Warning" for event in events)
        is_urgent = not events or is_warning or self._is_ending
        remaining_s = self._event_debounce.remaining_s(key, is_urgent=is_urgent)
        if remaining_s > 0:
            self._requeue(key, remaining_s)
            return
        await self._emit_events(key)

    async def _emit_events(self, key: ObjectRef) -> None:
        for pending in self._pending_events.pop(key, ()):
            await executor.emit_events(Plan(pending.events), pending.involved, self._world)

    async def write_held_events(self) -> None:
        """Write the Events that wait for the end of a backlog, and hold none from now on."""
        self._is_ending = True
        keys = iter(tuple(self._pending_events))

        async def write() -> None:
            for key in keys:
                await self._emit_events(key)

        await asyncio.gather(*(write() for _ in range(_EVENT_WRITERS)))

    def _log_failure(self, key: ObjectRef, exc: Exception) -> None:
        level = errors.log_level(exc, otherwise=logging.INFO)
        _log(key, self._observed_bodies.get(key), _reason(exc), str(exc), level=level)

    def _record_forbidden(self, key: ObjectRef, exc: Exception) -> None:
        """Add a Warning Event for a 403, repeated every `FORBIDDEN_EVENT_PERIOD_S`."""
        if not isinstance(exc.__cause__, errors.Forbidden):
            return
        message, now_s = str(exc), self._world.clock.monotonic()
        last_message, last_s = self._forbidden.get(key, ("", 0.0))
        body = self._observed_bodies.get(key)
        if body is None or (message == last_message and now_s - last_s < FORBIDDEN_EVENT_PERIOD_S):
            return
        self._forbidden[key] = (message, now_s)
        event = EmitEvent("Warning", labels.EVENT_FORBIDDEN, message)
        self._pending_events.setdefault(key, []).append(_PendingEvents((event,), body))

    def _record_allowed(self, key: ObjectRef) -> None:
        message, _ = self._forbidden.pop(key, ("", 0.0))
        body = self._observed_bodies.get(key)
        if message and body is not None:
            event = EmitEvent("Normal", labels.EVENT_ALLOWED, f"no longer refused: {message}")
            self._pending_events.setdefault(key, []).append(_PendingEvents((event,), body))

    async def _reconcile(self, controller: Controller, key: ObjectRef) -> float | None:
        """Iterate until nothing is left to do; the last iteration writes the status."""
        iteration = await self._iterate(controller, key)
        for _ in range(MAX_ITERATIONS - 1):
            if not iteration.is_unfinished:
                break
            iteration = await self._iterate(controller, key)
        return iteration.requeue_after_s

    async def _iterate(self, controller: Controller, key: ObjectRef) -> _Iteration:
        observation = await controller.observe(self._world, key)
        if observation is None:
            self._forget(key)
            return _Iteration(None)
        if observation.body is not None:
            self._observed_bodies[key] = observation.body
        plan = controller.decide(observation.observed, self._world.clock.now())
        try:
            result = await executor.execute(plan, self._world)
        except _REPORTED_ERRORS as exc:
            await self._write_refusal(key, observation, plan, exc)
            raise Backoff(str(exc), within_s=_seconds(plan.requeue_after)) from exc
        self._world.write_refusals.forget(key)
        plan = result.plan_to_report(plan)
        for body in result.written_objects:
            self._own_writes.record_write(body, key=key)
        if result.wrote or result.called_knowledge:
            _log(key, observation.body, "Acted", _action_names(plan))
        if self._should_iterate_again(key, result):
            self._add_events(key, observation, plan, is_status_written=False)
            return self._unfinished(key, observation, plan, result)
        debounce_s = await self._report_status(key, observation, plan)
        requeue_after_s = _seconds(plan.requeue_after)
        if debounce_s > 0:
            requeue_after_s = _earlier(debounce_s, requeue_after_s)
        return _Iteration(self._requeue_after_s(key, result, requeue_after_s))

    async def _report_status(self, key: ObjectRef, observation: Observation, plan: Plan) -> float:
        """Write the status, or return how long it is still held back."""
        debounce_s = self._status_debounce.remaining_s(key, observation.body or {}, plan.status)
        if debounce_s <= 0 and await self._write_status(key, observation, plan.status):
            _log(key, observation.body, "StatusWritten", "the status has changed")
            self._add_events(key, observation, plan, is_status_written=True)
        return debounce_s

    def _unfinished(
        self,
        key: ObjectRef,
        observation: Observation,
        plan: Plan,
        result: executor.ExecutionResult,
    ) -> _Iteration:
        """Return when to iterate again: at once, unless it only created children in a backlog."""
        requeue_after_s = _seconds(plan.requeue_after)
        observed = observation.body or {}
        if not result.has_name_conflict:
            after_s = self._status_debounce.after_creation_s(key, observed, plan)
            if after_s > 0:
                return _Iteration(_earlier(after_s, requeue_after_s))
        return _Iteration(_earlier(BUSY_RETRY_S, requeue_after_s), is_unfinished=True)

    def _forget(self, key: ObjectRef) -> None:
        self._busy_iterations.pop(key, None)
        self._announced.pop(key, None)
        self._forbidden.pop(key, None)
        self._world.write_refusals.forget(key)
        self._status_debounce.forget(key)
        self._world.containers.end_commands(key)

    def _should_iterate_again(self, key: ObjectRef, result: executor.ExecutionResult) -> bool:
        """Return whether to iterate again, so that the next iteration writes the status.

        An iteration that acted decided its status before its actions, so the status is outdated.
        The iteration that finds nothing left to do has the current status. After
        `MAX_BUSY_ITERATIONS` iterations that acted, the status is written anyway.
        """
        has_acted = result.called_knowledge or result.wrote
        if result.knowledge_problem is not None or not has_acted:
            self._busy_iterations.pop(key, None)
            return False
        self._busy_iterations[key] = self._busy_iterations.get(key, 0) + 1
        return self._busy_iterations[key] <= MAX_BUSY_ITERATIONS

    def _requeue_after_s(
        self, key: ObjectRef, result: executor.ExecutionResult, requeue_after_s: float | None
    ) -> float | None:
        if result.knowledge_problem is not None:
            raise Backoff(
                result.knowledge_problem, cap_s=KNOWLEDGE_BACKOFF_CAP_S, within_s=requeue_after_s
            )
        if self._busy_iterations.get(key, 0) > MAX_BUSY_ITERATIONS:
            raise Backoff(
                f"{MAX_BUSY_ITERATIONS} iterations in a row had something to do",
                within_s=requeue_after_s,
            )
        return (
            _earlier(NAME_CONFLICT_RETRY_S, requeue_after_s)
            if result.has_name_conflict
            else requeue_after_s
        )

    def _add_events(
        self, key: ObjectRef, observation: Observation, plan: Plan, *, is_status_written: bool
    ) -> None:
        """Queue the Plan's Events for the end of the reconcile, each once until a status write.

        Events are for people, so nothing waits for them.
        """
        events = tuple(a for a in plan.actions if isinstance(a, EmitEvent))
        announced = self._announced.pop(key, frozenset())
        if observation.body is not None:
            new = tuple(event for event in events if event not in announced)
            self._pending_events.setdefault(key, []).append(
                _PendingEvents(new, _involved(observation.body))
            )
        if not is_status_written and (announced or events):
            self._announced[key] = announced | set(events)

    async def _write_status(
        self, key: ObjectRef, observation: Observation, new_status: Body | None
    ) -> bool:
        if observation.body is None:
            return False
        try:
            updated = await status.write(self._world.cluster, observation.body, new_status)
        except errors.NotFound:
            return False  # deleted since it was read
        if updated is None:
            return False
        self._own_writes.record_status_write(key, observed=observation.body, updated=updated)
        return True

    async def _write_refusal(
        self, key: ObjectRef, observation: Observation, plan: Plan, exc: errors.ClusterError
    ) -> None:
        """Note a refusal, and report it on the object.

        A server that fails once may only be busy: that is reported if it happens again.
        """
        refusals, now = self._world.write_refusals, self._world.clock.now()
        is_failure = isinstance(exc, errors.ClusterUnavailable)
        is_first = refusals.refusal(key) is None and refusals.failure(key) is None
        if is_failure:
            refusals.note_failure(key, str(exc), at=now)
        else:
            refusals.note(key, str(exc))
        if observation.body is None or (is_failure and is_first):
            return
        refused_status = apply_failed_status.with_refusal(
            plan.status, observation.body, message=str(exc), now=now
        )
        if await self._write_status(key, observation, refused_status):
            events = apply_failed_status.events_to_report(plan.actions, refused_status)
            self._add_events(key, observation, Plan(events), is_status_written=False)


def _involved(body: Body) -> Body:
    """Return the part of an object that an Event refers to; the rest need not stay in memory."""
    metadata = body["metadata"]
    fields = ("namespace", "name", "uid", "resourceVersion")
    reference = {field: metadata[field] for field in fields if field in metadata}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": reference}


def _seconds(delay: timedelta | None) -> float | None:
    return None if delay is None else max(0.0, delay.total_seconds())


def _earlier(first_s: float, second_s: float | None) -> float:
    return first_s if second_s is None else min(first_s, second_s)


def _reason(exc: Exception) -> str:
    """Return the class of the error that ended a reconcile.

    A Backoff without a cause skipped calls to the knowledge service, or was busy for too long.
    """
    if not isinstance(exc, Backoff):
        return type(exc).__name__
    if exc.__cause__ is not None:
        return type(exc.__cause__).__name__
    return "StoreUnavailable" if exc.cap_s == KNOWLEDGE_BACKOFF_CAP_S else "Restless"


def _action_names(plan: Plan) -> str:
    """List the kinds of a Plan's actions in their order, each once."""
    names = [type(action).__name__ for action in plan.actions if not isinstance(action, EmitEvent)]
    return ", ".join(dict.fromkeys(names))


def _log(
    key: ObjectRef, body: Body | None, reason: str, message: str, *, level: int = logging.INFO
) -> None:
    fields = {
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "generation": body["metadata"].get("generation") if body else None,
        "reason": reason,
    }
    logger.log(level, "%s", message, extra={"fields": fields})
