"""Pods as users write them: what a cell's own fields become in Deployments and Jobs."""

from dataclasses import replace
from typing import Any

import pytest

from kais.forbidden_pod_fields import Allowed
from kais.pod_defaults import PodPolicy
from kais.reasons import Reason
from kais.resources.cell import Cell
from kais.resources.check import Check
from kais.scopes import Scope
from kais_operator.controllers.cell.decide import service_workload_manifests
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity, CellInFormation
from kais_operator.controllers.cell.observe import cell as cells
from kais_operator.controllers.mission.decide import job_manifest
from kais_operator.informer.cache import Cache
from kais_operator.informer.read_through_cluster import CachedCluster
from kais_operator.planning import children, pod_diagnosis
from kais_operator.planning.agent_settings import AgentSettings
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import teams
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld, fake_world

PARENT = Parent("kais.io/v1", "Mission", "demo", "doctor", "uid-mission")
IDENTITY = CellIdentity("solo", "solo", Scope("demo", None, "solo"), Scope("demo", None, "solo"))
SOLO = ObjectRef("Cell", "demo", "solo")
DATA = {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}
SIDECAR = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}


def cell_of(*, container: Body | None = None, pod: Body | None = None, **spec: Any) -> Cell:
    fields: Body = {"mode": "Task", "container": {"image": "worker:1", **(container or {})}, **spec}
    if pod is not None:
        fields["podTemplate"] = {"spec": pod}
    return Cell.from_dict(teams.thing("Cell", "solo", spec=fields, uid="u1"))


def job_of(cell: Cell, **inputs: Any) -> Body:
    values = {"mission": "m", "run_id": "r", "attempt": 1, "objective": "o", **inputs}
    manifest = job_manifest.attempt_job(
        PARENT,
        cell,
        IDENTITY,
        inputs=job_manifest.AttemptInputs(**values),
        knowledge_url="http://store:8000",
        seconds=90,
    )
    return dict(manifest["spec"]["template"])


def deployment_of(cell: Cell, **options: Any) -> Body:
    workload = service_workload_manifests.workload(
        PARENT,
        CellInFormation(cell, None),
        IDENTITY,
        knowledge_url="http://store:8000",
        replicas=1,
        **options,
    )
    return dict(workload.deployment["spec"]["template"])


def test_volumes_and_mounts_stand_beside_those_of_kais() -> None:
    mount = {"name": "data", "mountPath": "/data"}
    cell = cell_of(container={"volumeMounts": [mount]}, pod={"volumes": [DATA]})
    for template in (job_of(cell), deployment_of(cell)):
        spec = template["spec"]
        assert DATA in spec["volumes"]
        assert "kais-token" in {volume["name"] for volume in spec["volumes"]}
        assert mount in spec["containers"][0]["volumeMounts"]
        paths = {m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
        assert "/tmp" in paths  # noqa: S108 - in the pod


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeSelector", {"disk": "ssd"}),
        ("affinity", {"nodeAffinity": {}}),
        (
            "topologySpreadConstraints",
            [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                }
            ],
        ),
        ("imagePullSecrets", [{"name": "registry"}]),
        ("hostAliases", [{"ip": "10.0.0.1", "hostnames": ["db"]}]),
        ("dnsConfig", {"nameservers": ["10.0.0.2"]}),
        ("dnsPolicy", "None"),
        ("priorityClassName", "batch"),
        ("runtimeClassName", "gvisor"),
        ("terminationGracePeriodSeconds", 5),
    ],
)
def test_fields_of_the_pod_reach_jobs_and_deployments(field: str, value: Any) -> None:
    cell = cell_of(pod={field: value})
    assert job_of(cell)["spec"][field] == value
    assert deployment_of(cell)["spec"][field] == value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("envFrom", [{"secretRef": {"name": "keys"}}]),
        ("imagePullPolicy", "Always"),
        ("lifecycle", {"preStop": {"sleep": {"seconds": 1}}}),
        ("livenessProbe", {"exec": {"command": ["true"]}}),
        ("readinessProbe", {"httpGet": {"port": "http"}}),
        ("startupProbe", {"tcpSocket": {"port": 80}}),
        ("workingDir", "/srv"),
    ],
)
def test_fields_of_the_container_reach_jobs_and_deployments(field: str, value: Any) -> None:
    cell = cell_of(container={field: value})
    assert job_of(cell)["spec"]["containers"][0][field] == value
    assert deployment_of(cell)["spec"]["containers"][0][field] == value


