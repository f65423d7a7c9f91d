"""Calls of the model that go wrong: each ends with a class, in words, and with the right cost."""

from decimal import Decimal

import httpx2
import pytest
from pydantic_ai import messages

from agent_runtime.agent import reporting
from kais.agent_results import FailureClass
from tests.agent_attempts import CallPolicy, World, cell_spec, user_text
from tests.model_server.script import Reply, Rule, Script

OK = """
  - name: answer
    reply: {text: "Two findings.", usage: {input: 100, output: 20}}
"""


def rules(reply: str, *, times: int | None = None, then: str = OK) -> str:
    when = f"when: {{times: {times}}}" if times else "when: {}"
    return f"rules:\n  - name: trouble\n    {when}\n    reply: {reply}\n{then}"


FOR_GOOD = [
    (
        "{status: 401, text: 'Incorrect API key'}",
        FailureClass.MODEL_UNAUTHORIZED,
        (
            "model house at http://model.example/v1 does not accept the key of the Secret "
            "kais-openai/apiKey: HTTP 401 Incorrect API key"
        ),
    ),
    (
        "{status: 403, text: 'Project has no access to model house'}",
        FailureClass.MODEL_UNAUTHORIZED,
        (
            "model house at http://model.example/v1 does not allow the key of the Secret "
            "kais-openai/apiKey; choose a model that the key may use, or request access: HTTP 403 "
            "Project has no access to model house"
        ),
    ),
    (
        "{status: 403, body: '<html>Access denied</html>', content_type: text/html}",
        FailureClass.MODEL_UNAUTHORIZED,
        (
            "model house at http://model.example/v1 cannot be reached: HTTP 403 comes from a "
            "proxy, or from an endpoint with errors of another form; let the proxy allow the "
            "address, or check the key of the Secret kais-openai/apiKey and that it may use the "
            "model: HTTP 403 <html>Access denied</html>"
        ),
    ),
    (
        "{status: 404, text: 'no such model'}",
        FailureClass.MODEL_REFUSED,
        (
            "model house at http://model.example/v1 does not exist, or its address is wrong: "
            "HTTP 404 no such model"
        ),
    ),
    (
        "{status: 400, text: 'bad parameter'}",
        FailureClass.MODEL_REFUSED,
        "model house at http://model.example/v1 refuses the request: HTTP 400 bad parameter",
    ),
    (
        '{status: 400, text: "This model\'s maximum context length is 8192 tokens"}',
        FailureClass.CONTEXT_EXCEEDED,
        (
            "model house at http://model.example/v1 cannot read this much text: HTTP 400 This "
            "model's maximum context length is 8192 tokens"
        ),
    ),
    (
        "{body: '<html>Sign in</html>', content_type: text/html}",
        FailureClass.BAD_ANSWER,
        (
            "the endpoint of the model answers with text/html instead of an event stream; check "
            "spec.mind.baseUrl"
        ),
    ),
    (
        "{status: 302, headers: {Location: 'http://elsewhere.example/'}}",
        FailureClass.MODEL_REFUSED,
        (
            "the endpoint of the model answers with a redirect (HTTP 302), which is not followed; "
            "set spec.mind.baseUrl to the final address"
        ),
    ),
    (
        "{body: 'packed', headers: {Content-Encoding: gzip}}",
        FailureClass.BAD_ANSWER,
        "the endpoint of the model compresses its answer unasked",
    ),
]


@pytest.mark.parametrize(("reply", "reason", "message"), FOR_GOOD)
async def test_a_failure_that_would_repeat_is_not_tried_again(tmp_path, reply, reason, message):
    environment = {"KAIS_MODEL_SECRET": "kais-openai/apiKey"}
    world = World(tmp_path, rules(reply), environment=environment)
    result = await world.run()
    assert result.failure is not None
    assert (result.failure.reason, result.failure.message) == (reason, message)
    assert len(world.calls) == 1
    assert result.usage.cost == 0


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_failure_that_may_pass_is_tried_again(tmp_path, status):
    world = World(tmp_path, rules(f"{{status: {status}}}", times=2))
    result = await world.run()
    assert result.answer == "Two findings."
    assert len(world.calls) == 3
    assert result.usage.cost == Decimal("0.0003")
    assert result.usage.estimated_cost == 0


