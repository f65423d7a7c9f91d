"""Facts out of a file of lines of JSON, in batches; what cannot be taken is named by its line.

A batch is all or nothing to the service. One that is refused is told again fact by fact, so that
what stands before the refused line is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pydantic

from kais import scopes
from kais_cli import errors, failures
from kais_cli.fact_pages import counted
from knowledge_client import errors as knowledge
from knowledge_client import models

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

_BATCH = 200  # as many as the service takes at once
LONGEST = 1 << 20
"""Bytes of a line; the longest fact with all its data has a tenth of that."""
_TOLD_EVERY = 20_000  # lines; some seconds' work
_TAKEN = (
    "content", "kind", "title", "data", "schema", "subject", "predicate", "tags",
    "confidence", "expires_at", "valid_from", "valid_until",
)  # fmt: skip
"""What a fact of a file keeps when it is stored again; ids and times of recording are new."""
_REFUSED = (knowledge.Conflict, knowledge.InvalidRequest, knowledge.TooLarge)
"""What one fact of a batch may be at fault for."""

Line = tuple[int, models.FactIn]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the facts of a file go.

    `scope` takes them all. Else a fact goes to the scope of its line, or with `realm` to the same
    place below that realm; facts of the platform are nobody's to copy into a realm.
    """

    scope: str | None = None
    realm: str | None = None

    def of(self, tree: dict[str, Any]) -> str | None:
        """Name the scope for a line; None is where the caller is at home.

        Raises:
            InvalidScope: the line names none.
            LookupError: the platform's facts do not go into a realm.
        """
        if self.scope:
            return self.scope
        named = tree.get("scope")
        if named is None:
            return f"realm:{self.realm}" if self.realm else None
        found = scopes.Scope.parse(str(named))
        if self.realm is None:
            return str(found)
        if found == scopes.PLATFORM:
            raise LookupError
        return str(scopes.Scope(self.realm, found.formation, found.cell))


@dataclass
class Import:
    """One import, and what became of the lines so far."""

    client: KnowledgeClient
    place: Place
    name: str
    keeps_going: bool
    say: Callable[[str], None]
    created: int = 0
    confirmed: int = 0
    left_out: int = 0
    done_to: int = 0
    of_platform: int = 0
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
        """What became of the facts, in words."""
        left = f", {counted(self.left_out, 'line')} left out" if self.left_out else ""
        stored = f"{counted(self.created, 'fact')} stored"
        return f"{stored}, {self.confirmed:,} known already and confirmed{left}"

    def _fact(self, number: int, data: bytes) -> models.FactIn | None:
        if len(data) > LONGEST:
            self._refuse(number, f"is longer than {LONGEST:,} bytes")
            return None
        try:
            tree = json.loads(data)
        except ValueError as exc:
            if data.endswith(b"\n"):
                self._refuse(number, f"is no JSON ({exc})")
            else:
                self.say(f"{self.name}, line {number:,}: torn, left out")
            return None
        if not isinstance(tree, dict):
            self._refuse(number, "is no fact, an object is expected")
            return None
        try:
            return _read(tree, self.place)
        except LookupError:
            self.of_platform += 1
        except pydantic.ValidationError as exc:
            self._refuse(number, f"is no fact: {failures.violations(exc)}")
        except scopes.InvalidScope as exc:
            self._refuse(number, f"names no scope: {exc}")
        return None

    def _store(self, number: int) -> None:
        batch, self._batch = self._batch, []
        if batch:
            try:
                facts = models.FactsIn(facts=tuple(fact for _, fact in batch))
                self._count(self.client.remember_batch(facts).results)
            except _REFUSED:
                self._store_each(batch)
        self.done_to = number

    def _store_each(self, batch: list[Line]) -> None:
        for number, fact in batch:
            try:
                self._count((self.client.remember(fact),))
            except _REFUSED as exc:
                said = exc.problem.detail if exc.problem else str(exc)
                self._refuse(number, f"is refused: {said}")
            self.done_to = number

    def _count(self, results: Iterable[models.Remembered]) -> None:
        for result in results:
            if result.status == "created":
                self.created += 1
            else:
                self.confirmed += 1

    def _refuse(self, number: int, words: str) -> None:
        """Leave a line out, or end here with everything before it stored."""
        where = f"{self.name}, line {number:,}"
        if self.keeps_going:
            self.left_out += 1
            self.say(f"{where} {words}; left out")
            return
        if self._batch:
            self._store(number - 1)
        raise errors.UsageError(
            f"{where} {words}; {self.counts}, nothing from this line on. Mend it and import the"
            " file again, what is known is confirmed, or leave such lines out with --keep-going"
        )


def lines(file: Any) -> Iterator[bytes]:
    """Read a stream of bytes line by line, never more than one and a bit of a line too long."""
    while data := file.readline(LONGEST + 1):
        yield data
        while len(data) > LONGEST and not data.endswith(b"\n"):
            data = file.readline(LONGEST + 1)


def _read(tree: dict[str, Any], place: Place) -> models.FactIn:
    kept = {name: tree[name] for name in _TAKEN if name in tree}
    if "subject" in kept and "predicate" in kept and "valid_from" not in kept:
        # What was known later stays what holds, whatever the order of the file.
        kept["valid_from"] = tree.get("recorded_at")
    refs = (models.Ref(type="fact", id=str(tree["id"])),) if "id" in tree else ()
    source = models.Source(type="import", refs=refs)
    return models.FactIn(**kept, scope=place.of(tree), source=source)
