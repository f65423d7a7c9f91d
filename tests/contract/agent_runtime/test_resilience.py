"""The manners of the agent runtime, judged by llmock, which speaks for the endpoints of providers.

Our own model server has the scripts; this one has an opinion: a retry before Retry-After, of what
no retry mends, or without a pause, and a stream without its end that is taken for an answer, fail.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from llmock.pytest_plugin import LLMock

from kais.agent_results import AgentResult, FailureClass
from tests.agent_attempts import CallPolicy, World, cell_spec

PATIENT = CallPolicy(tries=4, call_s=20, first_s=0.1, longest_s=5)
KEY = {"openai": "/v1", "anthropic": "/anthropic"}
PRICES = """{"openai/house": {"input": "1", "output": "10"},
             "anthropic/house": {"input": "1", "output": "10"}}"""
Fault = Callable[[LLMock], LLMock]
PROVIDERS = pytest.mark.parametrize("provider", list(KEY))


async def attempt(llmock: LLMock, folder: Path, provider: str, **spec: object) -> AgentResult:
    """Run one attempt of a mind whose endpoint is llmock's."""
    mind = {"provider": provider, "baseUrl": llmock.url + KEY[provider]}
    world = World(
        folder,
        "rules: []",
        spec=cell_spec(mind=mind, **spec),
        environment={"KAIS_PRICES": PRICES},
        policy=PATIENT,
    )
    world.transport = httpx2.AsyncHTTPTransport()
    return await world.run()


MENDED: list[Fault] = [
    lambda llmock: llmock.rate_limit(times=2, retry_after=1),
    lambda llmock: llmock.fail(503, times=2),
    lambda llmock: llmock.fail(500),
    lambda llmock: llmock.disconnect(after_chunks=2),
    lambda llmock: llmock.truncate(after_chunks=2),
]
MENDED_IDS = ["429 twice", "503 twice", "500", "disconnected", "truncated"]


@PROVIDERS
@pytest.mark.parametrize("fault", MENDED, ids=MENDED_IDS)
async def test_a_fault_that_passes_is_waited_out_with_good_manners(
    llmock: LLMock, tmp_path: Path, provider: str, fault: Fault
) -> None:
    fault(llmock)
    result = await attempt(llmock, tmp_path, provider)
    assert result.failure is None, result.failure
    assert result.answer
    assert result.usage.turns == 1
    llmock.assert_resilient(strict=True)


@PROVIDERS
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, FailureClass.MODEL_REFUSED),
        (401, FailureClass.MODEL_UNAUTHORIZED),
        (403, FailureClass.MODEL_UNAUTHORIZED),
        (404, FailureClass.MODEL_REFUSED),
        (422, FailureClass.MODEL_REFUSED),
    ],
)
async def test_what_no_retry_mends_is_asked_once(
    llmock: LLMock, tmp_path: Path, provider: str, status: int, reason: FailureClass
) -> None:
    llmock.fail(status, times=None)
    result = await attempt(llmock, tmp_path, provider)
    assert result.failure is not None
    assert result.failure.reason is reason
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@PROVIDERS
async def test_an_outage_ends_the_attempt_after_few_tries(
    llmock: LLMock, tmp_path: Path, provider: str
) -> None:
    llmock.outage()
    result = await attempt(llmock, tmp_path, provider)
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert len(llmock.requests) == PATIENT.tries
    llmock.assert_resilient(strict=True)


@PROVIDERS
async def test_streams_that_never_end_properly_are_no_answer(
    llmock: LLMock, tmp_path: Path, provider: str
) -> None:
    llmock.truncate(after_chunks=2, times=None)
    result = await attempt(llmock, tmp_path, provider)
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert not result.answer
    assert len(llmock.requests) == PATIENT.tries, "llmock cannot see that the last one was refused"


@pytest.mark.parametrize(("provider", "chunks"), [("openai", 2), ("anthropic", 4)])
async def test_a_chunk_that_is_no_json_makes_no_answer(
    llmock: LLMock, tmp_path: Path, provider: str, chunks: int
) -> None:
    llmock.corrupt(after_chunks=chunks)  # of Anthropic the first three hold no text
    result = await attempt(llmock, tmp_path, provider)
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BAD_ANSWER
    assert not result.answer
    llmock.assert_resilient()


@PROVIDERS
@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_a_broken_tool_call_is_corrected_in_the_next_turn(
    llmock: LLMock, tmp_path: Path, provider: str, kind: str
) -> None:
    llmock.call_tool("list_files", {"path": "shared"}).break_tool_call(kind)
    llmock.call_tool("list_files", {"path": "shared"})
    result = await attempt(llmock, tmp_path, provider, tools=[{"name": "list_files"}])
    assert result.failure is None, result.failure
    assert result.usage.tool_calls >= 1
    llmock.assert_resilient(strict=True)


@PROVIDERS
async def test_a_number_that_json_does_not_have_is_corrected_in_the_next_turn(
    llmock: LLMock, tmp_path: Path, provider: str
) -> None:
    llmock.call_tool("list_files", {"path": float("nan")})
    llmock.call_tool("list_files", {"path": "shared"})
    result = await attempt(llmock, tmp_path, provider, tools=[{"name": "list_files"}])
    assert result.failure is None, result.failure
    assert result.usage.tool_calls == 2
    llmock.assert_resilient(strict=True)


async def test_llmock_has_an_opinion(llmock: LLMock) -> None:
    """Without this the verdicts above could not fail."""
    llmock.rate_limit(times=1, retry_after=1)
    body = {"model": "house", "messages": [{"role": "user", "content": "Hello."}]}
    async with httpx2.AsyncClient() as client:
        for _ in range(2):
            await client.post(f"{llmock.base_url()}/chat/completions", json=body)
    assert [finding.code for finding in llmock.verdict().errors] == ["retry_after_ignored"]
