"""Bad input gets a clear error at the first place that can know it, and nothing is lost."""

from collections.abc import Iterator

import pytest

from e2e.support import manifests
from e2e.support.installed import Installed, conditions
from e2e.support.waiting import until
from knowledge_client import KnowledgeClient, errors, models

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def namespace(cluster: Installed) -> Iterator[str]:
    yield from cluster.fresh_namespace("bad-input")


def test_wrong_parameters_are_all_named_before_anything_is_made(
    cluster: Installed, namespace: str
) -> None:
    blueprint = manifests.blueprint("typed", namespace)
    blueprint["spec"]["parameters"].append({"name": "who", "type": "string", "required": True})
    cluster.apply(blueprint)
    until(
        lambda: conditions(cluster.get("bp", "typed", namespace)),
        lambda seen: seen.get("Ready", {}).get("status") == "True",
        what="ready Blueprint",
    )
    done = cluster.kais(
        "blueprint", "use", "typed", "-n", namespace, "--set", "seconds=soon", "--set", "secnds=1"
    )
    assert done.returncode == 2
    for words in ("seconds", "soon", "secnds", "who"):
        assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert cluster.list("bpi", namespace) == []


def test_wrong_parameters_by_kubectl_are_all_named_in_the_condition(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.blueprint("named", namespace))
    cluster.apply(
        {
            "apiVersion": "kais.io/v1",
            "kind": "BlueprintInstance",
            "metadata": {"name": "named-wrong", "namespace": namespace},
            "spec": {
                "blueprintRef": {"name": "named"},
                "parameters": {"seconds": "soon", "colour": "red"},
            },
        }
    )
    seen = until(
        lambda: conditions(cluster.get("bpi", "named-wrong", namespace)),
        lambda seen: seen.get("ParametersValid", {}).get("status") == "False",
        what="refused parameters",
    )
    assert "seconds" in seen["ParametersValid"]["message"]
    assert "colour" in seen["ParametersValid"]["message"]
    assert cluster.get("formation", "named-wrong", namespace) is None


@pytest.mark.parametrize(
    ("name", "leaf", "words"),
    [
        ("unparsed", "{{ seconds", "objective"),
        ("undeclared", "wait {{ minutes }}", "minutes"),
    ],
)
def test_a_template_that_cannot_serve_says_where(
    cluster: Installed, namespace: str, name: str, leaf: str, words: str
) -> None:
    blueprint = manifests.blueprint(name, namespace)
    blueprint["spec"]["mission"]["objective"] = leaf
    cluster.apply(blueprint)
    seen = until(
        lambda: conditions(cluster.get("bp", name, namespace)),
        lambda seen: seen.get("Compiled", {}).get("status") == "False",
        what="Compiled=False",
    )
    assert "objective" in seen["Compiled"]["message"]
    assert words in seen["Compiled"]["message"]


def test_an_entrypoint_that_does_not_exist_is_named(cluster: Installed, namespace: str) -> None:
    cluster.apply(
        manifests.formation("nowhere", namespace, "pass"),
        manifests.mission("nowhere", namespace, entrypoint={"cell": "wroker"}),
    )
    seen = until(
        lambda: conditions(cluster.get("mission", "nowhere", namespace)),
        lambda seen: seen.get("Started", {}).get("reason") == "EntrypointNotFound",
        what="EntrypointNotFound",
    )
    assert "wroker" in seen["Started"]["message"]
    assert "worker" in seen["Started"]["message"]


