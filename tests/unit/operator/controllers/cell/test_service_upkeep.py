"""What keeps a service cell as it is declared, and what restarts nobody."""

from dataclasses import replace

import pytest

from kais_operator.controllers.cell.decide import service_workload_actions
from kais_operator.controllers.cell.observe import cell
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Apply, Body, ObjectRef
from kais_operator.ports import Placement
from tests.fakes import services, teams
from tests.fakes.services import DEPLOYMENT, SOLO, lone_service, serving, settled, template
from tests.fakes.teams import condition
from tests.fakes.world import FakeWorld


async def look(fake: FakeWorld) -> None:
    await fake.settle(cell.CONTROLLER, SOLO)


async def test_a_settled_service_writes_nothing() -> None:
    fake = await serving()
    initial_writes = list(fake.cluster.writes)
    plan = await fake.step(cell.CONTROLLER, SOLO)
    assert plan is not None
    assert plan.actions == ()
    assert fake.cluster.writes == initial_writes


async def test_an_amount_in_another_spelling_is_no_drift() -> None:
    fake = await serving(lone_service(resources={"cpuLimit": "0.5", "memoryLimit": 268435456}))
    spec = fake.cluster.read(DEPLOYMENT)["spec"]
    spec["template"]["spec"]["containers"][0]["resources"]["limits"] = {
        "cpu": "500m",
        "memory": "256Mi",
    }
    fake.cluster.edit(DEPLOYMENT, {"spec": spec})
    services.rolled_out(fake)
    plan = await fake.step(cell.CONTROLLER, SOLO)
    assert plan is not None
    assert plan.actions == ()


async def test_neither_a_newer_operator_nor_its_settings_restart_a_pod() -> None:
    fake = await serving()
    initial_template = template(fake)
    moved = Placement(operator_namespace="kais-system", knowledge_url="http://elsewhere:1")
    fake.world = replace(fake.world, placement=moved)
    await look(fake)
    assert template(fake) == initial_template
    fake.cluster.edit(SOLO, {"spec": {"container": {"image": "worker:2"}}})
    await look(fake)
    (container,) = template(fake)["spec"]["containers"]
    fields = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert fields["KNOWLEDGE_SERVICE_URL"] == "http://elsewhere:1"


DRIFTS: dict[str, Body] = {
    "its image": {"image": "evil:1"},
    "its command": {"command": ["/bin/sh"]},
}


@pytest.mark.parametrize("is_upgraded", [False, True], ids=["", "by a newer operator too"])
@pytest.mark.parametrize("edit", DRIFTS.values(), ids=DRIFTS)
async def test_a_deployment_that_was_edited_is_brought_back(edit: Body, is_upgraded: bool) -> None:
    container = {"image": "worker:1", "command": ["/work"]}
    fake = await serving(lone_service(container=container))
    if is_upgraded:
        moved = Placement(operator_namespace="kais-system", knowledge_url="http://elsewhere:1")
        fake.world = replace(fake.world, placement=moved)
    spec = fake.cluster.read(DEPLOYMENT)["spec"]
    spec["template"]["spec"]["containers"][0] |= edit
    fake.cluster.edit(DEPLOYMENT, {"spec": spec})
    await look(fake)
    (repaired_container,) = template(fake)["spec"]["containers"]
    assert (repaired_container["image"], repaired_container["command"]) == ("worker:1", ["/work"])


async def test_a_label_of_a_newer_revision_restarts_no_pod() -> None:
    body = lone_service()
    body["metadata"]["labels"] = {"kais.io/revision": "1"}
    fake = await serving(body)
    initial_template = template(fake)
    fake.cluster.edit(SOLO, {"metadata": {"labels": {"kais.io/revision": "2"}}})
    await look(fake)
    assert template(fake) == initial_template
    assert fake.cluster.read(DEPLOYMENT)["metadata"]["labels"]["kais.io/revision"] == "2"


async def test_a_formation_that_goes_first_restarts_nobody() -> None:
    fake = await settled(
        teams.team(cells=[{"name": "lead", "spec": services.service()}], workspace={}),
        lone_service(formationRef="team"),
    )
    initial_template = template(fake)
    assert initial_template["spec"]["volumes"][2] == {
        "name": "workspace",
        "persistentVolumeClaim": {"claimName": "workspace-team"},
    }
    fake.cluster.vanish(teams.FORMATION)
    await look(fake)
    assert template(fake) == initial_template


NO_DEADLINE = 2_147_483_647
REVISION = "deployment.kubernetes.io/revision"


