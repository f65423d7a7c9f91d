"""The sets of facts and questions: operations, written conversations, made conversations.

Each has two halves by a seed. Weights are tuned on the first; the second is what is reported. The
first choices of all (which arms, how they are joined, which synonyms) were made with both in view;
the made conversations that are reported were never looked at.
"""

import json
import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from bench.recall import talk
from knowledge_client.models import FactIn

_HERE = Path(__file__).parent
WRITTEN = ("hana_and_owen", "lena_and_marcus")


@dataclass(frozen=True)
class Question:
    """A question, the ids of the facts that answer it (all are needed), and the moment asked of."""

    id: str
    type: str
    text: str
    evidence: frozenset[str]
    valid_at: datetime | None = None


@dataclass(frozen=True)
class Set:
    """Facts by id in the order in which they are remembered, and questions about them."""

    name: str
    facts: dict[str, FactIn]
    questions: tuple[Question, ...]

    def half(self, number: int) -> "Set":
        """Return the set with the first (0) or second (1) half of its questions."""
        seeds = ((q, zlib.crc32(f"{self.name} {q.id}".encode())) for q in self.questions)
        chosen = [question for question, seed in seeds if seed % 2 == number]
        return replace(self, questions=tuple(chosen))


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
    folder = _HERE / "conversations"
    return [
        conversation(
            talk.read(
                (folder / f"{name}.txt").read_text(),
                (folder / f"{name}.questions.txt").read_text(),
                name,
            )
        )
        for name in WRITTEN
    ]


def made(first: int = 100, count: int = 6) -> list[Set]:
    """Make conversations of about 250 different turns each; the first ones are to tune on."""
    return [conversation(talk.made(number)) for number in range(first, first + count)]


def conversation(said: talk.Conversation) -> Set:
    """Take each turn as a fact: who says what, the session as a tag, its start as valid_from."""
    facts: dict[str, FactIn] = {}
    first: dict[str, str] = {}
    for turn in said.turns:
        content = f"{turn.speaker}: {turn.text}"
        # The same words again confirm the first fact.
        first.setdefault(content, turn.id)
        if first[content] == turn.id:
            tag = f"session_{turn.session}"
            facts[turn.id] = FactIn(content=content, tags=(tag,), valid_from=turn.at)
    fact_of = {turn.id: first[f"{turn.speaker}: {turn.text}"] for turn in said.turns}
    questions = tuple(
        Question(f"q{n}", q.type, q.text, frozenset(fact_of[e] for e in q.evidence))
        for n, q in enumerate(said.questions)
    )
    return Set(said.name, facts, questions)


def _lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (_HERE / name).read_text().splitlines()]


def everything() -> Iterable[tuple[str, list[Set]]]:
    """Yield each kind of set with its members."""
    yield "operations", [operations()]
    yield "conversations, written", written()
    yield "conversations, made", made()
