"""The cluster itself, before kais is in it: images, pods, DNS, tokens, volumes, Helm."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from kais_cluster import image_catalog, providers, settings, subprocesses
from kais_cluster.host.image_builds import BASE, BuildahBuilder

pytestmark = pytest.mark.e2e

SMOKE = Path(__file__).parent / "smoke"
IMAGE = "localhost/kais/smoke:1"
NAMESPACE = "smoke"

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def provider() -> Iterator[providers.Provider]:
    """Use the machine's cluster; one that these tests bring up, they stop."""
    chosen = providers.choose()
    is_running_before = chosen.status().is_up
    chosen.up(no_node=False)
    yield chosen
    if not is_running_before:
        chosen.down()


@pytest.fixture(scope="module")
def image(provider: providers.Provider) -> str:
    """Build an image offline from an ordinary Dockerfile, and load it."""
    builder = image_catalog.builder_for(provider)
    builder.make_base()
    builder.build(SMOKE, IMAGE, SMOKE / "Dockerfile")
    with builder.archive(IMAGE) as archive:
        provider.load_image(archive, name=IMAGE)
    return IMAGE


@pytest.fixture(scope="module")
def kubectl(provider: providers.Provider, image: str) -> Iterator[Kubectl]:
    """Run kubectl in a namespace that holds two web pods, a Service and a claim."""

    def run(*arguments: str, stdin: str | None = None) -> str:
        return provider.kubectl("--namespace", NAMESPACE, *arguments, stdin=stdin, timeout_s=120)

    provider.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout_s=120)
    provider.kubectl("create", "namespace", NAMESPACE)
    run("apply", "-f", str(SMOKE / "objects.yaml"))
    run("rollout", "status", "deployment/web", "--timeout=90s")
    yield run
    provider.kubectl("delete", "namespace", NAMESPACE, timeout_s=120)


@pytest.fixture(scope="module")
def client_log(kubectl: Kubectl) -> str:
    """Run the client's Job to its end and return what it printed."""
    kubectl("apply", "-f", str(SMOKE / "job.yaml"))
    kubectl("wait", "--for=condition=Complete", "job/client", "--timeout=90s")
    return kubectl("logs", "job/client")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("http://web 200", id="a Service answers by its short name"),
        pytest.param("http://web.smoke.svc.cluster.local 200", id="a Service answers by full name"),
        pytest.param("I am system:serviceaccount:smoke:default", id="a pod has its own identity"),
        pytest.param("namespaces 403", id="a pod may not what no Role allows"),
        pytest.param("audience ['kais-store']", id="a token is made for its audience"),
        pytest.param("volume ok", id="a claim is written by an ordinary user"),
    ],
)
def test_in_a_pod(client_log: str, line: str) -> None:
    assert line in client_log.splitlines()


def test_exec_runs_as_the_user_of_the_image(kubectl: Kubectl) -> None:
    script = "import os; print(os.getuid())"
    assert kubectl("exec", "deployment/web", "--", "python", "-c", script).strip() == "10001"


def test_logs_show_the_probes_of_the_kubelet(kubectl: Kubectl) -> None:
    assert "GET / HTTP" in kubectl("logs", "deployment/web")


def test_port_forward_reaches_a_service(provider: providers.Provider, kubectl: Kubectl) -> None:
    command = ["port-forward", "--namespace", NAMESPACE, "service/web", ":80"]
    with subprocess.Popen(
        [provider.binaries / "kubectl", *command],
        env={**settings.environment(), **provider.env()},
        stdout=subprocess.PIPE,
        text=True,
    ) as forward:
        try:
            assert forward.stdout is not None
            port_match = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
            assert port_match
            url = f"http://127.0.0.1:{port_match[1]}"
            assert httpx.get(url, trust_env=False).status_code == 200
        finally:
            forward.terminate()


@pytest.mark.parametrize(
    ("audience", "review_text"),
    [("kais-store", '"authenticated":true'), ("other", "is invalid for the target audiences")],
)
def test_token_is_reviewed_for_its_audience(
    kubectl: Kubectl, audience: str, review_text: str
) -> None:
    token = kubectl("create", "token", "default", "--audience", "kais-store").strip()
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    }
    status = kubectl("create", "-o", "jsonpath={.status}", "-f", "-", stdin=json.dumps(review))
    assert review_text in status


def test_helm_installs_and_uninstalls(provider: providers.Provider, kubectl: Kubectl) -> None:
    helm = [provider.binaries / "helm", "--namespace", NAMESPACE]
    install = [*helm, "install", "smoke", SMOKE / "chart", "--wait", "--timeout", "60s"]
    subprocesses.run(install, env=provider.env(), timeout_s=120)
    assert "pod/smoke" in kubectl("get", "pods", "-o", "name")
    subprocesses.run([*helm, "uninstall", "smoke", "--wait"], env=provider.env(), timeout_s=120)


def test_nothing_of_this_machine_stays_in_an_image(kubectl: Kubectl) -> None:
    script = "cat /etc/pip.conf /run/host-ca.crt 2>/dev/null; true"
    assert kubectl("exec", "deployment/web", "--", "sh", "-c", script) == ""


def test_base_image_is_made_once(provider: providers.Provider, image: str) -> None:
    if provider.name == "kind":
        return  # Docker pulls the official image: there is nothing of ours to make
    messages: list[str] = []
    BuildahBuilder(settings.images_dir(), messages.append).make_base()
    assert messages == [f"{BASE} is there"]


def test_cluster_that_is_up_is_used_as_it_is(provider: providers.Provider) -> None:
    messages: list[str] = []
    status_before = provider.status()
    providers.choose(report=messages.append).up(no_node=False)
    kind_name = {"host": "node", "kind": "kind"}[provider.name]
    assert messages[0].startswith(f"already up ({kind_name}), used as it is: ")
    assert provider.status().processes == status_before.processes
