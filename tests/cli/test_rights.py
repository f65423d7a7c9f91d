"""`kais doctor` checks the rights that commands use: each that a command takes, and no other."""

import pytest
import yaml

from kais_cli.cluster.install_defaults import Release
from kais_cli.doctor import permissions
from tests.cli import objects
from tests.unit.charts.test_charts import RULES, grants

COMMANDS = (
    "blueprint list",
    "blueprint show doctor",
    "blueprint history doctor",
    "blueprint rollback doctor --to 1",
    "blueprint use doctor --set who=bob --name fresh --no-wait",
    "mission list",
    "mission show doctor-x2k4f",
    "mission logs doctor-x2k4f",
    "mission abort doctor-x2k4f",
    "formation list",
    "formation show doctor-x2k4f",
    "formation scale doctor-x2k4f --cell doctor --replicas 2",
    "mission watch doctor-x2k4f",
    "mission retry doctor-x2k4f --no-wait",
    "knowledge list",
)


def owned(mission):
    """A mission of the use of the same name, which `retry` annotates in its stead."""
    owner = {"apiVersion": "kais.io/v1", "kind": "BlueprintInstance", "controller": True}
    mission["metadata"]["ownerReferences"] = [owner | {"name": "doctor-x2k4f", "uid": "u"}]
    return mission


@pytest.fixture
def used(terminal, cluster, knowledge):
    """The rights that many commands took; each command did its work."""
    cluster.put(objects.blueprint())
    for number in (1, 2):
        cluster.put(objects.revision(number=number))
    cluster.put(objects.instance())
    cluster.put(owned(objects.mission(phase="Running", attempt=1)))
    cluster.put(objects.made("Formation", "doctor-x2k4f", objects.TEMPLATE["formation"]))
    pod = {"name": "p", "namespace": "demo", "labels": {"kais.io/mission": "doctor-x2k4f"}}
    spec = {"containers": [{"name": "work"}]}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec})
    cluster.put(objects.knowledge_pod())
    cluster.put(objects.account())
    knowledge.answers["GET /v1/facts"] = {"facts": []}
    for line in COMMANDS:
        cluster.script = [owned(objects.ended())]
        assert terminal.run(*line.split()) == 0, (line, terminal.err)
    return cluster.used


def checked():
    intervals = (*permissions.IN_NAMESPACE, *permissions.of_release(Release()))
    return {(verb, right.resource) for right in intervals for verb in right.verbs}


def test_every_right_that_a_command_takes_is_checked(used):
    assert used <= checked()


def test_every_checked_right_to_write_is_one_that_a_command_takes(used):
    writes = {
        (verb, subject) for verb, subject in checked() if verb not in ("get", "list", "watch")
    }
    assert writes <= used


def test_doctor_asks_for_every_one_of_them(terminal, cluster):
    terminal.run("doctor")
    assert cluster.checked == checked()


def test_the_charts_roles_grant_what_doctor_tells_people_to_ask_for():
    view, edit, release = (
        grants(yaml.safe_load((RULES / f"people-{name}.yaml").read_text()))
        for name in ("view", "edit", "release")
    )
    for right in permissions.IN_NAMESPACE:
        for verb in right.verbs:
            assert (right.group, right.resource, verb) in view | edit
    for right in permissions.of_release(Release()):
        for verb in right.verbs:
            assert (right.group, right.resource, verb) in release


def test_the_roles_of_a_namespace_hold_nothing_but_objects_of_kais_and_what_commands_use(used):
    files = ("people-view", "people-edit")
    granted = {
        (verb, resource)
        for name in files
        for group, resource, verb in grants(yaml.safe_load((RULES / f"{name}.yaml").read_text()))
        if group != "kais.io"
    }
    assert granted <= used
    assert granted == {("list", "pods"), ("get", "pods/log"), ("create", "serviceaccounts/token")}


def test_who_lacks_get_on_portforward_is_told_so(terminal, cluster):
    cluster.forbidden = {("get", "pods/portforward")}
    terminal.run("doctor")
    assert (
        "warning  rights    you may not reach the knowledge service in kais-system: no right to"
        " get pods/portforward"
    ) in terminal.out
    assert "→ ask for the Role kais-people of kais-system" in terminal.out
