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

from bench.recall import talk, ways
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn

_HERE = Path(__file__).parent
WRITTEN = ("hana_and_owen", "lena_and_marcus")
TUNED = ("isaura_and_corwin", "ottilie_and_tarek")
LONG = ("sunniva_and_dashiell", "tirzah_and_evander")


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


def written() -> list[Set]:
    """Read the conversations that somebody wrote."""
    return [conversation(each) for each in spoken()]


def spoken(names: Sequence[str] = WRITTEN) -> list[talk.Conversation]:
    """Read them as they were spoken."""
    folder = _HERE / "conversations"
    return [
        talk.read(
            (folder / f"{name}.txt").read_text(),
            (folder / f"{name}.questions.txt").read_text(),
            name,
        )
        for name in names
    ]


def made(first: int = 100, count: int = 6) -> list[Set]:
    """Make conversations of about 250 different turns each; the first ones are to tune on."""
    return [conversation(talk.made(number)) for number in range(first, first + count)]


def others(count: int = 5) -> list[Set]:
    """Make conversations of other events, of another seed: nothing was ever tuned on these."""
    return [conversation(each) for each in judged(count)]


def judged(count: int = 5) -> list[talk.Conversation]:
    """Make the conversations of other events."""
    return [talk.made(number, seed=29, events="others") for number in range(count)]


def conversation(said: talk.Conversation) -> Set:
    """Take each turn as a fact: who says what, the session as a tag, its start as valid_from."""
    return ways.told([said], ways.tagged)


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_HERE / name).read_text().splitlines()]


def everything() -> Iterable[tuple[str, list[Set], list[Set]]]:
    """Yield each kind of set: its members, and of these the questions that are reported."""
    halved = {
        "operations": [operations()],
        "conversations, written": written(),
        "conversations, made": made(),
        "conversations, made of other events": others(),
    }
    for name, members in halved.items():
        yield name, members, [member.half(1) for member in members]
    long = [conversation(each) for each in spoken(LONG)]
    yield "conversations, long", long, long


def tuning() -> Iterable[tuple[str, list[Set]]]:
    """Yield what may be looked at while recall is changed: first halves, and what is for that."""
    yield "operations", [operations().half(0)]
    yield "conversations, written", [each.half(0) for each in written()]
    yield "conversations, made", [each.half(0) for each in made(0, 4)]
    together = ways.told([talk.made(number) for number in range(5)], ways.tagged)
    yield "five of these in one scope", [together.half(0).some(3)]
    for said in spoken(TUNED):
        yield said.name.replace("_", " "), [conversation(said)]
    own = {question.id for question in ways.told(spoken(TUNED), ways.tagged).questions}
    everybody = ways.told([*spoken(TUNED), *spoken()], ways.tagged)
    asked = tuple(question for question in everybody.questions if question.id in own)
    yield "these and the written in one scope", [replace(everybody, questions=asked)]
