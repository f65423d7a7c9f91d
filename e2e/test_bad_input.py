"""Bad input gets a clear error at the first place that can know it, and nothing is lost."""

from collections.abc import Iterator

import pytest

from e2e.support import manifests
from e2e.support.installed import Installed, conditions
from e2e.support.waiting import wait_until
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
    wait_until(
        lambda: conditions(cluster.get("bp", "typed", namespace)),
        lambda blueprint_conditions: blueprint_conditions.get("Ready", {}).get("status") == "True",
        description="ready Blueprint",
    )
    completed = cluster.kais(
        "blueprint", "use", "typed", "-n", namespace, "--set", "seconds=soon", "--set", "secnds=1"
    )
    assert completed.returncode == 2
    for parameter_text in ("seconds", "soon", "secnds", "who"):
        assert parameter_text in completed.stderr
    assert "Traceback" not in completed.stderr
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
    instance_conditions = wait_until(
        lambda: conditions(cluster.get("bpi", "named-wrong", namespace)),
        lambda instance_conditions: (
            instance_conditions.get("ParametersValid", {}).get("status") == "False"
        ),
        description="refused parameters",
    )
    assert "seconds" in instance_conditions["ParametersValid"]["message"]
    assert "colour" in instance_conditions["ParametersValid"]["message"]
    assert cluster.get("formation", "named-wrong", namespace) is None


@pytest.mark.parametrize(
    ("name", "leaf", "message_part"),
    [
        ("unparsed", "{{ seconds", "objective"),
        ("undeclared", "wait {{ minutes }}", "minutes"),
    ],
)
def test_a_template_that_cannot_serve_says_where(
    cluster: Installed, namespace: str, name: str, leaf: str, message_part: str
) -> None:
    blueprint = manifests.blueprint(name, namespace)
    blueprint["spec"]["mission"]["objective"] = leaf
    cluster.apply(blueprint)
    blueprint_conditions = wait_until(
        lambda: conditions(cluster.get("bp", name, namespace)),
        lambda blueprint_conditions: (
            blueprint_conditions.get("Compiled", {}).get("status") == "False"
        ),
        description="Compiled=False",
    )
    assert "objective" in blueprint_conditions["Compiled"]["message"]
    assert message_part in blueprint_conditions["Compiled"]["message"]


def test_an_entrypoint_that_does_not_exist_is_named(cluster: Installed, namespace: str) -> None:
    cluster.apply(
        manifests.formation("nowhere", namespace, "pass"),
        manifests.mission("nowhere", namespace, entrypoint={"cell": "wroker"}),
    )
    mission_conditions = wait_until(
        lambda: conditions(cluster.get("mission", "nowhere", namespace)),
        lambda mission_conditions: (
            mission_conditions.get("Started", {}).get("reason") == "EntrypointNotFound"
        ),
        description="EntrypointNotFound",
    )
    assert "wroker" in mission_conditions["Started"]["message"]
    assert "worker" in mission_conditions["Started"]["message"]


def test_an_image_that_cannot_be_pulled_shows_the_kubelets_words(
    cluster: Installed, namespace: str
) -> None:
    cluster.apply(
        manifests.formation("pull", namespace, "pass", image="127.0.0.1:1/missing:1"),
        manifests.mission("pull", namespace, startDeadline="20s"),
    )
    mission_conditions = wait_until(
        lambda: conditions(cluster.get("mission", "pull", namespace)),
        lambda mission_conditions: (
            "missing:1" in mission_conditions.get("Started", {}).get("message", "")
        ),
        description="the kubelet's words",
        timeout_s=30,
    )
    assert mission_conditions["Started"]["status"] == "False"
    assert "connection refused" in mission_conditions["Started"]["message"]
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
    wait_until(
        lambda: cluster.list("pod", namespace, "kais.io/mission=hangs"),
        lambda pods: all(pod["status"]["phase"] != "Running" for pod in pods),
        description="end of the hanging pod",
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
    wait_until(
        lambda: conditions(cluster.get("cell", "here-worker-0", namespace)),
        lambda cell_conditions: cell_conditions.get("Registered", {}).get("status") == "True",
        description="registered cell",
    )
    with cluster.store(namespace) as person:
        fact_id = person.remember(models.FactIn(content="the gateway is blue", scope=None)).fact_id
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
        assert cell.get_fact(fact_id).content == "the gateway is blue"
        with pytest.raises(errors.NotFound):
            cell.get_fact(secret)
        with pytest.raises(errors.PermissionDenied):
            cell.correct(fact_id, models.CorrectIn(reason="mine now"))
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
    cell_conditions = wait_until(
        lambda: conditions(cluster.get("cell", "taken-worker-0", namespace)),
        lambda cell_conditions: cell_conditions.get("Applied", {}).get("reason") == "NameTaken",
        description="NameTaken",
    )
    assert "taken-worker-0" in cell_conditions["Applied"]["message"]
    foreign_account = cluster.get("serviceaccount", "taken-worker-0", namespace)
    assert foreign_account is not None
    assert foreign_account["metadata"]["labels"] == {"mine": "yes"}
    assert "ownerReferences" not in foreign_account["metadata"]
    cluster.kubectl("delete", "serviceaccount", "taken-worker-0", "-n", namespace)
    wait_until(
        lambda: conditions(cluster.get("cell", "taken-worker-0", namespace)),
        lambda cell_conditions: cell_conditions.get("Ready", {}).get("status") == "True",
        description="healed cell",
        timeout_s=330,
    )


def test_a_mind_without_an_endpoint_is_accepted_and_says_what_to_set(
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
    cell_conditions = wait_until(
        lambda: conditions(cluster.get("cell", "thinker", namespace)),
        lambda cell_conditions: cell_conditions.get("Ready", {}).get("reason") == "NoModelEndpoint",
        description="NoModelEndpoint",
    )
    assert (
        "set spec.mind.baseUrl, or agents.endpoints.ollama" in cell_conditions["Ready"]["message"]
    )
    assert cell_conditions["Ready"]["status"] == "False"
