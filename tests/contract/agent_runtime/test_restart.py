"""A Service cell that was killed goes on with its tasks, or says that it cannot."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from a2a.client import Client
from a2a.types import CancelTaskRequest, GetTaskRequest, Task, TaskState
from a2a.utils.errors import InternalError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from kais import a2a, agent_results
from kais_cluster.host import ports
from tests.agent_attempts import PRICES, cell_spec
from tests.agent_services import (
    Running,
    ServiceWorld,
    answer,
    collect,
    message,
    metadata,
    request,
    serving,
)
from tests.fakes.tickets import ticket
from tests.model_server import serving as model_serving

WORK = a2a.message_id("run-1", 1, "work")
TASK = a2a.task_id(a2a.OPERATOR, WORK)
PATIENCE_S = 60
HANGING = """
rules:
  - name: list
    when: {turn: 1}
    reply: {tool_calls: [{name: list_files, arguments: {path: shared}}]}
  - name: hang
    when: {turn: 2, times: 1}
    reply: {text: 'word ', endless: true, chunk_delay_s: 0.01}
  - {name: answer, when: {turn: 2}, reply: {text: Nothing is there.}}
"""


async def verify(asked: Request) -> JSONResponse:
    """The verification of a knowledge service that knows one ticket."""
    sealed = (await asked.json())["ticket"]
    if sealed != "sealed":
        problem = {
            "type": "about:blank",
            "title": "ticket",
            "status": 401,
            "code": "ticket-invalid",
            "detail": "this service did not issue the ticket",
        }
        return JSONResponse(problem, 401, media_type="application/problem+json")
    verified = {
        "caller": "operator",
        "role": "operator",
        "run_id": "run-1",
        "attempt": 1,
        "arm": "on",
        "hops": [],
        "expires_at": "2099-01-01T00:00:00Z",
    }
    return JSONResponse(verified)


VERIFIER = Starlette(routes=[Route("/v1/peers:verify", verify, methods=["POST"])])


class Pod:
    """The folders of a Service pod, and the process in it."""

    def __init__(self, folder: Path, model_url: str, knowledge_url: str) -> None:
        self.folder = folder
        for name in ("workspace/shared", "workspace/private/critic-0"):
            (folder / name).mkdir(parents=True)
        (folder / "termination-log").touch()
        (folder / "token").write_text("token")
        (self.port,) = ports.free_ports(1)
        self.environment = {
            "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "",
            "OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false",
            "CELL_NAME": "critic-0",
            "CELL_NAMESPACE": "demo",
            "CELL_SPEC": json.dumps(
                {**cell_spec(mind={"baseUrl": f"{model_url}/v1"}), "mode": "Service"}
                | {"tools": [{"name": "list_files"}, {"name": "write_file"}]}
            ),
            "KAIS_A2A_PORT": str(self.port),
            "KAIS_AGENT_STATE": str(folder / "state"),
            "KAIS_WORKSPACE": str(folder / "workspace"),
            "KAIS_TERMINATION_FILE": str(folder / "termination-log"),
            "KAIS_PRICES": PRICES,
            "KNOWLEDGE_SERVICE_URL": knowledge_url,
            "KNOWLEDGE_TOKEN_FILE": str(folder / "token"),
        }
        self.url = f"http://127.0.0.1:{self.port}"

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the process during the block, until it serves its card."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "agent_runtime"],
                env=self.environment,
                cwd=Path(__file__).parents[3],
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_S)

    async def wait_until_serving(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the card answers."""
        async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient() as http:
            while True:
                assert process.poll() is None, (self.folder / "log").read_text()
                try:
                    response = await http.get(f"{self.url}{a2a.CARD_PATH}")
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
                    continue
                assert response.status_code == 200
                return


