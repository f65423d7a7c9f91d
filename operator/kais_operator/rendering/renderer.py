"""The Renderer port over the workers of `kais_rendering`, which can be killed.

The result of a request depends on nothing but the request, so the latest results are cached: an
idle reconcile compiles and renders nothing. A request that exceeded a limit is tried again with
growing delays; see `render_failures`. A reconcile waits only a moment for a result: the request
continues, and later equal requests wait for the same result.
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

from kais import blueprint_rendering
from kais_operator import errors
from kais_operator.planning.plan import Body
from kais_operator.rendering.render_failures import RenderFailures
from kais_rendering.errors import RendererUnavailable, RenderingFailed
from kais_rendering.socket_server import Pool
from kais_rendering.worker_handle import Answer

_MAX_REPORTS = 1000  # arbitrary: some KiB each at most, far more than the Blueprints under edit
_MAX_RENDERINGS = 200  # arbitrary: the instances under reconcile, some KiB each
_MAX_MATCHES = 200  # arbitrary: the checks under evaluation
WAIT_S = 0.1
"""A reconcile waits this long for a result; most take some milliseconds."""


Count = Callable[[str, str, float], None]
"""Takes an operation (`compile`, `render`, `find`), its result (`ok`, a limit, or `unavailable`),
and its duration in seconds, including the wait for a process."""


def _uncounted(_: str, __: str, ___: float) -> None:
    """Count nothing."""


@dataclass(frozen=True)
class _Request:
    """A request of a namespace; failures are recorded by `failure_key`."""

    body: dict[str, Any]
    namespace: str
    failure_key: bytes


class WorkerRenderer:
    """Compiles and renders in the workers of `pool`, which queues requests by namespace.

    `count` is called for each request that went to a process. Callers wait at most `wait_s`.
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
        """Start the workers, so that the first request need not wait for that."""
        await self._pool.start()

    async def close(self) -> None:
        """Stop the workers and cancel pending requests."""
        for task in self._pending.values():
            task.cancel()
        await asyncio.gather(*self._pending.values(), return_exceptions=True)
        await self._pool.close()

    async def compile(self, spec: Body, *, namespace: str) -> blueprint_rendering.CompileReport:
        """Compile a Blueprint's spec.

        Raises:
            RenderingFailed: A limit was exceeded; the message names it and the leaf.
            RenderingPending: It takes longer than `wait_s`.
            RendererUnavailable: No worker could be reached for a while.
        """
        request = _Request({"op": "compile", "spec": spec}, namespace, failure_key=_key(spec))
        answer = await self._request_cached(request, self._reports, cache_size=_MAX_REPORTS)
        return blueprint_rendering.CompileReport.from_dict(answer)

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
    ) -> blueprint_rendering.Rendering:
        """Check parameters and render.

        A failure is recorded for all instances with these parameters. A failure to compile the spec
        applies to all instances.

        Raises:
            RenderingFailed: A limit was exceeded; the message names it and the leaf.
            RenderingPending: It takes longer than `wait_s`.
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
        return blueprint_rendering.read_rendering(answer)

    async def find(self, pattern: str, text: str, *, ignore_case: bool, namespace: str) -> bool:
        """Search a text for a user's regular expression.

        Raises:
            RenderingFailed: It took too long.
            RenderingPending: It takes longer than `wait_s`.
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
        """Send a request, unless its result is cached, pending or delayed by a failure."""
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
        """Send a request; return an error as a value, because the caller may have left."""
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
        """Cache a result, whether or not a reconcile still waits for it."""
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