def test_tolerations_stand_beside_those_of_a_lost_node() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    tolerations = job_of(cell_of(pod={"tolerations": [toleration]}))["spec"]["tolerations"]
    assert tolerations[-1] == toleration
    assert [item["key"].rpartition("/")[2] for item in tolerations[:-1]] == [
        "not-ready",
        "unreachable",
    ]


def test_a_probe_of_the_cell_replaces_that_of_its_port() -> None:
    probe = {"httpGet": {"path": "/ready", "port": 8080}}
    cell = cell_of(container={"ports": [{"containerPort": 8080}], "readinessProbe": probe})
    container = deployment_of(cell)["spec"]["containers"][0]
    assert container["readinessProbe"] == probe
    assert container["livenessProbe"]["tcpSocket"] == {"port": 8080}


@pytest.mark.parametrize(
    ("resources", "requests", "limits"),
    [
        ({}, {"cpu": "100m", "memory": "128Mi"}, {"cpu": "500m", "memory": "256Mi"}),
        (
            {"limits": {"nvidia.com/gpu": 1}},
            {"cpu": "100m", "memory": "128Mi"},
            {"cpu": "500m", "memory": "256Mi", "nvidia.com/gpu": "1"},
        ),
        ({"requests": {"cpu": 2}}, {"cpu": "2", "memory": "128Mi"}, {"memory": "256Mi"}),
        (
            {"limits": {"memory": "4Gi"}},
            {"cpu": "100m"},
            {"cpu": "500m", "memory": "4Gi"},
        ),
    ],
)
def test_resources_that_a_cell_names_have_no_default_of_kais(
    resources: Body, requests: Body, limits: Body
) -> None:
    container = job_of(cell_of(container={"resources": resources}))["spec"]["containers"][0]
    assert container["resources"] == {"requests": requests, "limits": limits}


def test_security_settings_replace_defaults_one_by_one() -> None:
    cell = cell_of(
        container={
            "securityContext": {
                "readOnlyRootFilesystem": False,
                "capabilities": {"add": ["NET_BIND_SERVICE"]},
            }
        },
        pod={"securityContext": {"fsGroup": 2000, "supplementalGroups": [7]}},
    )
    spec = job_of(cell)["spec"]
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    }
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["fsGroup"] == 2000
    assert spec["securityContext"]["runAsUser"] == 65532


def test_a_sidecar_runs_beside_the_task_with_the_security_defaults_of_kais() -> None:
    (first,) = job_of(cell_of(pod={"initContainers": [SIDECAR]}))["spec"]["initContainers"]
    assert first["restartPolicy"] == "Always"
    assert first["securityContext"]["allowPrivilegeEscalation"] is False


def test_with_checks_the_task_follows_the_sidecars_and_has_no_probes() -> None:
    probe = {"exec": {"command": ["true"]}}
    cell = cell_of(
        container={"livenessProbe": probe, "resources": {"limits": {"nvidia.com/gpu": 1}}},
        pod={"initContainers": [SIDECAR]},
    )
    check = Check.from_dict({"name": "c", "type": "command", "command": "true"})
    spec = job_of(cell, checks=[check])["spec"]
    assert [container["name"] for container in spec["initContainers"]] == ["proxy", "task"]
    assert "livenessProbe" not in spec["initContainers"][1]
    (checking,) = spec["containers"]
    assert checking["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi"}


def test_labels_of_kais_take_precedence() -> None:
    cell = cell_of()
    spec = {
        **cell.spec.to_dict(),
        "podTemplate": {"metadata": {"labels": {"team": "blue"}, "annotations": {"a": "b"}}},
    }
    metadata = job_of(Cell.from_dict(teams.thing("Cell", "solo", spec=spec)))["metadata"]
    assert metadata["labels"]["team"] == "blue"
    assert metadata["labels"]["kais.io/cell"] == "solo"
    assert metadata["annotations"] == {"a": "b"}


def test_defaults_of_the_installation_fill_what_the_cell_leaves_open() -> None:
    policy = PodPolicy(
        {
            "container": {"imagePullPolicy": "Always"},
            "podTemplate": {"spec": {"nodeSelector": {"pool": "agents"}, "volumes": [DATA]}},
        },
        {"demo": {"podTemplate": {"spec": {"nodeSelector": {"zone": "a"}}}}},
    )
    own = {"name": "data", "emptyDir": {}}
    cell = cell_of(pod={"nodeSelector": {"pool": "own"}, "volumes": [own]})
    defaults = policy.defaults_of("demo")
    for template in (job_of(cell, pod_defaults=defaults), deployment_of(cell, defaults=defaults)):
        spec = template["spec"]
        assert spec["nodeSelector"] == {"pool": "own", "zone": "a"}
        assert own in spec["volumes"]
        assert DATA not in spec["volumes"]
        assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert "nodeSelector" not in deployment_of(cell_of())["spec"]


