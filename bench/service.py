"""Remember and recall over HTTP, client included: one client and 32, at 10^4 and 10^5 facts."""

import asyncio
import contextlib
import random
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from bench.figures import milliseconds, table
from knowledge_client import AsyncKnowledgeClient, models

SIZES = (10_000, 100_000)
CLIENTS = (1, 32)
REQUESTS = 1_000
BATCH = 200
WORDS = [
    f"{a}{b}"
    for a in (
        "pod",
        "node",
        "image",
        "probe",
        "claim",
        "route",
        "token",
        "queue",
        "cache",
        "shard",
        "lease",
        "quota",
        "proxy",
        "index",
        "batch",
    )
    for b in (
        "start",
        "limit",
        "error",
        "delay",
        "owner",
        "retry",
        "split",
        "merge",
        "drain",
        "watch",
    )
]


def sentence(rng: random.Random, length: int) -> str:
    """A line of made-up words whose frequencies fall as in natural text."""
    return " ".join(WORDS[min(int(rng.expovariate(0.03)), len(WORDS) - 1)] for _ in range(length))


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[AsyncKnowledgeClient]:
    """A service of its own process and file, without authentication."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        command = [str(Path(sys.executable).with_name("kais-knowledge")), "serve"]
        command += ["--db", f"{folder}/k.db", "--port", str(port), "--auth", "none"]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with AsyncKnowledgeClient(url=f"http://127.0.0.1:{port}") as client:
                await ready(client)
                yield client
        finally:
            process.terminate()
            await process.wait()


async def ready(client: AsyncKnowledgeClient) -> None:
    """Wait up to 20 s for the service."""
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(Exception):  # it is only starting
            await client.ready()
            return
        if time.monotonic() > deadline:
            raise SystemExit("the service did not become ready within 20 s")
        await asyncio.sleep(0.1)


async def fill(client: AsyncKnowledgeClient, rng: random.Random, have: int, want: int) -> float:
    """Add facts up to `want`, in one scope; returns facts per second."""
    start = time.perf_counter()
    for first in range(have, want, BATCH):
        count = min(BATCH, want - first)
        facts = [models.FactIn(content=f"{sentence(rng, 18)} n{first + i}") for i in range(count)]
        await client.remember_batch(models.FactsIn(facts=tuple(facts)))
    return (want - have) / (time.perf_counter() - start)


async def timed(
    call: Callable[[int], Awaitable[object]], clients: int
) -> tuple[list[float], float]:
    """Run REQUESTS calls by so many clients at once: seconds each, and calls per second."""
    numbers = iter(range(REQUESTS))
    samples: list[float] = []

    async def one() -> None:
        for number in numbers:
            start = time.perf_counter()
            await call(number)
            samples.append(time.perf_counter() - start)

    begin = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    return samples, REQUESTS / (time.perf_counter() - begin)


async def measure() -> str:
    """The table of this bench."""
    rng = random.Random(7)  # noqa: S311 — made-up text, no secret
    rows: list[list[object]] = []
    async with served() as client:
        have = 0
        for size in SIZES:
            rate = await fill(client, rng, have, size)
            have = size
            rows.append([f"{size:,}", "batch import", 1, "", "", "", f"{rate:,.0f}"])
            for clients in CLIENTS:
                mark = f"{size}-{clients}"

                async def remember(number: int, mark: str = mark) -> object:
                    text = f"{sentence(rng, 18)} r{mark}-{number}"
                    return await client.remember(models.FactIn(content=text))

                async def recall(_number: int) -> object:
                    return await client.recall(models.RecallIn(query=sentence(rng, 8), limit=10))

                for name, call in (("remember", remember), ("recall", recall)):
                    samples, per_second = await timed(call, clients)
                    rows.append(
                        [f"{size:,}", name, clients, *milliseconds(samples), f"{per_second:,.0f}"]
                    )
    head = ("facts", "what", "clients", "p50 ms", "p95 ms", "p99 ms", "per second")
    return table(head, rows)


def run() -> str:
    """Measure and return the section of docs/benchmarks.md."""
    return "## Knowledge service over HTTP\n\n" + asyncio.run(measure())
