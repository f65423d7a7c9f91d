"""The spans of the service: recalls, facts and extractions stand in the trace of their run."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kais import trace_context
from kais_operator import trace_scope
from kais_operator.knowledge import client as operator_client
from knowledge_client.models import EpisodesIn, ExtractionIn
from knowledge_service import settings
from tests.knowledge_builders import OTHER, TEAM, episode, run_in
from tests.knowledge_process import Served, serving
from tests.otlp_receiver import Receiver, attributes, receiving

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
_ERROR, _SERVER = 2, 2
FACT = {"scope": TEAM, "content": "the queue out-7 was full"}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as opened:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.url)
        yield opened


def stop(service: Served) -> None:
    """Let the service end as a pod does, so that it sends what is left."""
    service.process.terminate()
    service.process.wait(60)


async def wait_for(url: str) -> None:
    """Wait until the service is ready."""
    async with httpx.AsyncClient(base_url=url) as http, asyncio.timeout(60):
        while True:
            if (await http.get("/readyz")).is_success:
                return
            await asyncio.sleep(0.05)


async def wait_for_extraction(url: str, path: str = "/v1/extractions/r") -> None:
    """Wait until the facts of a run are extracted."""
    async with httpx.AsyncClient(base_url=url) as http, asyncio.timeout(60):
        while True:
            if (await http.get(path)).json()["state"] == "done":
                return
            await asyncio.sleep(0.05)


async def extract(url: str, traceparent: str | None) -> None:
    """Close a run and extract facts from it, as the operator does."""
    async with operator_client.connect(url, token_file=None) as knowledge:
        with trace_scope.of_run(traceparent):
            await knowledge.put_run("r", run_in())
            await knowledge.add_episodes(EpisodesIn(run_id="r", episodes=(episode(),)))
            await knowledge.put_run("r", run_in(outcome="Failed"))
            await knowledge.start_extraction(ExtractionIn(run_id="r"))
    await wait_for_extraction(url)


async def test_requests_of_a_run_and_its_extraction_are_spans_of_its_trace(
    tmp_path: Path, receiver: Receiver
) -> None:
    with serving(tmp_path / "k.db") as service:
        await wait_for(service.url)
        async with httpx.AsyncClient(base_url=service.url) as http:
            traced = {"traceparent": TRACEPARENT}
            assert (await http.post("/v1/facts", json=FACT, headers=traced)).status_code == 201
            question = {"query": "out-7"}
            assert (await http.post("/v1/recall", json=question, headers=traced)).is_success
            refused = await http.post("/v1/recall", json={"query": 7}, headers=traced)
            assert refused.status_code == 422
            assert (await http.post("/v1/recall", json=question)).is_success
            invalid = {"traceparent": "00-0-0-01"}
            assert (await http.post("/v1/recall", json=question, headers=invalid)).is_success
        await extract(service.url, TRACEPARENT)
        stop(service)
    spans = receiver.spans
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in spans} == {
        (TRACE, "b7ad6b7169203331")
    }
    assert [span.name for span in spans].count("POST /v1/recall") == 2
    assert {"POST /v1/facts", "PUT /v1/runs/{run_id}", "POST /v1/extractions"} <= {
        span.name for span in spans
    }
    [extraction] = receiver.named("extract facts")
    assert attributes(extraction)["kais.run.id"] == "r"
    assert attributes(extraction)["kais.extraction.state"] == "done"
    [stored] = receiver.named("POST /v1/facts")
    assert attributes(stored) == {
        "http.request.method": "POST",
        "http.route": "/v1/facts",
        "http.response.status_code": 201,
    }
    assert (stored.kind, stored.status.code) == (_SERVER, 0)
    assert stored.end_time_unix_nano > stored.start_time_unix_nano
    assert receiver.resources[0]["service.name"] == "kais-knowledge"
    assert b"out-7" not in b"".join(receiver.bodies), "content"


async def test_extraction_of_a_run_without_a_trace_is_in_the_one_of_its_id(
    tmp_path: Path, receiver: Receiver
) -> None:
    with serving(tmp_path / "k.db") as service:
        await wait_for(service.url)
        await extract(service.url, None)
        stop(service)
    [span] = receiver.spans
    _, trace, parent, _ = trace_context.derive("r").split("-")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace, parent)


async def test_run_of_another_namespace_with_the_same_id_has_a_trace_of_its_own(
    tmp_path: Path, receiver: Receiver
) -> None:
    other = run_in(namespace="other", scope=OTHER, outcome="Failed")
    with serving(tmp_path / "k.db") as service:
        await wait_for(service.url)
        async with operator_client.connect(service.url, token_file=None) as knowledge:
            with trace_scope.of_run(TRACEPARENT):
                await knowledge.put_run("r", run_in(outcome="Failed"))
            with trace_scope.of_run(TRACEPARENT.replace(TRACE, "1" * 32)):
                await knowledge.put_run("r", other)
            await knowledge.start_extraction(ExtractionIn(run_id="r", namespace="demo"))
        await wait_for_extraction(service.url, "/v1/extractions/r?namespace=demo")
        stop(service)
    [extraction] = receiver.named("extract facts")
    assert extraction.trace_id.hex() == TRACE


async def test_trace_that_is_not_sampled_is_not_sent(tmp_path: Path, receiver: Receiver) -> None:
    unsampled = {"traceparent": f"{TRACEPARENT[:-2]}00"}
    with serving(tmp_path / "k.db") as service:
        await wait_for(service.url)
        async with httpx.AsyncClient(base_url=service.url, headers=unsampled) as http:
            assert (await http.post("/v1/recall", json={"query": "x"})).is_success
        stop(service)
    assert receiver.spans == []


async def test_only_requests_of_authenticated_callers_are_spans(
    tmp_path: Path, receiver: Receiver
) -> None:
    tokens, token = tmp_path / "tokens.json", "correct-horse-battery-staple"
    caller = {"name": "lead", "type": "agent", "home": TEAM, "token": token}
    tokens.write_text(json.dumps({"principals": [caller]}))
    tokens.chmod(0o600)
    arguments = ("--auth", "token", "--token-file", str(tokens))
    with serving(tmp_path / "k.db", arguments=arguments) as service:
        await wait_for(service.url)
        traced = {"traceparent": TRACEPARENT}
        bearer = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=service.url, headers=traced) as http:
            question = {"query": "x"}
            assert (await http.post("/v1/recall", json=question)).status_code == 401
            assert (await http.get("/v1/nothing")).status_code == 404
            assert (await http.get("/healthz")).is_success
            assert (await http.post("/v1/recall", json=question, headers=bearer)).is_success
            assert (await http.get("/v1/nothing", headers=bearer)).status_code == 404
        stop(service)
    [span] = receiver.spans
    assert attributes(span)["http.response.status_code"] == 200


async def test_collector_that_hangs_hardly_delays_the_end_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        with serving(tmp_path / "k.db") as service:
            await wait_for(service.url)
            async with httpx.AsyncClient(
                base_url=service.url, headers={"traceparent": TRACEPARENT}
            ) as http:
                assert (await http.post("/v1/recall", json={"query": "x"})).is_success
            service.process.terminate()
            # The exporter of the SDK gives up after 10 s; the pod has 30 s.
            assert service.process.wait(8) == 0


@pytest.mark.parametrize(
    ("changes", "is_on"),
    [
        ({}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_only_an_endpoint_turns_traces_on(changes: dict[str, str], is_on: bool) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", **changes}
    parsed = settings.parse(["serve", "--auth", "none"], variables)
    assert isinstance(parsed, settings.Settings)
    assert parsed.has_traces is is_on
