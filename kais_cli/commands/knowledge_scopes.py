"""`kais knowledge stats|export|import|adopt`: whole scopes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kais_cli import errors, fact_files, fact_pages, output, realm
from kais_cli.commands.knowledge import Scope, app
from kais_cli.exit_status import ExitStatus
from kais_cli.options import Output
from kais_cli.output import Format
from kais_cli.session import Session, command


@command(app, "stats")
def stats(session: Session, scope: Scope = None, output_: Output = Format.TABLE) -> ExitStatus:
    """Tell how many facts scopes hold, and how useful they were; unless told, all you may see."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with realm.client(session) as client:
        if scope:
            paths: tuple[str, ...] = (realm.path(session, scope),)
        else:
            paths = tuple(found.path for found in client.list_scopes(limit=100).scopes)
        found = client.stats_batch(models.StatsIn(scopes=paths)).scopes
    if output_ is Format.TABLE:
        session.write("".join(fact_pages.scope(one, path=one.path) for one in found))
    elif output_ is Format.NAME:
        session.write("".join(f"{one.path}\n" for one in found))
    else:
        session.write(output.dump([one.model_dump(mode="json") for one in found], output_))
    return ExitStatus.SUCCEEDED


@command(app, "export")
def export(
    session: Session,
    file: Annotated[Path, typer.Option("--to", help="File to write; it must not exist yet.")],
    scope: Scope = None,
) -> ExitStatus:
    """Write the live facts that you may see as lines of JSON, which `import` takes."""
    with realm.client(session) as client:
        named = realm.path(session, scope) if scope else None
        count = fact_files.write(client, file, scope=named)
    session.note(f"{count} facts written to {file}")
    return ExitStatus.SUCCEEDED


@command(app, "import")
def import_(
    session: Session,
    file: Annotated[Path, typer.Option("--from", help="Lines of JSON, a fact each.")],
    scope: Annotated[
        str | None,
        typer.Option(help="Where to; a path or a Blueprint's name. The realm unless told."),
    ] = None,
) -> ExitStatus:
    """Store the facts of a file; those that are known already are confirmed.

    A torn last line is left out, and said. A line that is no fact ends the import before anything
    of its hundred is stored; the message names it, and another import goes on from there.
    """
    target = realm.path(session, scope or f"realm:{realm.namespace(session)}")
    with realm.client(session) as client:
        done = fact_files.read(client, file, scope=target)
    for note in done.notes:
        session.note(note)
    session.note(f"{done.created} facts stored, {done.confirmed} known already and confirmed")
    return ExitStatus.SUCCEEDED


@command(app, "adopt")
def adopt(
    session: Session,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Join what an earlier namespace of this name knew to the present one.

    A namespace that was deleted and made again starts empty, because its name may belong to
    somebody else now. Who adopts says that it does not.
    """
    path = f"realm:{realm.namespace(session)}"
    if not yes:
        raise errors.UsageError(
            f"everybody in {path} will see what the earlier one knew; say --yes to do it"
        )
    with realm.client(session) as client:
        done = client.adopt_scope(path)
    if output_ in (Format.TABLE, Format.NAME):
        session.write(f"{path}: {done.facts} facts of {len(done.scopes)} scopes joined\n")
    else:
        session.write(output.dump(done.model_dump(mode="json"), output_))
    return ExitStatus.SUCCEEDED
