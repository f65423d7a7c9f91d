import json

import pytest
import yaml

from kais_cli.exit_status import ExitStatus
from tests.cli import objects

RENDER = ("blueprint", "render", "doctor", "--set", "who=bob")


@pytest.fixture(autouse=True)
def served(cluster):
    cluster.put(objects.blueprint())
    cluster.put(objects.revision())


def test_formation_and_mission_are_printed_as_they_would_be_made(terminal, cluster):
    assert terminal.run(*RENDER) == 0
    formation, mission = yaml.safe_load_all(terminal.out)
    assert (formation["kind"], formation["metadata"]["name"]) == ("Formation", "doctor-x2k4f")
    assert formation["spec"]["cells"][0]["spec"]["container"]["image"] == "doctor:1"
    assert formation["spec"]["knowledge"]["scope"] == "doctor"
    assert mission["spec"]["objective"] == "look for bob within 5 s"
    assert mission["spec"]["formationRef"] == "doctor-x2k4f"
    assert cluster.created == []


def test_json_is_a_list_and_names_are_for_pipes(terminal):
    terminal.run(*RENDER, "-o", "json")
    assert [body["kind"] for body in json.loads(terminal.out)] == ["Formation", "Mission"]
    terminal.run(*RENDER, "-o", "name")
    assert terminal.out == "formation.kais.io/doctor-x2k4f\nmission.kais.io/doctor-x2k4f\n"


def test_a_template_that_fails_names_the_leaf(terminal, cluster):
    broken = objects.revision()
    broken["spec"] |= {"mission": {"objective": "{{ seconds / 0 }}"}}
    cluster.put(broken)
    assert terminal.run(*RENDER) == ExitStatus.USAGE
    assert "BlueprintRevision/demo/doctor-r00002 cannot be rendered" in terminal.err
    assert "mission.objective" in terminal.err
