"""A run that has ended is one span, the parent of the spans of its minds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kais import trace_context
from kais_operator import settings
from kais_operator.apply import run_spans
from kais_operator.apply.run_spans import RunSpans
from tests.fakes import teams
from tests.fakes.teams import MISSION
from tests.fakes.world import FakeWorld
from tests.otlp_receiver import Receiver, attributes, receiving

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_ERROR = 2


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as opened:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.url)
        yield opened


@pytest.fixture
def spans(receiver: Receiver) -> Iterator[RunSpans]:
    opened = run_spans.start()
    try:
        yield opened
    finally:
        opened.close()


async def traced(spans: RunSpans, **metadata: object) -> FakeWorld:
    """A world that sends spans, with a mission whose first attempt has begun."""
    fake = await teams.ready_world(teams.work(metadata=metadata))
    fake.world = replace(fake.world, run_spans=spans)
    await teams.settle(fake)
    return fake


def run_id(fake: FakeWorld) -> str:
    return str(fake.cluster.read(MISSION)["metadata"]["annotations"]["kais.io/run-id"])


async def test_the_span_of_a_run_is_the_root_of_its_trace(
    receiver: Receiver, spans: RunSpans
) -> None:
    fake = await traced(spans)
    fake.clock.advance(30)
    teams.succeed(fake)
    await teams.settle(fake)
    spans.close()
    [span] = receiver.spans
    _, trace, identity, _ = trace_context.derive(run_id(fake)).split("-")
    assert (span.name, span.trace_id.hex(), span.span_id.hex()) == (
        *("mission doctor", trace, identity),
    )
    assert span.parent_span_id == b""
    assert attributes(span)["kais.outcome"] == "Succeeded"
    assert attributes(span)["kais.run.id"] == run_id(fake)
    assert span.status.code != _ERROR
    assert span.end_time_unix_nano >= span.start_time_unix_nano
    assert receiver.resources[0]["service.name"] == "kais-operator"
    assert b"explain the failing pods" not in b"".join(receiver.bodies)


async def test_a_run_in_the_trace_of_a_person_stands_below_its_span(
    receiver: Receiver, spans: RunSpans
) -> None:
    fake = await traced(spans, annotations={"kais.io/traceparent": TRACEPARENT})
    teams.succeed(fake)
    await teams.settle(fake)
    spans.close()
    [span] = receiver.spans
    _, trace, parent, _ = TRACEPARENT.split("-")
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (trace, parent)
    assert span.span_id.hex() == trace_context.derive(run_id(fake)).split("-")[2]


async def test_a_run_of_a_trace_that_is_not_sampled_is_not_sent(
    receiver: Receiver, spans: RunSpans
) -> None:
    fake = await traced(spans, annotations={"kais.io/traceparent": f"{TRACEPARENT[:-2]}00"})
    teams.succeed(fake)
    await teams.settle(fake)
    assert fake.knowledge.runs[run_id(fake)].outcome == "Succeeded"
    spans.close()
    assert receiver.spans == []


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
    variables = {"KUBECONFIG": "/k", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert settings.from_environment({**variables, **changes}).has_traces is is_on