async def test_a_killed_cell_goes_on_with_its_task_and_answers_once(tmp_path: Path) -> None:
    with model_serving.running(HANGING) as models:
        async with serving(VERIFIER) as knowledge_url:
            pod = Pod(tmp_path, models.url, knowledge_url)
            with pod.process() as process:
                await pod.wait_until_serving(process)
                running = Running(pod.url, ServiceWorld(tmp_path / "unused", HANGING))
                async with running.client("sealed") as client:
                    sent = message("Look.", id=WORK, context="run-1")
                    stream = asyncio.create_task(collect(client.send_message(request(sent))))
                    await wait_for_calls(models, 2)
                    process.send_signal(signal.SIGKILL)
                    process.wait(PATIENCE_S)
                    assert await asyncio.gather(stream, return_exceptions=True)
            assert open_calls(tmp_path) == 1
            with pod.process() as process:
                await pod.wait_until_serving(process)
                async with running.client("sealed") as client:
                    repeated = await collect(client.send_message(request(sent)))
                    task = await client.get_task(GetTaskRequest(id=TASK))
                assert repeated
                process.terminate()
                assert process.wait(PATIENCE_S) in (0, -signal.SIGTERM)
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert answer(task) == "Nothing is there."
    assert [entry.rule for entry in models.calls] == ["list", "hang", "answer"]
    assert metadata(task)[a2a.USAGE_KEY]["toolCalls"] == 1
    assert float(metadata(task)[a2a.USAGE_KEY]["estimatedCost"]) > 0


async def wait_for_calls(models: model_serving.Running, count: int) -> None:
    """Wait until the model was called this often."""
    journal = models.server.journal
    assert await asyncio.to_thread(journal.wait_for_calls, count, PATIENCE_S)


