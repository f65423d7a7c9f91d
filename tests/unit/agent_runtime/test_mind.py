import json

import pytest

from agent_runtime import mind, settings
from agent_runtime.errors import AgentError
from kais.agent_results import FailureClass
from tests.agent_attempts import cell_spec

BASE = {"CELL_NAME": "critic-0", "CELL_SPEC": json.dumps(cell_spec())}


def load(**environment: str) -> mind.MindConfig:
    return mind.load(settings.from_environment({**BASE, **environment}))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{", "spec: Invalid JSON"),
        ("{}", "exactly one of mind and container is needed"),
        (
            json.dumps({"container": {"image": "x"}}),
            "spec.mind is missing; the agent runtime runs cells with a mind only",
        ),
        (json.dumps(cell_spec(mind={"model": 3})), "spec.mind.model: "),
        (
            json.dumps(cell_spec(tools=[{"name": "telepathy"}])),
            "spec.tools: unknown: telepathy; known are recall, remember",
        ),
        (
            json.dumps(cell_spec(tools=[{"name": "shell"}])),
            "spec.tools: not yet supported: shell; remove them",
        ),
    ],
)
def test_a_spec_that_cannot_be_run_is_named(spec, message):
    with pytest.raises(AgentError) as caught:
        load(CELL_SPEC=spec)
    assert caught.value.failure.reason is FailureClass.INVALID_CONFIGURATION
    assert message in caught.value.failure.message


def test_the_spec_may_come_from_a_file(tmp_path):
    file = tmp_path / "cell-spec.json"
    file.write_text(json.dumps(cell_spec(mind={"model": "large"})))
    assert load(KAIS_CELL_SPEC_FILE=str(file)).model == "large"


def test_the_endpoint_of_the_spec_comes_before_that_of_the_installation():
    assert load(KAIS_MODEL_URL="http://chart/v1").base_url == "http://model.example/v1"
    spec = cell_spec()
    del spec["mind"]["baseUrl"]
    spec_text = json.dumps(spec)
    assert load(KAIS_MODEL_URL="http://chart/v1", CELL_SPEC=spec_text).base_url == "http://chart/v1"
    assert load(CELL_SPEC=spec_text).base_url is None


def test_instructions_come_from_their_file(tmp_path):
    spec = cell_spec(mind={"instructionsFrom": {"configMap": "prompts", "key": "critic"}})
    del spec["mind"]["systemPrompt"]
    file = tmp_path / "critic"
    file.write_text("You judge.")
    text = json.dumps(spec)
    assert load(CELL_SPEC=text, KAIS_INSTRUCTIONS_FILE=str(file)).prompt == "You judge."
    file.unlink()
    with pytest.raises(AgentError, match=r"spec.mind.instructionsFrom: cannot read .*critic"):
        load(CELL_SPEC=text, KAIS_INSTRUCTIONS_FILE=str(file))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CELL_NAME", "", "CELL_NAME is not set; the agent runtime runs in the pod of a cell"),
        ("KAIS_MAX_COST", "much", "KAIS_MAX_COST is 'much'; it must be an amount in US dollars"),
        (
            "KAIS_MAX_COST",
            "",
            "KAIS_MAX_COST is empty; the pod has lost its annotation kais.io/max",
        ),
        ("KAIS_COST_SPENT", "-1", "KAIS_COST_SPENT is '-1'; it must be"),
        ("KAIS_COST_SPENT_HOUR", "inf", "KAIS_COST_SPENT_HOUR is 'inf'; it must be"),
        ("KAIS_RESULT_BYTES", "100", "KAIS_RESULT_BYTES is '100'; it must be 240 or more"),
        ("KAIS_LOG_LEVEL", "loud", "KAIS_LOG_LEVEL is 'loud'; it must be one of DEBUG, INFO"),
        ("KAIS_CELL_SPEC_FILE", "/absent", "KAIS_CELL_SPEC_FILE: cannot read /absent"),
    ],
)
def test_an_invalid_setting_is_named(name, value, message):
    with pytest.raises(AgentError) as caught:
        settings.from_environment({**BASE, name: value})
    assert caught.value.failure.reason is FailureClass.INVALID_CONFIGURATION
    assert message in caught.value.failure.message
