"""`kais knowledge stats|aliases|export|import|adopt`: whole scopes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from kais_cli import errors
from kais_cli.commands.knowledge import AllPages, Limit, Scope, app
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import alias_notation, tables
from kais_cli.facts import export as facts_export
from kais_cli.facts.alias_notation import WrittenAlias
from kais_cli.facts.detail_view import pluralise
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.views import output, table_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact, NamedFact, ScopeStats


_STREAM = Path("-")
StatsScope = Annotated[
    str | None,
    typer.Option(
        help="Scope: a path or a Blueprint's name. Default: every scope that you can read."
    ),
]


@command(app, "stats")
def stats(session: Session, scope: StatsScope = None, output_: Output = Format.TABLE) -> ExitStatus:
    """Show the number of facts in each scope and how useful they were.

    USEFUL is the success rate of the runs that recalled facts of the scope. This is an association:
    it does not show that the facts were the cause. `kais blueprint stats` compares runs with and
    without knowledge.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        if scope is None:
            scope_stats = tuple(_all_scopes(client))
        else:
            stats_request = models.StatsIn(scopes=(scope_context.path(session, scope),))
            scope_stats = client.stats_batch(stats_request).scopes
            is_empty = not any(
                scope_entry.facts or scope_entry.recalls for scope_entry in scope_stats
            )
            scope_hint = scope_context.suggest_scope(session, client, scope) if is_empty else ""
            if scope_hint:
                session.note(scope_hint.removeprefix("; "))
    if output_ is Format.TABLE:
        session.write(tables.format_scopes(scope_stats))
    elif output_ is Format.NAME:
        session.write("".join(f"{scope_entry.path}\n" for scope_entry in scope_stats))
    else:
        session.write(output.dump(scope_stats, output_))
    return ExitStatus.SUCCEEDED


def _all_scopes(client: KnowledgeClient) -> Iterator[ScopeStats]:
    """Yield every visible scope."""
    cursor = None
    while True:
        page = client.list_scopes(cursor=cursor, limit=100)
        yield from (entry.stats for entry in page.scopes)
        cursor = page.cursor
        if cursor is None:
            return


