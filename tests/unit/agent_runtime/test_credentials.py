import json
import logging

import httpx2

from agent_runtime import logging_config
from agent_runtime.model_http import ModelKey
from kais import agent_results
from kais.agent_results import FailureClass
from tests.agent_attempts import World, cell_spec
from tests.model_server.journal import fingerprint

TWO_TURNS = """
keys: [first-key-1, second-key-2]
rules:
  - name: look
    when: {turn: 1}
    reply: {tool_calls: [{name: list_files, arguments: {path: shared}}]}
  - name: answer
    reply: {text: "Done."}
"""


class Rotating(httpx2.AsyncBaseTransport):
    """Replaces the key as the kubelet does, after the first request."""

    def __init__(self, inner, file):
        self.inner, self.file = inner, file

    async def handle_async_request(self, request):
        response = await self.inner.handle_async_request(request)
        rotated = self.file.with_name("..data_tmp")
        rotated.write_text("second-key-2\n")
        rotated.replace(self.file)
        return response


async def test_a_rotated_key_is_used_without_a_restart(tmp_path):
    file = tmp_path / "apiKey"
    file.write_text("first-key-1\n")
    world = World(
        tmp_path,
        TWO_TURNS,
        spec=cell_spec(tools=[{"name": "list_files"}]),
        environment={"KAIS_MODEL_KEY_FILE": str(file)},
    )
    world.transport = Rotating(world.transport, file)
    result = await world.run()
    assert result.answer == "Done."
    assert [call.key for call in world.calls] == [
        fingerprint("first-key-1"),
        fingerprint("second-key-2"),
    ]


async def test_an_endpoint_of_your_own_gets_no_key_if_there_is_none(tmp_path):
    world = World(tmp_path, "rules:\n  - {name: a, reply: {text: Done.}}")
    assert (await world.run()).answer == "Done."
    assert world.calls[0].key == ""


async def test_a_public_endpoint_without_a_key_is_not_called(tmp_path):
    spec = cell_spec()
    del spec["mind"]["baseUrl"]
    world = World(
        tmp_path,
        "rules: []",
        spec=spec,
        environment={
            "KAIS_MODEL_KEY_FILE": str(tmp_path / "absent"),
            "KAIS_MODEL_SECRET": "kais-openai/apiKey",
        },
    )
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAUTHORIZED
    assert result.failure.message == (
        "there is no key for openai: the Secret kais-openai/apiKey does not exist in the "
        "namespace, or the key in it is missing or empty"
    )
    assert world.calls == []


async def test_keys_of_the_environment_are_not_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    world = World(tmp_path, "rules:\n  - {name: a, reply: {text: Done.}}")
    await world.run()
    assert world.calls[0].key == ""


async def test_a_key_that_the_endpoint_repeats_is_masked_everywhere(tmp_path, capsys):
    file = tmp_path / "apiKey"
    file.write_text("sk-very-secret")
    key = ModelKey(file)
    key.read()
    logging_config.configure("INFO", key)
    logging.getLogger("agent_runtime").error("denied for %s", "sk-very-secret")
    logging.getLogger().handlers.clear()
    assert json.loads(capsys.readouterr().err)["message"] == "denied for [key]"
    for reply in (
        "{text: 'I was called with sk-very-secret'}",
        "{status: 400, text: 'sk-very-secret'}",
    ):
        world = World(
            tmp_path,
            f"rules:\n  - name: a\n    reply: {reply}",
            environment={"KAIS_MODEL_KEY_FILE": str(file)},
        )
        result = await world.run()
        text = agent_results.serialize(result, limit_bytes=4096)
        assert "sk-very-secret" not in text
        assert "[key]" in text
        answer = world.workspace / "private/critic-0/answer.txt"
        assert not answer.exists() or "sk-very-secret" not in answer.read_text()
