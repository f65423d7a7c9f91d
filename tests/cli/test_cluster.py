from pathlib import Path

import pytest

from kais_cli.exit_status import ExitStatus
from kais_cluster import errors
from kais_cluster.status import ProcessStatus, Status

UP = Status(
    "host", "node", answers=True, directory=Path("/state"), processes=(ProcessStatus("etcd", 7),)
)


class FakeClusters:
    """What kais_cluster.operations does, without a cluster."""

    def __init__(self, found=UP, failure=None):
        self.found, self.failure = found, failure
        self.calls = []

    def up(self, *, no_node=False, report):
        self._call(f"up no_node={no_node}")
        report("up in 4 s")
        return self.found

    def down(self, *, report):
        self._call("down")
        report("stopped")

    def status(self):
        self._call("status")
        return self.found

    def env(self):
        self._call("env")
        return {"KUBECONFIG": "/a b/kubeconfig"}

    def _call(self, name):
        self.calls.append(name)
        if self.failure:
            raise self.failure


def test_up_shows_progress_beside_the_status(terminal):
    terminal.clusters = FakeClusters()
    assert terminal.run("cluster", "up", "--no-node") == 0
    assert terminal.clusters.calls == ["up no_node=True"]
    assert terminal.err.splitlines() == [
        "up in 4 s",
        'use it with: eval "$(kais cluster env)"',
    ]
    assert "etcd" in terminal.out


def test_down_says_what_it_stopped(terminal):
    terminal.clusters = FakeClusters()
    assert terminal.run("cluster", "down") == 0
    assert terminal.err == "stopped\n"


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (UP, ExitStatus.SUCCEEDED),
        (Status("host", "down", answers=False, directory=Path("/state")), ExitStatus.UNREACHABLE),
    ],
    ids=["up", "down"],
)
def test_status_ends_by_whether_the_cluster_answers(terminal, found, status):
    terminal.clusters = FakeClusters(found)
    assert terminal.run("cluster", "status") == status


def test_env_is_quoted_for_a_shell(terminal):
    terminal.clusters = FakeClusters()
    terminal.run("cluster", "env")
    assert terminal.out == "export KUBECONFIG='/a b/kubeconfig'\n"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (errors.MissingTools("go not found"), ExitStatus.FAILED),
        (errors.NotRunning("it is not up"), ExitStatus.UNREACHABLE),
        (errors.InvalidSetting("KAIS_CLUSTER_DIR is too long"), ExitStatus.USAGE),
    ],
    ids=["tools", "not running", "settings"],
)
def test_failures_are_told_in_their_words(terminal, failure, status):
    terminal.clusters = FakeClusters(failure=failure)
    assert terminal.run("cluster", "env") == status
    assert terminal.err == f"error: {failure}\n"
