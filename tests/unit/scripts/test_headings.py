"""Headings of a project's documentation ask, and the paragraphs below them answer."""

from __future__ import annotations

from pathlib import Path

from bench.recall import headings, markdown_pages
from bench.recall.headings import DERIVATIONS, Answer, Case, Project
from bench.recall.marks import mark_answer
from bench.recall.queries import Question
from knowledge_service.search import thesaurus

PAGE = """# Guide

## Restore a deleted volume snapshot

Choose the newest copy of the disk first.

- Start the job that restores it.

## Before you start

Nothing below a heading of frame words asks.
"""


def repository(folder: Path, pages: dict[str, str]) -> Project:
    path = folder / "some/project"

    def git(*arguments: str) -> str:
        return markdown_pages.git("-C", str(path), *arguments)

    markdown_pages.git("init", "--quiet", str(path))
    for name, text in pages.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Pages")
    return Project("some/project", "MIT", git("rev-parse", "HEAD").strip())


def test_a_heading_with_three_content_words_asks(tmp_path: Path) -> None:
    project = repository(tmp_path, {"docs/guide.md": PAGE, "docs/glossary.md": PAGE + "\nMore.\n"})

    facts = headings.read(tmp_path, project)

    (question,) = facts.questions
    assert question.text == "Restore a deleted volume snapshot"
    assert {facts.facts[name].content for name in question.evidence} == {
        "Choose the newest copy of the disk first.",
        "Start the job that restores it.",
    }
    assert len(facts.facts) == 3


def test_every_group_of_the_thesaurus_has_its_source() -> None:
    lines = headings.lines()

    synonyms = tuple(line.words for line in lines if line.source != DERIVATIONS)
    assert synonyms == thesaurus.SYNONYMS
    assert tuple(line.words for line in lines[len(synonyms) :]) == thesaurus.DERIVATIONS
    assert all(line.source for line in lines)


def test_a_question_counts_with_the_mean_of_its_rounds() -> None:
    question = Question("1", "some/project", "Restore a volume", frozenset({"a"}))
    cases = [Case(question, scopes, frozenset()) for scopes in (("x",), ("x", "y"))]
    answers = {case: answer_of(question, "a", "b") for case in cases}

    effect = headings.effect("group", answers, {cases[0]: answer_of(question, "b", "a")}, times=2)

    assert (effect.questions, effect.changed) == (1, 1)
    assert list(effect.reciprocal_ranks) == [0.25]


def answer_of(question: Question, *names: str) -> Answer:
    return Answer(names, mark_answer(names, question.evidence))
