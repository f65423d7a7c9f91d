from decimal import Decimal

import pytest

from kais import agent_results, agent_tools
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, Artifact, FailureClass

USAGE = AgentUsage(
    input_tokens=120,
    output_tokens=40,
    turns=2,
    tool_calls=1,
    cost=Decimal("0.000123"),
    estimated_cost=Decimal("0.0000001"),
)


def test_a_result_survives_the_termination_message():
    result = AgentResult(answer="the pods lack an image", usage=USAGE)
    assert agent_results.parse(agent_results.serialize(result, limit_bytes=4096)) == result


def test_artifacts_take_a_quarter_of_the_message_at_most():
    files = tuple(Artifact(f"shared/{'x' * 40}{number}.md", number) for number in range(30))
    text = agent_results.serialize(AgentResult(usage=USAGE, artifacts=files), limit_bytes=4096)
    parsed = agent_results.parse(text)
    assert parsed is not None
    assert parsed.artifacts == files[:13]
    few = AgentResult(usage=USAGE, artifacts=files[:3])
    assert agent_results.parse(agent_results.serialize(few, limit_bytes=4096)) == few


def test_a_small_cost_is_written_without_an_exponent():
    text = agent_results.serialize(AgentResult(usage=USAGE), limit_bytes=4096)
    assert '"estimatedCost":"0.0000001"' in text


@pytest.mark.parametrize("character", ["a", "é", "\n", "🙂", '"'])
def test_a_long_answer_is_cut_to_the_limit(character):
    result = AgentResult(answer=character * 5000, usage=USAGE)
    text = agent_results.serialize(result, limit_bytes=1000)
    parsed = agent_results.parse(text)
    assert parsed is not None
    assert parsed.is_truncated
    assert 988 < len(text.encode()) <= 1000
    assert result.answer.startswith(parsed.answer)
    assert parsed.usage == USAGE


def test_the_message_of_a_failure_is_cut_before_usage_is_lost():
    failure = AgentFailure(FailureClass.MODEL_REFUSED, "é" * 4000)
    text = agent_results.serialize(AgentResult(usage=USAGE, failure=failure), limit_bytes=2048)
    parsed = agent_results.parse(text)
    assert parsed is not None
    assert parsed.failure == AgentFailure(FailureClass.MODEL_REFUSED, "é" * 512)


@pytest.mark.parametrize("limit", [agent_results.MIN_BYTES, 300, 438, 1755])
@pytest.mark.parametrize("character", ["a", "é", "\n", "🙂", '"'])
def test_usage_and_class_survive_in_the_pod_of_many_checks(limit, character):
    usage = AgentUsage(
        input_tokens=12_345_678,
        output_tokens=1_234_567,
        turns=50,
        tool_calls=200,
        cost=Decimal("123.456789012345"),
        estimated_cost=Decimal("12.345678901234"),
    )
    for failure in (None, AgentFailure(FailureClass.INVALID_CONFIGURATION, character * 1000)):
        files = tuple(Artifact(f"shared/{number}.md", number) for number in range(30))
        result = AgentResult(answer=character * 1000, usage=usage, failure=failure, artifacts=files)
        text = agent_results.serialize(result, limit_bytes=limit)
        parsed = agent_results.parse(text)
        assert parsed is not None
        assert len(text.encode()) <= limit
        assert parsed.usage == usage
        assert (parsed.failure and parsed.failure.reason) == (failure and failure.reason)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "done",
        "[]",
        '{"summary": "of another image"}',
        '{"kais.io/agent": 2}',
        '{"kais.io/agent": 1, "usage": {"turns": -1}}',
        '{"kais.io/agent": 1, "usage": {"cost": "NaN"}}',
        '{"kais.io/agent": 1, "usage": {"cost": "much"}}',
        '{"kais.io/agent": 1, "usage": {"cost": "1E+99999999"}}',
        '{"kais.io/agent": 1, "usage": {"cost": "0E+99999999"}}',
        '{"kais.io/agent": 1, "usage": {"cost": "1E-99999999"}}',
        '{"kais.io/agent": 1, "usage": {"cost": "1000000001"}}',
        '{"kais.io/agent": 1, "usage": {"cost": Infinity}}',
        '{"kais.io/agent": 1, "usage": {"turns": 1000000000000001}}',
        '{"kais.io/agent": 1, "usage": 3}',
        '{"kais.io/agent": 1, "failure": {"class": "bored"}}',
        '{"kais.io/agent": 1, "failure": {}}',
        '{"kais.io/agent": 1, "artifacts": [{"bytes": 3}]}',
        '{"kais.io/agent": 1, "answer": "cut off',
        "[" * 100_000,
    ],
)
def test_a_message_of_another_program_is_no_result(message):
    assert agent_results.parse(message) is None


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (FailureClass.MODEL_UNAVAILABLE, 75),
        (FailureClass.INTERRUPTED, 75),
        (FailureClass.MODEL_UNAUTHORIZED, 1),
        (FailureClass.BUDGET, 1),
        (FailureClass.INVALID_CONFIGURATION, 78),
    ],
)
def test_the_exit_status_says_whether_another_attempt_makes_sense(reason, status):
    assert reason.exit_status == status
    assert reason.is_retryable is (status == 75)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ([], None),
        (["recall", "write_file", "recall"], None),
        (
            ["telepathy"],
            (
                "spec.tools: unknown: telepathy; known are recall, remember, correct, read_file, "
                "write_file, list_files, ask_peer, blackboard, mcp"
            ),
        ),
        (["shell", "recall"], "spec.tools: not yet supported: shell; remove them"),
        (["spawn_cell"], "spec.tools: not yet supported: spawn_cell; remove them"),
    ],
)
def test_tools_that_a_mind_cannot_have_are_named(names, problem):
    assert agent_tools.problem(names) == problem
