"""`-o json` and `-o yaml` print one case of letters: the camelCase of Kubernetes."""

import inspect
import json
import re
from datetime import UTC, datetime

import pydantic
import pytest
import yaml

from kais_cli.views import model_trees, output
from kais_cli.views.output import Format
from knowledge_client import models
from tests.cli import objects

MODELS = [
    model
    for _, model in inspect.getmembers(models, inspect.isclass)
    if issubclass(model, pydantic.BaseModel)
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_of_the_service_has_a_name_of_its_own_in_camel_case(model):
    names = [
        model_trees.to_camel_case(field.alias or name) for name, field in model.model_fields.items()
    ]
    assert all(re.fullmatch(r"[a-z][A-Za-z0-9]*", name) for name in names)
    assert len(set(names)) == len(names)


def test_fields_are_converted_at_every_depth_and_keys_of_data_are_not():
    fact = models.Fact(
        **objects.fact("f1", "The pier is wet."),
        data={"wind_speed": {"in_knots": 12}},
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    link = models.Link(
        id="l1", type="derived_from", from_="f1", to="f2", recorded_at=at, actor="system"
    )
    tree = json.loads(output.dump({"items": [fact], "link": link}, Format.JSON))
    assert tree["items"][0]["recordedAt"]
    assert tree["items"][0]["source"]["type"] == "mission_extraction"
    assert tree["items"][0]["data"] == {"wind_speed": {"in_knots": 12}}
    assert (tree["link"]["from"], tree["link"]["type"]) == ("f1", "derived_from")
    assert "from_" not in tree["link"]


def test_values_are_those_of_the_service():
    usage = models.UsageCount(count=2, last_at=datetime(2026, 1, 2, tzinfo=UTC))
    impact = models.Impact(fact="f1", usage={"succeeded": usage})
    text = output.dump(impact, Format.YAML)
    assert yaml.safe_load(text)["usage"]["succeeded"] == {
        "count": 2,
        "lastAt": "2026-01-02T00:00:00Z",
    }


def test_lists_recalls_and_pages_of_a_fact_print_the_same_names(shell):
    key = shell("add", "The pier is wet.", "--scope", shell.realm).strip()
    (listed,) = json.loads(shell("list", "--scope", shell.realm, "-o", "json"))
    answer = json.loads(shell("recall", "pier", "--scope", shell.realm, "-o", "json"))
    shown = json.loads(shell("show", key, "-o", "json"))
    reasoned = json.loads(shell("why", key, "-o", "json"))
    assert listed == shown == reasoned["fact"]
    (recalled,) = answer["facts"]
    assert recalled["recordedAt"] == shown["recordedAt"]
    trees = (listed, answer, recalled, reasoned)
    assert not [name for tree in trees for name in tree if "_" in name]


def test_the_name_of_a_provenance_is_the_id_of_its_fact(shell):
    key = shell("add", "The pier is wet.", "--scope", shell.realm)
    assert shell("why", key.strip(), "-o", "name") == key


def test_printed_facts_are_read_by_an_import(shell, tmp_path):
    shell("add", "The pier is wet.", "--scope", shell.realm, "--valid-from", "2026-01-01")
    (fact,) = json.loads(shell("list", "--scope", shell.realm, "-o", "json"))
    file = tmp_path / "facts.jsonl"
    file.write_text(json.dumps(fact) + "\n")
    other = f"{shell.namespace}-b"
    shell("import", "--from", str(file), namespace=other)
    assert shell.terminal.err == "1 fact stored, 0 existing confirmed\n"
    (copy,) = json.loads(shell("list", "--scope", f"realm:{other}", "-o", "json", namespace=other))
    assert copy["validFrom"] == fact["validFrom"] == "2026-01-01T00:00:00Z"
