"""A mind's work is one trace, from the run to the calls of its model, without any text."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientCallContext
from a2a.types import GetTaskRequest, TaskState

from agent_runtime import telemetry
from kais import a2a, trace_context
from tests.agent_attempts import PRICES, cell_spec
from tests.agent_services import ServiceWorld, collect, message, request
from tests.model_server import serving
from tests.otlp_receiver import Receiver, attributes, receiving

RULES = """
keys: [first-key-1]
rules:
  - name: look
    when: {turn: 1}
    reply: {tool_calls: [{name: read_file, arguments: {path: shared/secret-plan.md}}]}
  - name: answer
    reply: {text: "Two findings.", usage: {input: 100, output: 20}}
"""
ECHO = """
rules:
  - name: refused
    reply: {status: 400, body: '{"error": {"message": "no model for first-key-1"}}'}
"""
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TEXTS = ("Review the change.", "You review.", "Two findings.", "secret-plan", "first-key-1")
_PATIENCE_S = 120
_IMPORTED = "opentelemetry.sdk"


def run_attempt(folder: Path, model: str, **changes: str) -> tuple[int, str]:
    """Run `kais-agent` in mode Task; returns its exit status and its log."""
    for name in ("shared", "private/critic-0"):
        (folder / "workspace" / name).mkdir(parents=True, exist_ok=True)
    (folder / "apiKey").write_text("first-key-1\n")
    spec = cell_spec(mind={"baseUrl": f"{model}/v1"}, tools=[{"name": "read_file"}])
    variables = {
        "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "",
        "CELL_NAME": "critic-0",
        "CELL_NAMESPACE": "demo",
        "CELL_SPEC": json.dumps(spec),
        "KAIS_OBJECTIVE": "Review the change.",
        "KAIS_RUN_ID": "run-1",
        "KAIS_ATTEMPT": "2",
        "KAIS_AGENT_STATE": str(folder / "state"),
        "KAIS_WORKSPACE": str(folder / "workspace"),
        "KAIS_TERMINATION_FILE": str(folder / "termination-log"),
        "KAIS_MODEL_KEY_FILE": str(folder / "apiKey"),
        "KAIS_PRICES": PRICES,
        "TRACEPARENT": TRACEPARENT,
        **changes,
    }
    (folder / "termination-log").touch()
    ended = subprocess.run(
        [sys.executable, "-m", "agent_runtime"],
        env=variables,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened:
        yield opened


def parents(receiver: Receiver) -> dict[str, str]:
    """The name of each span's parent; one that was sent by nobody is its id."""
    names = {span.span_id: span.name for span in receiver.spans}
    return {
        span.name: names.get(span.parent_span_id, span.parent_span_id.hex())
        for span in receiver.spans
    }


