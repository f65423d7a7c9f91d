"""An upgrade restarts no team: what was rendered before is rendered today, to the letter.

`golden/rendered.json` was written by the first released rendering from `golden/formations.json`. A
difference is a restart, or a second Job, in every cluster that upgrades; it is never regenerated.
"""

import json
from pathlib import Path

import pytest

from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais_operator.controllers.cell.decide import cell_identity, service_workload_manifests
from kais_operator.controllers.cell.decide.cell_identity import CellInFormation
from kais_operator.controllers.formation.decide import formation as formations
from kais_operator.controllers.formation.decide import topology_maps
from kais_operator.controllers.mission.decide import job_manifest
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Body

GOLDEN = Path(__file__).parent / "golden"
DECLARED: dict[str, Body] = json.loads((GOLDEN / "formations.json").read_text())
RENDERED: dict[str, Body] = json.loads((GOLDEN / "rendered.json").read_text())
TEAM: Body = json.loads((GOLDEN / "services.json").read_text())
SERVICES: dict[str, Body] = json.loads((GOLDEN / "services_rendered.json").read_text())
MISSION = Parent("kais.io/v1", "Mission", "demo", "work", "uid-mission")
ATTEMPT_INPUTS = job_manifest.AttemptInputs(
    mission="work",
    run_id="run-1",
    attempt=1,
    objective="explain $(HOME)",
    message="begin",
    labelled={"kais.io/blueprint": "b", "kais.io/instance": "use"},
)


def job_of(formation: Formation, body: Body, *, number: int) -> Body:
    cell = Cell.from_dict({**body, "metadata": {**body["metadata"], "uid": f"cell-{number}"}})
    return job_manifest.attempt_job(
        MISSION,
        cell,
        cell_identity.identity(CellInFormation(cell, formation), sharing=()),
        inputs=ATTEMPT_INPUTS,
        knowledge_url="http://kais-knowledge.kais:8000",
        seconds=300,
    )


@pytest.mark.parametrize("name", DECLARED)
def test_the_cells_of_a_formation_are_what_they_were(name: str) -> None:
    *cells, _ = RENDERED[name]["children"]
    assert formations.cell_bodies(Formation.from_dict(DECLARED[name])) == cells


@pytest.mark.parametrize("name", DECLARED)
def test_the_map_that_pods_mount_keeps_its_name_and_its_peers_file(name: str) -> None:
    """A file was added beside it, which restarts no pod: pods mount the whole map."""
    *_, initial_state = RENDERED[name]["children"]
    formation = Formation.from_dict(DECLARED[name])
    routes = topology_maps.map_body(formation, formations.parent_of(formation))
    assert routes["metadata"]["name"] == initial_state["metadata"]["name"]
    assert routes["data"] == {
        **initial_state["data"],
        "topology.json": routes["data"]["topology.json"],
    }


@pytest.mark.parametrize("name", DECLARED)
def test_the_pod_of_an_attempt_is_what_it_was(name: str) -> None:
    formation = Formation.from_dict(DECLARED[name])
    cells = formations.cell_bodies(formation)
    jobs = [job_of(formation, body, number=i) for i, body in enumerate(cells)]
    assert [template(job) for job in jobs] == [template(job) for job in RENDERED[name]["jobs"]]


def test_the_pod_of_a_service_is_what_it_was() -> None:
    assert services_of(Formation.from_dict(TEAM)) == SERVICES


def services_of(formation: Formation) -> dict[str, Body]:
    """The Deployment and the Service of each cell; they were written by the first of their kind."""
    manifest = {}
    for body in formations.cell_bodies(formation):
        metadata = {**body["metadata"], "uid": f"uid-{body['metadata']['name']}"}
        cell = Cell.from_dict({**body, "metadata": metadata})
        cell_in_formation = CellInFormation(cell, formation)
        workload = service_workload_manifests.workload(
            Parent("kais.io/v1", "Cell", "demo", cell.metadata.name, cell.metadata.uid),
            cell_in_formation,
            cell_identity.identity(cell_in_formation, sharing=()),
            knowledge_url="http://kais-knowledge.kais:8000",
            replicas=1,
        )
        manifest[cell.metadata.name] = {
            "deployment": workload.deployment,
            "service": workload.service,
        }
    return manifest


def template(job: Body) -> Body:
    """The pod template but for its deadline: a Job is made once, and never changed after."""
    pod = dict(job["spec"]["template"]["spec"])
    pod.pop("activeDeadlineSeconds", None)
    return {**job["spec"]["template"], "spec": pod}