def open_calls(folder: Path) -> int:
    """How many calls in the ledger have no known end."""
    with closing(sqlite3.connect(folder / "state/ledger.db")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM call WHERE state = 'open'").fetchone()
    return int(count)


WRITING = """
rules:
  - name: write
    when: {turn: 1}
    reply: {tool_calls: [{name: write_file, arguments: {path: shared/a, content: a}}]}
  - name: hang
    when: {turn: 2}
    reply: {text: 'word ', endless: true, chunk_delay_s: 0.01}
"""
SPEC = {**cell_spec(), "mode": "Service", "tools": [{"name": "write_file"}]}
ANSWER = "rules:\n  - {name: answer, reply: {text: Done.}}"


async def test_a_tool_that_may_have_run_is_not_repeated(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, WRITING, spec=SPEC)
    async with world.running() as running, running.client() as client:
        sent = message("Write.", id=WORK, context="run-1")
        stream = asyncio.create_task(collect(client.send_message(request(sent))))
        journal = world.models.journal
        assert await asyncio.to_thread(journal.wait_for_calls, 2, PATIENCE_S)
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
    forget_results(tmp_path)
    async with world.running() as running, running.client() as client:
        await collect(client.send_message(request(sent)))
        task = await client.get_task(GetTaskRequest(id=TASK))
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert metadata(task)[a2a.FAILURE_KEY] == {
        "class": "interrupted",
        "message": ("the agent runtime was stopped while write_file ran, and a repeat may do harm"),
    }
    assert len(world.calls) == 2


def forget_results(folder: Path) -> None:
    """Leave the state as a kill in the middle of the tool call leaves it."""
    with closing(sqlite3.connect(folder / "state/tasks.db")) as connection, connection:
        connection.execute("UPDATE tool_call SET result = NULL")
        connection.execute("DELETE FROM message WHERE position > 1")


async def test_a_cell_with_a_damaged_state_goes_on_and_promises_no_idempotency(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/tasks.db").write_bytes(b"no database" * 1000)
    for _ in range(2):
        async with (
            ServiceWorld(tmp_path, ANSWER).running() as running,
            running.http() as http,
        ):
            card = (await http.get(a2a.CARD_PATH)).json()
            uris = [entry["uri"] for entry in card["capabilities"]["extensions"]]
            assert uris == [a2a.HEARTBEAT_EXTENSION]
    assert (tmp_path / "state/tasks.db.damaged").exists()


async def test_a_task_whose_state_cannot_be_stored_fails_and_says_why(tmp_path: Path) -> None:
    long = "rules:\n  - {name: long, reply: {text: abcdefgh, repeat: 32768, chunk_size: 65536}}"
    async with ServiceWorld(tmp_path, long).running() as running, running.client() as client:
        assert running.state is not None
        [(pages,)] = running.state.execute("PRAGMA page_count", ())
        running.state.execute(f"PRAGMA max_page_count = {pages}", ())
        sent = message("x" * 4000, id=WORK, context="run-1")
        with pytest.raises(InternalError, match="database or disk is full"):
            await collect(client.send_message(request(sent)))
        running.state.execute(f"PRAGMA max_page_count = {int(str(pages)) + 12}", ())
        await collect(client.send_message(request(sent)))
        task = await client.get_task(GetTaskRequest(id=TASK))
    assert task.status.state == TaskState.TASK_STATE_FAILED
    failure = metadata(task)[a2a.FAILURE_KEY]
    assert failure["class"] == "interrupted"
    assert failure["message"].endswith("cannot be used: database or disk is full")
    assert float(metadata(task)[a2a.USAGE_KEY]["cost"]) > 0
    assert len(running.world.calls) == 1


ENDLESS = "rules:\n  - {name: endless, reply: {text: 'word ', endless: true, chunk_delay_s: 0.01}}"


async def test_a_resumed_task_shows_its_usage_before_its_end(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, ENDLESS)
    sent = message("Look.", id=WORK, context="run-1")
    for calls in (1, 2):
        async with world.running() as running, running.client() as client:
            await anext(aiter(client.send_message(request(sent, returns=True))))
            journal = world.models.journal
            assert await asyncio.to_thread(journal.wait_for_calls, calls, PATIENCE_S)
            task = await client.get_task(GetTaskRequest(id=TASK))
    assert task.status.state == TaskState.TASK_STATE_WORKING
    assert float(metadata(task)[a2a.USAGE_KEY]["estimatedCost"]) > 0


STOPPED = """
rules:
  - name: hang
    when: {times: 1}
    reply: {text: 'word ', endless: true, chunk_delay_s: 0.01}
  - {name: answer, reply: {text: Nothing is there.}}
"""


@pytest.mark.parametrize("streaming", [True, False], ids=["by stream", "by its answer"])
async def test_a_stopped_cell_goes_on_with_a_task_whose_end_is_awaited(
    tmp_path: Path, *, streaming: bool
) -> None:
    world = ServiceWorld(tmp_path, STOPPED)
    sent = message("Look.", id=WORK, context="run-1")

    async def await_end(running: Running) -> None:
        async with running.client(streaming=streaming) as client:
            await collect(client.send_message(request(sent)))

    async with world.running() as running:
        awaiting = asyncio.create_task(await_end(running))
        journal = world.models.journal
        assert await asyncio.to_thread(journal.wait_for_calls, 1, PATIENCE_S)
    await asyncio.gather(awaiting, return_exceptions=True)
    async with world.running() as running, running.client() as client:
        await collect(client.send_message(request(sent)))
        task = await client.get_task(GetTaskRequest(id=TASK))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert answer(task) == "Nothing is there."


async def test_a_damaged_task_fails_and_the_others_go_on(tmp_path: Path) -> None:
    world = ServiceWorld(tmp_path, ENDLESS)
    person = ticket(role="person", name="jane", run_id=None, attempt=None)
    sent = message("Look.", id=WORK, context="run-1")
    async with world.running() as running:
        for text in (None, person):
            async with running.client(text) as client:
                await anext(aiter(client.send_message(request(sent, returns=True))))
        journal = world.models.journal
        assert await asyncio.to_thread(journal.wait_for_calls, 2, PATIENCE_S)
    with closing(sqlite3.connect(tmp_path / "state/tasks.db")) as connection, connection:
        connection.execute("UPDATE task SET body = x'ff' WHERE id = ?", (TASK,))
    async with world.running() as running:
        async with running.client() as client:
            damaged = await client.get_task(GetTaskRequest(id=TASK))
        async with running.client(person) as client:
            other = await client.get_task(GetTaskRequest(id=a2a.task_id("person/jane", WORK)))
    assert damaged.status.state == TaskState.TASK_STATE_FAILED
    failure = metadata(damaged)[a2a.FAILURE_KEY]
    assert failure["message"].startswith("the agent runtime cannot go on with the task after its")
    assert float(metadata(damaged)[a2a.USAGE_KEY]["cost"]) > 0
    assert other.status.state == TaskState.TASK_STATE_WORKING


APPLES, PEARS = "m1", "m2"
FRUIT = """
rules:
  - name: hang
    when: {contains: [How many apples], lacks: [How many pears], times: 1}
    reply: {text: 'word ', endless: true, chunk_delay_s: 0.01}
  - {name: pears, when: {contains: [How many pears]}, reply: {text: Seven pears.}}
  - {name: apples, reply: {text: Three apples.}}
"""
FULL = """
CREATE TRIGGER full BEFORE INSERT ON message WHEN NEW.position = 2
BEGIN SELECT RAISE(ABORT, 'disk is full'); END
"""
QUESTIONS = {APPLES: "How many apples?", PEARS: "How many pears?"}


async def send(client: Client, id: str) -> None:  # noqa: A002
    """Send a question of the run, and do not wait for its answer."""
    sent = message(QUESTIONS[id], id=id, context="run-1")
    await anext(aiter(client.send_message(request(sent, returns=True))))


async def ends(client: Client) -> dict[str, Task]:
    """Wait until both questions have an end."""
    tasks = {}
    for id, text in QUESTIONS.items():  # noqa: A001
        sent = message(text, id=id, context="run-1")
        await collect(client.send_message(request(sent)))
        tasks[id] = await client.get_task(GetTaskRequest(id=a2a.task_id(a2a.OPERATOR, id)))
    return tasks


async def stop_with_both_open(world: ServiceWorld) -> None:
    """Stop a cell that works on the first question; the second was sent, and waits."""
    async with world.running() as running, running.client() as client:
        await send(client, APPLES)
        journal = world.models.journal
        assert await asyncio.to_thread(journal.wait_for_calls, 1, PATIENCE_S)
        await send(client, PEARS)
    beaten = "UPDATE task SET updated_ns = updated_ns + 3600000000000 WHERE start = 0"
    change(world, beaten)  # as the heartbeat of the task at work does


def change(world: ServiceWorld, statement: str) -> None:
    """Change the state of a stopped cell."""
    with closing(sqlite3.connect(world.folder / "state/tasks.db")) as connection, connection:
        connection.execute(statement)


async def test_tasks_of_one_conversation_go_on_in_the_order_of_their_messages(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path, FRUIT)
    await stop_with_both_open(world)
    async with world.running() as running, running.client() as client:
        tasks = await ends(client)
    assert answer(tasks[APPLES]) == "Three apples."
    assert answer(tasks[PEARS]) == "Seven pears."
    assert [entry.rule for entry in world.calls] == ["hang", "apples", "pears"]


async def test_a_task_that_another_one_has_overtaken_fails_and_takes_no_answer_of_it(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path, FRUIT)
    await stop_with_both_open(world)
    change(world, "UPDATE task SET rowid = 0 WHERE start IS NULL")
    async with world.running() as running, running.client() as client:
        tasks = await ends(client)
    assert answer(tasks[PEARS]) == "Seven pears."
    assert tasks[APPLES].status.state == TaskState.TASK_STATE_FAILED
    failure = metadata(tasks[APPLES])[a2a.FAILURE_KEY]
    assert failure["class"] == "interrupted"
    assert failure["message"].endswith("send the message again under a new id")


async def test_a_task_whose_answer_was_stored_and_not_published_ends_with_it(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path, FRUIT.replace("times: 1", "times: 0"))
    async with world.running() as running, running.client() as client:
        await send(client, APPLES)
        await send(client, PEARS)
        await ends(client)
    reopen_tasks(world, APPLES, PEARS)
    async with world.running() as running, running.client() as client:
        tasks = await ends(client)
    assert answer(tasks[APPLES]) == "Three apples."
    assert answer(tasks[PEARS]) == "Seven pears."
    assert len(world.calls) == 2


async def test_a_task_that_was_killed_between_its_first_messages_still_asks_the_model(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path, FRUIT)
    async with world.running() as running, running.client() as client:
        await send(client, APPLES)
        journal = world.models.journal
        assert await asyncio.to_thread(journal.wait_for_calls, 1, PATIENCE_S)
        change(world, FULL)  # the end of the first task is stored, the second message is not
        apples = a2a.task_id(a2a.OPERATOR, APPLES)
        await client.cancel_task(CancelTaskRequest(id=apples))
        await send(client, PEARS)
        await ends(client)
    change(world, "DROP TRIGGER full")
    reopen_tasks(world, PEARS)
    async with world.running() as running, running.client() as client:
        tasks = await ends(client)
    assert tasks[APPLES].status.state == TaskState.TASK_STATE_CANCELED
    assert answer(tasks[PEARS]) == "Seven pears."


REVIEW = """
rules:
  - {name: opinion, when: {lacks: [no verdict]}, reply: {text: I like it.}}
  - name: verdict
    reply: {text: '{"verdict": "approve", "reasons": "It is right."}'}
"""


async def test_a_review_that_was_killed_after_an_answer_without_verdict_is_asked_for_one(
    tmp_path: Path,
) -> None:
    world = ServiceWorld(tmp_path, REVIEW)
    review = {"review": {"objective": "Find the port.", "criteria": "", "answer": "8443"}}
    sent = message("Review.", id=WORK, context="run-1", **{a2a.WORK_KEY: review})
    for _ in range(2):
        async with world.running() as running, running.client() as client:
            await collect(client.send_message(request(sent)))
            task = await client.get_task(GetTaskRequest(id=TASK))
            assert answer(task) == '{"verdict": "approve", "reasons": "It is right."}'
        change(world, "DELETE FROM message WHERE position > 1")  # the opinion is the last one
        reopen_tasks(world, WORK)
    assert [entry.rule for entry in world.calls] == ["opinion", "verdict", "verdict"]
    assert world.calls[2].request["messages"] == world.calls[1].request["messages"]


def reopen_tasks(world: ServiceWorld, *ids: str) -> None:
    """Leave the state as a kill before the ends of the tasks were stored leaves it."""
    with closing(sqlite3.connect(world.folder / "state/tasks.db")) as connection, connection:
        for id in ids:  # noqa: A001
            name = (a2a.task_id(a2a.OPERATOR, id),)
            [(body,)] = connection.execute("SELECT body FROM task WHERE id = ?", name)
            task = Task.FromString(body)
            task.ClearField("artifacts")
            task.status.state = TaskState.TASK_STATE_WORKING
            task.status.ClearField("message")
            row = (task.SerializeToString(), *name)
            connection.execute("UPDATE task SET is_final = 0, body = ? WHERE id = ?", row)


def test_a_cell_whose_port_is_in_use_exits_with_status_1_and_says_so(tmp_path: Path) -> None:
    pod = Pod(tmp_path, "http://model.example", "http://knowledge.example")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pod.environment["KAIS_A2A_PORT"] = str(listener.getsockname()[1])
        with pod.process() as process:
            assert process.wait(PATIENCE_S) == 1
    result = agent_results.parse((tmp_path / "termination-log").read_text())
    assert result is not None
    assert result.failure is not None
    assert result.failure.message == (
        "cell critic-0 could not start its server; the log of its container says why"
    )
