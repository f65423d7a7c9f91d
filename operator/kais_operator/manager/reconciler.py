"""One pass for any kind: (observe -> decide -> apply) until at rest -> status -> Events.

The only place that turns errors into delays, and the only one that logs a pass.
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
from kais_operator.manager.predicates import Echoes
from kais_operator.manager.status_debounce import FirstWords
from kais_operator.manager.workqueue import Backoff
from kais_operator.planning.plan import Body, EmitEvent, ObjectRef, Plan
from kais_operator.ports import World
from knowledge_client.errors import KnowledgeError

logger = logging.getLogger(__name__)

STORE_CAP_S = 30.0
"""What waits for the store is tried again at most this late."""
RENDERER_CAP_S = 30.0
"""The same for what waits for the renderer."""
NAMESAKE_S = 1.0
TERMINATING_S = 10.0
LEADING_S = 2.0
"""A renewal that comes late makes the Lease ours again, within the same term; a term that ends
forgets its keys."""
WROTE_S = 1.0
"""When a key is looked at again that still found something to do after its rounds."""
ROUNDS = 4
"""So often one pass looks and acts: what it wrote may be what the next step waits for."""
REFUSED_AGAIN_S = 1800.0
"""When a refusal that lasts is an Event again: the API server keeps Events for an hour."""
RESTLESS = 20
"""After so many rounds in a row that found something to do, a key is slowed down."""


@dataclass(frozen=True)
class _Step:
    """What one round left: when to look again, and whether at once because it acted."""

    next_look_s: float | None
    goes_on: bool = False


@dataclass(frozen=True)
class _News:
    """Events that a round decided, and the object as it was then."""

    events: tuple[EmitEvent, ...]
    about: Body


class Passes:
    """Runs passes; what the queue calls for each key.

    `look_again` is called with a key whose pass ended because it would have had to wait.
    """

    def __init__(
        self,
        world: World,
        reconcilers: Mapping[str, Controller],
        echoes: Echoes,
        *,
        look_again: Callable[[ObjectRef], None],
    ) -> None:
        self._world = world
        self._look_again = look_again
        self._reconcilers = reconcilers
        self._echoes = echoes
        self._restless: dict[ObjectRef, int] = {}
        self._announced: dict[ObjectRef, frozenset[EmitEvent]] = {}
        self._looked_at: dict[ObjectRef, Body] = {}
        self._news: dict[ObjectRef, list[_News]] = {}
        self._refused: dict[ObjectRef, tuple[str, float]] = {}
        self._first_words = FirstWords(world.clock.monotonic)

    async def __call__(self, key: ObjectRef) -> float | None:
        """Make one pass; gives the seconds to the next look, None to wait for an event.

        Raises:
            Backoff: The pass shall be repeated, later each time.
        """
        reconciler = self._reconcilers.get(key.kind)
        if reconciler is None:
            return None
        try:
            return await self._judged(reconciler, key)
        except asyncio.CancelledError:
            self._news.pop(key, None)  # who cancels a pass does not wait for its Events
            raise
        except Exception as exc:
            # Nothing is judged here: what ends a pass is told with its fields, and goes on.
            self._log_failure(key, exc)
            self._note_forbidden(key, exc)
            raise
        finally:
            self._looked_at.pop(key, None)
            for news in self._news.pop(key, ()):
                await executor.announce(Plan(news.events), news.about, self._world)

    async def _judged(self, reconciler: Controller, key: ObjectRef) -> float | None:
        """Make a pass, and turn what it raises into a delay or a Backoff."""
        try:
            next_look_s = await self._pass(reconciler, key)
        except errors.RenderingPending as exc:
            exc.done.add_done_callback(lambda _: self._look_again(key))
            return exc.requeue_after_s
        except errors.NotReady as exc:
            return exc.requeue_after_s
        except errors.NotLeading as exc:
            self._log_failure(key, exc)
            return LEADING_S
        except errors.NamespaceTerminating as exc:
            self._log_failure(key, exc)
            return TERMINATING_S
        except errors.RendererUnavailable as exc:
            raise Backoff(str(exc), cap_s=RENDERER_CAP_S) from exc
        except errors.OperatorError as exc:
            raise Backoff(str(exc)) from exc
        except KnowledgeError as exc:
            raise Backoff(str(exc), cap_s=STORE_CAP_S) from exc
        self._note_allowed(key)
        return next_look_s

    def _log_failure(self, key: ObjectRef, exc: Exception) -> None:
        level = errors.log_level(exc, otherwise=logging.INFO)
        _log(key, self._looked_at.get(key), _reason(exc), str(exc), level=level)

    def _note_forbidden(self, key: ObjectRef, exc: Exception) -> None:
        """Have a Warning Event written about a 403, and again while it lasts."""
        if not isinstance(exc.__cause__, errors.Forbidden):
            return
        message, now_s = str(exc), self._world.clock.monotonic()
        last_message, last_s = self._refused.get(key, ("", 0.0))
        body = self._looked_at.get(key)
        if body is None or (message == last_message and now_s - last_s < REFUSED_AGAIN_S):
            return
        self._refused[key] = (message, now_s)
        event = EmitEvent("Warning", labels.EVENT_FORBIDDEN, message)
        self._news.setdefault(key, []).append(_News((event,), body))

    def _note_allowed(self, key: ObjectRef) -> None:
        message, _ = self._refused.pop(key, ("", 0.0))
        body = self._looked_at.get(key)
        if message and body is not None:
            event = EmitEvent("Normal", labels.EVENT_ALLOWED, f"no longer refused: {message}")
            self._news.setdefault(key, []).append(_News((event,), body))

    async def _pass(self, reconciler: Controller, key: ObjectRef) -> float | None:
        """Look and act until nothing is left to do, then write the status."""
        step = await self._round(reconciler, key)
        for _ in range(ROUNDS - 1):
            if not step.goes_on:
                break
            step = await self._round(reconciler, key)
        return step.next_look_s

    async def _round(self, reconciler: Controller, key: ObjectRef) -> _Step:
        seen = await reconciler.observe(self._world, key)
        if seen is None:
            self._forget(key)
            return _Step(None)
        if seen.body is not None:
            self._looked_at[key] = seen.body
        plan = reconciler.decide(seen.observed, self._world.clock.now())
        try:
            executed = await executor.execute(plan, self._world)
        except (errors.Forbidden, errors.Invalid) as exc:
            await self._tell_refusal(key, seen, plan, exc)
            raise Backoff(str(exc), within_s=_seconds(plan.requeue_after)) from exc
        plan = executed.result(plan)
        for written in executed.written:
            self._echoes.note(written, seen_by=key)
        if executed.wrote or executed.told_store:
            _log(key, seen.body, "Acted", _acts(plan))
        if self._moves_on(key, executed):
            self._announce(key, seen, plan, is_told=False)
            return _Step(_sooner(WROTE_S, _seconds(plan.requeue_after)), goes_on=True)
        held_s = await self._tell(key, seen, plan)
        following = self._next_look(key, plan, executed)
        return _Step(_sooner(held_s, following) if held_s > 0 else following)

    async def _tell(self, key: ObjectRef, seen: Observation, plan: Plan) -> float:
        """Write the status, or say how long it still waits for the children's first words."""
        held_s = self._first_words.held_s(key, seen.body or {}, plan.status)
        if held_s <= 0 and await self._write_status(key, seen, plan.status):
            _log(key, seen.body, "StatusWritten", "")
            self._announce(key, seen, plan, is_told=True)
        return held_s

    def _forget(self, key: ObjectRef) -> None:
        self._restless.pop(key, None)
        self._announced.pop(key, None)
        self._refused.pop(key, None)
        self._first_words.forget(key)
        self._world.containers.end_commands(key)

    def _moves_on(self, key: ObjectRef, executed: executor.Executed) -> bool:
        """Whether the next look comes so soon that it shall write the status, not this one.

        A pass that did something decided its status before; the pass that finds nothing left to
        do says how things stand. A key that never gets there tells its status all the same.
        """
        did = executed.told_store or executed.wrote
        if executed.store_problem is not None or not did:
            self._restless.pop(key, None)
            return False
        self._restless[key] = self._restless.get(key, 0) + 1
        return self._restless[key] <= RESTLESS

    def _next_look(self, key: ObjectRef, plan: Plan, executed: executor.Executed) -> float | None:
        due = _seconds(plan.requeue_after)
        if executed.store_problem is not None:
            raise Backoff(executed.store_problem, cap_s=STORE_CAP_S, within_s=due)
        if self._restless.get(key, 0) > RESTLESS:
            raise Backoff(f"{RESTLESS} looks in a row found something to do", within_s=due)
        return _sooner(NAMESAKE_S, due) if executed.met_namesake else due

    def _announce(self, key: ObjectRef, seen: Observation, plan: Plan, *, is_told: bool) -> None:
        """Have the Plan's Events written at the pass's end, each once until the status tells it.

        They are for people: nothing that is waited for shall wait for them.
        """
        events = tuple(a for a in plan.actions if isinstance(a, EmitEvent))
        known = self._announced.pop(key, frozenset())
        if seen.body is not None:
            new = tuple(event for event in events if event not in known)
            self._news.setdefault(key, []).append(_News(new, seen.body))
        if not is_told and (known or events):
            self._announced[key] = known | set(events)

    async def _write_status(self, key: ObjectRef, seen: Observation, wanted: Body | None) -> bool:
        if seen.body is None:
            return False
        try:
            written = await status.write(self._world.cluster, seen.body, wanted)
        except errors.NotFound:
            return False  # gone since it was read
        if written is None:
            return False
        self._echoes.note_status(key, read=seen.body, written=written)
        return True

    async def _tell_refusal(
        self, key: ObjectRef, seen: Observation, plan: Plan, exc: errors.ClusterError
    ) -> None:
        if seen.body is None:
            return
        told = apply_failed_status.into_status(
            plan.status, seen.body, message=str(exc), now=self._world.clock.now()
        )
        await self._write_status(key, seen, told)