async def test_a_model_that_stays_away_is_unavailable(tmp_path):
    world = World(tmp_path, rules("{status: 503, text: 'no capacity'}"))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert result.failure.message == (
        "model house at http://model.example/v1 cannot answer: HTTP 503 no capacity"
    )
    assert len(world.calls) == 3


async def test_a_wait_that_the_endpoint_asks_for_is_bounded(tmp_path):
    world = World(tmp_path, rules("{status: 429, headers: {Retry-After: '86400'}}"))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert len(world.calls) == 1


class Unreachable(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("Name or service not known", request=request)


async def test_an_endpoint_that_nobody_can_reach_costs_nothing(tmp_path):
    world = World(tmp_path, "rules: []")
    world.transport = Unreachable()
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert "Name or service not known" in result.failure.message
    assert result.usage.cost == 0


@pytest.mark.parametrize(
    "body",
    [
        "data: {broken\n\n",
        "data: []\n\n",
        'data: {"choices": [{"delta": 3}]}\n\n',
        'data: {"choices": "none"}\n\n',
        "data: null\n\ndata: [DONE]\n\n",
        "",
        "\x00\x01\x02",
    ],
)
async def test_a_malformed_stream_is_a_failure_with_a_class(tmp_path, body):
    world = World(tmp_path, "rules: []")
    world.server.script = _script(body)
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason in (FailureClass.BAD_ANSWER, FailureClass.MODEL_UNAVAILABLE)
    assert result.usage.estimated_cost == result.usage.cost > 0


def _script(body: str):
    reply = Reply(body=body, content_type="text/event-stream")
    return Script(rules=[Rule(name="raw", reply=reply)])


async def test_an_answer_of_ten_megabytes_ends_the_attempt(tmp_path):
    reply = "{text: '0123456789', repeat: 1000000, chunk_size: 65536}"
    world = World(tmp_path, rules(reply))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BAD_ANSWER
    assert result.failure.message == "an answer of the model exceeds 1048576 bytes"
    assert len(world.calls) == 1


async def test_a_long_answer_is_cut_in_the_result_and_whole_in_its_file(tmp_path):
    world = World(tmp_path, rules("{text: '0123456789', repeat: 10000, chunk_size: 4096}"))
    result = await world.run()
    assert len(result.answer) == 100_000
    assert len((world.workspace / "private/critic-0/answer.txt").read_text()) == 100_000


async def test_an_answer_without_usage_costs_its_reservation(tmp_path):
    world = World(tmp_path, rules("{text: 'Done.', usage_absent: true}"))
    result = await world.run()
    assert result.answer == "Done."
    assert result.usage.estimated_cost == result.usage.cost > Decimal("0.04")


async def test_usage_beyond_the_worst_case_is_believed_and_counts(tmp_path):
    world = World(
        tmp_path,
        rules("{text: 'Done.', usage: {input: 5000000, output: 1}}"),
        spec=cell_spec(resources={"maxTotalCost": 1.0}),
    )
    result = await world.run()
    assert result.usage.cost == Decimal("5.00001")


async def test_usage_beyond_all_numbers_ends_no_attempt(tmp_path):
    world = World(tmp_path, rules(f"{{text: 'Done.', usage: {{input: {10**30}, output: 1}}}}"))
    result = await world.run()
    assert (result.answer, result.usage.input_tokens) == ("Done.", 100_000_000)
    assert result.usage.cost == Decimal("100.00001")


async def test_usage_that_cannot_be_is_corrected(tmp_path):
    chunks = (
        '{"choices": [{"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}]}',
        (
            '{"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5,'
            ' "total_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1000000}}}'
        ),
    )
    world = World(tmp_path, "rules: []")
    world.server.script = _script("".join(f"data: {chunk}\n\n" for chunk in chunks))
    result = await world.run()
    assert result.answer == "Done."
    assert result.usage.cost == Decimal("0.00006")


async def test_half_a_character_in_a_tool_call_is_replaced():
    call = messages.ToolCallPart("read\ud800", '{"path": "shared/\udc80"}')
    response = reporting.masked(messages.ModelResponse(parts=[call]), lambda text: text)
    events = []
    calls = reporting.report_response(response, events.append, is_review=False)
    assert calls == ['read? {"path":"shared/?"}']
    assert [event.content for event in events] == ['read? {"path":"shared/?"}']


@pytest.mark.parametrize(("is_review", "kind"), [(False, "decision"), (True, "review")])
def test_the_end_of_a_review_is_an_event_of_its_own_kind(is_review, kind):
    parts = [messages.TextPart('{"verdict": "approve", "reasons": "It is complete."}')]
    events = []
    reporting.report_response(
        messages.ModelResponse(parts=parts), events.append, is_review=is_review
    )
    assert [event.type for event in events] == [kind]


async def test_half_a_character_in_an_answer_is_replaced(tmp_path):
    chunk = (
        '{"choices": [{"index": 0, "delta": {"content": "half: \\ud83d"},'
        ' "finish_reason": "stop"}]}'
    )
    world = World(tmp_path, "rules: []")
    world.server.script = _script(f"data: {chunk}\n\n")
    result = await world.run()
    assert result.answer == "half: ?"


async def test_ledger_equals_journal_and_reservations_whatever_happens(tmp_path):
    """A hundred turns, of which one in five is overloaded, cut, or reports no usage."""
    replies = (
        "{text: busy, status: 503}",
        "{text: 'half of it', cut_after: 2, usage: {input: 7, output: 3}}",
        "{text: none, usage_absent: true, tool_calls: [{name: list_files, arguments: {}}]}",
    )
    lines = ["rules:"]
    for turn in range(45):
        if turn % 5 == 0:
            reply = replies[turn // 5 % 3]
            lines.append(f"  - {{name: fault {turn}, when: {{times: 1}}, reply: {reply}}}")
        call = f"{{name: list_files, arguments: {{path: shared/{turn}}}}}"
        usage = f"{{input: {turn + 1}, output: {turn + 2}}}"
        lines.append(
            f"  - {{name: turn {turn}, when: {{times: 1}}, "
            f"reply: {{tool_calls: [{call}], usage: {usage}}}}}"
        )
    lines.append("  - {name: answer, reply: {text: Done., usage: {input: 1, output: 1}}}")
    spec = cell_spec(
        tools=[{"name": "list_files"}], mind={"workingMemory": {"summarizeAfter": 1000}}
    )
    world = World(tmp_path, "\n".join(lines), spec=spec)
    result = await world.run()
    assert result.answer == "Done.", result.failure
    paid = [call for call in world.calls if call.rule.startswith(("turn", "answer"))]
    assert len(paid) == 46
    journal = sum(call.input_tokens + 10 * call.output_tokens for call in paid)
    assert result.usage.cost - result.usage.estimated_cost == Decimal(journal) / 1_000_000
    assert result.usage.estimated_cost > 6 * Decimal("0.04")


async def test_an_answer_at_the_limit_of_its_length_is_marked(tmp_path):
    world = World(tmp_path, rules("{text: 'The first find', finish_reason: length}"))
    result = await world.run()
    assert result.failure is None
    assert result.is_truncated


async def test_an_empty_answer_is_a_bad_answer(tmp_path):
    world = World(tmp_path, rules("{text: '', usage: {input: 10, output: 1}}"))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BAD_ANSWER


async def test_a_slow_answer_ends_at_the_time_limit(tmp_path):
    world = World(
        tmp_path,
        rules("{text: 'late', delay_s: 30}"),
        policy=CallPolicy(tries=1, call_s=0.05),
    )
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert result.failure.message == (
        "model house at http://model.example/v1 did not finish its answer in time"
    )
    assert result.usage.estimated_cost > 0


async def test_the_feedback_of_the_attempt_before_reaches_the_mind(tmp_path):
    environment = {"KAIS_FEEDBACK": "check build failed", "KAIS_MESSAGE": "Be brief."}
    world = World(tmp_path, rules("{text: 'Done.'}"), environment=environment)
    await world.run()
    text = user_text(world.calls[0])
    assert "<feedback>check build failed</feedback>" in text
    assert "<message>Be brief.</message>" in text
    assert "<objective>Review the change.</objective>" in text