async def test_a_new_deployment_has_no_progress_deadline_and_its_first_revision() -> None:
    fake = await settled(lone_service())
    manifest = fake.cluster.read(DEPLOYMENT)
    assert manifest["spec"]["progressDeadlineSeconds"] == NO_DEADLINE
    assert manifest["metadata"]["annotations"][REVISION] == "1"


async def test_a_changed_cell_leaves_the_deadline_as_it_is_and_the_revision_to_the_controller() -> (
    None
):
    fake = await serving()
    fake.cluster.edit(DEPLOYMENT, {"metadata": {"annotations": {REVISION: "7"}}})
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["metadata"]["annotations"][REVISION] == "7"
    fake.cluster.edit(SOLO, {"spec": {"container": {"image": "worker:2"}}})
    await look(fake)
    manifest = fake.cluster.read(DEPLOYMENT)
    assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "worker:2"
    assert manifest["spec"]["progressDeadlineSeconds"] == NO_DEADLINE
    assert manifest["metadata"]["annotations"].get(REVISION) != "1"


async def test_a_cell_that_may_not_run_is_stopped_with_the_deadline_as_it_is() -> None:
    fake = await serving()
    manifest = fake.cluster.read(DEPLOYMENT)
    cell_body = fake.cluster.read(SOLO)
    metadata = cell_body["metadata"]
    owner = Parent("kais.io/v1", "Cell", "demo", "solo", metadata["uid"])
    (stop,) = service_workload_actions.stop_actions(
        owner, service_workload_actions.Children(deployment=manifest)
    )
    assert isinstance(stop, Apply)
    assert stop.body["spec"]["progressDeadlineSeconds"] == NO_DEADLINE


async def test_a_deployment_of_an_earlier_version_stays_as_it_is() -> None:
    fake = await serving()
    earlier = {
        "spec": {"progressDeadlineSeconds": 600},
        "metadata": {"annotations": {REVISION: "3"}},
    }
    fake.cluster.edit(DEPLOYMENT, earlier)
    services.rolled_out(fake)
    initial_writes = list(fake.cluster.writes)
    await look(fake)
    assert fake.cluster.writes == initial_writes
    fake.cluster.edit(SOLO, {"spec": {"container": {"image": "worker:2"}}})
    await look(fake)
    manifest = fake.cluster.read(DEPLOYMENT)
    assert manifest["spec"].get("progressDeadlineSeconds", 600) == 600


async def test_a_deadline_that_another_client_sets_is_removed() -> None:
    fake = await serving()
    fake.cluster.edit(DEPLOYMENT, {"spec": {"progressDeadlineSeconds": 30}})
    await look(fake)
    assert fake.cluster.read(DEPLOYMENT)["spec"].get("progressDeadlineSeconds", 600) == 600


NAMESAKES: dict[str, Body] = {
    "Deployment": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "solo", "namespace": "demo"},
        "spec": {"replicas": 7},
    },
    "Service": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "solo", "namespace": "demo"},
        "spec": {"clusterIP": "10.0.0.7"},
    },
}


@pytest.mark.parametrize("kind", NAMESAKES)
async def test_somebody_elses_child_is_left_alone_until_it_goes(kind: str) -> None:
    fake = await settled(lone_service(), NAMESAKES[kind])
    message = (
        f"{kind}/demo/solo exists already and does not belong to Cell/demo/solo; delete or rename "
        "it, it is left untouched"
    )
    assert condition(fake, "Applied", SOLO) == ("False", "NameTaken", message)
    assert condition(fake, "Ready", SOLO)[:2] == ("False", "NameTaken")
    ref = ObjectRef(kind, "demo", "solo")
    assert fake.cluster.read(ref)["spec"] == NAMESAKES[kind]["spec"]
    fake.cluster.edit(ref, {"metadata": {"finalizers": ["x/y"]}})
    fake.cluster.remove(ref)
    await fake.step(cell.CONTROLLER, SOLO)
    assert condition(fake, "Applied", SOLO)[1] == "Deleting"
    fake.cluster.vanish(ref)
    await look(fake)
    assert condition(fake, "Applied", SOLO)[:2] == ("True", "Applied")


async def test_a_cell_that_becomes_a_task_loses_its_deployment_and_its_service() -> None:
    fake = await serving()
    fake.cluster.edit(SOLO, {"spec": {"mode": "Task"}})
    await look(fake)
    assert fake.cluster.refs("Deployment") == fake.cluster.refs("Service") == []
    assert condition(fake, "Ready", SOLO)[:2] == ("True", "Standby")


async def test_a_task_leaves_a_strangers_deployment_alone() -> None:
    fake = await settled(teams.lone_cell(), *NAMESAKES.values())
    assert len(fake.cluster.refs("Deployment") + fake.cluster.refs("Service")) == 2
