from pathlib import Path

import pytest

from kais_cli import app
from kais_cli.cluster import kubeconfig
from kais_cli.environment import ClusterOptions, Environment
from kais_cli.errors import Unreachable
from kais_cli.exit_status import ExitStatus
from kais_cluster import errors
from kais_cluster.status import ProcessStatus, Status

STATUS = Status(
    "host", "node", answers=True, directory=Path("/state"), processes=(ProcessStatus("etcd", 7),)
)


class FakeClusters:
    """What kais_cluster.operations does, without a cluster."""

    def __init__(self, result=STATUS, failure=None):
        self.found, self.failure = result, failure
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

    def load_named_image(self, image, *, report):
        self._call(f"load {image}")
        report(f"loaded {image}")

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
    ("expected", "status"),
    [
        (STATUS, ExitStatus.SUCCEEDED),
        (Status("host", "down", answers=False, directory=Path("/state")), ExitStatus.UNREACHABLE),
    ],
    ids=["up", "down"],
)
def test_status_ends_by_whether_the_cluster_answers(terminal, expected, status):
    terminal.clusters = FakeClusters(expected)
    assert terminal.run("cluster", "status") == status


def test_load_takes_an_image_of_this_machine(terminal):
    terminal.clusters = FakeClusters()
    assert terminal.run("cluster", "load", "team/agent:1") == 0
    assert terminal.clusters.calls == ["load team/agent:1"]
    assert terminal.err == "loaded team/agent:1\n"


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


def test_a_command_without_a_kubeconfig_uses_the_cluster_of_this_machine_and_says_so(terminal):
    terminal.clusters, terminal.has_default_kubeconfig = FakeClusters(), False
    assert terminal.run("blueprint", "list") == 0
    assert terminal.asked == [ClusterOptions("/a b/kubeconfig", None)]
    assert terminal.err.splitlines()[0] == (
        "no kubeconfig is named: using the cluster of `kais cluster`, /a b/kubeconfig"
    )


def test_a_default_kubeconfig_comes_before_the_cluster_of_this_machine(terminal):
    terminal.clusters = FakeClusters()
    assert terminal.run("blueprint", "list") == 0
    assert terminal.asked == [ClusterOptions(None, None)]
    assert terminal.clusters.calls == []


def test_a_named_kubeconfig_comes_before_the_cluster_of_this_machine(terminal, tmp_path):
    terminal.clusters, terminal.has_default_kubeconfig = FakeClusters(), False
    assert terminal.run("blueprint", "list", "--kubeconfig", str(tmp_path)) == 0
    assert terminal.asked == [ClusterOptions(str(tmp_path), None)]
    assert terminal.clusters.calls == []


def test_without_a_cluster_on_this_machine_the_default_is_tried(terminal):
    terminal.clusters = FakeClusters(failure=errors.NotRunning("no cluster is up"))
    terminal.has_default_kubeconfig = False
    assert terminal.run("blueprint", "list") == 0
    assert terminal.asked == [ClusterOptions(None, None)]


def test_a_kubeconfig_that_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setenv("KUBECONFIG", "/nope")
    assert app.main(["blueprint", "list"], Environment()) == ExitStatus.UNREACHABLE
    assert capsys.readouterr().err == (
        "error: the kubeconfig /nope does not exist; correct --kubeconfig or the variable"
        " KUBECONFIG, which names it, or unset it\n"
    )


def test_of_several_kubeconfigs_one_must_exist(tmp_path):
    kubeconfig.require_file(f"/nope:{tmp_path}")
    with pytest.raises(Unreachable, match="none of the kubeconfigs /nope, /neither exists"):
        kubeconfig.require_file("/nope:/neither")


def test_a_home_with_a_kubeconfig_and_a_pod_have_a_default(tmp_path):
    token = tmp_path / "token"
    assert not kubeconfig.has_default(tmp_path, token)
    token.touch()
    assert kubeconfig.has_default(tmp_path, token)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").touch()
    assert kubeconfig.has_default(tmp_path, tmp_path / "none")
