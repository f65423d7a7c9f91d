"""The example with a mind: a valid Blueprint, and rules that are the same for each run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

from kais import agent_tools
from kais.resources.blueprint import Blueprint
from tests.model_server import conversation, script
from tests.model_server.app import ModelServer

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/log-explainer"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
FACT = (
    'The indexer reports "write failed: database or disk is full (13)" because the disk /data was '
    "full; deleting old segments of the index helps."
)


def manifests(name: str) -> list[dict[str, Any]]:
    return [body for body in yaml.safe_load_all((EXAMPLE / name).read_text()) if body]


def rules() -> script.Script:
    config = next(body for body in manifests("scripted-model.yaml") if body["kind"] == "ConfigMap")
    return script.parse(config["data"]["script.yaml"])


def answers(knowledge: str) -> list[str]:
    """The rules that answer one after another until an answer calls no tool."""
    server = ModelServer(rules())
    messages = [{"role": "user", "content": f"Explain this log. {knowledge}"}]
    names: list[str] = []
    while True:
        asked = conversation.from_openai({"model": "scripted", "messages": messages})
        rule = server.find_rule(asked)
        assert rule is not None
        names.append(rule.name)
        if not rule.reply.tool_calls:
            return names
        messages += [{"role": "assistant", "content": ""}, {"role": "tool", "content": "done"}]


def test_the_blueprint_renders_with_tools_that_exist() -> None:
    blueprint = Blueprint.from_dict(manifests("blueprint.yaml")[0])

    cell = blueprint.spec.formation["cells"][0]["spec"]
    assert agent_tools.problem(tool["name"] for tool in cell["tools"]) is None


def test_the_fact_of_the_first_run_halves_the_turns_of_the_second() -> None:
    assert answers("") == ["recalls", "writes", "remembers", "answers"]
    assert answers(f'<knowledge receipt="r"><fact id="1">{FACT}</fact></knowledge>') == [
        "knows the cause and writes",
        "knows the cause and answers",
    ]


def test_another_fact_of_equal_length_saves_no_turn() -> None:
    other = FACT.replace("/data was full", "/tmp was empty")  # noqa: S108 - a text

    assert len(other) == len(FACT)
    assert len(answers(f"<knowledge>{other}</knowledge>")) == len(answers(""))


def test_the_script_remembers_the_fact_that_it_knows_later() -> None:
    remembers = next(rule for rule in rules().rules if rule.name == "remembers")

    assert remembers.reply.tool_calls[0].arguments["fact"] == FACT


def test_the_scripted_model_has_the_image_of_this_version() -> None:
    pod = next(body for body in manifests("scripted-model.yaml") if body["kind"] == "Pod")

    assert pod["spec"]["containers"][0]["image"] == f"localhost/kais/model-server:{VERSION}"
