"""Templates are rendered in a container of their own, whose user cannot read the tokens."""

from collections.abc import Iterator

import pytest

from e2e.support import manifests
from e2e.support.installed import KAIS_NAMESPACE, OPERATOR, Installed, conditions
from e2e.support.waiting import wait_until

pytestmark = pytest.mark.e2e

READS = """
import os, pathlib
for pid in (p for p in os.listdir("/proc") if p.isdigit()):
    try:
        command = pathlib.Path("/proc", pid, "cmdline").read_bytes().replace(b"\\0", b" ").decode()
        status = pathlib.Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        continue  # a probe that ended
    uid = status.split("Uid:")[1].split()[0]
    print("process", uid, command)
print("secrets", os.path.exists("/var/run/secrets"))
"""


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("renderer")


def inside(cluster: Installed, container: str, *command: str) -> str:
    """Run a program in a container of the operator's pod."""
    (pod,) = cluster.list("pod", KAIS_NAMESPACE, OPERATOR)
    name = pod["metadata"]["name"]
    return cluster.kubectl("exec", "-n", KAIS_NAMESPACE, name, "-c", container, "--", *command)


def ready_message(cluster: Installed, name: str, namespace: str, status: str) -> str:
    blueprint_conditions = wait_until(
        lambda: conditions(cluster.get("bp", name, namespace)),
        lambda blueprint_conditions: blueprint_conditions.get("Ready", {}).get("status") == status,
        description=f"Blueprint {name} with Ready {status}",
    )
    return str(blueprint_conditions["Ready"]["message"])


def restarts(cluster: Installed) -> dict[str, int]:
    (pod,) = cluster.list("pod", KAIS_NAMESPACE, OPERATOR)
    return {
        container_status["name"]: container_status["restartCount"]
        for container_status in pod["status"]["containerStatuses"]
    }


def test_what_renders_runs_as_another_user_and_finds_no_token(cluster: Installed) -> None:
    output_lines = inside(cluster, "renderer", "python", "-c", READS).splitlines()
    processes = [line.split(" ", 2)[1:] for line in output_lines if line.startswith("process")]
    assert {uid for uid, _ in processes} == {"65533"}
    commands = [command for _, command in processes]
    assert len([c for c in commands if "kais_rendering.worker_program" in c]) == 3
    assert not [c for c in commands if "kais-operator" in c], "it sees no process of the operator"
    assert output_lines[-1] == "secrets False"


def test_the_operator_runs_as_its_own_user_with_its_tokens_and_renders_nothing_itself(
    cluster: Installed,
) -> None:
    output_lines = inside(cluster, "operator", "python", "-c", READS).splitlines()
    assert output_lines[-1] == "secrets True"
    processes = [line.split(" ", 2)[1:] for line in output_lines if line.startswith("process")]
    assert {uid for uid, _ in processes} == {"65532"}
    assert not [c for _, c in processes if "kais_rendering" in c]


def test_a_template_that_hangs_is_killed_and_others_are_rendered(
    cluster: Installed, namespace: str
) -> None:
    restarts_before = restarts(cluster)
    hanging = manifests.blueprint("hanging", namespace)
    hanging["spec"]["parameters"] += [
        {"name": "word", "type": "string", "pattern": "(a+)+$", "default": "a" * 40 + "!"}
    ]
    cluster.apply(hanging, manifests.blueprint("sound", namespace))
    ready_message(cluster, "sound", namespace, "True")
    message = ready_message(cluster, "hanging", namespace, "False")
    assert "rendering took more than 2 s at parameter 'word'" in message
    assert restarts(cluster) == restarts_before


def test_the_operator_goes_on_when_the_renderer_was_restarted(
    cluster: Installed, namespace: str
) -> None:
    restarts_before = restarts(cluster)
    (pod,) = cluster.list("pod", KAIS_NAMESPACE, OPERATOR)
    name, stop = pod["metadata"]["name"], "import os; os.kill(1, 15)"
    # The exec may end with its container, so its status says nothing.
    cluster.kubectl(
        *("exec", "-n", KAIS_NAMESPACE, name, "-c", "renderer", "--", "python", "-c", stop),
        check=False,
    )
    wait_until(
        lambda: restarts(cluster),
        lambda now: now["renderer"] == restarts_before["renderer"] + 1,
        description="a restart of the renderer",
    )
    cluster.apply(manifests.blueprint("after-the-restart", namespace))
    ready_message(cluster, "after-the-restart", namespace, "True")
    assert restarts(cluster)["operator"] == restarts_before["operator"]
