"""The review team with minds: four real runtimes, a real knowledge service, a scripted model.

The script is the same for each run. It proves the path from a fact to fewer turns, and not that a
real model takes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kais import a2a, verdicts
from knowledge_client.models import FactIn
from tests.agent_attempts import user_text
from tests.agent_services import answer, message, metadata
from tests.agent_teams import (
    TeamKnowledge,
    TeamRun,
    completed,
    manifests,
    rules_of,
    specs_of,
)

EXAMPLE = Path(__file__).parents[3] / "examples/code-review-team"
CODE = 'def total(orders=[]):\n    return eval("+".join(orders))\n'
OBJECTIVE = f"Review this change of app/orders.py.\n{CODE}"


def criteria() -> str:
    """What the critic judges by."""
    completion = manifests(EXAMPLE / "minds.yaml")[0]["spec"]["mission"]["completion"]
    assert completion["review"]["reviewer"] == "critic"
    return str(completion["review"]["criteria"])


@dataclass(frozen=True)
class Run:
    """What a run of the team took, over all its cells."""

    answer: str
    verdict: verdicts.AgentVerdict
    rules: list[str]
    turns: int
    tokens: int
    first_message: str = field(compare=False)


async def review(folder: Path, knowledge: TeamKnowledge, run_id: str, *, arm: str = "on") -> Run:
    """Let the team review the change once, with a second attempt after a rejection."""
    world = TeamRun(
        folder=folder,
        knowledge=knowledge,
        specs=specs_of(EXAMPLE / "minds.yaml"),
        rules=rules_of(EXAMPLE / "scripted-model.yaml"),
        hub="lead-0",
        run_id=run_id,
        arm=arm,
    )
    turns, feedback = 0, ""
    async with world.running() as team:
        for attempt in (1, 2):
            work = {"feedback": feedback} if feedback else {}
            sent = message(
                OBJECTIVE, id=a2a.message_id(run_id, attempt, "work"), context=run_id,
                **{a2a.WORK_KEY: work},
            )  # fmt: skip
            task = await completed(team.clients["lead-0"], sent)
            turns += int(metadata(task)[a2a.USAGE_KEY]["turns"])
            parts = {"objective": OBJECTIVE, "criteria": criteria(), "answer": answer(task)}
            sent = message(
                "Review.", id=a2a.message_id(run_id, attempt, "review"), context=run_id,
                **{a2a.WORK_KEY: {"review": parts}},
            )  # fmt: skip
            verdict = verdicts.parse(answer(await completed(team.clients["critic-0"], sent)))
            if verdict.is_approval:
                break
            feedback = verdict.reasons
    assert turns == sum(str(call.rule).startswith("lead") for call in team.calls)
    return Run(
        answer(task),
        verdict,
        [str(call.rule) for call in team.calls],
        len(team.calls),
        sum((call.input_tokens or 0) + (call.output_tokens or 0) for call in team.calls),
        user_text(team.calls[0]),
    )


FIRST = [
    "lead asks about safety",
    "safety reviews",
    "lead asks for tests",
    "tests reviews",
    "lead remembers",
    "lead answers",
    "critic misses a fix",
    "lead adds the fix",
    "critic approves",
]


async def test_second_run_gets_the_fact_of_the_first_and_takes_fewer_turns_and_tokens(
    tmp_path: Path,
) -> None:
    knowledge = TeamKnowledge()
    first = await review(tmp_path, knowledge, "run-1")
    second = await review(tmp_path, knowledge, "run-2")
    assert first.rules == FIRST
    assert first.answer.endswith("Verdict: changes requested")
    assert second.answer == first.answer
    assert second.rules == [
        "lead knows the risk and asks for tests",
        "tests reviews",
        "lead knows the risk and answers",
        "critic approves",
    ]
    assert first.verdict.is_approval
    assert first.verdict.reasons == "Each finding has its line and its fix."
    assert (first.turns, second.turns) == (9, 4)
    assert (first.tokens, second.tokens) == (5880, 2530)


@pytest.mark.parametrize("arm", ["off", "holdout"])
async def test_second_run_without_knowledge_takes_as_many(tmp_path: Path, arm: str) -> None:
    knowledge = TeamKnowledge()
    first = await review(tmp_path, knowledge, "run-1")
    second = await review(tmp_path, knowledge, "run-2", arm=arm)
    assert "passes text of customers to eval" not in second.first_message
    assert second == first


async def test_another_fact_of_equal_length_saves_nothing(tmp_path: Path) -> None:
    knowledge = TeamKnowledge()
    first = await review(tmp_path, knowledge, "run-1")
    page = await knowledge.operator.list_facts()
    (fact,) = page.facts
    other = fact.content.replace("customers to eval", "suppliers to file")
    assert len(other) == len(fact.content)
    replaced = TeamKnowledge()
    await replaced.operator.remember(FactIn(content=other, scope=fact.scope))
    second = await review(tmp_path, replaced, "run-2")
    assert other in second.first_message
    assert second == first
