"""The suite that every implementation of the Renderer port passes.

A subclass gives the fixture `renderer`.
"""

from __future__ import annotations

from typing import Any

from kais.blueprint_rendering import Rendered, Violations
from kais.conditions import Reason
from kais_operator.ports import Renderer
from tests.fakes import blueprints

NAMES: dict[str, Any] = {
    "blueprint": "team",
    "revision": 3,
    "instance": "use",
    "namespace": "demo",
}


class RendererContract:
    async def test_a_good_template_compiles(self, renderer: Renderer) -> None:
        report = await renderer.compile(blueprints.blueprint()["spec"], namespace="n")
        assert (report.is_good, report.reason) == (True, Reason.COMPILED)

    async def test_an_undeclared_name_is_an_error_with_its_leaf_and_place(
        self, renderer: Renderer
    ) -> None:
        spec = blueprints.blueprint(mission={"objective": "explain {{ subject }}"})["spec"]
        report = await renderer.compile(spec, namespace="n")
        assert (report.is_good, report.reason) == (False, Reason.TEMPLATE_ERROR)
        assert "mission.objective, line 1, column" in report.message
        assert "'subject' is not declared" in report.message

    async def test_rendering_keeps_types_and_names_the_formation(self, renderer: Renderer) -> None:
        spec = blueprints.blueprint()["spec"]
        created = await renderer.render(spec, {"topic": "007", "count": 2}, **NAMES)
        assert isinstance(created, Rendered)
        assert created.formation_spec["cells"][0]["replicas"] == 2
        assert created.mission_spec["objective"] == "explain 007"
        assert created.mission_spec["formationRef"] == "use"
        assert created.values == {"topic": "007", "count": 2}

    async def test_all_violations_come_at_once(self, renderer: Renderer) -> None:
        spec = blueprints.blueprint()["spec"]
        rendered = await renderer.render(spec, {"count": "9", "colour": "red"}, **NAMES)
        assert isinstance(rendered, Violations)
        assert rendered.reason is Reason.PARAMETERS_INVALID
        assert len(rendered.violations) == 3
        assert "colour" in rendered.message
        assert "topic" in rendered.message
        assert "count" in rendered.message

    async def test_a_name_that_is_no_dns_label_is_refused_with_its_path(
        self, renderer: Renderer
    ) -> None:
        cells = [{"name": "{{ topic }}", "spec": {"mode": "Task", "container": {"image": "x"}}}]
        spec = blueprints.blueprint(formation={"cells": cells}, mission=None)["spec"]
        made = await renderer.render(spec, {"topic": "No Label"}, **NAMES)
        assert isinstance(made, Violations)
        assert made.reason is Reason.RENDER_FAILED
        assert "formation.cells[0].name" in made.message