def test_an_attempt_joins_the_trace_of_its_run(tmp_path: Path, receiver: Receiver) -> None:
    with serving.running(RULES) as model:
        status, log = run_attempt(tmp_path, model.url, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert status == 0, log
    assert {span.trace_id.hex() for span in receiver.spans} == {TRACEPARENT.split("-")[1]}
    assert parents(receiver) == {
        "attempt critic-0": TRACEPARENT.split("-")[2],
        "invoke_agent critic-0": "attempt critic-0",
        "chat house": "invoke_agent critic-0",
        "execute_tool read_file": "invoke_agent critic-0",
    }
    [attempt] = receiver.named("attempt")
    assert attributes(attempt) == {"kais.run.id": "run-1", "kais.attempt": 2}
    calls = sorted(receiver.named("chat"), key=lambda span: span.start_time_unix_nano)
    assert len(calls) == 2
    answered = attributes(calls[1])
    assert answered["gen_ai.operation.name"] == "chat"
    assert answered["gen_ai.request.model"] == "house"
    assert answered["gen_ai.usage.input_tokens"] == 100
    assert answered["gen_ai.usage.output_tokens"] == 20
    assert receiver.resources[0]["service.name"] == "kais-agent"
    assert receiver.resources[0]["kais.cell"] == "critic-0"


def test_spans_contain_no_text_of_the_work(tmp_path: Path, receiver: Receiver) -> None:
    with serving.running(RULES) as model:
        run_attempt(tmp_path, model.url, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    sent = b"".join(receiver.bodies)
    assert b"execute_tool read_file" in sent
    assert [text for text in TEXTS if text.encode() in sent] == []


def test_texts_are_sent_when_they_are_asked_for_but_not_the_key(
    tmp_path: Path, receiver: Receiver
) -> None:
    with serving.running(RULES.replace("Two findings.", "Two findings first-key-1.")) as model:
        run_attempt(
            tmp_path,
            model.url,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
        )
    sent = b"".join(receiver.bodies)
    assert b"Review the change." in sent
    assert b"Two findings [key]." in sent
    assert b"first-key-1" not in sent


def test_a_failed_call_shows_its_class_and_not_what_the_endpoint_wrote(
    tmp_path: Path, receiver: Receiver
) -> None:
    with serving.running(ECHO) as model:
        status, log = run_attempt(tmp_path, model.url, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert status == 1, log
    [attempt] = receiver.named("attempt")
    assert attributes(attempt)["error.type"] == "model-refused"
    sent = b"".join(receiver.bodies)
    assert b"first-key-1" not in sent
    assert b"no model for" not in sent


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "RECEIVER", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "RECEIVER", "OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=["unset", "disabled", "no-exporter"],
)
def test_without_an_endpoint_nothing_is_sent_and_the_sdk_is_not_imported(
    tmp_path: Path, receiver: Receiver, variables: dict[str, str]
) -> None:
    named = {name: value.replace("RECEIVER", receiver.url) for name, value in variables.items()}
    with serving.running(RULES) as model:
        status, log = run_attempt(tmp_path, model.url, PYTHONPROFILEIMPORTTIME="1", **named)
    assert status == 0, log
    assert receiver.bodies == []
    assert _IMPORTED not in log
    assert "opentelemetry.exporter" not in log


def test_an_endpoint_that_is_down_costs_no_answer(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with serving.running(RULES) as model:
            status, log = run_attempt(
                tmp_path,
                model.url,
                OTEL_EXPORTER_OTLP_ENDPOINT=url,
                PYTHONPROFILEIMPORTTIME="1",
            )
    assert status == 0, log
    assert _IMPORTED in log


class Recorded(httpx.AsyncBaseTransport):
    """Records the traces of requests, and answers none."""

    def __init__(self) -> None:
        self.traces: list[str | None] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.traces.append(request.headers.get("traceparent"))
        raise httpx.ConnectError("nobody is there", request=request)


async def test_a_message_joins_the_trace_of_its_header(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    world = ServiceWorld(
        tmp_path, "rules:\n  - {name: a, reply: {text: Done., usage: {input: 9, output: 1}}}"
    )
    world.traces = telemetry.start("critic-0", str, has_content=False)
    async with world.running() as running:
        sent = message("Review it.", id="m-1", context="run-1")
        await send(running, sent, TRACEPARENT)
    world.traces.close()
    assert {span.trace_id.hex() for span in receiver.spans} == {TRACEPARENT.split("-")[1]}
    assert parents(receiver)["attempt critic-0"] == TRACEPARENT.split("-")[2]
    assert b"Review it." not in b"".join(receiver.bodies)


async def send(running: Any, sent: Any, traceparent: str) -> None:
    """Send a message with a trace, and wait for its end."""
    context = ClientCallContext(service_parameters={trace_context.HEADER: traceparent})
    async with running.client() as client:
        await collect(client.send_message(request(sent), context=context))
        task = await client.get_task(GetTaskRequest(id=a2a.task_id(a2a.OPERATOR, sent.message_id)))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED


async def test_requests_carry_the_trace_without_an_endpoint_too() -> None:
    transport = Recorded()
    async with httpx.AsyncClient(transport=telemetry.TracedTransport(transport)) as http:
        with (
            telemetry.attempt(None, TRACEPARENT, run_id="run-1", attempt=1),
            pytest.raises(httpx.ConnectError),
        ):
            await http.get("http://knowledge/v1/recall")
        with pytest.raises(httpx.ConnectError):
            await http.get("http://knowledge/v1/recall")
    assert transport.traces == [TRACEPARENT, None]


async def test_requests_carry_the_span_in_which_they_are_sent(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    traces = telemetry.start("critic-0", str, has_content=False)
    transport = Recorded()
    async with httpx.AsyncClient(transport=telemetry.TracedTransport(transport)) as http:
        with (
            telemetry.attempt(traces, TRACEPARENT, run_id="run-1", attempt=1),
            pytest.raises(httpx.ConnectError),
        ):
            await http.get("http://knowledge/v1/recall")
    traces.close()
    [span] = receiver.named("attempt")
    assert transport.traces == [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"]
