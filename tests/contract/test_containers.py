"""Logs and commands of containers, against a server that speaks the kubelet's WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from kais_operator import errors
from kais_operator.clock import SystemClock
from kais_operator.kubernetes.api_client import ApiClient
from kais_operator.kubernetes.pod_exec import ApiContainers
from kais_operator.planning.container_results import Process
from kais_operator.planning.plan import ObjectRef, RunInContainer

POD = ObjectRef("Pod", "demo", "solo-1")
MISSION = ObjectRef("Mission", "demo", "solo")
Play = Callable[[web.WebSocketResponse], Awaitable[None]]
SUCCESS = {"metadata": {}, "status": "Success"}


def failure(code: int) -> dict[str, object]:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


class Server:
    """An API server that has one pod; `play` is what its containers do."""

    def __init__(self) -> None:
        self.play: Play = self.nothing
        self.asked: list[web.Request] = []
        self.leads = True
        self.closed = 0

    async def nothing(self, socket: web.WebSocketResponse) -> None:
        async for _ in socket:
            pass

    async def exec(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        try:
            await self.play(socket)
        finally:
            self.closed += 1
        await socket.close()
        return socket


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, ApiContainers]]:
    server = Server()
    app = web.Application()
    root = "/api/v1/namespaces/{namespace}/pods/solo-1"
    app.router.add_get(f"{root}/exec", server.exec)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    configuration.host = f"http://{host}:{port}"
    link = ApiClient(configuration)
    containers = ApiContainers(link, is_leader=lambda: server.leads, clock=SystemClock())
    yield server, containers
    await containers.close()
    await link.close()
    await runner.cleanup()


def command(key: str = "k", *argv: str, timeout_s: float = 20) -> RunInContainer:
    return RunInContainer(key, MISSION, POD, "cell", argv or ("true",), timeout_s)


async def ended(containers: ApiContainers, key: str = "k") -> tuple[Process, str]:
    for _ in range(500):
        process = containers.result_of(MISSION, key)
        if process and (process[0].ended_at or process[0].failure):
            return process
        await asyncio.sleep(0.01)
    raise AssertionError(f"not ended: {containers.result_of(MISSION, key)}")


def playing(*frames: tuple[int, bytes]) -> Play:
    async def play(socket: web.WebSocketResponse) -> None:
        for channel, data in frames:
            await socket.send_bytes(bytes([channel]) + data)

    return play


def status(fields: dict[str, object]) -> tuple[int, bytes]:
    return 3, json.dumps(fields).encode()


async def test_a_command_gives_its_exit_code_and_its_standard_output_alone(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    fake.play = playing((1, b"fi"), (2, b"warning\n"), (1, b"ne\n"), status(SUCCESS))
    containers.start_command(command("k", "sh", "-c", "a b $(X) & c"))
    process, text = await ended(containers)
    assert (process.exit_code, process.output_tail, text) == (0, "warning\n", "fine\n")
    assert process.began_at is not None
    assert fake.asked[0].query.getall("command") == ["sh", "-c", "a b $(X) & c"]
    assert fake.asked[0].query["container"] == "cell"


async def test_a_command_that_fails_gives_its_code_and_last_words(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    fake.play = playing((2, b"no route\n"), status(failure(4)))
    containers.start_command(command())
    process, _ = await ended(containers)
    assert (process.exit_code, process.output_tail, process.failure) == (4, "no route\n", None)


async def test_a_command_that_cannot_be_started_gives_the_runtimes_words(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    message = 'exec: "sh": executable file not found in $PATH'
    fake.play = playing(
        status({"status": "Failure", "reason": "InternalError", "message": message})
    )
    containers.start_command(command())
    process, _ = await ended(containers)
    assert (process.exit_code, process.failure) == (None, message)
    assert process.is_program_missing


async def test_a_command_that_hangs_is_given_up_on(server: tuple[Server, ApiContainers]) -> None:
    _, containers = server
    containers.start_command(command(timeout_s=0.2))
    process, _ = await ended(containers)
    assert process.failure == "it did not end within 0 s"


async def test_a_flood_is_given_up_on_and_not_kept(server: tuple[Server, ApiContainers]) -> None:
    fake, containers = server
    fake.play = playing(*[(1, b"x" * 2**20)] * 100)
    containers.start_command(command())
    process, text = await ended(containers)
    assert process.failure == "it printed more than 16 MiB and was stopped"
    assert text == ""


async def test_the_end_of_a_long_output_is_kept(server: tuple[Server, ApiContainers]) -> None:
    fake, containers = server
    fake.play = playing(*[(1, b"x" * 2**20)] * 2, (1, b"the end"), status(SUCCESS))
    containers.start_command(command())
    _, text = await ended(containers)
    assert text.endswith("the end")
    assert len(text) == 256 * 1024


async def test_a_connection_that_breaks_is_told(server: tuple[Server, ApiContainers]) -> None:
    fake, containers = server
    fake.play = playing((1, b"half"))
    containers.start_command(command())
    process, _ = await ended(containers)
    assert process.failure == "the connection ended before the command did"


async def test_a_pod_that_is_gone_is_told(server: tuple[Server, ApiContainers]) -> None:
    _, containers = server
    deleted_command = RunInContainer(
        "k", MISSION, ObjectRef("Pod", "demo", "gone"), "cell", ("true",), 5
    )
    containers.start_command(deleted_command)
    process, _ = await ended(containers)
    assert process.failure is not None
    assert "/pods/gone/exec" in process.failure


async def test_a_key_is_run_once(server: tuple[Server, ApiContainers]) -> None:
    fake, containers = server
    fake.play = playing(status(SUCCESS))
    for _ in range(3):
        containers.start_command(command())
    await ended(containers)
    containers.start_command(command())
    assert len(fake.asked) == 1


async def test_a_command_that_repeats_keeps_its_last_output_until_it_has_ended_again(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    repeating = replace(command(), repeats=True)
    fake.play = playing((1, b"one"), status(SUCCESS))
    containers.start_command(repeating)
    await ended(containers)
    fake.play = fake.nothing
    containers.start_command(repeating)
    await until(lambda: len(fake.asked) == 2)
    containers.start_command(repeating)
    running = containers.result_of(MISSION, "k")
    assert running is not None
    assert (running[0].ended_at, running[1]) == (None, "one")
    assert containers.is_running(MISSION)
    assert len(fake.asked) == 2, "one at a time"


async def test_command_that_repeats_has_its_last_good_output_while_it_fails(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    repeating = replace(command(), repeats=True)
    fake.play = playing((1, b"one"), status(SUCCESS))
    containers.start_command(repeating)
    await ended(containers)
    for frames, problem in (
        ([(1, b"two")], "the connection ended before the command did"),
        ([(1, b"two"), (2, b"no file"), status(failure(1))], "no file"),
    ):
        fake.play = playing(*frames)
        containers.start_command(repeating)
        process, text = await ended(containers)
        assert (process.problem, text) == (problem, "one")
    fake.play = fake.nothing
    containers.start_command(repeating)
    running = containers.result_of(MISSION, "k")
    assert running is not None
    assert (running[0].problem, running[1]) == ("no file", "one")


async def test_results_of_commands_that_repeat_are_kept_until_their_missions_end(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    fake.play = playing((1, b"[]"), status(SUCCESS))
    commands = [replace(at(f"team-{n % 20}", n), repeats=True) for n in range(140)]

    def results() -> list[tuple[Process, str] | None]:
        return [containers.result_of(command.mission, "k") for command in commands]

    for rounds in (1, 2):
        for each in commands:
            containers.start_command(each)
        await until(lambda: len(fake.asked) == 140 * rounds)  # noqa: B023 - awaited in the loop
        await until(lambda: all(found is None or found[0].ended_at for found in results()))
    assert None not in results()
    assert containers.is_running(commands[0].mission)
    containers.end_commands(commands[0].mission)
    assert containers.result_of(commands[0].mission, "k") is None
    assert not containers.is_running(commands[0].mission)


def at(namespace: str, number: int) -> RunInContainer:
    mission = ObjectRef("Mission", namespace, f"work-{number}")
    return RunInContainer(
        "k", mission, ObjectRef("Pod", namespace, "solo-1"), "cell", ("true",), 20.0
    )


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


async def test_commands_that_hang_in_one_namespace_hold_up_no_other(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    for number in range(100):
        containers.start_command(at("greedy", number))
    await until(lambda: len(fake.asked) == 8)
    fake.play = playing((1, b"fine"), status(SUCCESS))
    containers.start_command(command())
    assert (await ended(containers))[1] == "fine"
    assert len(fake.asked) == 9, "the greedy namespace has its share and no more"


async def test_the_commands_of_a_mission_are_ended_and_others_run_on(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    first_command, other_command = at("demo", 1), at("demo", 2)
    containers.start_command(first_command)
    containers.start_command(other_command)
    await until(lambda: len(fake.asked) == 2)
    containers.end_commands(first_command.mission)
    await until(lambda: fake.closed == 1)
    assert containers.result_of(first_command.mission, "k") is None
    assert (
        containers.is_running(first_command.mission),
        containers.is_running(other_command.mission),
    ) == (
        False,
        True,
    )


async def test_a_command_that_is_ended_while_it_waits_is_never_sent(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    for number in range(9):
        containers.start_command(at("demo", number))
    await until(lambda: len(fake.asked) == 8)
    containers.end_commands(at("demo", 8).mission)
    containers.end_commands(at("demo", 0).mission)
    containers.start_command(at("demo", 9))
    await until(lambda: len(fake.asked) == 9)
    assert containers.is_running(at("demo", 9).mission)


async def test_a_lost_lease_ends_all_commands_and_lets_none_start(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    for number in range(10):
        containers.start_command(at("demo", number))
    await until(lambda: len(fake.asked) == 8)
    fake.leads = False
    with pytest.raises(errors.NotLeading, match="the Lease is lost"):
        containers.start_command(at("other", 1))
    containers.end_commands(at("demo", 0).mission)
    await until(lambda: fake.closed == 1)
    assert len(fake.asked) == 8, "one that waited is not sent without the Lease"
    containers.end_all()
    await until(lambda: fake.closed == 8)
    assert not containers.is_running(at("demo", 1).mission)


async def test_a_command_that_met_a_lost_lease_can_be_run_again(
    server: tuple[Server, ApiContainers],
) -> None:
    fake, containers = server
    for number in range(9):
        containers.start_command(at("demo", number))
    await until(lambda: len(fake.asked) == 8)
    fake.leads = False
    containers.end_commands(at("demo", 0).mission)
    await until(lambda: containers.result_of(at("demo", 8).mission, "k") is None)
    fake.leads = True
    containers.start_command(at("demo", 8))
    await until(lambda: len(fake.asked) == 9)
