"""Objects are parsed once for each content, whoever reads them."""

from kais.resources.cell import Cell
from kais.resources.formation import Formation
from kais_operator.controllers.shared.observe import shared_reads
from kais_operator.planning.status_and_events import InvalidObject
from tests.fakes import teams


def test_an_object_read_twice_is_parsed_once():
    first, second = teams.lone_cell("solo"), teams.lone_cell("solo")
    assert first is not second
    assert shared_reads.parse_resource(Cell, first) is shared_reads.parse_resource(Cell, second)


def test_an_object_with_another_label_is_parsed_anew_though_its_version_is_the_same():
    body = teams.lone_cell("solo")
    labelled = {**body, "metadata": {**body["metadata"], "labels": {"team": "blue"}}}
    shared_reads.parse_resource(Cell, body)
    parsed = shared_reads.parse_resource(Cell, labelled)
    assert isinstance(parsed, Cell)
    assert parsed.metadata.labels == {"team": "blue"}


def test_an_invalid_object_is_reported_each_time_with_the_same_words():
    body = teams.team(cells=[{"name": "lead", "replicas": -1, "spec": teams.task()}])
    reports = [shared_reads.parse_resource(Formation, body) for _ in range(2)]
    problems = [one.problem for one in reports if isinstance(one, InvalidObject)]
    assert len(problems) == 2
    assert problems[0] == problems[1]
    assert "replicas" in problems[0]
