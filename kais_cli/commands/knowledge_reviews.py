"""`kais knowledge reviews|approve|reject|restore|erase`: what people decide about facts."""

from __future__ import annotations

from typing import Annotated

import typer

from kais_cli import argument_parsing, errors
from kais_cli.commands.knowledge import AllPages, Cursor, Limit, Tags, app, write_pages
from kais_cli.commands.knowledge_facts import FactId, Reason, run_fact_action, write_result
from kais_cli.commands.options import Listed, Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import detail_view, output_formats, tables
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.views.output import Format, Listing


@command(app, "reviews")
def reviews(
    session: Session,
    *,
    cursor: Cursor = None,
    limit: Limit = 50,
    all_: AllPages = False,
    output_: Listed = Listing.TABLE,
) -> ExitStatus:
    """List drafts and flagged facts that wait for a review."""
    with scope_context.client(session) as client:
        pages = argument_parsing.fetch_pages(
            lambda cursor, limit: client.list_reviews(cursor=cursor, limit=limit),
            cursor=cursor,
            limit=None if all_ else limit,
        )
        table = tables.review_table(columns=session.environment.columns)
        count = write_pages(session, pages, output_formats.writer(output_, table))
    if not count:
        session.note("no facts wait for a review")
    return ExitStatus.SUCCEEDED


@command(app, "approve")
def approve(  # noqa: PLR0913 (one argument per option)
    session: Session,
    fact: FactId,
    reason: Reason,
    *,
    content: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Approve this text instead, as the successor; - reads stdin."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the successor.")] = None,
    tag: Tags = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Approve a fact, so that agents cannot replace it.

    Clears its flags. With --content, --title or --tag, approves a successor instead and closes the
    promoted copies of the fact. Without --content, the successor keeps the links of the fact and
    may be promoted again.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    replacement = argument_parsing.read_text(session, content)
    edits = {"content": replacement, "title": title, "tags": tuple(tag) if tag else None}
    approval = run_fact_action(
        session,
        fact,
        reason,
        lambda client, fact, why: client.approve(
            fact, models.ApproveIn(reason=why.reason, **edits)
        ),
    )
    replaced_note = f" in the place of {approval.replaced}" if approval.replaced else ""
    page = f"{approval.fact.id}: approved{replaced_note}\n{detail_view.format_copies(approval)}"
    return write_result(session, approval.fact, output_, page=page)


@command(app, "reject")
def reject(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Reject a fact: it is archived and can be restored."""
    rejected = run_fact_action(
        session, fact, reason, lambda client, fact, why: client.reject(fact, why)
    )
    return write_result(session, rejected, output_, page=f"{rejected.id}: rejected\n")


@command(app, "restore")
def restore(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Restore a closed fact.

    Works for retracted, superseded, archived and rejected facts. Agents cannot restore a fact that
    a person closed, or whose text a reviewer rejected or replaced.
    """
    restored = run_fact_action(
        session, fact, reason, lambda client, fact, why: client.restore(fact, why)
    )
    return write_result(session, restored, output_, page=f"{restored.id}: live again\n")


@command(app, "erase")
def erase(
    session: Session,
    fact: FactId,
    reason: Reason,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the operation.")] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Delete a fact's text and its promoted copies permanently.

    Requires the verb admin on the scope, which a namespace's account does not have.
    The output names derived facts that remain, and what backups still contain.
    """
    if not yes:
        raise errors.UsageError(
            f"the text of {fact} and of its copies cannot be restored; confirm with --yes"
        )
    erasure = run_fact_action(
        session, fact, reason, lambda client, fact, why: client.erase(fact, why)
    )
    if output_ is Format.NAME:
        session.write("".join(f"{fact_id}\n" for fact_id in erasure.facts))
        return ExitStatus.SUCCEEDED
    return write_result(session, erasure, output_, page=detail_view.format_erasure(erasure))
