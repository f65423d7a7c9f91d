"""`kais knowledge show|why|impact` and the verbs: what a fact is, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kais_cli import argument_parsing, errors
from kais_cli.commands.knowledge import app
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import detail_view
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.views import output
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient, models
    from knowledge_client.wire import Wire

Done = TypeVar("Done")
FactId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of the fact, or alias:<namespace>:<value>.",
        callback=argument_parsing.fact_id,
    ),
]
Reason = Annotated[str, typer.Option(help="Reason; stored with the fact.")]


@command(app, "show")
def show(session: Session, fact: FactId, output_: Output = Format.TABLE) -> ExitStatus:
    """Show a fact: its text, source, times, links and history."""
    with scope_context.client(session) as client:
        found = client.get_fact(fact)
        history = client.history(fact)
        links = client.list_links(fact).links
    page = detail_view.page(found, history, links, width=session.environment.width)
    return told(session, found, output_, page=page)


@command(app, "why")
def why(session: Session, fact: FactId, output_: Output = Format.TABLE) -> ExitStatus:
    """Show the provenance of a fact.

    Its author, the run, the facts recalled before it, and the facts it derives from.
    """
    with scope_context.client(session) as client:
        found = client.why(fact)
    page = detail_view.why(found, width=session.environment.width)
    return told(session, found, output_, page=page)


@command(app, "impact")
def impact(
    session: Session,
    fact: FactId,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of recalls.")] = 100,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Show what a fact has influenced.

    The recalls that returned it, their runs, its copies and the facts derived from it.
    """
    with scope_context.client(session) as client:
        found = client.impact(fact, limit=limit)
    return told(session, found, output_, page=detail_view.impact(found))


@command(app, "correct")
def correct(
    session: Session,
    fact: FactId,
    reason: Reason,
    replacement: Annotated[
        str | None, typer.Option(help="Correct statement, stored as the successor; - reads stdin.")
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Close a fact that is wrong or outdated.

    Recalls no longer return it; --replacement stores a successor. Its promoted copies are
    closed too, except for copies that others confirmed: these wait for a review.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    body = models.CorrectIn(
        reason=given(reason), replacement=argument_parsing.text(session, replacement)
    )
    with scope_context.client(session) as client:
        done = client.correct(fact, body)
    new = f"; {done.replacement_id} takes its place" if done.replacement_id else ""
    page = f"{done.fact_id}: closed{new}\n{detail_view.copies(done)}"
    return told(session, done, output_, page=page)


@command(app, "confirm")
def confirm(
    session: Session,
    fact: FactId,
    reason: Annotated[str | None, typer.Option(help="Reason; stored with the fact.")] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Confirm a fact, so that a flagged one is served to cells again."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        body = models.ConfirmIn(reason=None if reason is None else given(reason))
        done = client.confirm(fact, body)
    return told(session, done, output_, page=f"{done.id}: confirmed\n")


@command(app, "retract")
def retract(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Retract a wrong fact and its promoted copies.

    Copies that others confirmed remain and wait for a review.
    """
    done = ordered(session, reason, lambda client, why: client.retract(fact, why))
    return told(session, done, output_, page=f"{done.id}: retracted\n")


@command(app, "promote")
def promote(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Copy a fact to the parent scope, or confirm an equal fact there."""
    done = ordered(session, reason, lambda client, why: client.promote(fact, why))
    what = "copied to" if done.status == "created" else "confirmed in"
    page = f"{done.fact_id}: {what} {done.scope} as {done.copy_id}\n"
    return told(session, done, output_, page=page)


@command(app, "undo")
def undo(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Undo the last change to a fact."""
    done = ordered(session, reason, lambda client, why: client.undo(fact, why))
    return told(session, done, output_, page=detail_view.taken_back(done))


def ordered(
    session: Session, reason: str, do: Callable[[KnowledgeClient, models.ReasonIn], Done]
) -> Done:
    """Have the service do something to a fact for a reason."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    body = models.ReasonIn(reason=given(reason))
    with scope_context.client(session) as client:
        return do(client, body)


def given(reason: str) -> str:
    """Take a reason.

    Raises:
        UsageError: it is none.
    """
    if not reason.strip():
        raise errors.UsageError("--reason is empty; it is stored with the fact")
    return reason


def told(session: Session, found: Wire, form: Format, *, page: str) -> ExitStatus:
    """Write an answer in the form that was asked for; the table is a page in words."""
    tree: dict[str, Any] = found.model_dump(mode="json", by_alias=True)
    if form is Format.TABLE:
        session.write(page)
    elif form is Format.NAME:
        session.write(f"{tree.get('id') or tree.get('fact_id') or tree.get('fact')}\n")
    else:
        session.write(output.dump(tree, form))
    return ExitStatus.SUCCEEDED
