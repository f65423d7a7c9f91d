"""The Renderer port over the workers of `kais_rendering`, which can be killed.

What a template compiles to depends on its spec alone, and what it renders to on what is given
besides, so the answers to the requests seen last are kept: an idle pass compiles and renders
nothing. What passed a limit is tried again later, less often each time; see `render_failures`. A
pass waits a moment for its answer only: the request goes on without it, and later requests for
the same wait for the same answer.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import json

from kais import blueprints
from kais_operator import errors
from kais_operator.planning.plan import Body
from kais_operator.rendering.render_failures import RenderFailures
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.process import Answer
from kais_rendering.server import Pool

_KEPT_REPORTS = 1000  # arbitrary, some KiB each at most and far more than Blueprints are edited
_KEPT_RENDERINGS = 200  # arbitrary: the uses that are being looked at, some KiB each
_KEPT_MATCHES = 200  # arbitrary: the checks that are being judged
PATIENCE_S = 0.1
"""So long a pass of the operator waits for an answer; most take some milliseconds."""


Count = Callable[[str, str, float], None]
"""Takes an operation (`compile`, `render`, `find`), its result (`ok`, a cap, or `unavailable`), and
the seconds until then, those of waiting for a process included."""


def _uncounted(_: str, __: str, ___: float) -> None:
    """Count nothing."""


@dataclass(frozen=True)
class _Request:
    """What a process is asked for a namespace; `failing` is what a failure is remembered by."""

    body: dict[str, Any]
    namespace: str
    failing: bytes


class WorkerRenderer:
    """Compiles and renders in the workers of `pool`, which queues requests by namespace.

    `count` hears of every request that went to a process. Who asks waits at most `patience_s`.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        count: Count = _uncounted,
        patience_s: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._patience_s = patience_s
        self._failures = RenderFailures(monotonic)
        self._pending: dict[bytes, asyncio.Task[Answer | errors.OperatorError]] = {}
        self._pool = pool
        self._reports: OrderedDict[bytes, Answer] = OrderedDict()
        self._renderings: OrderedDict[bytes, Answer] = OrderedDict()
        self._matches: OrderedDict[bytes, Answer] = OrderedDict()

    async def start(self) -> None:
        """Start the workers, so that the first request finds them warm."""
        await self._pool.start()

    async def close(self) -> None:
        """End the workers and what still renders."""
        for task in self._pending.values():
            task.cancel()
        await asyncio.gather(*self._pending.values(), return_exceptions=True)
        await self._pool.close()

    async def compile(self, spec: Body, *, namespace: str) -> blueprints.CompileReport:
        """Compile a Blueprint's spec.

        Raises:
            RenderingFailed: A cap was passed; the message names it and the leaf.
            RenderingPending: It takes longer than the patience.
            RendererUnavailable: No worker could be reached for a while.
        """
        request = _Request({"op": "compile", "spec": spec}, namespace, failing=_key(spec))
        answer = await self._ask_once(request, self._reports, keep=_KEPT_REPORTS)
        return blueprints.CompileReport.from_dict(answer)

    async def render(  # noqa: PLR0913 - the names that a template finds in scope
        self,
        spec: Body,
        parameters: Body,
        *,
        blueprint: str,
        revision: int,
        instance: str,
        namespace: str,
        previous: Body | None = None,
    ) -> blueprints.Rendering:
        """Check parameters and render.

        A failure is remembered for all uses with these parameters, and one of the spec for all.

        Raises:
            RenderingFailed: A cap was passed; the message names it and the leaf.
            RenderingPending: It takes longer than the patience.
            RendererUnavailable: No worker could be reached for a while.
        """
        self._failures.raise_if_paused(_key(spec))
        arguments = {
            "spec": spec,
            "parameters": parameters,
            "blueprint": blueprint,
            "revision": revision,
            "instance": instance,
            "namespace": namespace,
            "previous": previous,
        }
        failing = _key([spec, parameters, previous])
        request = _Request({"op": "render", "arguments": arguments}, namespace, failing)
        answer = await self._ask_once(request, self._renderings, keep=_KEPT_RENDERINGS)
        return blueprints.read_rendering(answer)

    async def find(self, pattern: str, text: str, *, ignore_case: bool, namespace: str) -> bool:
        """Look for a user's regular expression in a text.

        Raises:
            RenderingFailed: It took too long.
            RenderingPending: It takes longer than the patience.
            RendererUnavailable: No worker could be reached for a while.
            ValueError: It is no regular expression.
        """
        body = {"op": "find", "pattern": pattern, "text": text, "ignore_case": ignore_case}
        request = _Request(body, namespace, failing=_key(body))
        answer = await self._ask_once(request, self._matches, keep=_KEPT_MATCHES)
        if "problem" in answer:
            raise ValueError(answer["problem"])
        return bool(answer["found"])

    async def _ask_once(
        self, request: _Request, known: OrderedDict[bytes, Answer], *, keep: int
    ) -> Answer:
        """Ask, unless the answer to the very same request is known, pending, or put off."""
        line = json.encode(request.body)
        key = _hash(line)
        if key in known:
            known.move_to_end(key)
            return known[key]
        self._failures.raise_if_paused(request.failing)
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(request, line))
            self._pending[key] = task
            task.add_done_callback(functools.partial(self._keep, key, known, keep))
        await asyncio.wait({task}, timeout=self._patience_s)
        if not task.done():
            raise errors.RenderingPending(task)
        outcome = task.result()
        if isinstance(outcome, errors.OperatorError):
            raise outcome
        return outcome

    async def _ask(
        self,
        request: _Request,
        line: bytes,
    ) -> Answer | errors.OperatorError:
        """Have a request answered; a failure is given, for who asked may have left."""
        operation, began_s = request.body["op"], time.perf_counter()
        try:
            answer = await self._pool.ask(line, namespace=request.namespace)
        except RenderingFailed as exc:
            self._count(operation, exc.cap, time.perf_counter() - began_s)
            failed = errors.RenderingFailed(str(exc), cap=exc.cap)
            return self._failures.note(request.failing, failed)
        except RendererUnavailable as exc:
            self._count(operation, "unavailable", time.perf_counter() - began_s)
            return errors.RendererUnavailable(str(exc))
        self._count(operation, "ok", time.perf_counter() - began_s)
        self._failures.clear(request.failing)
        return answer

    def _keep(
        self,
        key: bytes,
        known: OrderedDict[bytes, Answer],
        keep: int,
        task: asyncio.Task[Answer | errors.OperatorError],
    ) -> None:
        """Keep an answer, whether or not a pass still waits for it."""
        self._pending.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        outcome = task.result()
        if not isinstance(outcome, errors.OperatorError):
            known[key] = outcome
            if len(known) > keep:
                known.popitem(last=False)


def _key(value: Any) -> bytes:
    return _hash(json.encode(value))


def _hash(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
