"""Formations of service cells: what they share, and that changing a team restarts no one else."""

import json
from typing import Any

import pytest

from kais.resources.formation import TopologyType
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.teams import FORMATION, condition, status
from tests.fakes.world import FakeWorld, fake_world

CLAIM = ObjectRef("PersistentVolumeClaim", "demo", "workspace-team")
ROUTES = ObjectRef("ConfigMap", "demo", "topology-team")
PAUSE = {"metadata": {"annotations": {"kais.io/reconcile": "suspended"}}}


def team(*, scouts: int = 2, name: str = "team", image: str = "worker:1", **spec: Any) -> Body:
    scout = services.service(container={"image": image})
    cells = [
        {"name": "lead", "spec": services.service()},
        {"name": "scout", "replicas": scouts, "spec": scout},
    ]
    return teams.team(name, cells=cells, **spec)


async def settle(fake: FakeWorld, ref: ObjectRef = FORMATION) -> None:
    await teams.settle_team(fake, ref)


async def serving(body: Body) -> FakeWorld:
    """A world whose team has all its pods."""
    fake = fake_world(body)
    await settle(fake)
    for ref in fake.cluster.refs("Deployment"):
        services.pod(fake, ref, status=services.ready())
    await settle(fake)
    return fake


def change(fake: FakeWorld, body: Body, ref: ObjectRef = FORMATION) -> None:
    fake.cluster.edit(ref, {"spec": body["spec"]})


def templates(fake: FakeWorld) -> dict[str, Body]:
    return {ref.name: services.template(fake, ref) for ref in fake.cluster.refs("Deployment")}


def routes(fake: FakeWorld) -> dict[str, list[str]]:
    return dict(json.loads(fake.cluster.read(ROUTES)["data"]["routes.json"]))


async def test_a_team_is_ready_when_all_its_pods_are_and_follows_each_of_them() -> None:
    fake = await serving(team())
    assert condition(fake, "Ready", FORMATION) == ("True", "Ready", "3 of 3 cells are ready")
    pod = fake.cluster.refs("Pod")[0]
    fake.cluster.set_status(pod, services.waiting("ErrImagePull", "not found"))
    await settle(fake)
    state, reason, message = condition(fake, "CellsReady", FORMATION)
    assert (state, reason) == ("False", "WaitingForCells")
    assert "ErrImagePull: not found" in message
    assert condition(fake, "Ready", FORMATION)[0] == "False"
    fake.cluster.set_status(pod, services.ready())
    await settle(fake)
    assert condition(fake, "CellsReady", FORMATION)[:2] == ("True", "CellsReady")
    assert condition(fake, "Ready", FORMATION)[0] == "True"


async def test_scaling_changes_the_routes_and_restarts_nobody() -> None:
    fake = await serving(team(scouts=2))
    initial_templates = templates(fake)
    change(fake, team(scouts=4))
    await settle(fake)
    final_templates = templates(fake)
    assert {name: final_templates[name] for name in initial_templates} == initial_templates
    assert set(final_templates) - set(initial_templates) == {"team-scout-2", "team-scout-3"}
    assert routes(fake)["lead-0"] == ["scout-0", "scout-1", "scout-2", "scout-3"]
    change(fake, team(scouts=1))
    await settle(fake)
    fake.cluster.collect_garbage()
    assert templates(fake) == {
        name: initial_templates[name] for name in ("team-lead-0", "team-scout-0")
    }
    assert routes(fake) == {"lead-0": ["scout-0"], "scout-0": ["lead-0"]}


async def test_no_peer_stands_in_an_environment() -> None:
    fake = await serving(team())
    assert "scout" not in json.dumps(templates(fake)["team-lead-0"]["spec"]["containers"])


