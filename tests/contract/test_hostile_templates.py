"""Templates and patterns that mean harm, in the operator's real render worker: none escapes, none
hangs, none grows, and each error names the leaf or the parameter.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kais import blueprint_rendering
from kais.blueprint_rendering import Rendered, Violations
from kais_operator import errors
from kais_operator.rendering.renderer import WorkerRenderer
from kais_rendering.worker_pool import RenderPool
from tests.fakes import hostile_templates
from tests.fakes.time_bombs import TIME_BOMBS

NAMES: dict[str, Any] = {"blueprint": "b", "revision": 1, "instance": "i", "namespace": "n"}
LIMIT_S = 0.5  # so that what only the clock ends does not hold up the suite
MEMORY_MIB = 256
LIMIT_OF_A_RENDERING_S = inspect.signature(RenderPool).parameters["limit_s"].default
PATIENCE = 10
"""Limits are of processor time; so many times as much may go by on the clock."""
ENDLESS_S = 120
"""What takes so long on the clock has no end, on any machine."""


class _Memory:
    """The most that any render worker of this process ever had resident, in KiB."""

    def __init__(self) -> None:
        self.most_kib = 0

    async def watch(self) -> None:
        while True:
            for pid in _workers():
                self.most_kib = max(self.most_kib, _resident_kib(pid))
            await asyncio.sleep(0.01)


def _workers() -> list[str]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    listed = [pid for task in tasks for pid in _read(task / "children").split()]
    return [
        pid
        for pid in listed
        if "kais_rendering.worker_program" in _read(Path(f"/proc/{pid}/cmdline"))
    ]


def _resident_kib(pid: str) -> int:
    lines = _read(Path(f"/proc/{pid}/status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # it ended meanwhile


@pytest.fixture
async def renderer() -> AsyncIterator[WorkerRenderer]:
    renderer = WorkerRenderer(RenderPool(workers=1, limit_s=LIMIT_S, memory_mib=MEMORY_MIB))
    await renderer.compile(hostile_templates.spec("warm"), namespace="n")
    yield renderer
    await renderer.close()


async def compiled(renderer: WorkerRenderer, spec: dict[str, Any]) -> tuple[bool, str]:
    try:
        report = await renderer.compile(spec, namespace="n")
    except errors.RenderingFailed as exc:
        return False, str(exc)
    return report.is_good, report.message


async def rendered(renderer: WorkerRenderer, spec: dict[str, Any]) -> tuple[bool, str]:
    try:
        rendered = await renderer.render(spec, hostile_templates.VALUES, **NAMES)
    except errors.RenderingFailed as exc:
        return False, str(exc)
    return isinstance(rendered, Rendered), rendered.message if isinstance(
        rendered, Violations
    ) else ""


async def test_no_template_escapes_hangs_or_grows_and_each_error_names_its_leaf(
    renderer: WorkerRenderer,
) -> None:
    memory = _Memory()
    watching = asyncio.create_task(memory.watch())
    leaves = (
        *hostile_templates.ESCAPES,
        *hostile_templates.BOMBS,
        *hostile_templates.SLOW,
        *TIME_BOMBS,
    )
    for leaf in leaves:
        for ask in (compiled, rendered):
            started = time.monotonic()
            is_good, message = await ask(renderer, hostile_templates.spec(leaf))
            took_s = time.monotonic() - started
            displayed_message = f"{ask.__name__} {leaf[:80]!r}: {message[:200]}"
            assert not is_good, displayed_message
            assert hostile_templates.LEAF in message, displayed_message
            assert took_s < ENDLESS_S, displayed_message
    watching.cancel()
    assert len(leaves) >= 100
    assert 10_000 < memory.most_kib < (MEMORY_MIB + 64) * 1024, "bounded, and measured at all"


async def test_no_tree_hangs_or_grows_and_each_error_names_its_place(
    renderer: WorkerRenderer,
) -> None:
    for name, tree in hostile_templates.trees().items():
        spec = {"parameters": hostile_templates.PARAMETERS, "formation": tree}
        for ask in (compiled, rendered):
            is_good, message = await ask(renderer, spec)
            assert not is_good, name
            assert "formation" in message, f"{name}: {message[:200]}"


@pytest.mark.parametrize("name", hostile_templates.trees())
def test_the_sandbox_itself_refuses_each_tree_within_the_time_of_a_rendering(name: str) -> None:
    spec = {
        "parameters": hostile_templates.PARAMETERS,
        "formation": hostile_templates.trees()[name],
    }
    started = time.process_time()
    blueprint = blueprint_rendering.render_blueprint(spec, hostile_templates.VALUES, **NAMES)
    assert isinstance(blueprint, Violations)
    assert "formation" in blueprint.message
    assert time.process_time() - started < PATIENCE * LIMIT_OF_A_RENDERING_S


def parameter(pattern: str, text: str) -> dict[str, Any]:
    declared = {"name": "word", "type": "string", "pattern": pattern, "default": text}
    return {"parameters": [declared], "formation": {"cells": []}}


async def test_no_pattern_hangs_or_grows_and_each_error_names_its_parameter(
    renderer: WorkerRenderer,
) -> None:
    others = [*hostile_templates.BAD_PATTERNS, *hostile_templates.HUGE_PATTERNS]
    for pattern, text in [*hostile_templates.PATTERNS, *((p, "a" * 100) for p in others)]:
        started = time.monotonic()
        is_good, message = await compiled(renderer, parameter(pattern, text))
        assert not is_good, pattern
        assert "parameter 'word'" in message, f"{pattern[:40]}: {message[:200]}"
        assert time.monotonic() - started < ENDLESS_S, pattern


async def test_a_use_whose_value_makes_a_pattern_hang_is_stopped_too(
    renderer: WorkerRenderer,
) -> None:
    pattern, text = hostile_templates.PATTERNS[0]
    spec = parameter(pattern, "a")
    with pytest.raises(errors.RenderingFailed, match="at parameter 'word'"):
        await renderer.render(spec, {"word": text}, **NAMES)


async def test_with_the_limits_of_the_operator_the_answer_comes_in_time() -> None:
    renderer = WorkerRenderer(RenderPool(workers=1))
    await renderer.compile(hostile_templates.spec("warm"), namespace="n")
    started = time.monotonic()
    is_good, message = await compiled(renderer, parameter(*hostile_templates.PATTERNS[0]))
    await renderer.close()
    assert not is_good
    assert message == (
        "rendering took more than 2 s at parameter 'word': its pattern does not end on this value;"
        " make the pattern simpler"
    )
    assert time.monotonic() - started < ENDLESS_S


@pytest.mark.parametrize(("leaf", "gives"), hostile_templates.HARMLESS, ids=lambda text: text[:40])
def test_what_only_looks_like_an_attack_renders(leaf: str, gives: str) -> None:
    blueprint = blueprint_rendering.render_blueprint(
        hostile_templates.spec(leaf), hostile_templates.VALUES, **NAMES
    )
    assert isinstance(blueprint, Rendered), blueprint
    assert blueprint.formation_spec["cells"][0]["spec"]["container"]["args"] == [gives]


def test_a_secret_renders_as_a_reference_and_nothing_else() -> None:
    blueprint = blueprint_rendering.render_blueprint(
        hostile_templates.spec("{{ secret.name }}/{{ secret.key }}"),
        hostile_templates.VALUES,
        **NAMES,
    )
    assert isinstance(blueprint, Rendered)
    assert blueprint.formation_spec["cells"][0]["spec"]["container"]["args"] == ["login/password"]


@pytest.mark.parametrize(
    "leaf",
    [*hostile_templates.ESCAPES, *hostile_templates.BOMBS, *hostile_templates.SLOW, *TIME_BOMBS],
    ids=lambda text: text[:40],
)
def test_the_sandbox_itself_refuses_each_template_within_the_time_of_a_rendering(
    leaf: str,
) -> None:
    """Nothing is killed here: what the sandbox does not count runs to its end, and fails this."""
    started = time.process_time()
    report = blueprint_rendering.compile_blueprint(hostile_templates.spec(leaf))
    blueprint = blueprint_rendering.render_blueprint(
        hostile_templates.spec(leaf), hostile_templates.VALUES, **NAMES
    )
    assert not report.is_good
    assert isinstance(blueprint, Violations)
    assert hostile_templates.LEAF in report.message
    assert hostile_templates.LEAF in blueprint.message
    assert time.process_time() - started < PATIENCE * LIMIT_OF_A_RENDERING_S
