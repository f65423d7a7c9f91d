"""An operator whose renderer is a process of its own: it may come later, go, and come again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.processes import Cluster, Operator, Process, Start, wait_for

pytestmark = pytest.mark.cluster


def blueprint(name: str) -> dict[str, Any]:
    cell = {"name": "lead", "spec": {"mode": "Task", "container": {"image": "greeter:1"}}}
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Blueprint",
        "metadata": {"name": name},
        "spec": {
            "parameters": [{"name": "who", "type": "string", "default": name}],
            "formation": {"cells": [cell]},
            "mission": {"objective": "greet {{ who }}", "entrypoint": {"cell": "lead"}},
        },
    }


@contextmanager
def rendering(socket: Path) -> Iterator[Process]:
    serve = ["python", "-P", "-m", "kais_rendering", "serve", "--socket", str(socket)]
    renderer = Process(serve, {}, socket.with_suffix(".log"))
    try:
        yield renderer
    finally:
        renderer.kill()


def wait_ready_reason(cluster: Cluster, name: str, reason: str) -> None:
    wait_for(
        lambda: cluster.condition("blueprints", name, "Ready").get("reason") == reason,
        subject=f"Blueprint {name} has the reason {reason}",
    )


def wait_without_renderer(operator: Operator) -> None:
    wait_for(
        lambda: operator.leads() and "the renderer does not answer" in operator.ask("/readyz")[1],
        subject="an operator that leads and misses its renderer",
    )


def test_the_operator_starts_without_its_renderer_and_survives_its_restarts(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    socket = tmp_path / "renderer.sock"
    operator = start(renderer_socket=str(socket))
    wait_without_renderer(operator)
    cluster.apply(blueprint("early"))
    wait_ready_reason(cluster, "early", "RendererUnavailable")
    with rendering(socket) as renderer:
        operator.wait_ready()
        wait_ready_reason(cluster, "early", "Served")
        renderer.kill()
        wait_without_renderer(operator)
    cluster.apply(blueprint("late"))
    with rendering(socket):
        wait_ready_reason(cluster, "late", "Served")
        operator.wait_ready()
    assert operator.end() == 0
