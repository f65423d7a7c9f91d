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
from kais_cli.facts.detail_view import pluralise
from knowledge_client import errors as knowledge
from knowledge_client import models

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

_BATCH_SIZE = 200  # the maximum that the service accepts at once
MAX_LINE_BYTES = 1 << 20
"""Bytes of a line; the longest fact with all its data has a tenth of that."""
_PROGRESS_INTERVAL = 20_000  # lines; some seconds' work
_REJECTIONS = (
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
    skips_invalid: bool
    report: Callable[[str], None]
    created: int = 0
    confirmed: int = 0
    skipped: int = 0
    last_stored_line: int = 0
    ineligible: Counter[str] = field(default_factory=Counter)
    _batch: list[Line] = field(default_factory=list)

    def run(self, lines: Iterable[bytes]) -> None:
        """Store the facts of a file.

        Raises:
            UsageError: A line is not a fact or is rejected; the lines before it are stored.
        """
        for number, data in enumerate(lines, start=1):
            if not data.strip():
                continue
            fact = self._parse_fact(number, data)
            if fact is not None:
                self._batch.append((number, fact))
            if len(self._batch) == _BATCH_SIZE:
                self._store(number)
            if number % _PROGRESS_INTERVAL == 0:
                self.report(f"{number:,} lines so far: {self.summary}")
        self._store(self._batch[-1][0] if self._batch else self.last_stored_line)

    @property
    def summary(self) -> str:
        """The numbers of stored, confirmed and skipped facts, as text."""
        skipped = f", {pluralise(self.skipped, 'line')} left out" if self.skipped else ""
        stored = f"{pluralise(self.created, 'fact')} stored"
        return f"{stored}, {self.confirmed:,} existing confirmed{skipped}"

    def notes(self) -> Iterator[str]:
        """Yield a note for each kind of valid content that was not imported."""
        for reason, count in self.ineligible.items():
            yield f"{pluralise(count, 'fact')} {reason}"
        yield from self.reader.notes()

    def _parse_fact(self, number: int, data: bytes) -> models.FactIn | None:
        tree = self._parse_json(number, data)
        if tree is None:
            return None
        if self._batch and self.reader.depends_on_pending(tree):
            self._store(number - 1)
        try:
            return self.reader.read(tree)
        except jsonl.Ineligible as exc:
            self.ineligible[str(exc)] += 1
        except pydantic.ValidationError as exc:
            self._reject_line(number, f"is not a fact: {failures.format_validation_error(exc)}")
        except scopes.InvalidScope as exc:
            self._reject_line(number, f"names no scope: {exc}")
        return None

    def _parse_json(self, number: int, data: bytes) -> dict[str, Any] | None:
        if len(data) > MAX_LINE_BYTES:
            self._reject_line(number, f"is longer than {MAX_LINE_BYTES:,} bytes")
            return None
        try:
            tree = json.loads(data)
        except RecursionError:
            self._reject_line(number, "is not a fact: it is nested too deeply")
            return None
        except ValueError as exc:
            if data.endswith(b"\n"):
                self._reject_line(number, f"is not JSON ({exc})")
            else:
                self.report(f"{self.name}, line {number:,}: torn, left out")
            return None
        if not isinstance(tree, dict):
            self._reject_line(number, "is not a fact: an object is expected")
            return None
        return tree

    def _store(self, number: int) -> None:
        batch, self._batch = self._batch, []
        if batch:
            try:
                facts = models.FactsIn(facts=tuple(fact for _, fact in batch))
                self._count(batch, self.client.remember_batch(facts).results)
            except _REJECTIONS:
                self._store_each(batch)
        self.last_stored_line = number

    def _store_each(self, batch: list[Line]) -> None:
        for number, fact in batch:
            try:
                self._count([(number, fact)], (self.client.remember(fact),))
            except _REJECTIONS as exc:
                detail = exc.problem.detail if exc.problem else str(exc)
                self._reject_line(number, f"is refused: {detail}")
            self.last_stored_line = number

    def _count(self, batch: Sequence[Line], results: Iterable[models.Remembered]) -> None:
        for (_, fact), result in zip(batch, results, strict=True):
            self.reader.record_stored(fact, result.fact_id)
            if result.status == "created":
                self.created += 1
            else:
                self.confirmed += 1

    def _reject_line(self, number: int, problem: str) -> None:
        """Skip a line, or end the import with everything before it stored."""
        location = f"{self.name}, line {number:,}"
        if self.skips_invalid:
            self.skipped += 1
            self.report(f"{location} {problem}; left out")
            return
        if self._batch:
            self._store(number - 1)
        raise errors.UsageError(
            f"{location} {problem}; {self.summary}. Import stopped at this line; nothing after"
            " it was stored. Fix the line and import the"
            " file again (existing facts are confirmed), or skip invalid lines with --keep-going"
        )


def read_lines(file: Any) -> Iterator[bytes]:
    """Yield the lines of a stream; keeps little more than the allowed length of a long line."""
    while data := file.readline(MAX_LINE_BYTES + 1):
        yield data
        while len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
            data = file.readline(MAX_LINE_BYTES + 1)
