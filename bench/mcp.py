"""The cost of the Model Context Protocol: calls beside their routes, and memory of the service."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.figures import milliseconds, table
from bench.served import Served
from bench.texts import Texts

Call = Callable[[], object]
_FACTS, _ROUNDS, _WARM_UP, _BATCH, _STARTS = 2_000, 500, 50, 200, 5
_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_NAME = "Harbour"


def run() -> str:
    """Return the section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        rows = _measure_calls(Path(folder) / "calls.db")
        without_mib, with_mib = _measure_memory(Path(folder))
    memory = [("without `/mcp`", *_spread(without_mib)), ("with `/mcp`", *_spread(with_mib))]
    return (
        "## Model Context Protocol\n\n"
        f"{_FACTS:,} facts, one caller, {_ROUNDS} calls of each kind.\n\n"
        + table(("operation", "by", "p50 ms", "p95 ms", "p99 ms", "processor ms a call"), rows)
        + f"\n\nMemory that the service does not share with other processes, over {_STARTS} starts"
        f" each, after {_WARM_UP} calls of each kind:\n\n"
        + table(("service", "median MiB", "least", "most"), memory)
    )


def _spread(samples: Sequence[float]) -> list[str]:
    return [f"{value:.0f}" for value in (statistics.median(samples), min(samples), max(samples))]


def _measure_calls(db: Path) -> list[tuple[object, ...]]:
    with _serving(db, has_mcp=True) as (served, http):
        return list(_rows(served, http, _fill(http)))


def _measure_memory(folder: Path) -> tuple[list[float], list[float]]:
    """Return the MiB without and with MCP; the starts alternate, so that both see the same."""
    samples: dict[bool, list[float]] = {False: [], True: []}
    for start in range(_STARTS):
        for has_mcp, mib in samples.items():
            db = folder / f"memory-{start}-{has_mcp}.db"
            with _serving(db, has_mcp=has_mcp) as (served, http):
                for by_route, by_mcp in _operations(http, _fill(http)).values():
                    for call in (by_route, by_mcp if has_mcp else by_route):
                        _repeat(call, _WARM_UP)
                mib.append(served.unique_mib())
    return samples[False], samples[True]


@contextmanager
def _serving(db: Path, *, has_mcp: bool) -> Iterator[tuple[Served, httpx.Client]]:
    served = Served(db, *(["--mcp"] if has_mcp else []))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{served.port}", timeout=30) as http:
            yield served, http
    finally:
        served.stop()


def _fill(http: httpx.Client) -> str:
    """Store facts and an entity; return the id of a fact."""
    texts = Texts(1)
    fact = ""
    for start in range(0, _FACTS, _BATCH):
        facts = [
            {"content": texts.fact(number), "scope": "realm:bench"}
            for number in range(start, start + _BATCH)
        ]
        results = _post(http, "/v1/facts:batch", {"facts": facts})["results"]
        fact = results[-1]["fact_id"]
    entity = {"name": _NAME, "entity_type": "place", "observations": ["It has two cranes."]}
    _post(http, "/v1/graph/entities", {"entities": [entity], "scope": "realm:bench"})
    return fact


def _rows(served: Served, http: httpx.Client, fact: str) -> Iterator[tuple[object, ...]]:
    for name, calls in _operations(http, fact).items():
        for by, call in zip(("route", "MCP"), calls, strict=True):
            samples, processor_s = _time(served, call)
            yield (name, by, *milliseconds(samples), f"{processor_s / _ROUNDS * 1000:.1f}")


def _operations(http: httpx.Client, fact: str) -> dict[str, tuple[Call, Call]]:
    """Return each operation by its route and by its tool."""
    question = {"query": Texts(2).question(), "limit": 10}
    names = {"names": [_NAME]}
    return {
        "why": (
            lambda: _get(http, f"/v1/facts/{fact}/why"),
            lambda: _call(http, "why", {"fact_id": fact}),
        ),
        "recall": (
            lambda: _post(http, "/v1/recall", question),
            lambda: _call(http, "recall", question),
        ),
        "open by names": (
            lambda: _post(http, "/v1/graph:open", names),
            lambda: _call(http, "open_nodes", names),
        ),
    }


def _repeat(call: Call, count: int) -> None:
    for _ in range(count):
        call()


def _time(served: Served, call: Call) -> tuple[list[float], float]:
    """Return the durations of calls, and the processor time that the service took for all."""
    _repeat(call, _WARM_UP)
    samples: list[float] = []
    processor_s = served.processor_s()
    for _ in range(_ROUNDS):
        started_at = time.perf_counter()
        call()
        samples.append(time.perf_counter() - started_at)
    return samples, served.processor_s() - processor_s


def _get(http: httpx.Client, path: str) -> Any:
    return http.get(path).raise_for_status().json()


def _post(http: httpx.Client, path: str, body: Mapping[str, Any]) -> Any:
    return http.post(path, json=body).raise_for_status().json()


def _call(http: httpx.Client, tool: str, arguments: Mapping[str, Any]) -> Any:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    response = http.post("/mcp/knowledge,graph", json=message, headers=_HEADERS)
    result = response.raise_for_status().json()["result"]
    if result.get("isError"):
        raise SystemExit(f"{tool} failed: {result['content'][0]['text']}")
    return result
