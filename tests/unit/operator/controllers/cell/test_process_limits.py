"""What a pod is given must be what a process can be given: checked, named, or put into a file."""

import json
from typing import Any

import pytest

from kais_operator.controllers.cell.decide import process_limits
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import services, teams
from tests.fakes.services import SOLO, lone_service
from tests.fakes.teams import CELL, MISSION, condition, job_ref, status
from tests.fakes.world import FakeWorld, fake_world

LIMIT = 131_072
SPEC_MAP = ObjectRef("ConfigMap", "demo", "team-lead-0-cell-spec")
WIDE = "🛟" * 60_000  # 240,000 bytes in fewer characters than the CRD allows


def variables(*values: str) -> list[Body]:
    return [{"name": f"V{i}", "value": value} for i, value in enumerate(values)]


def team(*values: str, **container: Any) -> Body:
    manifest = {"image": "worker:1", "env": variables(*values), **container}
    return teams.team(cells=[{"name": "lead", "spec": {"mode": "Task", "container": manifest}}])


async def settled(*bodies: Body) -> FakeWorld:
    fake = fake_world(*bodies)
    await teams.settle_team(fake)
    return fake


def environment(container: Body) -> dict[str, str]:
    return {first["name"]: first["value"] for first in container["env"]}


def test_the_longest_variable_fits_and_one_byte_more_does_not() -> None:
    name = "KAIS_OBJECTIVE"
    longest = "x" * (LIMIT - len(name) - len("=") - 1)
    assert process_limits.fits(name, longest)
    assert not process_limits.fits(name, longest + "x")


def test_a_doubled_dollar_counts_once() -> None:
    container = {"name": "c", "env": [{"name": "A", "value": "$$" * 100_000}]}
    assert process_limits.problem([container]) is None


@pytest.mark.parametrize(
    ("container", "field"),
    [
        pytest.param({"env": variables(WIDE)}, "env V0", id="a variable"),
        pytest.param({"args": ["a", WIDE]}, "args[1] of container cell", id="an argument"),
        pytest.param({"command": [WIDE]}, "command[0] of container cell", id="a command"),
    ],
)
async def test_a_cell_says_which_field_no_process_can_be_given(container: Body, field: str) -> None:
    fake = await settled(team(**container))
    state, reason, message = condition(fake, "Applied", CELL)
    assert (state, reason) == ("False", "TooLarge")
    assert message.startswith(f"{field} takes 240")
    assert message.endswith(
        "bytes, and a process accepts 131072 in one argument or variable: shorten it, or put "
        "it into a file"
    )
    assert condition(fake, "Ready", CELL)[1] == "TooLarge"
    small = {"container": {"image": "worker:1"}}
    fake.cluster.edit(teams.FORMATION, {"spec": {"cells": [{"name": "lead", "spec": small}]}})
    await teams.settle_team(fake)
    assert condition(fake, "Applied", CELL)[0] == "True"
    assert condition(fake, "Ready", CELL)[0] == "True"


async def test_the_sum_of_the_variables_is_bounded_too() -> None:
    fake = await settled(team(*["x" * 65_000] * 30))
    state, reason, message = condition(fake, "Applied", CELL)
    assert (state, reason) == ("False", "TooLarge")
    assert message.startswith("the arguments and variables of container cell take 19")
    assert "a process accepts 1835008: the largest is env V10 with 65005; shorten it, or" in message


async def test_a_spec_that_fits_stays_in_the_environment() -> None:
    fake = await settled(team("x" * 60_000), teams.work())
    await teams.settle(fake)
    sample_environment = environment(
        fake.cluster.read(job_ref())["spec"]["template"]["spec"]["containers"][0]
    )
    assert json.loads(sample_environment["CELL_SPEC"])["container"]["env"][0]["name"] == "V0"
    assert "KAIS_CELL_SPEC_FILE" not in sample_environment
    assert SPEC_MAP not in fake.cluster.refs("ConfigMap")


