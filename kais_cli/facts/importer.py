"""Import facts from lines of JSON in batches, and report invalid lines by number.

The service stores a batch completely or not at all. The facts of a rejected batch are sent one by
one, so that everything before the rejected line is stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pydantic

from kais import scopes
from kais_cli import errors
from kais_cli.error_messages import failures
from kais_cli.facts import jsonl
from kais_cli.facts.detail_view import counted
from knowledge_client import errors as knowledge
from knowledge_client import models

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

_BATCH = 200  # the maximum that the service accepts at once
LONGEST = 1 << 20
"""Bytes of a line; the longest fact with all its data has a tenth of that."""
_TOLD_EVERY = 20_000  # lines; some seconds' work
_REFUSED = (
    knowledge.Conflict, knowledge.InvalidRequest, knowledge.NotFound, knowledge.TooLarge,
)  # fmt: skip
"""Errors that a single fact of a batch can cause."""

Line = tuple[int, models.FactIn]


@dataclass
class Import:
    """One import and its progress."""

    client: KnowledgeClient
    reader: jsonl.Reader
    name: str
    keeps_going: bool
    say: Callable[[str], None]
    created: int = 0
    confirmed: int = 0
    left_out: int = 0
    done_to: int = 0
    not_taken: Counter[str] = field(default_factory=Counter)
    _batch: list[Line] = field(default_factory=list)

    def take(self, lines: Iterable[bytes]) -> None:
        """Store the facts of a file.

        Raises:
            UsageError: a line is no fact or is refused; what stands before it is stored.
        """
        for number, data in enumerate(lines, start=1):
            if not data.strip():
                continue
            fact = self._fact(number, data)
            if fact is not None:
                self._batch.append((number, fact))
            if len(self._batch) == _BATCH:
                self._store(number)
            if number % _TOLD_EVERY == 0:
                self.say(f"{number:,} lines so far: {self.counts}")
        self._store(self._batch[-1][0] if self._batch else self.done_to)

    @property
    def counts(self) -> str:
        """The numbers of stored, confirmed and skipped facts, as text."""
        left = f", {counted(self.left_out, 'line')} left out" if self.left_out else ""
        stored = f"{counted(self.created, 'fact')} stored"
        return f"{stored}, {self.confirmed:,} existing confirmed{left}"

    def notes(self) -> Iterator[str]:
        """Yield a note for each kind of valid content that was not imported."""
        for which, count in self.not_taken.items():
            yield f"{counted(count, 'fact')} {which}"
        yield from self.reader.notes()

    def _fact(self, number: int, data: bytes) -> models.FactIn | None:
        tree = self._tree(number, data)
        if tree is None:
            return None
        if self._batch and self.reader.needs_stored(tree):
            self._store(number - 1)
        try:
            return self.reader.read(tree)
        except jsonl.NotTaken as exc:
            self.not_taken[str(exc)] += 1
        except pydantic.ValidationError as exc:
            self._refuse(number, f"is no fact: {failures.violations(exc)}")
        except scopes.InvalidScope as exc:
            self._refuse(number, f"names no scope: {exc}")
        return None

    def _tree(self, number: int, data: bytes) -> dict[str, Any] | None:
        if len(data) > LONGEST:
            self._refuse(number, f"is longer than {LONGEST:,} bytes")
            return None
        try:
            tree = json.loads(data)
        except RecursionError:
            self._refuse(number, "is no fact, it is nested too deeply")
            return None
        except ValueError as exc:
            if data.endswith(b"\n"):
                self._refuse(number, f"is no JSON ({exc})")
            else:
                self.say(f"{self.name}, line {number:,}: torn, left out")
            return None
        if not isinstance(tree, dict):
            self._refuse(number, "is no fact, an object is expected")
            return None
        return tree

    def _store(self, number: int) -> None:
        batch, self._batch = self._batch, []
        if batch:
            try:
                facts = models.FactsIn(facts=tuple(fact for _, fact in batch))
                self._count(batch, self.client.remember_batch(facts).results)
            except _REFUSED:
                self._store_each(batch)
        self.done_to = number

    def _store_each(self, batch: list[Line]) -> None:
        for number, fact in batch:
            try:
                self._count([(number, fact)], (self.client.remember(fact),))
            except _REFUSED as exc:
                said = exc.problem.detail if exc.problem else str(exc)
                self._refuse(number, f"is refused: {said}")
            self.done_to = number

    def _count(self, batch: Sequence[Line], results: Iterable[models.Remembered]) -> None:
        for (_, fact), result in zip(batch, results, strict=True):
            self.reader.stored(fact, result.fact_id)
            if result.status == "created":
                self.created += 1
            else:
                self.confirmed += 1

    def _refuse(self, number: int, words: str) -> None:
        """Skip a line, or end the import with everything before it stored."""
        where = f"{self.name}, line {number:,}"
        if self.keeps_going:
            self.left_out += 1
            self.say(f"{where} {words}; left out")
            return
        if self._batch:
            self._store(number - 1)
        raise errors.UsageError(
            f"{where} {words}; {self.counts}. Import stopped at this line; nothing after"
            " it was stored. Fix the line and import the"
            " file again (existing facts are confirmed), or skip invalid lines with --keep-going"
        )


def lines(file: Any) -> Iterator[bytes]:
    """Yield the lines of a stream; keeps little more than the allowed length of a long line."""
    while data := file.readline(LONGEST + 1):
        yield data
        while len(data) > LONGEST and not data.endswith(b"\n"):
            data = file.readline(LONGEST + 1)
