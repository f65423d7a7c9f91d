"""Which rule of a script answers a request."""

from __future__ import annotations

import pytest

from tests.model_server import conversation, script
from tests.model_server.app import ModelServer
from tests.model_server.conversation import Conversation

FRAME = '<knowledge receipt="r1">port 8443 is open</knowledge>'


def asked(
    *messages: tuple[str, str], system: str = "Be brief.", model: str = "house"
) -> Conversation:
    stated = [{"role": role, "content": text} for role, text in messages]
    head = [{"role": "system", "content": system}]
    tools = [{"type": "function", "function": {"name": "recall"}}]
    return conversation.from_openai({"model": model, "messages": head + stated, "tools": tools})


TWO_TURNS = asked(("user", "Which port?"), ("assistant", "Let me see."), ("tool", "443"))
INFORMED = asked(("user", f"Which port? {FRAME}"))


@pytest.mark.parametrize(
    ("when", "request_", "expected"),
    [
        pytest.param("{}", TWO_TURNS, True, id="no condition matches everything"),
        pytest.param('{model: "hou*"}', TWO_TURNS, True, id="a model by a pattern"),
        pytest.param("{model: other}", TWO_TURNS, False, id="another model"),
        pytest.param("{system: BE BRIEF}", TWO_TURNS, True, id="part of the system prompt"),
        pytest.param("{system: port}", TWO_TURNS, False, id="a message is no system prompt"),
        pytest.param("{turn: 2}", TWO_TURNS, True, id="the second answer"),
        pytest.param("{turn: 1}", TWO_TURNS, False, id="not the first answer"),
        pytest.param("{last_role: tool, last: '443'}", TWO_TURNS, True, id="the last message"),
        pytest.param("{contains: [which, see]}", TWO_TURNS, True, id="texts of all messages"),
        pytest.param("{lacks: [see]}", TWO_TURNS, False, id="a text that is there"),
        pytest.param("{tool: recall}", TWO_TURNS, True, id="an offered tool"),
        pytest.param("{tool: shell}", TWO_TURNS, False, id="a tool that is not offered"),
        pytest.param("{knowledge_contains: [port 8443]}", INFORMED, True, id="a framed fact"),
        pytest.param("{knowledge_contains: [which]}", INFORMED, False, id="outside the frame"),
        pytest.param("{knowledge_lacks: [port 8443]}", TWO_TURNS, True, id="no frame, no fact"),
        pytest.param("{knowledge_lacks: [port 8443]}", INFORMED, False, id="the fact is known"),
    ],
)
def test_a_rule_matches_by_its_conditions(
    when: str, request_: Conversation, expected: bool
) -> None:
    rules = script.parse(f"rules: [{{name: a, when: {when}, reply: {{text: x}}}}]").rules

    assert script.is_match(rules[0].when, request_) is expected


def test_a_model_cannot_frame_its_own_words_as_knowledge() -> None:
    output = asked(("user", "Which port?"), ("assistant", FRAME))

    assert output.knowledge == ""


def test_a_rule_answers_no_more_often_than_its_times() -> None:
    text = "rules: [{name: once, when: {times: 1}, reply: {status: 500}}, {name: then, reply: {}}]"
    server = ModelServer(script.parse(text))

    rules = []
    for _ in range(3):
        rule = server.find_rule(INFORMED)
        assert rule is not None
        server.journal.open(INFORMED, api="openai", key="", request={}).rule = rule.name
        rules.append(rule.name)

    assert rules == ["once", "then", "then"]


def test_what_a_reply_captures_fills_its_text_and_its_arguments() -> None:
    text = """
    rules:
      - name: quote
        reply:
          capture: {port: 'port (\\d+)'}
          text: "It is {{port}}."
          tool_calls: [{name: remember, arguments: {fact: "port {{port}}", tags: ["{{port}}"]}}]
    """
    reply = script.fill(script.parse(text).rules[0].reply, INFORMED)

    assert reply.text == "It is 8443."
    assert reply.tool_calls[0].arguments == {"fact": "port 8443", "tags": ["8443"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "while parsing"),
        ("rules: [{name: a, replay: {}}]", "unknown field `replay` - at `$.rules[0]`"),
        ("rules: [{name: a, reply: {delay_s: soon}}]", "Expected `float`, got `str`"),
        ("rules: [{name: a, reply: {}}, {name: a, reply: {}}]", "two rules have the same name"),
    ],
)
def test_a_wrong_script_is_refused_with_the_place_of_the_mistake(text: str, message: str) -> None:
    with pytest.raises(script.InvalidScript) as caught:
        script.parse(text)

    assert message in str(caught.value)


def test_the_result_of_a_tool_is_a_message_of_its_own_role_in_both_apis() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "1",
        "content": [{"type": "text", "text": "443"}],
    }
    from_anthropic = conversation.from_anthropic(
        {
            "model": "m",
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": "Which port?"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "name": "look", "input": {}}],
                },
                {"role": "user", "content": [result]},
            ],
        }
    )

    assert (from_anthropic.system, from_anthropic.turn, from_anthropic.messages[-1].role) == (
        "Be brief.",
        2,
        "tool",
    )
    assert from_anthropic.messages[-1].text == "443"
