"""Renders per second of the example Blueprints: in process, by workers, by a renderer's workers."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.figures import table
from kais import blueprint_rendering
from kais_operator.rendering import renderer
from kais_rendering.socket_client import RenderClient
from kais_rendering.worker_pool import RenderPool

ROUNDS = 500
EXAMPLES = ("namespace-doctor", "code-review-team")
FOLDER = Path(__file__).parent.parent / "examples"


@contextlib.contextmanager
def serving() -> Iterator[Path]:
    """A renderer as in the operator's pod: a process of its own behind a Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "renderer.sock"
        command = [sys.executable, "-P", "-m", "kais_rendering", "serve", "--socket", str(socket)]
        with subprocess.Popen(command) as process:
            yield socket
            process.terminate()


async def measure_workers(
    spec: dict[str, Any], parameters: dict[str, Any], *, callers: int, socket: Path | None = None
) -> float:
    """Renders per second through the operator's port; each is of another instance."""
    pool = RenderClient(socket, grace_s=60) if socket else RenderPool()
    workers = renderer.WorkerRenderer(pool)

    async def render_one(instance: str) -> None:
        await workers.render(
            spec, parameters, blueprint="b", revision=1, namespace="n", instance=instance
        )

    async def render_many(caller: int) -> None:
        for number in range(ROUNDS // callers):
            await render_one(f"i-{caller}-{number}")

    try:
        await asyncio.gather(*(render_one(f"w{n}") for n in "ab"))
        start = time.perf_counter()
        await asyncio.gather(*(render_many(caller) for caller in range(callers)))
        return ROUNDS / (time.perf_counter() - start)
    finally:
        await workers.close()


def measure_in_process(spec: dict[str, Any], parameters: dict[str, Any]) -> float:
    """Renders per second without the workers."""

    def render_once() -> None:
        blueprint_rendering.render_blueprint(
            spec, parameters, blueprint="b", revision=1, instance="i", namespace="n"
        )

    render_once()
    start = time.perf_counter()
    for _ in range(ROUNDS):
        render_once()
    return ROUNDS / (time.perf_counter() - start)


def load_example(example: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Blueprint's spec, and what its required parameters have as examples."""
    documents = yaml.safe_load_all((FOLDER / example / "blueprint.yaml").read_text())
    spec = next(d["spec"] for d in documents if d and d["kind"] == "Blueprint")
    parameters = {
        p["name"]: p.get("example", "x") for p in spec["parameters"] if "default" not in p
    }
    return spec, parameters


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    rows = []
    for example in EXAMPLES:
        spec, parameters = load_example(example)
        sequential = asyncio.run(measure_workers(spec, parameters, callers=1))
        concurrent = asyncio.run(measure_workers(spec, parameters, callers=8))
        with serving() as socket:
            renderer_rates = [
                asyncio.run(measure_workers(spec, parameters, callers=callers, socket=socket))
                for callers in (1, 8)
            ]
        rows.append(
            [
                example,
                *(
                    f"{rate:,.0f}"
                    for rate in (
                        measure_in_process(spec, parameters),
                        sequential,
                        concurrent,
                        *renderer_rates,
                    )
                ),
            ]
        )
    head = (
        *("blueprint", "in process", "by workers, one after the other", "eight callers"),
        *("by a renderer's workers, one after the other", "eight callers"),
    )
    return "## Renders per second, templates warm\n\n" + table(head, rows)
