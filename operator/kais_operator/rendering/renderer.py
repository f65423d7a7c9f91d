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

_MAX_REPORTS = 1000  # arbitrary, some KiB each at most and far more than Blueprints are edited
_MAX_RENDERINGS = 200  # arbitrary: the uses that are being looked at, some KiB each
_MAX_MATCHES = 200  # arbitrary: the checks that are being judged
WAIT_S = 0.1
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
    failure_key: bytes


class WorkerRenderer:
    """Compiles and renders in the workers of `pool`, which queues requests by namespace.

    `count` hears of every request that went to a process. Who asks waits at most `patience_s`.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        count: Count = _uncounted,
        wait_s: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._wait_s = wait_s
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
        request = _Request({"op": "compile", "spec": spec}, namespace, failure_key=_key(spec))
        answer = await self._request_cached(request, self._reports, cache_size=_MAX_REPORTS)
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
        failure_key = _key([spec, parameters, previous])
        request = _Request({"op": "render", "arguments": arguments}, namespace, failure_key)
        answer = await self._request_cached(request, self._renderings, cache_size=_MAX_RENDERINGS)
        return blueprints.read_rendering(answer)

    async def find(self, pattern: str, text: str, *, ignore_case: bool, namespace: str) -> bool:
        """Look for a user's regular expression in a text.

        Raises:
            RenderingFailed: It took too long.
            RenderingPending: It takes longer than the patience.
            RendererUnavailable: No worker could be reached for a while.
            ValueError: It is not a regular expression.
        """
        body = {"op": "find", "pattern": pattern, "text": text, "ignore_case": ignore_case}
        request = _Request(body, namespace, failure_key=_key(body))
        answer = await self._request_cached(request, self._matches, cache_size=_MAX_MATCHES)
        if "problem" in answer:
            raise ValueError(answer["problem"])
        return bool(answer["found"])

    async def _request_cached(
        self, request: _Request, cache: OrderedDict[bytes, Answer], *, cache_size: int
    ) -> Answer:
        """Ask, unless the answer to the very same request is known, pending, or put off."""
        line = json.encode(request.body)
        key = _hash(line)
        if key in cache:
            cache.move_to_end(key)
            return cache[key]
        self._failures.raise_if_paused(request.failure_key)
        task = self._pending.get(key)
        if task is None:
            task = asyncio.create_task(self._send(request, line))
            self._pending[key] = task
            task.add_done_callback(functools.partial(self._cache_answer, key, cache, cache_size))
        await asyncio.wait({task}, timeout=self._wait_s)
        if not task.done():
            raise errors.RenderingPending(task)
        outcome = task.result()
        if isinstance(outcome, errors.OperatorError):
            raise outcome
        return outcome

    async def _send(
        self,
        request: _Request,
        line: bytes,
    ) -> Answer | errors.OperatorError:
        """Have a request answered; a failure is given, for who asked may have left."""
        operation, started_s = request.body["op"], time.perf_counter()
        try:
            answer = await self._pool.ask(line, namespace=request.namespace)
        except RenderingFailed as exc:
            self._count(operation, exc.cap, time.perf_counter() - started_s)
            failed = errors.RenderingFailed(str(exc), cap=exc.cap)
            return self._failures.record(request.failure_key, failed)
        except RendererUnavailable as exc:
            self._count(operation, "unavailable", time.perf_counter() - started_s)
            return errors.RendererUnavailable(str(exc))
        self._count(operation, "ok", time.perf_counter() - started_s)
        self._failures.clear(request.failure_key)
        return answer

    def _cache_answer(
        self,
        key: bytes,
        cache: OrderedDict[bytes, Answer],
        cache_size: int,
        task: asyncio.Task[Answer | errors.OperatorError],
    ) -> None:
        """Keep an answer, whether or not a pass still waits for it."""
        self._pending.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        outcome = task.result()
        if not isinstance(outcome, errors.OperatorError):
            cache[key] = outcome
            if len(cache) > cache_size:
                cache.popitem(last=False)


def _key(value: Any) -> bytes:
    return _hash(json.encode(value))


def _hash(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
