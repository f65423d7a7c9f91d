"""Facts, and questions about them with what answers these."""

import zlib
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge_client.models import FactIn


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
    """Facts by id in the order in which they are remembered, and questions about them.

    Without a name, its questions have names that are theirs alone.
    """

    name: str
    facts: dict[str, FactIn]
    questions: tuple[Question, ...]

    def half(self, number: int) -> "Set":
        """Return the set with the first (0) or second (1) half of its questions."""
        names = ((q, f"{self.name} {q.id}".strip()) for q in self.questions)
        seeds = ((q, zlib.crc32(name.encode())) for q, name in names)
        chosen = [question for question, seed in seeds if seed % 2 == number]
        return replace(self, questions=tuple(chosen))

    def some(self, step: int) -> "Set":
        """Return the set with every so manieth question."""
        return replace(self, questions=self.questions[::step])
