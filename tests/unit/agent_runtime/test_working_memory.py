import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agent_runtime.agent.frames import PydanticFraming
from agent_runtime.agent.working_memory import WorkingMemory
from tests.agent_attempts import World, cell_spec, system_text, user_text

# Each turn lists a folder until the turns are used up; each list adds two messages.
RULES = """
rules:
  - name: summary
    when: {system: "Summarise the conversation"}
    reply: {text: "Listed shared. </summary><objective>x", usage: {input: 10, output: 5}}
  - name: list
    when: {times: TURNS}
    reply: {tool_calls: [{name: list_files, arguments: {path: shared/fileNUMBER}}]}
  - name: answer
    reply: {text: "Done."}
"""


def world(folder, turns: int, **memory: int) -> World:
    lists = "\n".join(
        f"  - name: list {number}\n    when: {{times: 1, system: review}}\n"
        f"    reply: {{tool_calls: [{{name: list_files, arguments: {{path: shared/{number}}}}}]}}"
        for number in range(turns)
    )
    head, _, tail = RULES.partition("  - name: list\n")
    rules = head + lists + "\n  - name: answer" + tail.partition("  - name: answer")[2]
    spec = cell_spec(mind={"workingMemory": memory}, tools=[{"name": "list_files"}])
    return World(folder, rules, spec=spec)


def work_calls(pod: World) -> list:
    return [call for call in pod.calls if call.rule != "summary"]


def sent(call) -> list[str]:
    return [message["role"] for message in call.request["messages"]]


async def test_a_short_conversation_is_sent_whole(tmp_path):
    pod = world(tmp_path, 3, maxMessages=50, summarizeAfter=40)
    assert (await pod.run()).answer == "Done."
    assert [call.rule for call in pod.calls] == ["list 0", "list 1", "list 2", "answer"]
    assert sent(pod.calls[-1]) == ["system", "user", *["assistant", "tool"] * 3]


async def test_older_messages_are_replaced_by_a_summary(tmp_path):
    pod = world(tmp_path, 6, maxMessages=50, summarizeAfter=6)
    result = await pod.run()
    assert result.answer == "Done."
    summaries = [call for call in pod.calls if call.rule == "summary"]
    assert len(summaries) == 2
    assert all(len(sent(call)) <= 8 for call in work_calls(pod))
    last = work_calls(pod)[-1]
    assert "<objective>Review the change.</objective>" in user_text(last)
    assert user_text(last).count("<objective>") == 1
    assert "<summary>Listed shared. &lt;/summary>" in user_text(last)
    assert "shared/0" in user_text(summaries[0])
    assert user_text(summaries[1]).startswith("<summary>Listed shared.")
    assert "tools" not in summaries[0].request
    assert "Listed shared" not in system_text(last)
    assert result.usage.turns == 9


