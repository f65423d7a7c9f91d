"""`kais knowledge graph import|export|mirror|restore`: memory files of JSON lines."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from kais_cli import errors
from kais_cli.commands.knowledge import Scope
from kais_cli.commands.knowledge_graph import app
from kais_cli.exit_status import ExitStatus
from kais_cli.facts.detail_view import pluralise
from kais_cli.graph import new_file
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command

_STREAM = Path("-")


@command(app, "import")
def import_(
    session: Session,
    file: Annotated[
        Path, typer.Option("--from", help="File of server-memory or coaia-memory; - reads stdin.")
    ],
    scope: Scope = None,
) -> ExitStatus:
    """Import entities, observations and relations of a memory file.

    What exists is not changed, but observations that it lacks are added, so you can import a file
    again. An incomplete last line is left out, and a damaged line costs only itself; the command
    names both and then exits with status 1 for a damaged line.
    """
    with _open_input(session, file) as stream:
        return _import(session, stream, str(file), scope)


@command(app, "export")
def export(
    session: Session,
    file: Annotated[
        Path, typer.Option("--to", help="File to write; must not exist. - writes to stdout.")
    ],
    scope: Scope = None,
) -> ExitStatus:
    """Export the graph as a memory file, which `import`, server-memory and coaia-memory read."""
    from kais_cli.graph import export as graph_export  # noqa: PLC0415 (loads httpx)

    path = None if scope is None else scope_context.path(session, scope)
    count = 0
    with scope_context.client(session) as client:
        lines = graph_export.lines(client, scope=path)
        if file == _STREAM:
            for line in lines:
                session.environment.write(line)
                count += 1
        else:
            count = new_file.write(file, lines)
    session.note(f"{pluralise(count, 'line')} written to {file}")
    return ExitStatus.SUCCEEDED


@command(app, "mirror")
def mirror(
    session: Session,
    file: Annotated[Path, typer.Option("--to", help="Memory file to bring up to date.")],
    scope: Scope = None,
) -> ExitStatus:
    """Write the graph to a memory file, and put a file aside that another program changed.

    Nothing is read back from the file. A copy is kept after every 100 saves, the last ten of them.
    """
    from kais_cli.graph import export as graph_export  # noqa: PLC0415 (loads httpx)
    from kais_cli.graph.mirror import Mirror, check_path  # noqa: PLC0415 (only this command)

    path = None if scope is None else scope_context.path(session, scope)
    target = Mirror(check_path(file), session.note, session.environment.now, path)
    with scope_context.client(session) as client:
        target.rewrite(graph_export.lines(client, scope=path))
    session.note(f"{file} has the graph")
    return ExitStatus.SUCCEEDED


@command(app, "restore")
def restore(
    session: Session,
    file: Annotated[Path, typer.Option("--memory-path", help="Memory file that has copies.")],
    copy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the copy. Default: the latest one."),
    ] = None,
    scope: Scope = None,
) -> ExitStatus:
    """Import a copy of a memory file, so that what was deleted since exists again.

    The copies of memory.jsonl are the files memory-backup-TIME.jsonl beside it, and those of
    another file begin with its name. Entities that were added since stay.
    """
    from kais_cli.graph.mirror import check_path, list_copies  # noqa: PLC0415 (only this command)

    copies = list_copies(check_path(file))
    chosen = [saved_copy for saved_copy in copies if copy in (None, saved_copy.name)]
    if not chosen:
        names = ", ".join(saved_copy.name for saved_copy in copies)
        raise errors.UsageError(
            f"no copy {copy} beside {file}; there are {names}"
            if copies
            else f"there are no copies beside {file}; one is made after every 100 saves"
        )
    session.note(f"restoring {chosen[-1].name}")
    with _open_input(session, chosen[-1]) as stream:
        return _import(session, stream, chosen[-1].name, scope)


def _import(session: Session, stream: BinaryIO, name: str, scope: str | None) -> ExitStatus:
    from kais_cli.graph.importer import GraphImport  # noqa: PLC0415 (loads httpx)
    from knowledge_client.errors import KnowledgeError  # noqa: PLC0415 (loads httpx)

    target = (
        scope_context.default_scope(session)
        if scope is None
        else scope_context.path(session, scope)
    )
    with scope_context.client(session) as client:
        graph_import = GraphImport(client, name, session.note, target)
        try:
            graph_import.run(stream)
        except (KeyboardInterrupt, KnowledgeError):
            session.note(f"{name} is imported in part: {graph_import.summary}; import it again")
            raise
    session.note(graph_import.summary)
    failed = graph_import.damaged or graph_import.has_changed
    return ExitStatus.FAILED if failed else ExitStatus.SUCCEEDED


@contextmanager
def _open_input(session: Session, file: Path) -> Iterator[BinaryIO]:
    """Open a file, which is read twice; standard input is copied to a temporary file."""
    if file == _STREAM:
        stdin = session.environment.stdin
        with tempfile.TemporaryFile() as stream:
            buffer = getattr(stdin, "buffer", None)
            if buffer is None:
                stream.write(stdin.read().encode())
            else:
                shutil.copyfileobj(buffer, stream)
            stream.seek(0)
            yield stream
        return
    try:
        opened = file.open("rb")
    except OSError as exc:
        raise errors.UsageError(f"cannot read {file}: {exc.strerror}") from exc
    with opened:
        yield opened
