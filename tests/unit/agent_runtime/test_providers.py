"""Each provider by its own SDK: the same attempt, the same result."""

import json

import pytest

from kais.agent_results import FailureClass
from tests.agent_attempts import World, cell_spec, system_text, user_text
from tests.model_server.journal import fingerprint

TWO_TURNS = """
keys: [the-right-key]
rules:
  - name: write
    when: {turn: 1}
    reply:
      text: "I write the report."
      tool_calls: [{name: write_file, arguments: {path: shared/report.md, content: "# Two"}}]
      usage: {input: 100, output: 20}
  - name: answer
    reply: {text: "Two findings.", usage: {input: 150, output: 10}}
"""
PRICES = """{
  "anthropic/*": {"input": "3", "output": "15"},
  "openai/*": {"input": "3", "output": "15"},
  "ollama/*": {"input": "3", "output": "15"}
}"""


@pytest.mark.parametrize(
    ("provider", "url", "api"),
    [
        ("openai", "http://model.example/v1", "openai"),
        ("openai", None, "openai"),
        ("ollama", "http://ollama.example:11434", "openai"),
        ("ollama", "http://ollama.example:11434/v1", "openai"),
        ("anthropic", "http://model.example", "anthropic"),
        ("anthropic", "http://model.example/v1", "anthropic"),
        ("anthropic", None, "anthropic"),
    ],
)
async def test_every_provider_works_uses_tools_and_is_paid(tmp_path, provider, url, api):
    key = tmp_path / "key"
    key.write_text("the-right-key")
    spec = cell_spec(
        mind={"provider": provider, "baseUrl": url, "temperature": 0.5, "maxTokens": 500},
        tools=[{"name": "write_file"}],
        resources={"maxTotalCost": 1.0},
    )
    if url is None:
        del spec["mind"]["baseUrl"]
    environment = {"KAIS_MODEL_KEY_FILE": str(key), "KAIS_PRICES": PRICES}
    world = World(tmp_path, TWO_TURNS, spec=spec, environment=environment)
    result = await world.run()
    assert result.failure is None, result.failure
    assert result.answer == "Two findings."
    assert (world.workspace / "shared/report.md").read_text() == "# Two"
    assert [(artifact.path, artifact.size_bytes) for artifact in result.artifacts] == [
        ("shared/report.md", 5)
    ]
    assert (result.usage.turns, result.usage.input_tokens, result.usage.output_tokens) == (
        *(2, 250, 30),
    )
    assert str(result.usage.cost) == "0.0012"
    assert [(call.api, call.key) for call in world.calls] == [
        (api, fingerprint("the-right-key"))
    ] * 2
    first = world.calls[0]
    assert first.is_streaming
    assert first.request["temperature"] == 0.5
    assert "<objective>Review the change.</objective>" in user_text(first)
    assert "You review." in system_text(first)
    assert 500 in (first.request.get("max_tokens"), first.request.get("max_completion_tokens"))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_cut_stream_is_an_error_for_every_provider(tmp_path, provider):
    rules = "rules:\n  - {name: cut, reply: {text: 'a long answer, cut off', cut_after: 3}}"
    spec = cell_spec(mind={"provider": provider})
    world = World(tmp_path, rules, spec=spec)
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert result.failure.message == "the stream of the model ended before its answer did"
    assert len(world.calls) == 3


NO_JSON = """
rules:
  - name: no JSON
    when: {turn: 1}
    reply: {tool_calls: [{name: read_file, raw: '%s'}]}
  - {name: answer, reply: {text: Done.}}
"""


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "arguments", ['{"path": NaN}', '{"path": 1e999}', '{"path": "a", "b": [-Infinity]}', '{"path":']
)
async def test_a_model_whose_arguments_are_no_json_is_told_so_and_goes_on(
    tmp_path, provider, arguments
):
    spec = cell_spec(mind={"provider": provider}, tools=[{"name": "read_file"}])
    world = World(tmp_path, NO_JSON % arguments, spec=spec)
    result = await world.run()
    assert result.failure is None, result.failure
    assert result.answer == "Done."
    sent = json.dumps(world.calls[1].request["messages"])
    assert "INVALID_JSON" in sent
    assert "Extra inputs are not permitted" in sent


async def test_ollama_needs_an_address(tmp_path):
    spec = cell_spec(mind={"provider": "ollama"})
    del spec["mind"]["baseUrl"]
    result = await World(tmp_path, "rules: []", spec=spec).run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.INVALID_CONFIGURATION
    assert result.failure.message.startswith("spec.mind.baseUrl: is needed for Ollama")
