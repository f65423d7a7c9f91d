"""Renders per second of the example Blueprint, in process and through the killable worker."""

import asyncio
import time
from pathlib import Path

import yaml

from bench.figures import table
from kais import blueprints
from kais_operator.adapters import renderer

ROUNDS = 500
EXAMPLE = Path(__file__).parent.parent / "examples" / "namespace-doctor" / "blueprint.yaml"


async def through_the_worker(spec: dict[str, object]) -> float:
    """Renders per second, one after the other, through the operator's port."""
    worker = renderer.WorkerRenderer()
    try:
        names = {"blueprint": "b", "revision": 1, "instance": "i", "namespace": "n"}
        await worker.render(spec, {}, **names)
        start = time.perf_counter()
        for _ in range(ROUNDS):
            await worker.render(spec, {}, **names)
        return ROUNDS / (time.perf_counter() - start)
    finally:
        await worker.close()


def in_process(spec: dict[str, object]) -> float:
    """Renders per second without the worker."""
    start = time.perf_counter()
    for _ in range(ROUNDS):
        blueprints.render_blueprint(
            spec, {}, blueprint="b", revision=1, instance="i", namespace="n"
        )
    return ROUNDS / (time.perf_counter() - start)


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    documents = yaml.safe_load_all(EXAMPLE.read_text())
    spec = next(d["spec"] for d in documents if d and d["kind"] == "Blueprint")
    rows = [
        ["in process", f"{in_process(spec):,.0f}"],
        ["through the worker process", f"{asyncio.run(through_the_worker(spec)):,.0f}"],
    ]
    return "## Rendering `namespace-doctor`\n\n" + table(("how", "renders per second"), rows)
