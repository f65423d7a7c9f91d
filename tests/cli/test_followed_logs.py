"""Logs that are followed at the same time: the replicas of a cell, and sidecars."""

import io
import threading
from collections.abc import Callable, Iterator

import pytest

from kais import labels
from kais_cli import app, errors
from kais_cli.exit_status import ExitStatus
from kais_cli.ports import Body, Waiting
from kais_cli.runs import followed_logs
from tests.cli import objects

TOGETHER_S = 5  # seconds within which logs have to be read at the same time


def put_pod(cluster, name: str, containers: list[str], **spec: object) -> None:
    metadata = {"name": name, "namespace": "demo", "labels": {labels.CELL: "lead"}}
    all_containers = [{"name": each} for each in containers]
    spec = {"restartPolicy": "Always", "containers": all_containers, **spec}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.fixture
def cell(cluster) -> Body:
    body = objects.made("Cell", "lead", {"mode": "Service", "container": {"image": "lead:1"}})
    cluster.put(body)
    return body


@pytest.fixture
def replicas(cluster, cell) -> None:
    for name in ("lead-a", "lead-b"):
        put_pod(cluster, name, ["cell"])


Pieces = Callable[[str], Iterator[str]]


@pytest.fixture
def pieces() -> Pieces:
    """A log of two lines in three pieces, the last one after that of another log was read."""
    barrier = threading.Barrier(2)

    def read(name: str) -> Iterator[str]:
        yield f"{name} 1\n{name}"
        barrier.wait(TOGETHER_S)
        yield " 2\n"

    return read


def test_replicas_are_followed_at_the_same_time_with_whole_lines(
    terminal, cluster, replicas, pieces
):
    for name in ("lead-a", "lead-b"):
        cluster.written[name, "cell"] = pieces(name)
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.SUCCEEDED
    assert sorted(terminal.out.splitlines()) == [
        "[pod/lead-a/cell] lead-a 1",
        "[pod/lead-a/cell] lead-a 2",
        "[pod/lead-b/cell] lead-b 1",
        "[pod/lead-b/cell] lead-b 2",
    ]
    assert terminal.err == ""


def test_the_only_replica_that_is_followed_has_no_prefix(terminal, cluster, cell):
    put_pod(cluster, "lead-a", ["cell"])
    cluster.written["lead-a", "cell"] = ["one\n"]
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.SUCCEEDED
    assert (terminal.out, terminal.err) == ("one\n", "")


def test_a_sidecar_that_runs_on_does_not_hide_the_work(terminal, cluster, cell, pieces):
    sidecar = {"name": "proxy", "restartPolicy": "Always"}
    put_pod(cluster, "a1", ["task"], initContainers=[sidecar], restartPolicy="Never")
    for name in ("proxy", "task"):
        cluster.written["a1", name] = pieces(name)
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.SUCCEEDED
    assert "[pod/a1/task] task 2\n" in terminal.out
    assert "[pod/a1/proxy] proxy 2\n" in terminal.out


def test_replicas_that_are_not_followed_are_named_before_their_lines(terminal, cluster, replicas):
    for name in ("lead-a", "lead-b"):
        cluster.written[name, "cell"] = [f"{name}\n"]
    assert terminal.run("cell", "logs", "lead") == ExitStatus.SUCCEEDED
    assert terminal.out == "lead-a\nlead-b\n"
    assert terminal.err == "== lead-a, cell\n== lead-b, cell\n"


def test_a_replica_that_does_not_start_is_noted_and_the_others_are_followed(
    terminal, cluster, replicas
):
    cluster.not_started["lead-a", "cell"] = "cell does not start: ErrImagePull"
    wait = Waiting("cell in Pod/demo/lead-b waits to start: Unschedulable: no room")
    cluster.written["lead-b", "cell"] = [wait, "without a line feed"]
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.SUCCEEDED
    assert terminal.out == "[pod/lead-b/cell] without a line feed\n"
    assert sorted(terminal.err.splitlines()) == ["cell does not start: ErrImagePull", wait.message]


def test_a_log_that_breaks_off_is_an_error_after_the_end_of_the_others(terminal, cluster, replicas):
    is_broken = threading.Event()

    def broken() -> Iterator[str]:
        yield "one\n"
        is_broken.set()
        raise errors.Unreachable("read the log of cell in Pod/demo/lead-a: no answer")

    def whole() -> Iterator[str]:
        assert is_broken.wait(TOGETHER_S)
        yield "two\n"

    cluster.written = {("lead-a", "cell"): broken(), ("lead-b", "cell"): whole()}
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.UNREACHABLE
    assert "[pod/lead-b/cell] two\n" in terminal.out
    assert "error: read the log of cell in Pod/demo/lead-a: no answer\n" in terminal.err


def test_more_replicas_than_can_be_followed_are_refused(terminal, cluster, cell):
    for number in range(followed_logs.MAX_STREAMS + 1):
        put_pod(cluster, f"lead-{number}", ["cell"])
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.FAILED
    assert terminal.out == ""
    assert terminal.err.startswith("error: 51 logs are too many to follow at the same time")


class ClosedPipe(io.StringIO):
    """An output whose reader is gone."""

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_closed_pipe_ends_all_quietly(terminal, cluster, replicas):
    is_over = threading.Event()

    def endless() -> Iterator[str]:
        yield "one\n"
        is_over.wait(TOGETHER_S)

    cluster.written = {("lead-a", "cell"): ["one\n"], ("lead-b", "cell"): endless()}
    stderr = io.StringIO()
    environment = terminal.environment(stdout=ClosedPipe(), stderr=stderr)
    assert app.main(("cell", "logs", "lead", "-f"), environment) == ExitStatus.READER_GONE
    assert stderr.getvalue() == ""
    is_over.set()


def test_an_endless_line_is_broken_so_that_memory_is_bounded(
    terminal, cluster, replicas, monkeypatch
):
    monkeypatch.setattr(followed_logs, "_MAX_LINE", 6)
    cluster.written["lead-a", "cell"] = ["1234", "5678", "9"]
    assert terminal.run("cell", "logs", "lead", "-f") == ExitStatus.SUCCEEDED
    assert terminal.out == "[pod/lead-a/cell] 12345678\n[pod/lead-a/cell] 9\n"