@command(app, "aliases")
def list_aliases(  # noqa: PLR0913 (one argument per option)
    session: Session,
    aliases_of: Annotated[
        str, typer.Argument(metavar="ALIAS_NAMESPACE", help="Such as entity, ko or file.")
    ],
    *,
    prefix: Annotated[str, typer.Option(help="Only aliases that begin with this text.")] = "",
    scope: Scope = None,
    limit: Limit = 50,
    all_: AllPages = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List the aliases in a namespace, in the order of their values.

    The alias of a retracted fact is free, and not listed.
    """
    path = None if scope is None else scope_context.path(session, scope)
    with scope_context.client(session) as client:
        every_alias = _aliases(client, aliases_of, prefix=prefix or None, scope=path)
        aliases = list(itertools.islice(every_alias, None if all_ else limit + 1))
    is_cut = not all_ and len(aliases) > limit
    listed_aliases = aliases[:limit] if is_cut else aliases
    if output_ is Format.TABLE:
        rows = [(alias.value, alias.fact_id, alias.scope) for alias in listed_aliases]
        session.write(table_layout.format_table(("ALIAS", "FACT", "SCOPE"), rows) if rows else "")
    elif output_ is Format.NAME:
        lines = (
            alias_notation.format_alias(WrittenAlias(a.namespace, a.value)) for a in listed_aliases
        )
        session.write("".join(f"{line}\n" for line in lines))
    else:
        session.write(output.dump(listed_aliases, output_))
    if is_cut:
        session.note("there are more aliases; use --all or a longer --prefix")
    elif not listed_aliases:
        session.note(f"no aliases in namespace {aliases_of} match")
    return ExitStatus.SUCCEEDED


def _aliases(
    client: KnowledgeClient, namespace: str, *, prefix: str | None, scope: str | None
) -> Iterator[NamedFact]:
    """Yield every visible alias."""
    cursor = None
    while True:
        page = client.list_aliases(namespace, prefix=prefix, scope=scope, cursor=cursor, limit=100)
        yield from page.aliases
        cursor = page.cursor
        if cursor is None:
            return


@command(app, "export")
def export(
    session: Session,
    file: Annotated[
        Path, typer.Option("--to", help="File to write; must not exist. - writes to stdout.")
    ],
    scope: Scope = None,
) -> ExitStatus:
    """Export live facts as lines of JSON, which `import` reads.

    Exports all facts that you can see, or those of one scope, oldest first. If the export fails,
    no file is written. Aliases, links, history and closed facts are not included;
    `kais-knowledge export` includes everything.
    """
    scope_path = None if scope is None else scope_context.path(session, scope)
    with scope_context.client(session) as client:
        if file == _STREAM:
            count = facts_export.write_stream(client, session.environment.write, scope=scope_path)
        else:
            count = facts_export.write_file(client, file, scope=scope_path)
        scope_hint = "" if count else scope_context.suggest_scope(session, client, scope)
    session.note(f"{pluralise(count, 'fact')} written to {file}{scope_hint}")
    return ExitStatus.SUCCEEDED


@command(app, "import")
def import_(
    session: Session,
    file: Annotated[
        Path, typer.Option("--from", help="File with one JSON fact per line; - reads stdin.")
    ],
    scope: Annotated[
        str | None,
        typer.Option(
            help="Target scope: a path or a Blueprint's name. Default: the scope of each line,"
            " within the realm of the namespace."
        ),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Skip invalid lines and exit with status 1.")
    ] = False,
) -> ExitStatus:
    """Import the facts of a file; existing facts are confirmed.

    The import stops at a line that is not a fact or that the service rejects, and names it. The
    lines before it are stored, so you can correct the file and run the command again. An incomplete
    last line is skipped with a warning. Facts of the platform need --scope. Links to facts of
    earlier lines are kept; approvals and other omissions are counted at the end.
    """
    from kais_cli.facts import jsonl  # noqa: PLC0415 (loads httpx)
    from kais_cli.facts.importer import Import, read_lines  # noqa: PLC0415 (loads httpx)
    from knowledge_client.errors import KnowledgeError  # noqa: PLC0415 (loads httpx)

    path = None if scope is None else scope_context.path(session, scope)
    scope_mapping = jsonl.ScopeMapping(
        scope=path, realm=None if scope else scope_context.import_realm(session)
    )
    with _open_input(session, file) as stream, scope_context.client(session) as client:
        referenced_ids = None
        if stream.seekable():
            referenced_ids = jsonl.referenced_fact_ids(read_lines(stream))
            stream.seek(0)
        reader = jsonl.Reader(scope_mapping, referenced_ids)
        importer = Import(client, reader, str(file), keep_going, session.note)
        try:
            importer.run(read_lines(stream))
        except (KeyboardInterrupt, KnowledgeError):
            session.note(
                f"ended behind line {importer.last_stored_line:,} of {file}: {importer.summary}"
            )
            raise
    for note in importer.notes():
        session.note(note)
    session.note(importer.summary)
    return ExitStatus.FAILED if importer.skipped else ExitStatus.SUCCEEDED


@contextmanager
def _open_input(session: Session, file: Path) -> Iterator[BinaryIO]:
    if file == _STREAM:
        stdin = session.environment.stdin
        yield getattr(stdin, "buffer", None) or io.BytesIO(stdin.read().encode())
        return
    try:
        stream = file.open("rb")
    except OSError as exc:
        raise errors.UsageError(f"cannot read {file}: {exc.strerror}") from exc
    with stream:
        yield stream


@command(app, "adopt")
def adopt(
    session: Session,
    scope: Annotated[
        str | None,
        typer.Option(help="Blueprint whose cells' own facts become facts of the Blueprint."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the facts of cells, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the operation.")] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Adopt the facts of cells for their Blueprint, or those of an earlier namespace.

    With --scope, copies what the cells of a Blueprint stored in their own scopes to the scope of
    the Blueprint, as `kais knowledge promote` does; `kais knowledge undo ID` takes a copy back.
    Earlier versions stored everything that a cell remembered in the scope of that cell.

    Without --scope, adopts the facts of an earlier namespace with this name. A namespace that was
    deleted and created again starts without knowledge, because its name may have a new owner. Adopt
    the old facts only if the owner is the same.
    """
    path = f"realm:{scope_context.namespace(session)}"
    if scope is not None or dry_run:
        within = path if scope is None else scope_context.path(session, scope)
        if not (dry_run or yes):
            raise errors.UsageError(
                f"all cells below {within} will see the facts; list them with --dry-run,"
                " then confirm with --yes"
            )
        return _adopt_from_cells(session, within, dry_run=dry_run, output_=output_)
    if not yes:
        raise errors.UsageError(
            f"all readers of {path} will see the facts of the earlier namespace; confirm with --yes"
        )
    with scope_context.client(session) as client:
        adoption = client.adopt_scope(path)
    if output_ is Format.NAME:
        session.write("".join(f"{joined}\n" for joined in adoption.scopes))
    elif output_ is Format.TABLE:
        joined = (
            f"{pluralise(adoption.facts, 'fact')} of {pluralise(len(adoption.scopes), 'scope')}"
        )
        session.write(f"{path}: {joined} joined\n")
    else:
        session.write(output.dump(adoption, output_))
    return ExitStatus.SUCCEEDED


def _adopt_from_cells(
    session: Session, within: str, *, dry_run: bool, output_: Format
) -> ExitStatus:
    from kais_cli.facts import cell_adoption  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        facts = cell_adoption.list_adoptable(client, within)
        if dry_run:
            _write_adoptable(session, facts, within, output_)
            return ExitStatus.SUCCEEDED
        adoption = cell_adoption.adopt_facts(client, facts)
    if output_ is Format.NAME:
        session.write("".join(f"{copy.copy_id}\n" for copy in adoption.copies))
    elif output_ is Format.TABLE:
        rows = [(copy.fact_id, copy.copy_id, copy.scope) for copy in adoption.copies]
        session.write(table_layout.format_table(("ID", "COPY", "SCOPE"), rows) if rows else "")
        session.write(
            f"{pluralise(len(rows), 'fact')} of cells adopted;"
            " kais knowledge undo COPY --reason WHY takes one back\n"
            if rows or adoption.refused
            else "no facts of cells to adopt\n"
        )
    else:
        session.write(output.dump(adoption.copies, output_))
    for fact_id, reason in adoption.refused:
        session.note(f"not adopted: {fact_id}: {reason}")
    return ExitStatus.FAILED if adoption.refused else ExitStatus.SUCCEEDED


def _write_adoptable(session: Session, facts: Sequence[Fact], within: str, output_: Format) -> None:
    if output_ is Format.NAME:
        session.write("".join(f"{fact.id}\n" for fact in facts))
    elif output_ is Format.TABLE:
        table = tables.fact_table(columns=session.environment.columns)
        session.write(table.page(facts))
        session.note(
            f"{pluralise(len(facts), 'fact')} of cells below {within};"
            " adopt them with --scope BLUEPRINT --yes"
            if facts
            else f"no facts of cells below {within}: nothing to adopt"
        )
    else:
        session.write(output.dump(facts, output_))
