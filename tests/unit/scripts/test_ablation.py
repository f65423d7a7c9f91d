"""What a feature brings: neutral weights, and the losses of answers without a feature."""

from __future__ import annotations

import pytest

from bench.recall import ablation
from bench.recall.ablation import Answers
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn
from knowledge_service.search.ranking.weights import FACTOR_NAMES, SHIPPED, WEIGHT_NAMES


def answers(*reciprocal_ranks: float) -> Answers:
    return Answers(
        [[f"fact {value}"] for value in reciprocal_ranks],
        [{"MRR": value} for value in reciprocal_ranks],
        ["a time", "one turn"],
    )


@pytest.mark.parametrize("name", WEIGHT_NAMES)
def test_one_weight_is_neutral_and_the_others_are_shipped(name: str) -> None:
    weights = ablation.weights_without(name)
    values = {**weights.additive, **weights.factors}
    shipped = {**SHIPPED.additive, **SHIPPED.factors}
    assert values.pop(name) == (1.0 if name in FACTOR_NAMES else 0.0)
    del shipped[name]
    assert values == shipped


def test_a_loss_is_positive_if_the_feature_brings_something() -> None:
    cells = ablation.summary_cells(answers(1.0, 1.0), answers(0.5, 0.5))
    assert cells == ["+50.0 [+50.0, +50.0]", "2"]


def test_no_loss_is_shown_if_no_answer_changes() -> None:
    assert ablation.summary_cells(answers(1.0, 0.5), answers(1.0, 0.5)) == ["", "0"]


def test_losses_of_a_kind_count_its_questions_alone() -> None:
    [feature] = [each for each in ablation.ablations() if each.name == "x_when"]
    text = ablation.table_of_kinds(answers(1.0, 1.0), [(feature, answers(0.5, 1.0))])
    assert text.splitlines() == [
        "| feature | a time, 1 | one turn, 1 |",
        "|---|---|---|",
        "| x_when | +50.0 [+50.0, +50.0] | +0.0 [+0.0, +0.0] |",
    ]


def test_facts_as_those_of_runs_or_observations_keep_their_facts_and_names() -> None:
    facts = {
        "one/project 0": FactIn(content="It restarts."),
        "one/project 1": FactIn(content="It stops."),
        "another/project 2": FactIn(content="It waits."),
    }
    questions = (Question("q", "judged", "What does it do?", frozenset({"one/project 1"})),)
    source = Set("FAQs", facts, questions)

    def project(name: str) -> str:
        return name.partition(" ")[0]

    runs, entities = ablation.in_runs(source, project), ablation.about_entities(source, project)
    assert [fact.source.refs[0].id for fact in runs.facts.values() if fact.source] == [
        "one-project", "one-project", "another-project",
    ]  # fmt: skip
    about = {name: fact.about for name, fact in entities.facts.items() if fact.about}
    assert about.keys() == facts.keys()
    assert set(about.values()) == entities.facts.keys() - facts.keys()
    assert runs.questions == entities.questions == questions
