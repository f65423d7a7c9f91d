"""The official SDKs understand the scripted model server, and meet the faults that it plays."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx
import openai
import pytest

from tests.model_server import journal, serving

SCRIPT = """
keys: [right]
rules:
  - name: look up
    when: {model: works, turn: 1}
    reply:
      text: "Looking it up."
      tool_calls:
        - {name: recall, arguments: {query: "which port, and where?"}}
        - {name: note, raw: '{"broken": '}
      usage: {input: 120, output: 15}
      chunk_size: 5
  - name: answer
    when: {model: works, turn: 2, last_role: tool, last: "8443"}
    reply: {text: "Port 8443.", usage: {input: 150, output: 4}}
  - {name: silent, when: {model: no-usage}, reply: {text: "Free?", usage_absent: true}}
  - {name: slow, when: {model: slow}, reply: {delay_s: 30}}
  - name: limited
    when: {model: limited, times: 1}
    reply: {status: 429, headers: {Retry-After: "0"}}
  - {name: free again, when: {model: limited}, reply: {text: "Now."}}
  - {name: broken, when: {model: broken}, reply: {status: 500, text: "out of memory"}}
  - {name: ends, when: {model: ends}, reply: {text: "a long answer", chunk_size: 1, cut_after: 4}}
  - name: breaks
    when: {model: breaks}
    reply: {text: "a long answer", chunk_size: 1, cut_after: 4, cut_abrupt: true}
  - {name: nonsense, when: {model: nonsense}, reply: {body: '{"choices": [{'}}
  - {name: page, when: {model: page}, reply: {body: "<html>Login</html>", content_type: text/html}}
  - name: elsewhere
    when: {model: elsewhere}
    reply: {status: 307, headers: {Location: "http://127.0.0.1:1/v1"}, body: ""}
  - {name: endless, when: {model: endless}, reply: {text: "and so on ", endless: true}}
  - {name: large, when: {model: large}, reply: {text: "0123456789", repeat: 1048576}}
