"""Renders in the test's own process: nothing can be killed, so give it no hostile template."""

from __future__ import annotations

import re
from typing import Any

from kais import blueprint_rendering
from kais_operator import errors
from kais_operator.planning.plan import Body


class InProcessRenderer:
    """The Renderer port. `fails` makes the next calls fail as a worker would."""

    def __init__(self) -> None:
        self.compiled = 0
        self.fails: list[errors.OperatorError] = []

    async def compile(self, spec: Body, *, namespace: str) -> blueprint_rendering.CompileReport:
        del namespace
        self.compiled += 1
        self._maybe_fail()
        return blueprint_rendering.compile_blueprint(spec)

    async def render(
        self, spec: Body, parameters: Body, **names: Any
    ) -> blueprint_rendering.Rendering:
        self._maybe_fail()
        return blueprint_rendering.render_blueprint(spec, parameters, **names)

    async def find(self, pattern: str, text: str, *, ignore_case: bool, namespace: str) -> bool:
        del namespace
        self._maybe_fail()
        try:
            return re.search(pattern, text, re.IGNORECASE if ignore_case else 0) is not None
        except re.error as exc:
            raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc

    def _maybe_fail(self) -> None:
        if self.fails:
            raise self.fails.pop()