async def settled(
    spec: Body, *, policy: PodPolicy | None = None, level: str | None = None
) -> FakeWorld:
    labels = {} if level is None else {"pod-security.kubernetes.io/enforce": level}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "demo", "uid": "u-demo", "labels": labels},
    }
    fake = fake_world(teams.thing("Cell", "solo", spec=spec), namespace, pod_policy=policy)
    await fake.settle(cells.CONTROLLER, SOLO)
    return fake


async def test_a_cell_whose_mount_has_no_volume_says_which_and_where_to_add_it() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    fake = await settled(teams.task(container={"image": "i", "volumeMounts": mounts}))
    assert condition(fake, "Ready", SOLO) == (
        "False",
        "Invalid",
        (
            'spec.container.volumeMounts[0].name: "data" is no volume of podTemplate.spec.volumes, '
            "and it has none; add the volume there"
        ),
    )


async def test_a_priority_class_needs_the_installation_to_allow_it() -> None:
    spec = teams.task(podTemplate={"spec": {"priorityClassName": "high"}})
    fake = await settled(spec)
    assert condition(fake, "Applied", SOLO) == (
        "False",
        "PodNotAllowed",
        (
            'spec.podTemplate.spec.priorityClassName: "high" is not allowed in this installation, '
            "which allows none; remove it, or have it added to cells.allowed.priorityClassNames of "
            "the chart"
        ),
    )
    fake = await settled(spec, policy=PodPolicy(allowed=Allowed(priority_classes=("high",))))
    assert condition(fake, "Ready", SOLO)[1] == "Standby"


async def test_a_privileged_container_needs_a_namespace_that_says_so() -> None:
    spec = teams.task(container={"image": "i", "securityContext": {"privileged": True}})
    fake = await settled(spec)
    assert condition(fake, "Ready", SOLO) == (
        "False",
        "PodNotAllowed",
        (
            "spec.container.securityContext.privileged: needs the Pod "
            "Security level privileged, and "
            "the namespace has none; remove it, or label the namespace "
            "pod-security.kubernetes.io/enforce: privileged"
        ),
    )
    assert condition(await settled(spec, level="privileged"), "Ready", SOLO)[1] == "Standby"


async def test_a_namespace_that_is_labelled_as_the_message_says_gets_its_cell_at_the_next_try() -> (
    None
):
    container = {"image": "i", "securityContext": {"privileged": True}}
    fake = fake_world(teams.thing("Cell", "solo", spec=teams.task(container=container)))
    cache = Cache(labelled=["ServiceAccount"])
    cache.complete_list("Cell", None, uids=set(), version="0")
    cache.put(fake.cluster.read(SOLO), is_confirmed=True)
    cluster = CachedCluster(fake.cluster, cache, clock=fake.clock)
    fake = replace(fake, world=replace(fake.world, cluster=cluster))
    for level, reason in (
        (None, "PodNotAllowed"),
        ("privileged", "Standby"),
        (None, "PodNotAllowed"),
    ):
        labels = {"pod-security.kubernetes.io/enforce": level}
        fake.cluster.edit(ObjectRef("Namespace", "", "demo"), {"metadata": {"labels": labels}})
        await fake.settle(cells.CONTROLLER, SOLO)
        assert condition(fake, "Ready", SOLO)[1] == reason, level
        fake.clock.advance(30)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"emptyDir": {"sizeLimit": "0.5Gi"}}, {"emptyDir": {"sizeLimit": "512Mi"}}),
        ({"resourceFieldRef": {"divisor": 1}}, {"resourceFieldRef": {"divisor": "1"}}),
        (
            {
                "volumeMounts": [
                    {"name": "d", "mountPath": "/a"},
                    {"name": "d", "mountPath": "/b", "subPath": "b"},
                ]
            },
            {
                "volumeMounts": [
                    {"name": "d", "mountPath": "/a"},
                    {"name": "d", "mountPath": "/b", "subPath": "b"},
                ]
            },
        ),
    ],
)
def test_what_the_api_server_spells_differently_is_no_difference(desired: Body, live: Body) -> None:
    assert not children.differs(desired, live)


def pod_status(**statuses: Body) -> Body:
    reported = [{"name": name, "image": "x", "state": state} for name, state in statuses.items()]
    return {"metadata": {"name": "p"}, "status": {"initContainerStatuses": reported}}