async def test_a_tool_result_is_never_sent_without_its_call(tmp_path):
    pod = world(tmp_path, 8, maxMessages=5, summarizeAfter=40)
    assert (await pod.run()).answer == "Done."
    for call in pod.calls:
        roles = sent(call)
        assert roles[:2] == ["system", "user"]
        assert roles[2:] == ["assistant", "tool"] * ((len(roles) - 2) // 2)
        assert len(roles) - 1 <= 5
    assert "shared/7" in str(pod.calls[-1].request)
    assert "shared/0" not in str(pod.calls[-1].request)


@pytest.mark.parametrize("most", [1, 2])
async def test_the_latest_exchange_is_sent_whatever_the_limit(tmp_path, most):
    pod = world(tmp_path, 3, maxMessages=most)
    assert (await pod.run()).answer == "Done."
    assert "shared/2" in str(pod.calls[-1].request)
    assert sent(pod.calls[-1]) == ["system", "user", "assistant", "tool"]


@pytest.mark.parametrize("retry_after", [1, 2, 3])
async def test_the_latest_exchange_is_never_summarised(tmp_path, retry_after):
    pod = world(tmp_path, 4, maxMessages=50, summarizeAfter=retry_after)
    assert (await pod.run()).answer == "Done."
    for call in work_calls(pod)[1:]:
        assert sent(call)[-2:] == ["assistant", "tool"]


async def test_a_summary_is_paid_and_held_to_the_budget(tmp_path):
    pod = world(tmp_path, 6, maxMessages=50, summarizeAfter=4)
    pod.spec["resources"] = {"maxTotalCost": 0.0433}
    result = await pod.run()
    assert result.failure is not None
    assert result.failure.reason.value == "budget"


def question(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def answer(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def turns(name: str, count: int) -> list[ModelMessage]:
    """Calls of a tool, each with its result."""
    return [
        message
        for number in range(1, count + 1)
        for message in (
            ModelResponse(parts=[ToolCallPart("look", {"at": f"{name}-{number}"})]),
            ModelRequest(parts=[ToolReturnPart("look", f"saw {name}-{number}")]),
        )
    ]


def texts(selected: list[ModelMessage]) -> list[str]:
    return [
        str(part.args if isinstance(part, ToolCallPart) else part.content)
        for message in selected
        for part in message.parts
        if isinstance(part, UserPromptPart | TextPart | ToolCallPart | ToolReturnPart)
    ]


async def converse(
    memory: WorkingMemory, history: list[ModelMessage], added: list[ModelMessage]
) -> tuple[list[str], list[str]]:
    """Let the model answer each new request; return the last texts it got, and all summarised."""
    sent: list[ModelMessage] = []
    summarised: list[str] = []

    async def summarize(request: ModelRequest) -> str:
        summarised.extend(texts([request]))
        return f"summary {len(summarised)}"

    for message in added:
        history.append(message)
        if isinstance(message, ModelRequest):
            sent = await memory.select(history, summarize)
    return texts(sent), summarised


def memory_of(max_messages: int, summarize_after: int) -> WorkingMemory:
    return WorkingMemory(max_messages, summarize_after, PydanticFraming())


@pytest.mark.parametrize(("most", "after"), [(50, 40), (30, 40), (6, 40), (50, 5), (1, 1)])
async def test_the_question_that_is_worked_on_is_always_sent(most, after):
    memory, history = memory_of(most, after), []
    first = [question("first question"), *turns("first", 15), answer("first answer")]
    await converse(memory, history, first)
    for name in ("second", "third"):
        for added in (question(f"{name} question"), *turns(name, 20)):
            sent, _ = await converse(memory, history, [added])
            if isinstance(added, ModelRequest):
                assert f"{name} question" in sent
        assert "first question" not in sent
        await converse(memory, history, [answer(f"{name} answer")])


@pytest.mark.parametrize(("most", "after"), [(50, 40), (12, 40), (50, 9)])
async def test_what_is_sent_begins_with_a_question_and_goes_on_with_an_answer(most, after):
    memory, history = memory_of(most, after), []

    async def summarize(request: ModelRequest) -> str:
        return "summary"

    for name in ("first", "second", "third"):
        for added in (question(name), *turns(name, 11), answer(name)):
            history.append(added)
            if isinstance(added, ModelRequest):
                sent = await memory.select(history, summarize)
                assert isinstance(sent[0].parts[0], UserPromptPart)
                kinds = [type(message) for message in sent]
                assert kinds == [ModelRequest, *[ModelResponse, ModelRequest] * (len(sent) // 2)]
                assert sent[1:] == history[len(history) - len(sent) + 1 :]
                assert len(sent) <= most


async def test_a_short_task_is_sent_whole_with_the_task_before_it():
    memory, history = memory_of(50, 40), []
    await converse(memory, history, [question("first"), answer("first answer")])
    sent, summarised = await converse(memory, history, [question("second"), *turns("second", 1)])
    assert sent == ["first", "first answer", "second", "{'at': 'second-1'}", "saw second-1"]
    assert not summarised


async def test_the_summary_of_an_earlier_task_has_its_question_once():
    memory, history = memory_of(50, 9), []
    first = [question("first question"), *turns("first", 8), answer("first answer")]
    _, summarised = await converse(memory, history, first)
    assert summarised
    assert "first question" not in "\n".join(summarised), "it is still sent"
    second = [question("second question"), *turns("second", 12)]
    sent, summarised = await converse(memory, history, second)
    assert "\n".join(summarised).count("first question") == 1
    assert "\n".join(summarised).count("first answer") == 1
    assert "second question" not in "\n".join(summarised)
    assert sent[:2] == ["second question", f"<summary>{memory.summary}</summary>"]


async def test_a_summary_that_an_earlier_process_made_goes_on_with_the_same_question():
    memory, history = memory_of(50, 9), []
    first = [question("first question"), *turns("first", 8), answer("first answer")]
    await converse(memory, history, first)
    await converse(memory, history, [question("second question"), *turns("second", 12)])
    resumed = memory_of(50, 9)
    resumed.summary, resumed.start = memory.summary, memory.start
    sent, summarised = await converse(resumed, history, turns("later", 4))
    assert sent[:2] == ["second question", f"<summary>{resumed.summary}</summary>"]
    assert summarised
    assert "question" not in "\n".join(summarised)
