"""Logs of containers, against a server that sends them as the API server does."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from kais_operator import errors
from kais_operator.kubernetes import pod_logs
from kais_operator.kubernetes.api_client import ApiClient
from kais_operator.kubernetes.pod_logs import LogReader
from kais_operator.kubernetes.stream_thread import StreamThread
from kais_operator.planning.container_results import Log
from kais_operator.planning.plan import ObjectRef

POD = ObjectRef("Pod", "demo", "solo-1")
MIB = 2**20
LINE = b"x" * 199 + b"\n"
Send = Callable[[web.StreamResponse], Awaitable[None]]


class Server:
    """An API server whose containers print what `send` sends."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.send: Send = self.nothing
        self.released = asyncio.Event()

    async def nothing(self, response: web.StreamResponse) -> None:
        await self.released.wait()

    def printing(self, *parts: bytes) -> None:
        async def send(response: web.StreamResponse) -> None:
            for part in parts:
                await response.write(part)

        self.send = send

    async def log(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.query["container"] == "gone":
            answer = {"kind": "Status", "message": 'container "gone" is not valid', "code": 400}
            return web.json_response(answer, status=400)
        if request.query["container"] == "secret":
            return web.json_response({"kind": "Status", "message": "no right"}, status=403)
        if request.query["container"] == "down":
            return web.json_response({"kind": "Status", "message": "later"}, status=503)
        response = web.StreamResponse()
        await response.prepare(request)
        await self.send(response)
        return response


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, LogReader]]:
    server = Server()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/log", server.log)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    configuration.host = f"http://{host}:{port}"
    link = ApiClient(configuration)
    side, twin = StreamThread("logs"), link.clone()
    yield server, LogReader(link, twin, side, timeout_s=5.0)
    server.released.set()
    await side.close(cleanup=twin.close())
    await link.close()
    await runner.cleanup()


async def taken(logs: LogReader, pod: ObjectRef = POD, container: str = "check-0") -> Log:
    for _ in range(2000):
        log = logs.pop_or_start(pod, container)
        if log is not None:
            return log
        await asyncio.sleep(0.01)
    raise AssertionError(f"the log of {pod} was not read")


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


async def test_the_last_line_of_five_thousand_is_there(server: tuple[Server, LogReader]) -> None:
    api, logs = server
    api.printing(LINE * 5000, b"verdict: good\n")
    log = await taken(logs)
    assert log.problem is None
    assert log.text.endswith("\nverdict: good\n")
    assert len(log.text) == 256 * 1024


async def test_no_limit_that_cuts_the_end_is_asked_for(server: tuple[Server, LogReader]) -> None:
    api, logs = server
    api.printing(b"fine \xff\n")
    assert await taken(logs) == Log("fine �\n")
    assert "limitBytes" not in api.requests[0].query
    assert int(api.requests[0].query["tailLines"]) >= pod_logs.TAIL_BYTES


async def test_a_character_that_the_cut_halves_is_left_out(
    server: tuple[Server, LogReader],
) -> None:
    api, logs = server
    api.printing("ü".encode() * 200_000, b"!")
    log = await taken(logs)
    assert "�" not in log.text
    assert log.text.endswith("üü!")


async def test_a_log_of_more_than_16_mib_is_a_problem_and_no_text(
    server: tuple[Server, LogReader],
) -> None:
    api, logs = server
    api.printing(*[b"x" * MIB] * 16)
    assert (await taken(logs)).problem is None
    api.printing(*[b"x" * MIB] * 17, b"verdict: good\n")
    assert await taken(logs) == Log(problem="its log is longer than 16 MiB; print less")


async def test_a_log_that_does_not_end_is_a_problem(server: tuple[Server, LogReader]) -> None:
    _, logs = server
    logs._timeout_s = 0.2  # the real one would take ten seconds
    assert await taken(logs) == Log(problem="its log was not read within 0.2 s")
    assert pod_logs.READ_TIMEOUT_S == 10


async def test_a_log_that_is_gone_is_a_problem_and_one_that_cannot_be_had_now_is_tried_again(
    server: tuple[Server, LogReader],
) -> None:
    api, logs = server
    deleted_problem = (await taken(logs, container="gone")).problem
    assert deleted_problem is not None
    assert deleted_problem.startswith("its output is gone with its pod: ")
    assert "is not valid" in deleted_problem
    for times in (1, 2):
        with pytest.raises(errors.ClusterUnavailable, match="later"):
            await taken(logs, container="down")
        assert len(api.requests) == 1 + times


async def test_a_log_that_may_not_be_read_is_a_problem_and_an_error_of_the_operator(
    server: tuple[Server, LogReader], caplog: pytest.LogCaptureFixture
) -> None:
    _, logs = server
    problem = (await taken(logs, container="secret")).problem
    assert problem is not None
    assert problem.startswith("its log may not be read: ")
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_a_log_is_read_once_and_forgotten_when_it_was_taken(
    server: tuple[Server, LogReader],
) -> None:
    api, logs = server
    api.printing(b"one")
    assert (await taken(logs)).text == "one"
    assert len(api.requests) == 1
    api.printing(b"two")
    assert (await taken(logs)).text == "two"


async def test_logs_that_hang_in_one_namespace_hold_up_no_other(
    server: tuple[Server, LogReader],
) -> None:
    api, logs = server
    for number in range(40):
        logs.pop_or_start(ObjectRef("Pod", "greedy", f"pod-{number}"), "check-0")
    await until(lambda: len(api.requests) == 2)
    api.printing(b"fine")
    assert (await taken(logs)).text == "fine"
    assert [request.match_info["namespace"] for request in api.requests] == [
        "greedy",
        "greedy",
        "demo",
    ], "the greedy namespace has its share and no more"


async def test_logs_that_nobody_takes_are_forgotten_from_the_namespace_with_most(
    server: tuple[Server, LogReader],
) -> None:
    api, logs = server
    api.printing(b"x")
    logs.pop_or_start(POD, "check-0")
    for number in range(150):
        logs.pop_or_start(ObjectRef("Pod", "greedy", f"pod-{number}"), "check-0")
        await until(lambda count=number + 2: len(api.requests) == count)
        await until(lambda: all(read.done() for read in logs._reads.values()))
    assert len(logs._reads) <= 65
    assert (await taken(logs)).text == "x"
    assert sum(r.match_info["namespace"] == "demo" for r in api.requests) == 1, "it was kept"


async def test_a_log_is_read_beside_the_loop(server: tuple[Server, LogReader]) -> None:
    api, logs = server
    api.printing(b"x")
    await taken(logs)
    assert "logs" in [thread.name for thread in threading.enumerate()]
    assert threading.current_thread().name != "logs"