async def test_a_changed_template_keeps_place_peers_and_knowledge() -> None:
    fake = await serving(team(workspace={}, knowledge={"scope": "apart"}))
    initial_templates = templates(fake)
    changed = team(workspace={}, knowledge={"scope": "apart"}, image="worker:2")
    change(fake, changed)
    await settle(fake)
    final_templates = templates(fake)
    assert final_templates["team-lead-0"] == initial_templates["team-lead-0"]
    for name in ("team-scout-0", "team-scout-1"):
        assert final_templates[name]["metadata"] == initial_templates[name]["metadata"]
        assert (
            final_templates[name]["spec"]["volumes"] == initial_templates[name]["spec"]["volumes"]
        )
        (container,) = final_templates[name]["spec"]["containers"]
        assert container["image"] == "worker:2"
        fields = {entry["name"]: entry.get("value") for entry in container["env"]}
        short = name.removeprefix("team-")
        assert fields["KNOWLEDGE_SCOPE"] == f"realm:demo/formation:apart/cell:{short}"
        assert fields["KAIS_FORMATION"] == "team"
        manifest = fake.cluster.read(ObjectRef("Cell", "demo", name))
        assert manifest["spec"]["formationRef"] == "team"
    writes = len(fake.cluster.writes)
    await settle(fake)
    assert len(fake.cluster.writes) == writes


async def test_two_teams_with_equal_templates_stand_side_by_side() -> None:
    fake = fake_world(team(name="one"), team(name="two"))
    for name in ("one", "two"):
        await settle(fake, ObjectRef("Formation", "demo", name))
    service_templates = sorted(templates(fake))
    assert service_templates == [
        f"{f}-{c}" for f in ("one", "two") for c in ("lead-0", "scout-0", "scout-1")
    ]
    for name, result in templates(fake).items():
        mounted = [v["configMap"]["name"] for v in result["spec"]["volumes"] if "configMap" in v]
        assert mounted == [f"topology-{name[:3]}"]
        assert result["metadata"]["labels"]["kais.io/cell"] == name


async def test_the_peers_file_of_a_team_without_its_map_is_no_file_and_so_allows_nobody() -> None:
    fake = await serving(team())
    volumes = {v["name"]: v for v in templates(fake)["team-lead-0"]["spec"]["volumes"]}
    assert volumes["kais-topology"]["configMap"] == {"name": "topology-team", "optional": True}
    fake.cluster.vanish(ROUTES)
    await settle(fake)
    assert routes(fake)["lead-0"] == ["scout-0", "scout-1"]


SHAPES: dict[str, tuple[Body, dict[str, list[str]]]] = {
    "full_mesh": (
        {},
        {
            "lead-0": ["scout-0", "scout-1"],
            "scout-0": ["lead-0", "scout-1"],
            "scout-1": ["lead-0", "scout-0"],
        },
    ),
    "star": (
        {"hub": "lead"},
        {"lead-0": ["scout-0", "scout-1"], "scout-0": ["lead-0"], "scout-1": ["lead-0"]},
    ),
    "hierarchy": (
        {"root": "lead"},
        {"lead-0": ["scout-0", "scout-1"], "scout-0": ["lead-0"], "scout-1": ["lead-0"]},
    ),
    "ring": (
        {},
        {
            "lead-0": ["scout-0", "scout-1"],
            "scout-0": ["lead-0", "scout-1"],
            "scout-1": ["lead-0", "scout-0"],
        },
    ),
    "stigmergy": (
        {"blackboard": {"decayMinutes": 30}},
        {"lead-0": [], "scout-0": [], "scout-1": []},
    ),
    "custom": (
        {"routes": [{"from": "lead", "to": ["scout"]}]},
        {"lead-0": ["scout-0", "scout-1"], "scout-0": [], "scout-1": []},
    ),
}


@pytest.mark.parametrize("shape", TopologyType)
async def test_each_topology_becomes_the_routes_of_the_team(shape: TopologyType) -> None:
    details, expected = SHAPES[shape.value]
    fake = fake_world(team(topology={"type": shape.value, **details}))
    await settle(fake)
    assert routes(fake) == expected


async def test_a_workspace_is_one_claim_that_every_pod_of_the_team_mounts() -> None:
    fake = await serving(team(workspace={"size": "2Gi", "storageClassName": "fast"}))
    claim = fake.cluster.read(CLAIM)
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "fast",
    }
    (owner,) = claim["metadata"]["ownerReferences"]
    assert owner["kind"] == "Formation"
    for template in templates(fake).values():
        mounts = {
            m["name"]: m["mountPath"] for m in template["spec"]["containers"][0]["volumeMounts"]
        }
        volumes = {v["name"]: v for v in template["spec"]["volumes"]}
        assert mounts["workspace"] == "/workspace/shared"
        assert volumes["workspace"]["persistentVolumeClaim"] == {"claimName": "workspace-team"}
    assert condition(fake, "Applied", FORMATION)[2] == (
        "3 cells, the workspace and the topology map are stored"
    )