"""


@pytest.fixture(scope="module")
def module_server() -> Iterator[serving.Running]:
    with serving.running(SCRIPT) as running:
        yield running


@pytest.fixture
def server(module_server: serving.Running) -> serving.Running:
    module_server.server.journal.reset()
    return module_server


@pytest.fixture
def chat(server: serving.Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="right", base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(server: serving.Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="right", base_url=server.url, max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, model: str, **options: object) -> object:
    question = [{"role": "user", "content": "Which port?"}]
    return client.chat.completions.create(model=model, messages=question, **options)


def stream_text(client: openai.OpenAI, model: str) -> tuple[str, str | None]:
    text, finish_reason = "", None
    for chunk in ask(client, model, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish_reason = choice.finish_reason or finish_reason
    return text, finish_reason


@pytest.mark.parametrize("is_streaming", [False, True], ids=["whole", "stream"])
def test_openai_gets_text_calls_and_exact_usage(
    chat: openai.OpenAI, server: serving.Running, is_streaming: bool
) -> None:
    question = [{"role": "user", "content": "Which port?"}]
    if is_streaming:
        with chat.chat.completions.stream(
            model="works", messages=question, stream_options={"include_usage": True}
        ) as stream:
            answer = stream.get_final_completion()
    else:
        answer = chat.chat.completions.create(model="works", messages=question)

    message, usage = answer.choices[0].message, answer.usage
    assert message.content == "Looking it up."
    assert [(call.id, call.function.name) for call in message.tool_calls] == [
        ("call-1-1", "recall"),
        ("call-1-2", "note"),
    ]
    assert message.tool_calls[0].function.arguments == '{"query":"which port, and where?"}'
    assert message.tool_calls[1].function.arguments == '{"broken": '
    assert answer.choices[0].finish_reason == "tool_calls"
    assert (usage.prompt_tokens, usage.completion_tokens) == (120, 15)
    call = server.calls[0]
    assert (call.rule, call.state, call.is_streaming) == ("look up", "answered", is_streaming)
    assert call.tool_calls == ["recall", "note"]


@pytest.mark.parametrize("is_streaming", [False, True], ids=["whole", "stream"])
def test_anthropic_gets_text_calls_and_exact_usage(
    claude: anthropic.Anthropic, server: serving.Running, is_streaming: bool
) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "8443"}
    call = {"type": "tool_use", "id": "t", "name": "recall", "input": {}}
    conversations = [
        [{"role": "user", "content": "Which port?"}],
        [
            {"role": "user", "content": "Which port?"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    ]
    answers = []
    for messages in conversations:
        options = {"model": "works", "max_tokens": 99, "messages": messages}
        if is_streaming:
            with claude.messages.stream(**options) as stream:
                for event in stream:
                    if event.type == "input_json" and event.partial_json.startswith('{"bro'):
                        break  # the SDK would refuse the broken arguments as they grow
                else:
                    answers.append(stream.get_final_message())
                continue
        answers.append(claude.messages.create(**options))

    last = answers[-1]
    assert (last.content[0].text, last.stop_reason) == ("Port 8443.", "end_turn")
    assert (last.usage.input_tokens, last.usage.output_tokens) == (150, 4)
    assert [entry.rule for entry in server.calls] == ["look up", "answer"]
    if not is_streaming:
        assert [block.type for block in answers[0].content] == ["text", "tool_use", "tool_use"]
        assert answers[0].content[1].input == {"query": "which port, and where?"}


def test_usage_comes_with_a_stream_only_when_the_client_asks(chat: openai.OpenAI) -> None:
    assert [chunk.usage for chunk in ask(chat, "works", stream=True) if chunk.usage] == []
    assert ask(chat, "no-usage").usage is None


def test_a_wrong_key_gets_401_and_no_journal_shows_a_key(server: serving.Running) -> None:
    client = openai.OpenAI(api_key="wrong", base_url=f"{server.url}/v1", max_retries=0)
    with client, pytest.raises(openai.AuthenticationError, match="the key is not valid"):
        ask(client, "works")
    with (
        anthropic.Anthropic(api_key="wrong", base_url=server.url, max_retries=0) as claude,
        pytest.raises(anthropic.AuthenticationError, match="the key is not valid"),
    ):
        claude.messages.create(
            model="works", max_tokens=9, messages=[{"role": "user", "content": "?"}]
        )

    assert [call.status for call in server.calls] == [401, 401]
    assert {call.key for call in server.calls} == {journal.fingerprint("wrong")}
    assert "wrong" not in httpx.get(f"{server.url}/journal").text


def test_a_client_that_repeats_after_429_is_answered(server: serving.Running) -> None:
    client = openai.OpenAI(api_key="right", base_url=f"{server.url}/v1", max_retries=1)
    with client:
        answer = ask(client, "limited")

    assert answer.choices[0].message.content == "Now."
    assert [call.status for call in server.calls] == [429, 200]


def test_errors_and_timeouts_are_typed(chat: openai.OpenAI, server: serving.Running) -> None:
    with pytest.raises(openai.InternalServerError, match="out of memory"):
        ask(chat, "broken")
    with pytest.raises(openai.APITimeoutError):
        ask(chat, "slow", timeout=0.2)
    with pytest.raises(openai.APIStatusError, match="no rule of the script matches"):
        ask(chat, "unheard-of")
    with pytest.raises(openai.APIConnectionError):  # nothing listens where it is sent
        ask(chat, "elsewhere")


def test_a_stream_ends_without_its_last_events(
    chat: openai.OpenAI, server: serving.Running
) -> None:
    assert stream_text(chat, "ends") == ("a l", None)
    assert [call.state for call in server.calls] == ["cut"]


def test_a_connection_breaks_in_the_middle_of_a_stream(
    chat: openai.OpenAI, server: serving.Running
) -> None:
    with pytest.raises(openai.APIConnectionError):
        stream_text(chat, "breaks")

    assert [call.state for call in server.calls] == ["cut"]


def test_an_answer_may_be_no_json_or_a_page(server: serving.Running) -> None:
    body = {"model": "nonsense", "messages": [{"role": "user", "content": "?"}]}
    path, head = f"{server.url}/v1/chat/completions", {"Authorization": "Bearer right"}

    assert httpx.post(path, json=body, headers=head).text == '{"choices": [{'
    page = httpx.post(path, json={**body, "model": "page"}, headers=head)
    assert (page.text, page.headers["content-type"]) == (
        "<html>Login</html>",
        "text/html; charset=utf-8",
    )


def test_an_endless_stream_lasts_until_the_client_leaves(
    chat: openai.OpenAI, server: serving.Running
) -> None:
    stream = ask(chat, "endless", stream=True)
    for _, chunk in zip(range(200), stream, strict=False):
        assert chunk.choices[0].finish_reason is None
    stream.close()

    assert [call.state for call in server.calls] == ["abandoned"]


def test_an_answer_may_have_ten_megabytes(chat: openai.OpenAI) -> None:
    assert len(ask(chat, "large").choices[0].message.content) == 10 * 2**20


def test_a_script_is_replaced_while_the_server_runs() -> None:
    with serving.running("rules: []") as server:
        wrong = httpx.put(f"{server.url}/script", content="rules: [{name: a}]")
        right = httpx.put(f"{server.url}/script", content="rules: [{name: a, reply: {text: hi}}]")
        body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        httpx.post(f"{server.url}/v1/chat/completions", json=body)
        calls = httpx.get(f"{server.url}/journal").json()

    assert (wrong.status_code, right.status_code) == (400, 204)
    assert "missing required field `reply`" in wrong.text
    assert [(call["rule"], call["input_tokens"], call["output_tokens"]) for call in calls] == [
        ("a", 1, 1)
    ]


def test_a_request_that_is_none_gets_400(server: serving.Running) -> None:
    for path in ("/v1/chat/completions", "/v1/messages"):
        answer = httpx.post(f"{server.url}{path}", content=b'{"model": "m"}')
        assert answer.status_code == 400
        assert "messages" in answer.text