def test_a_sidecar_that_cannot_start_is_named() -> None:
    pod = pod_status(proxy={"waiting": {"reason": "ErrImagePull", "message": "not found"}})
    waiting = {"waiting": {"reason": "PodInitializing"}}
    assert pod_diagnosis.why_waiting(pod, waiting) == (
        Reason.IMAGE_PULL_FAILED,
        (
            "container proxy: ErrImagePull: not found; push the image to a registry that the nodes"
            " read, or `kais cluster load` it"
        ),
    )


def test_the_command_for_a_missing_secret_has_the_namespace_and_the_keys_of_the_pod() -> None:
    def variable(secret: str, key: str) -> Body:
        return {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}

    env = [variable("mail", "login"), variable("other", "x"), {"name": "N", "value": "1"}]
    containers = [{"name": "task", "env": [*env, variable("mail", "password")]}, {"name": "side"}]
    pod = {"metadata": {"namespace": "demo", "name": "p"}, "spec": {"containers": containers}}
    waiting = {
        "waiting": {"reason": "CreateContainerConfigError", "message": 'secret "mail" not found'}
    }
    assert pod_diagnosis.why_waiting(pod, waiting) == (
        Reason.POD_FAILED,
        (
            'CreateContainerConfigError: secret "mail" not found; create it with `kubectl create'
            " secret generic mail -n demo --from-literal=login=… --from-literal=password=…`, and"
            " the container starts"
        ),
    )


def test_an_init_container_that_fails_is_named() -> None:
    pod = pod_status(setup={"terminated": {"exitCode": 3, "message": "no such table"}})
    assert pod_diagnosis.failed_init_container(pod, excluding="task") == (
        "init container setup ended with exit code 3: no such table"
    )


@pytest.mark.parametrize(
    ("message", "is_hinted"),
    [
        ("container has runAsNonRoot and image will run as root", True),
        ("container's runAsUser breaks non-root policy", True),
        ("mkdir: can't create directory '/data': Permission denied", True),
        ("touch: /etc/x: Read-only file system", True),
        ("connection refused", False),
    ],
)
def test_an_image_that_needs_root_says_so_and_how_to_allow_it(
    message: str, is_hinted: bool
) -> None:
    hint = pod_diagnosis.root_hint(message)
    assert (
        "runAsUser: 0 and runAsNonRoot: false in container.securityContext" in hint
    ) is is_hinted


def test_a_mind_takes_resources_and_mounts() -> None:
    mind = {
        "provider": "openai",
        "model": "m",
        "systemPrompt": "help",
        "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/workspace/shared/data"}],
    }
    spec = {"mode": "Task", "mind": mind, "podTemplate": {"spec": {"volumes": [DATA]}}}
    cell = Cell.from_dict(teams.thing("Cell", "solo", spec=spec))
    agents = AgentSettings(image="agent:1")
    container = job_of(cell, agents=agents)["spec"]["containers"][0]
    assert container["resources"]["requests"]["cpu"] == "1"
    assert "/workspace/shared/data" in {mount["mountPath"] for mount in container["volumeMounts"]}


def installed(selector: str, *, cell: Cell, live: Body | None) -> Body:
    policy = PodPolicy({"podTemplate": {"spec": {"nodeSelector": {"pool": selector}}}})
    cell_in_formation = CellInFormation(cell, None)
    defaults = service_workload_manifests.defaults_of(
        cell_in_formation, live, parent=PARENT, policy=policy
    )
    return service_workload_manifests.workload(
        PARENT,
        cell_in_formation,
        IDENTITY,
        knowledge_url="http://store:8000",
        replicas=1,
        defaults=defaults,
    ).deployment


def test_new_defaults_leave_the_pods_of_a_running_service_cell() -> None:
    first = installed("a", cell=cell_of(), live=None)
    assert installed("b", cell=cell_of(), live=first) == first


def test_new_defaults_reach_a_service_cell_with_its_next_change() -> None:
    first = installed("a", cell=cell_of(), live=None)
    changed = installed("b", cell=cell_of(container={"workingDir": "/x"}), live=first)
    assert changed["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "b"}


@pytest.mark.parametrize(
    "forged",
    [
        "no JSON",
        "[]",
        '{"podTemplate":{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}}',
        '{"container":{"securityContext":{"privileged":true}}}',
    ],
)
def test_recorded_defaults_give_nothing_that_a_cell_may_not_set(forged: str) -> None:
    first = installed("a", cell=cell_of(), live=None)
    first["metadata"]["annotations"]["kais.io/rendered-defaults"] = forged
    changed = installed("b", cell=cell_of(), live=first)
    assert changed["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "b"}
    assert "privileged" not in str(changed)
