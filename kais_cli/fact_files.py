"""Facts in files: a line of JSON each, as the service gives them and takes them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kais_cli import errors

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

_PAGE = 100
_TAKEN = (
    "content", "kind", "title", "data", "schema", "subject", "predicate", "tags",
    "confidence", "expires_at", "valid_from", "valid_until",
)  # fmt: skip
"""What a fact of a file keeps when it is stored again; ids and times of recording are new."""


@dataclass
class Imported:
    """What became of a file's facts."""

    created: int = 0
    confirmed: int = 0
    notes: list[str] = field(default_factory=list)


def write(client: KnowledgeClient, file: Path, *, scope: str | None) -> int:
    """Write every live fact that may be seen, newest first; return how many.

    Raises:
        UsageError: the file exists or cannot be written.
    """
    count, cursor = 0, None
    try:
        with file.open("x", encoding="utf-8") as out:
            while True:
                page = client.list_facts(scope=scope, lifecycle="live", cursor=cursor, limit=_PAGE)
                for fact in page.facts:
                    tree = fact.model_dump(mode="json", by_alias=True, exclude_none=True)
                    out.write(json.dumps(tree, ensure_ascii=False, sort_keys=True) + "\n")
                    count += 1
                if page.cursor is None:
                    return count
                cursor = page.cursor
    except OSError as exc:
        raise errors.UsageError(f"cannot write {file}: {exc.strerror}") from exc


def read(client: KnowledgeClient, file: Path, *, scope: str) -> Imported:
    """Store the facts of a file, a hundred at a time.

    Raises:
        UsageError: the file cannot be read, or a line of it is no fact; the message names it.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    done, batch = Imported(), []
    for number, tree in _lines(file, done):
        try:
            kept = {name: tree[name] for name in _TAKEN if name in tree}
            source = models.Source(type="import", refs=_refs(tree))
            batch.append(models.FactIn(**kept, scope=scope, source=source))
        except (TypeError, ValueError) as exc:
            raise errors.UsageError(f"{file}, line {number}: no fact: {exc}") from exc
        if len(batch) == _PAGE:
            _store(client, batch, done)
            batch = []
    if batch:
        _store(client, batch, done)
    return done


def _store(client: KnowledgeClient, batch: list[Any], done: Imported) -> None:
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    for result in client.remember_batch(models.FactsIn(facts=tuple(batch))).results:
        if result.status == "created":
            done.created += 1
        else:
            done.confirmed += 1


def _refs(tree: dict[str, Any]) -> tuple[Any, ...]:
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    if "id" not in tree:
        return ()
    return (models.Ref(type="fact", id=str(tree["id"])),)


def _lines(file: Path, done: Imported) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        texts = file.read_bytes().split(b"\n")
    except OSError as exc:
        raise errors.UsageError(f"cannot read {file}: {exc.strerror}") from exc
    last = len(texts)
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            tree = json.loads(text)
        except ValueError as exc:
            if number == last:
                done.notes.append(f"{file}, line {number}: torn, left out")
                return
            raise errors.UsageError(f"{file}, line {number}: no JSON: {exc}") from exc
        if not isinstance(tree, dict):
            raise errors.UsageError(f"{file}, line {number}: no fact, an object is expected")
        yield number, tree
