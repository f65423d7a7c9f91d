"""The sets of facts and questions: operations, written conversations, made conversations.

Each has two halves by a seed. Weights are tuned on the first; the second is what is reported. The
first choices of all (which arms, how they are joined) were made with both in view; the made
conversations that are reported were never looked at, and those of other events neither, of which no
question was used to tune. Of four long conversations that were written later, two are there only to
tune on; the other two were never looked at, and all their questions are reported.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.recall import conversation_generator, turn_formats
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn

_FOLDER = Path(__file__).parent
WRITTEN_NAMES = ("hana_and_owen", "lena_and_marcus")
TUNING_NAMES = ("isaura_and_corwin", "ottilie_and_tarek")
LONG_NAMES = ("sunniva_and_dashiell", "tirzah_and_evander")


def operations() -> Set:
    """Read the facts of operating clusters, CI and services, in an order that tells nothing."""
    rows = _lines("data/facts.jsonl")
    random.Random(5).shuffle(rows)  # noqa: S311 - an order, no secret
    facts = {row.pop("id"): FactIn.model_validate(row) for row in rows}
    questions = tuple(
        Question(
            row["id"],
            row["type"],
            row["question"],
            frozenset(row["evidence"]),
            datetime.fromisoformat(row["valid_at"]) if "valid_at" in row else None,
        )
        for row in _lines("data/questions.jsonl")
    )
    return Set("operations", facts, questions)


def written_sets() -> list[Set]:
    """Read the conversations that somebody wrote."""
    return [to_set(talk) for talk in read_conversations()]


def read_conversations(
    names: Sequence[str] = WRITTEN_NAMES,
) -> list[conversation_generator.Conversation]:
    """Read them as they were spoken."""
    folder = _FOLDER / "conversations"
    return [
        conversation_generator.read(
            (folder / f"{name}.txt").read_text(),
            (folder / f"{name}.questions.txt").read_text(),
            name,
        )
        for name in names
    ]


def generated_sets(first: int = 100, count: int = 6) -> list[Set]:
    """Make conversations of about 250 different turns each; the first ones are to tune on."""
    return [
        to_set(conversation_generator.generate(number)) for number in range(first, first + count)
    ]


def held_out_sets(count: int = 5) -> list[Set]:
    """Make conversations of other events, of another seed: nothing was ever tuned on these."""
    return [to_set(talk) for talk in held_out_conversations(count)]


def held_out_conversations(count: int = 5) -> list[conversation_generator.Conversation]:
    """Make the conversations of other events."""
    return [
        conversation_generator.generate(number, seed=29, events="others") for number in range(count)
    ]


def to_set(talk: conversation_generator.Conversation) -> Set:
    """Take each turn as a fact: who says what, the session as a tag, its start as valid_from."""
    return turn_formats.build_set([talk], turn_formats.tagged)


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_FOLDER / name).read_text().splitlines()]


def reported_sets() -> Iterable[tuple[str, list[Set], list[Set]]]:
    """Yield each kind of set: its members, and of these the questions that are reported."""
    halved = {
        "operations": [operations()],
        "conversations, written": written_sets(),
        "conversations, made": generated_sets(),
        "conversations, made of other events": held_out_sets(),
    }
    for name, members in halved.items():
        yield name, members, [member.half(1) for member in members]
    long = [to_set(talk) for talk in read_conversations(LONG_NAMES)]
    yield "conversations, long", long, long


def tuning_sets() -> Iterable[tuple[str, list[Set]]]:
    """Yield what may be looked at while recall is changed: first halves, and what is for that."""
    yield "operations", [operations().half(0)]
    yield "conversations, written", [member.half(0) for member in written_sets()]
    yield "conversations, made", [member.half(0) for member in generated_sets(0, 4)]
    joined = turn_formats.build_set(
        [conversation_generator.generate(number) for number in range(5)], turn_formats.tagged
    )
    yield "five of these in one scope", [joined.half(0).some(3)]
    for talk in read_conversations(TUNING_NAMES):
        yield talk.name.replace("_", " "), [to_set(talk)]
    question_ids = {
        question.id
        for question in turn_formats.build_set(
            read_conversations(TUNING_NAMES), turn_formats.tagged
        ).questions
    }
    joined_written = turn_formats.build_set(
        [*read_conversations(TUNING_NAMES), *read_conversations()], turn_formats.tagged
    )
    questions = tuple(
        question for question in joined_written.questions if question.id in question_ids
    )
    yield "these and the written in one scope", [replace(joined_written, questions=questions)]