async def test_a_workspace_for_several_nodes_is_asked_for_in_the_spec() -> None:
    fake = fake_world(team(workspace={"accessMode": "ReadWriteMany"}))
    await settle(fake)
    assert fake.cluster.read(CLAIM)["spec"]["accessModes"] == ["ReadWriteMany"]


async def test_without_a_workspace_each_pod_has_an_empty_folder_and_there_is_no_claim() -> None:
    fake = await serving(team())
    volumes = {v["name"]: v for v in templates(fake)["team-lead-0"]["spec"]["volumes"]}
    assert volumes["workspace"] == {"name": "workspace", "emptyDir": {}}
    assert fake.cluster.refs("PersistentVolumeClaim") == []


UNCHANGEABLE: dict[str, tuple[Body, str]] = {
    "another access mode": (
        {"accessMode": "ReadWriteMany"},
        "was made with access mode ReadWriteOnce and cannot get another",
    ),
    "another class": (
        {"storageClassName": "fast"},
        "was made of class None and cannot get another",
    ),
    "less room": ({"size": "500Mi"}, "has 1Gi and cannot shrink to 500Mi"),
}


@pytest.mark.parametrize(("wanted", "message"), UNCHANGEABLE.values(), ids=UNCHANGEABLE)
async def test_a_claim_that_cannot_become(wanted: Body, message: str) -> None:
    fake = await serving(team(workspace={"size": "1Gi"}))
    writes = len([w for w in fake.cluster.writes if w[1].kind == CLAIM.kind])
    change(fake, team(workspace={"size": "1Gi", **wanted}))
    await settle(fake)
    expected = (
        "False",
        "ApplyFailed",
        (
            f"PersistentVolumeClaim/demo/workspace-team {message}; restore spec.workspace, or "
            "delete the claim and its data"
        ),
    )
    assert condition(fake, "Applied", FORMATION) == expected
    assert len([w for w in fake.cluster.writes if w[1].kind == CLAIM.kind]) == writes
    fake.cluster.edit(FORMATION, {"spec": {"workspace": None}})
    change(fake, team(workspace={"size": "1Gi"}))
    await settle(fake)
    assert condition(fake, "Applied", FORMATION)[:2] == ("True", "Applied")


async def test_a_claim_grows_and_an_equal_amount_in_other_words_is_no_growth() -> None:
    fake = await serving(team(workspace={"size": "1Gi"}))
    change(fake, team(workspace={"size": "2Gi"}))
    await settle(fake)
    request = fake.cluster.read(CLAIM)["spec"]["resources"]["requests"]
    assert request == {"storage": "2Gi"}
    change(fake, team(workspace={"size": "2048Mi"}))
    await settle(fake)
    assert condition(fake, "Applied", FORMATION)[0] == "True"


async def test_a_workspace_that_is_not_wanted_any_more_goes() -> None:
    fake = await serving(team(workspace={}))
    fake.cluster.edit(FORMATION, {"spec": {"workspace": None}})
    await settle(fake)
    assert fake.cluster.refs("PersistentVolumeClaim") == []


async def test_a_strangers_claim_is_left_alone() -> None:
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "workspace-team", "namespace": "demo"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    fake = fake_world(team(workspace={}), body)
    await settle(fake)
    assert condition(fake, "Applied", FORMATION)[:2] == ("False", "NameTaken")
    fake.cluster.remove(CLAIM)
    await settle(fake)
    assert condition(fake, "Applied", FORMATION)[:2] == ("True", "Applied")


