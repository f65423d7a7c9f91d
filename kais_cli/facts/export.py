"""Export facts as lines of JSON, oldest first, so that an import stores them in order.

    pages, newest first -> unnamed file -> its lines backwards -> NAME.unfinished -> NAME
A failed export leaves no file with that name.
"""

from __future__ import annotations

import array
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kais_cli import argument_parsing, errors

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient


def write_file(client: KnowledgeClient, file: Path, *, scope: str | None) -> int:
    """Export all visible live facts to a file; return their number.

    Raises:
        UsageError: The file exists.
        CliError: The file cannot be written; no part of it remains.
    """
    if file.exists():
        raise errors.UsageError(f"{file} exists already; choose another name")
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        with tempfile.TemporaryFile(dir=file.parent) as lines:
            starts = _collect(client, lines, scope=scope)
            with unfinished.open("wb") as stream:
                _write_reversed(lines, starts, stream.write)
                stream.flush()
                os.fsync(stream.fileno())
        unfinished.rename(file)
    except OSError as exc:
        raise errors.CliError(
            f"cannot write {file}: {exc.strerror}; nothing is left of it"
        ) from exc
    finally:
        unfinished.unlink(missing_ok=True)
    return len(starts)


def write_stream(
    client: KnowledgeClient, write: Callable[[str], object], *, scope: str | None
) -> int:
    """Export all visible live facts to a stream; return their number.

    Raises:
        CliError: There is no space for the temporary file that reverses their order.
    """
    try:
        with tempfile.TemporaryFile() as lines:
            starts = _collect(client, lines, scope=scope)
            _write_reversed(lines, starts, lambda data: write(data.decode()))
    except OSError as exc:
        raise errors.CliError(
            f"no room for the facts in {tempfile.gettempdir()} ({exc.strerror}); set TMPDIR"
        ) from exc
    return len(starts)


def _collect(client: KnowledgeClient, lines: BinaryIO, *, scope: str | None) -> array.array[int]:
    """Write the facts newest first; return the offset of each line."""
    starts, offset = array.array("Q"), 0
    pages = argument_parsing.fetch_pages(
        lambda cursor, limit: client.list_facts(
            scope=scope, lifecycle="live", cursor=cursor, limit=limit
        ),
        cursor=None,
        limit=None,
    )
    for page in pages:
        for fact in page.facts:
            tree = fact.model_dump(mode="json", by_alias=True, exclude_none=True)
            data = json.dumps(tree, ensure_ascii=False, sort_keys=True).encode() + b"\n"
            starts.append(offset)
            offset += lines.write(data)
    return starts


def _write_reversed(
    lines: BinaryIO, starts: array.array[int], write: Callable[[bytes], object]
) -> None:
    for start in reversed(starts):
        lines.seek(start)
        write(lines.readline())
