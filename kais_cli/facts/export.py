"""Export facts as lines of JSON, oldest first, so that an import stores them in order.

    pages, newest first -> unnamed file -> its lines backwards -> hidden draft -> NAME
A failed export leaves no file with that name. An export overwrites no file.
"""

from __future__ import annotations

import array
import json
import os
import tempfile
import uuid
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
    if os.path.lexists(file):
        raise _name_is_taken(file)
    try:
        with tempfile.TemporaryFile(dir=file.parent) as lines:
            starts = _collect(client, lines, scope=scope)
            _write_new(file, lines, starts)
    except FileExistsError as exc:
        raise _name_is_taken(file) from exc
    except OSError as exc:
        raise errors.CliError(
            f"cannot write {file}: {exc.strerror}; nothing is left of it"
        ) from exc
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


def _write_new(file: Path, lines: BinaryIO, starts: array.array[int]) -> None:
    draft = file.with_name(f".kais-export-{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as stream:
            _write_reversed(lines, starts, stream.write)
            stream.flush()
            os.fsync(stream.fileno())
        _publish(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _publish(draft: Path, file: Path) -> None:
    """Give a complete draft its name; raises `FileExistsError` if another file has it."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        file.touch(exist_ok=False)
        try:
            draft.replace(file)
        except BaseException:
            file.unlink()
            raise


def _name_is_taken(file: Path) -> errors.UsageError:
    return errors.UsageError(f"{file} exists already; choose another name")


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