async def test_a_large_spec_is_a_file_that_every_container_mounts() -> None:
    check = {"name": "built", "type": "command", "command": "true"}
    tasks = teams.work(completion={"checks": [check]})
    fake = await settled(team(*["x" * 60_000] * 3), tasks)
    spec = json.loads(fake.cluster.read(SPEC_MAP)["data"]["cell-spec.json"])
    assert len(spec["container"]["env"]) == 3
    await teams.settle(fake)
    pod = fake.cluster.read(job_ref())["spec"]["template"]["spec"]
    assert {"name": "kais-cell-spec", "configMap": {"name": SPEC_MAP.name}} in pod["volumes"]
    for container in (*pod["initContainers"], *pod["containers"]):
        sample_environment = environment(container)
        assert "CELL_SPEC" not in sample_environment
        assert sample_environment["KAIS_CELL_SPEC_FILE"] == "/etc/kais/cell/cell-spec.json"
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts["kais-cell-spec"] == "/etc/kais/cell"


async def test_a_large_spec_of_a_service_cell_is_there_before_its_deployment() -> None:
    env = variables(*["x" * 60_000] * 3)
    service = lone_service(container={"image": "worker:1", "env": env})
    fake = await services.settled(service, ref=SOLO)
    kinds = [ref.kind for verb, ref in fake.cluster.writes if verb == "create"]
    assert kinds.index("ConfigMap") < kinds.index("Deployment")
    initial_count = len(fake.cluster.writes)
    await fake.step(cell.CONTROLLER, SOLO)
    assert len(fake.cluster.writes) == initial_count, "it is settled"


async def test_a_deployment_that_never_starts_is_rendered_anew() -> None:
    """An earlier version gave its pods a CELL_SPEC of any size; templates are kept otherwise."""
    env = variables(*["x" * 60_000] * 3)
    service = lone_service(container={"image": "worker:1", "env": env})
    fake = await services.settled(service, ref=SOLO)
    (ref,) = fake.cluster.refs("Deployment")
    (container,) = fake.cluster.read(ref)["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "CELL_SPEC", "value": "x" * 200_000}]
    earlier = {
        "metadata": {"annotations": {"kais.io/rendered": "earlier"}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    fake.cluster.edit(ref, earlier)
    await fake.settle(cell.CONTROLLER, SOLO)
    (container,) = fake.cluster.read(ref)["spec"]["template"]["spec"]["containers"]
    assert environment(container)["KAIS_CELL_SPEC_FILE"] == "/etc/kais/cell/cell-spec.json"


async def test_an_objective_that_no_process_can_be_given_is_named_before_a_job_is_made() -> None:
    fake = await settled(team(), teams.work(objective=WIDE))
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    assert condition(fake, "Started", MISSION) == (
        "False",
        "TooLarge",
        (
            "spec.objective takes 240016 bytes, and a process accepts 131072 in one argument "
            "or variable: shorten it, or put it into a file"
        ),
    )
    fake.cluster.edit(MISSION, {"spec": {"objective": "short"}})
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == [job_ref()]
    assert condition(fake, "Started", MISSION)[1] != "TooLarge"


async def test_an_objective_too_large_for_the_containers_of_all_checks_is_named() -> None:
    checks = [{"name": f"c{i}", "type": "command", "command": "true"} for i in range(20)]
    tasks = teams.work(objective="🛟" * 20_000, completion={"checks": checks})
    fake = await settled(team(), tasks)
    await teams.settle(fake)
    assert fake.cluster.refs("Job") == []
    state, reason, message = condition(fake, "Started", MISSION)
    assert (state, reason) == ("False", "TooLarge")
    assert message.startswith("the arguments and variables of 21 containers take more than the")
    assert "the largest is spec.objective with 80016 in each" in message
    fake.clock.advance(301)
    await teams.settle(fake)
    assert status(fake)["outcome"] == "InfrastructureFailed"


async def test_a_spec_larger_than_a_map_is_named() -> None:
    tools = [{"name": f"t{i}", "config": {"text": "x" * 200_000}} for i in range(6)]
    cells = [{"name": "lead", "spec": teams.task(tools=tools)}]
    fake = fake_world(teams.team(cells=cells))
    await fake.settle(formation.CONTROLLER, teams.FORMATION)
    await fake.settle(cell.CONTROLLER, CELL)
    assert condition(fake, "Applied", CELL)[1] == "TooLarge"
    assert condition(fake, "Applied", CELL)[2].startswith("spec takes 1200")