async def test_a_team_that_is_scaled_down_rests_is_ready_and_wakes_with_the_same_pods() -> None:
    fake = await serving(team())
    initial_templates = templates(fake)
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {"kais.io/scaled-down": "true"}}})
    await settle(fake)
    replicas = {fake.cluster.read(r)["spec"]["replicas"] for r in fake.cluster.refs("Deployment")}
    assert replicas == {0}
    assert condition(fake, "Ready", FORMATION)[0] == "True"
    assert condition(fake, "Ready", teams.CELL)[:2] == ("True", "ScaledDown")
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {"kais.io/scaled-down": None}}})
    await settle(fake)
    replicas = {fake.cluster.read(r)["spec"]["replicas"] for r in fake.cluster.refs("Deployment")}
    assert replicas == {1}
    assert templates(fake) == initial_templates


async def test_a_mission_waits_until_a_resting_team_is_awake() -> None:
    cells = [
        {"name": "lead", "spec": teams.task()},
        {"name": "scout", "spec": services.service()},
    ]
    resting = {"annotations": {"kais.io/scaled-down": "true"}}
    fake = fake_world(teams.team(cells=cells, metadata=resting), teams.work())
    await settle(fake)
    await teams.settle(fake)
    state, reason, message = condition(fake, "Started")
    assert (state, reason) == ("False", "WaitingForCells")
    assert message == "waiting for cells: team-scout-0 is being scaled up"


async def test_a_paused_team_stays_paused_over_pod_events_and_writes_no_child() -> None:
    fake = await serving(team())
    fake.cluster.edit(FORMATION, PAUSE)
    change(fake, team(scouts=5))
    await settle(fake)
    assert len(fake.cluster.refs("Cell")) == 3
    message = "nothing is written while kais.io/reconcile is suspended"
    assert condition(fake, "Applied", FORMATION) == ("False", "Suspended", message)
    assert condition(fake, "Ready", FORMATION)[:2] == ("False", "Suspended")
    fake.cluster.set_status(fake.cluster.refs("Pod")[0], services.waiting("ErrImagePull", "no"))
    for ref in fake.cluster.refs("Cell"):
        await fake.settle(cell.CONTROLLER, ref)
    await fake.settle(formation.CONTROLLER, FORMATION)
    assert status(fake, FORMATION)["phase"] == "Paused"
    fake.cluster.edit(FORMATION, {"metadata": {"annotations": {"kais.io/reconcile": None}}})
    await settle(fake)
    assert len(fake.cluster.refs("Cell")) == 6
    assert condition(fake, "Applied", FORMATION)[:2] == ("True", "Applied")


async def test_a_budget_of_nothing_pauses_nobody() -> None:
    nothing = {"maxTotalCost": 0.0, "maxCostPerHour": 0.0}
    fake = await serving(team(budget=nothing))
    assert condition(fake, "Ready", FORMATION)[0] == "True"
    assert status(fake, FORMATION)["phase"] == "Running"
    assert fake.cluster.read(FORMATION)["spec"]["budget"] == nothing


async def test_a_formations_cell_keeps_its_limits_of_spawning_to_the_letter() -> None:
    limits = {"maxDepth": 2}
    cells = [{"name": "lead", "spec": services.service(recursion=limits)}]
    fake = fake_world(teams.team(cells=cells))
    await settle(fake)
    recursion = fake.cluster.read(teams.CELL)["spec"]["recursion"]
    assert recursion == {"maxDepth": 2, "maxDescendants": 50, "spawnPolicy": "open"}
    writes = len(fake.cluster.writes)
    await settle(fake)
    assert len(fake.cluster.writes) == writes


async def test_equal_names_in_two_namespaces_share_nothing() -> None:
    other_team = team()
    other_team["metadata"]["namespace"] = "other"
    fake = fake_world(team(), other_team)
    for namespace in ("demo", "other"):
        await settle(fake, ObjectRef("Formation", namespace, "team"))
    for ref in fake.cluster.refs("Deployment"):
        (container,) = services.template(fake, ref)["spec"]["containers"]
        fields = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert fields["CELL_NAMESPACE"] == ref.namespace
        assert fields["KNOWLEDGE_SCOPE"].startswith(f"realm:{ref.namespace}/formation:team/cell:")
        assert fields["KNOWLEDGE_GRAPH_ID"] == fields["KNOWLEDGE_SCOPE"]
