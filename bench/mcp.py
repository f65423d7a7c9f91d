"""The cost of the Model Context Protocol: calls beside their routes, and memory of the service."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from bench.figures import milliseconds, table
from bench.served import Served
from bench.texts import Texts

_FACTS, _ROUNDS, _WARM_UP, _BATCH = 2_000, 500, 50, 200
_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_NAME = "Harbour"


def run() -> str:
    """Return the section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        _, without_mib = _measure(Path(folder) / "plain.db", has_mcp=False)
        rows, with_mib = _measure(Path(folder) / "mcp.db", has_mcp=True)
    return (
        "## Model Context Protocol\n\n"
        f"{_FACTS:,} facts, one caller, {_ROUNDS} calls of each kind.\n\n"
        + table(("operation", "by", "p50 ms", "p95 ms", "p99 ms", "processor ms a call"), rows)
        + f"\n\nMemory of the service after these calls: {without_mib:.0f} MiB without `/mcp` and"
        f" {with_mib:.0f} MiB with it."
    )


def _measure(db: Path, *, has_mcp: bool) -> tuple[list[tuple[object, ...]], float]:
    served = Served(db, *(["--mcp"] if has_mcp else []))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{served.port}", timeout=30) as http:
            fact = _fill(http)
            rows = list(_rows(served, http, fact, has_mcp=has_mcp))
        return rows, served.resident_mib()
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


def _rows(
    served: Served, http: httpx.Client, fact: str, *, has_mcp: bool
) -> Iterator[tuple[object, ...]]:
    question = {"query": Texts(2).question(), "limit": 10}
    names = {"names": [_NAME]}
    operations: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
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
    for name, (by_route, by_mcp) in operations.items():
        for by, call in (("route", by_route), *([("MCP", by_mcp)] if has_mcp else [])):
            samples, processor_s = _time(served, call)
            yield (name, by, *milliseconds(samples), f"{processor_s / _ROUNDS * 1000:.1f}")


def _time(served: Served, call: Callable[[], object]) -> tuple[list[float], float]:
    """Return the durations of calls, and the processor time that the service took for all."""
    for _ in range(_WARM_UP):
        call()
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
