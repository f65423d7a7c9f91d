"""The Renderer port over processes that can be killed; see `render_pool`.

What a template compiles to depends on its spec alone, and what it renders to on what is given
besides, so the answers to the requests seen last are kept: an idle pass compiles and renders
nothing. A limit of time may have been the machine's fault and is not kept.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import json

from kais import blueprints
from kais_operator import errors
from kais_operator.adapters.render_pool import RenderPool
from kais_operator.adapters.render_process import Answer
from kais_operator.decide.plan import Body

_KEPT_REPORTS = 1000  # arbitrary, some KiB each at most and far more than Blueprints are edited
_KEPT_RENDERINGS = 200  # arbitrary: the uses that are being looked at, some KiB each


Count = Callable[[str, str], None]
"""Takes an operation (`compile`, `render`, `find`) and what came of it (`ok`, or a cap)."""


def _uncounted(_: str, __: str) -> None:
    """Count nothing."""


class WorkerRenderer:
    """Compiles and renders in at most `workers` processes; more requests queue.

    `count` hears of every request that went to a process.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        limit_s: float = 2.0,
        memory_mib: int = 256,
        count: Count = _uncounted,
    ) -> None:
        self._count = count
        self._pool = RenderPool(workers=workers, limit_s=limit_s, memory_mib=memory_mib)
        self._reports: OrderedDict[bytes, Answer] = OrderedDict()
        self._renderings: OrderedDict[bytes, Answer] = OrderedDict()

    async def start(self) -> None:
        """Start the workers, so that the first request finds them warm."""
        await self._pool.start()

    async def close(self) -> None:
        """End the workers; call it when nothing renders any more."""
        await self._pool.close()

    async def compile(self, spec: Body) -> blueprints.CompileReport:
        """Compile a Blueprint's spec.

        Raises:
            RenderingFailed: A cap was passed; the message names it and the leaf.
        """
        request = {"op": "compile", "spec": spec}
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

        Raises:
            RenderingFailed: A cap was passed; the message names it and the leaf.
        """
        arguments = {
            "spec": spec,
            "parameters": parameters,
            "blueprint": blueprint,
            "revision": revision,
            "instance": instance,
            "namespace": namespace,
            "previous": previous,
        }
        request = {"op": "render", "arguments": arguments}
        answer = await self._ask_once(request, self._renderings, keep=_KEPT_RENDERINGS)
        return blueprints.read_rendering(answer)

    async def find(self, pattern: str, text: str, *, ignore_case: bool) -> bool:
        """Look for a user's regular expression in a text.

        Raises:
            RenderingFailed: It took too long.
            ValueError: It is no regular expression.
        """
        request = {"op": "find", "pattern": pattern, "text": text, "ignore_case": ignore_case}
        answer = await self._ask("find", json.encode(request))
        if "problem" in answer:
            raise ValueError(answer["problem"])
        return bool(answer["found"])

    async def _ask_once(
        self, request: dict[str, Any], known: OrderedDict[bytes, Answer], *, keep: int
    ) -> Answer:
        """Ask, unless the answer to the very same request is known."""
        line = json.encode(request)
        key = hashlib.blake2b(line, digest_size=16).digest()
        if key in known:
            known.move_to_end(key)
            return known[key]
        known[key] = answer = await self._ask(request["op"], line)
        if len(known) > keep:
            known.popitem(last=False)
        return answer

    async def _ask(self, operation: str, line: bytes) -> Answer:
        try:
            answer = await self._pool.ask(line)
        except errors.RenderingFailed as exc:
            self._count(operation, exc.cap)
            raise
        self._count(operation, "ok")
        return answer