def test_an_image_that_cannot_be_pulled_shows_the_kubelets_words(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(
        manifests.formation("pull", namespace, "pass", image="127.0.0.1:1/missing:1"),
        manifests.mission("pull", namespace, startDeadline="20s"),
    )
    seen = until(
        lambda: conditions(cluster.get("mission", "pull", namespace)),
        lambda seen: "missing:1" in seen.get("Started", {}).get("message", ""),
        what="the kubelet's words",
        timeout_s=30,
    )
    assert seen["Started"]["status"] == "False"
    assert "connection refused" in seen["Started"]["message"]
    mission = cluster.finished_mission("pull", namespace)
    assert mission["status"]["outcome"] == "InfrastructureFailed"


def test_a_task_that_exits_1_is_tried_again_and_then_failed(
    cluster: Installed, namespace: str
) -> None:
    script = "import os; raise SystemExit('feedback was: ' + repr(os.environ['KAIS_FEEDBACK']))"
    cluster.apply(
        manifests.formation("exits", namespace, script),
        manifests.mission("exits", namespace, completion={"maxAttempts": 2}),
    )
    status = cluster.finished_mission("exits", namespace)["status"]
    assert (status["outcome"], status["attempt"]) == ("Failed", 2)
    assert "feedback was:" in status["result"]
    assert status["result"] != "feedback was: ''"
    assert len(cluster.list("job", namespace, "kais.io/mission=exits")) == 2


def test_a_task_that_hangs_is_timed_out(cluster: Installed, namespace: str) -> None:
    cluster.apply(
        manifests.formation("hangs", namespace, "import time; time.sleep(600)"),
        manifests.mission("hangs", namespace, completion={"timeout": "8s", "maxAttempts": 3}),
    )
    status = cluster.finished_mission("hangs", namespace)["status"]
    assert (status["outcome"], status["attempt"]) == ("TimedOut", 1)
    assert "8s" in conditions(cluster.get("mission", "hangs", namespace))["Succeeded"]["message"]
    until(
        lambda: cluster.list("pod", namespace, "kais.io/mission=hangs"),
        lambda pods: all(pod["status"]["phase"] != "Running" for pod in pods),
        what="end of the hanging pod",
    )


def test_a_task_that_prints_100_mb_keeps_the_end_of_its_result(
    cluster: Installed, namespace: str
) -> None:
    script = (
        "import sys\n"
        "for _ in range(100): sys.stdout.write('x' * 1_000_000)\n"
        "open('/dev/termination-log', 'w').write('y' * 100_000)\n"
    )
    cluster.apply(
        manifests.formation("prints", namespace, script), manifests.mission("prints", namespace)
    )
    status = cluster.finished_mission("prints", namespace)["status"]
    assert status["outcome"] == "Succeeded"
    assert 0 < len(status["result"]) <= 4096
    assert status["resultTruncated"] is True


def test_text_with_dollar_signs_arrives_letter_for_letter(
    cluster: Installed, namespace: str
) -> None:
    objective = "say $(CELL_NAME) $$(X) ${HOME} and $1"
    script = "import os; open('/dev/termination-log', 'w').write(os.environ['KAIS_OBJECTIVE'])"
    cluster.apply(
        manifests.formation("dollar", namespace, script),
        manifests.mission("dollar", namespace, objective=objective),
    )
    assert cluster.finished_mission("dollar", namespace)["status"]["result"] == objective


def test_a_token_of_another_scope_reads_nothing_and_writes_nothing(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(manifests.formation("here", namespace, "pass"))
    until(
        lambda: conditions(cluster.get("cell", "here-worker-0", namespace)),
        lambda seen: seen.get("Registered", {}).get("status") == "True",
        what="registered cell",
    )
    with cluster.store(namespace) as person:
        kept = person.remember(models.FactIn(content="the gateway is blue", scope=None)).fact_id
        secret = person.remember(
            models.FactIn(
                content="the key is under the mat", scope=f"realm:{namespace}/formation:o"
            )
        ).fact_id
    account = cluster.list("serviceaccount", namespace, "kais.io/cell=here-worker-0")[0]
    token = cluster.kubectl(
        "create",
        "token",
        account["metadata"]["name"],
        "-n",
        namespace,
        "--audience",
        "kais-knowledge",
    ).strip()
    wrong_audience = cluster.kubectl(
        "create", "token", account["metadata"]["name"], "-n", namespace
    ).strip()
    with cluster.forwarded() as url, KnowledgeClient(url=url, token=token) as cell:
        assert cell.get_fact(kept).content == "the gateway is blue"
        with pytest.raises(errors.NotFound):
            cell.get_fact(secret)
        with pytest.raises(errors.PermissionDenied):
            cell.correct(kept, models.CorrectIn(reason="mine now"))
        with pytest.raises(errors.PermissionDenied):
            cell.recall(models.RecallIn(query="key", scopes=(f"realm:{namespace}/formation:o",)))
        with pytest.raises(errors.PermissionDenied):
            cell.remember(models.FactIn(content="x", scope="platform"))
        with (
            KnowledgeClient(url=url, token=wrong_audience) as stranger,
            pytest.raises(errors.Unauthenticated),
        ):
            stranger.whoami()


def test_an_object_of_our_childs_name_that_belongs_to_someone_else_is_left_alone(
    cluster: Installed, namespace: str
) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "taken-worker-0", "namespace": namespace, "labels": {"mine": "yes"}},
    }
    cluster.apply(foreign)
    cluster.apply(manifests.formation("taken", namespace, "pass"))
    seen = until(
        lambda: conditions(cluster.get("cell", "taken-worker-0", namespace)),
        lambda seen: seen.get("Applied", {}).get("reason") == "NameTaken",
        what="NameTaken",
    )
    assert "taken-worker-0" in seen["Applied"]["message"]
    kept = cluster.get("serviceaccount", "taken-worker-0", namespace)
    assert kept is not None
    assert kept["metadata"]["labels"] == {"mine": "yes"}
    assert "ownerReferences" not in kept["metadata"]
    cluster.kubectl("delete", "serviceaccount", "taken-worker-0", "-n", namespace)
    until(
        lambda: conditions(cluster.get("cell", "taken-worker-0", namespace)),
        lambda seen: seen.get("Ready", {}).get("status") == "True",
        what="healed cell",
        timeout_s=330,
    )


def test_a_mind_cell_is_accepted_and_says_it_is_not_supported_yet(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(
        {
            "apiVersion": "kais.io/v1",
            "kind": "Cell",
            "metadata": {"name": "thinker", "namespace": namespace},
            "spec": {"mind": {"provider": "ollama", "model": "m", "systemPrompt": "Think."}},
        }
    )
    seen = until(
        lambda: conditions(cluster.get("cell", "thinker", namespace)),
        lambda seen: seen.get("Ready", {}).get("reason") == "NotYetSupported",
        what="NotYetSupported",
    )
    assert seen["Ready"]["status"] == "False"
