"""The Renderer port over processes that can be killed; see `render_pool`.

What a template compiles to depends on its spec alone, so the reports of the specs seen last are
kept: an idle pass compiles nothing. A limit of time may have been the machine's fault and is not
kept.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from kais import blueprints, names
from kais_operator.adapters.render_pool import Answer, RenderPool
from kais_operator.decide.plan import Body

_KEPT = 1000  # reports; arbitrary, some KiB each at most and far more than Blueprints are edited


class WorkerRenderer:
    """Compiles and renders in at most `workers` processes; more requests queue."""

    def __init__(self, *, workers: int = 2, limit_s: float = 2.0, memory_mib: int = 256) -> None:
        self._pool = RenderPool(workers=workers, limit_s=limit_s, memory_mib=memory_mib)
        self._reports: OrderedDict[str, blueprints.CompileReport] = OrderedDict()

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
        key = names.spec_hash(spec)
        if key in self._reports:
            self._reports.move_to_end(key)
            return self._reports[key]
        report = blueprints.CompileReport.from_dict(
            await self._ask({"op": "compile", "spec": spec})
        )
        self._reports[key] = report
        if len(self._reports) > _KEPT:
            self._reports.popitem(last=False)
        return report

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
        answer = await self._ask({"op": "render", "arguments": arguments})
        return blueprints.read_rendering(answer)

    async def find(self, pattern: str, text: str, *, ignore_case: bool) -> bool:
        """Look for a user's regular expression in a text.

        Raises:
            RenderingFailed: It took too long.
            ValueError: It is no regular expression.
        """
        request = {"op": "find", "pattern": pattern, "text": text, "ignore_case": ignore_case}
        answer = await self._ask(request)
        if "problem" in answer:
            raise ValueError(answer["problem"])
        return bool(answer["found"])

    async def _ask(self, request: dict[str, Any]) -> Answer:
        return await self._pool.ask(json.dumps(request, separators=(",", ":")).encode())