def _seconds(delay: timedelta | None) -> float | None:
    return None if delay is None else max(0.0, delay.total_seconds())


def _sooner(one: float, other: float | None) -> float:
    return one if other is None else min(one, other)


def _reason(exc: Exception) -> str:
    """Give the class of what ended a pass; a pass that ends by itself waits for the store or rest.

    A Backoff of the rounds has no cause: its store calls were left out, or it found no rest.
    """
    if not isinstance(exc, Backoff):
        return type(exc).__name__
    if exc.__cause__ is not None:
        return type(exc.__cause__).__name__
    return "StoreUnavailable" if exc.cap_s == STORE_CAP_S else "Restless"


def _acts(plan: Plan) -> str:
    """Name what a Plan did, in its order and each kind of act once."""
    acts = [type(action).__name__ for action in plan.actions if not isinstance(action, EmitEvent)]
    return ", ".join(dict.fromkeys(acts))


def _log(
    key: ObjectRef, body: Body | None, reason: str, message: str, *, level: int = logging.INFO
) -> None:
    generation = body["metadata"].get("generation") if body else None
    logger.log(
        level,
        "kind=%s namespace=%s name=%s generation=%s reason=%s%s",
        key.kind,
        key.namespace,
        key.name,
        generation,
        reason,
        f" message={' '.join(message.split())}" if message else "",
    )
