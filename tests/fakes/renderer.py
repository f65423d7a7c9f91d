"""Renders in the test's own process: nothing can be killed, so give it no hostile template."""

from __future__ import annotations

from typing import Any

from kais import blueprints
from kais_operator import errors
from kais_operator.decide.plan import Body


class InProcessRenderer:
    """The Renderer port. `fails` makes the next calls fail as a worker would."""

    def __init__(self) -> None:
        self.compiled = 0
        self.fails: list[errors.RenderingFailed] = []

    async def compile(self, spec: Body) -> blueprints.CompileReport:
        self.compiled += 1
        self._maybe_fail()
        return blueprints.compile_blueprint(spec)

    async def render(self, spec: Body, parameters: Body, **names: Any) -> blueprints.Rendering:
        self._maybe_fail()
        return blueprints.render_blueprint(spec, parameters, **names)

    def _maybe_fail(self) -> None:
        if self.fails:
            raise self.fails.pop()
