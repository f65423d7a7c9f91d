from decimal import Decimal

from kais.agent_results import FailureClass
from tests.agent_attempts import World, cell_spec, system_text, user_text

ANSWER = """
rules:
  - name: answer
    reply: {text: "Two findings.", usage: {input: 100, output: 20}}
"""


async def test_a_mind_answers_its_objective(tmp_path):
    world = World(tmp_path, ANSWER)
    result = await world.run()
    assert result.failure is None
    assert result.answer == "Two findings."
    assert (result.usage.turns, result.usage.input_tokens, result.usage.output_tokens) == (
        *(1, 100, 20),
    )
    assert result.usage.cost == Decimal("0.0003")
    assert (world.workspace / "private/critic-0/answer.txt").read_text() == "Two findings."
    [call] = world.calls
    assert "Review the change." in user_text(call)
    assert system_text(call).startswith("You review.")
    assert "Review the change." not in system_text(call)


async def test_a_cut_stream_is_an_error_after_further_tries(tmp_path):
    rules = """
rules:
  - name: cut
    reply: {text: "Half of an ans", cut_after: 2, usage: {input: 100, output: 20}}
"""
    world = World(tmp_path, rules)
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.MODEL_UNAVAILABLE
    assert result.failure.message == "the stream of the model ended before its answer did"
    assert len(world.calls) == 3
    assert result.usage.estimated_cost == result.usage.cost > 0


async def test_a_budget_of_nothing_sends_nothing(tmp_path):
    world = World(tmp_path, ANSWER, spec=cell_spec(resources={"maxTotalCost": 0.0}))
    result = await world.run()
    assert result.failure is not None
    assert result.failure.reason is FailureClass.BUDGET
    assert result.failure.message == "resources.maxTotalCost is 0, which allows no paid calls"
    assert world.calls == []
