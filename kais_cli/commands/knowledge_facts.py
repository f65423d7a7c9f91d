"""`kais knowledge show|why|impact` and the verbs: what a fact is, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kais_cli import argument_parsing, errors
from kais_cli.commands.knowledge import app
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import detail_view, short_ids
from kais_cli.knowledge import scope_context, time_parsing
from kais_cli.session import Session, command
from kais_cli.views import output
from kais_cli.views.output import Format
from knowledge_client import errors as knowledge_errors

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient, models
    from knowledge_client.base_model import WireModel

Result = TypeVar("Result")
_FACTS_READ = 10  # of those that an undo changed
FactId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of the fact, the beginning of one, or alias:<namespace>:<value>.",
        callback=argument_parsing.fact_id,
    ),
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason; stored with the fact.")]


@command(app, "show")
def show(session: Session, fact: FactId, output_: Output = Format.TABLE) -> ExitStatus:
    """Show a fact: its text, source, times, links and history."""
    with scope_context.client(session) as client:
        fact = short_ids.resolve(client, fact)
        fact_record = client.get_fact(fact)
        history = client.history(fact)
        links = client.list_links(fact).links
    page = detail_view.format_fact(fact_record, history, links, width=session.environment.width)
    return write_result(session, fact_record, output_, page=page)


@command(app, "why")
def why(session: Session, fact: FactId, output_: Output = Format.TABLE) -> ExitStatus:
    """Show the provenance of a fact.

    Its author, the run, the facts recalled before it, and the facts it derives from.
    """
    with scope_context.client(session) as client:
        provenance = client.why(short_ids.resolve(client, fact))
    page = detail_view.format_provenance(provenance, width=session.environment.width)
    return write_result(session, provenance, output_, page=page)


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
        report = client.impact(short_ids.resolve(client, fact), limit=limit)
    return write_result(session, report, output_, page=detail_view.format_impact(report))


@command(app, "correct")
def correct(
    session: Session,
    fact: FactId,
    reason: Reason,
    replacement: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Correct statement, stored as the successor; - reads stdin."
        ),
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Close a fact that is wrong or outdated.

    Recalls no longer return it; --replacement stores a successor. Its promoted copies are
    closed too, except for copies that others confirmed: these wait for a review.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    body = models.CorrectIn(
        reason=require_reason(reason), replacement=argument_parsing.read_text(session, replacement)
    )
    with scope_context.client(session) as client:
        correction = client.correct(short_ids.resolve(client, fact), body)
    successor_note = (
        f"; {correction.replacement_id} takes its place" if correction.replacement_id else ""
    )
    page = f"{correction.fact_id}: closed{successor_note}\n{detail_view.format_copies(correction)}"
    return write_result(session, correction, output_, page=page)


@command(app, "revise")
def revise(  # noqa: PLR0913 (one argument per option)
    session: Session,
    fact: FactId,
    reason: Reason,
    *,
    content: Annotated[
        str | None, typer.Option(metavar="TEXT", help="New statement; - reads stdin.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="New title; an empty text removes it.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="JSON", help="New data; null removes it; - reads stdin.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="New tags, instead of all others.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="TEXT", help="New subject; an empty text removes it.")
    ] = None,
    confidence: Annotated[float | None, typer.Option(min=0, max=1, help="New confidence.")] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"New time of expiry; - removes it. {time_parsing.HELP}"),
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Replace a fact by a successor with some other values.

    The successor takes over its names and links. `kais knowledge undo` brings the fact back.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    sent = {
        "content": argument_parsing.read_text(session, content),
        "title": title,
        "tags": tuple(tag) if tag else None,
        "subject": subject,
        "confidence": confidence,
    }
    changes: dict[str, Any] = {name: value for name, value in sent.items() if value is not None}
    if data is not None:
        changes["data"] = argument_parsing.read_json(session, data, option="--data")
    if expires is not None:
        now = session.environment.now()
        changes["expires_at"] = (
            None if expires == "-" else time_parsing.parse(expires, option="--expires", now=now)
        )
    body = models.ReviseIn.model_validate({"reason": require_reason(reason), **changes})
    with scope_context.client(session) as client:
        revised = client.revise(short_ids.resolve(client, fact), body)
    page = (
        f"{revised.fact_id}: revised; {revised.successor_id} takes its place\n"
        f"{detail_view.format_copies(revised)}"
    )
    return write_result(session, revised, output_, page=page)


@command(app, "confirm")
def confirm(
    session: Session,
    fact: FactId,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason; stored with the fact.")
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Confirm a fact, so that a flagged one is served to cells again."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        body = models.ConfirmIn(reason=None if reason is None else require_reason(reason))
        confirmed = client.confirm(short_ids.resolve(client, fact), body)
    return write_result(session, confirmed, output_, page=f"{confirmed.id}: confirmed\n")


@command(app, "retract")
def retract(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Retract a wrong fact and its promoted copies.

    Copies that others confirmed remain and wait for a review.
    """
    retracted = run_fact_action(
        session, fact, reason, lambda client, fact, why: client.retract(fact, why)
    )
    return write_result(session, retracted, output_, page=f"{retracted.id}: retracted\n")


@command(app, "promote")
def promote(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Copy a fact to the parent scope, or confirm an equal fact there."""
    promotion = run_fact_action(
        session, fact, reason, lambda client, fact, why: client.promote(fact, why)
    )
    promotion_label = "copied to" if promotion.status == "created" else "confirmed in"
    page = f"{promotion.fact_id}: {promotion_label} {promotion.scope} as {promotion.copy_id}\n"
    return write_result(session, promotion, output_, page=page)


@command(app, "undo")
def undo(
    session: Session, fact: FactId, reason: Reason, output_: Output = Format.TABLE
) -> ExitStatus:
    """Undo the last change to a fact."""
    undone, facts = run_fact_action(session, fact, reason, undo_and_read)
    return write_result(session, undone, output_, page=detail_view.undo_summary(undone, facts))


def undo_and_read(
    client: KnowledgeClient, fact: str, why: models.ReasonIn
) -> tuple[models.UndoResult, dict[str, models.Fact | None]]:
    """Undo a change; return its result, and the facts that it changed as they are now.

    If only this fact has changed, it is not read, because the result describes the change.
    """
    undone = client.undo(fact, why)
    others = [fact_id for fact_id in undone.changed if fact_id != undone.fact_id]
    changed = [undone.fact_id, *others] if others else []
    read_facts = {fact_id: _read_if_possible(client, fact_id) for fact_id in changed[:_FACTS_READ]}
    return undone, dict.fromkeys(changed) | read_facts


def _read_if_possible(client: KnowledgeClient, fact_id: str) -> models.Fact | None:
    try:
        return client.get_fact(fact_id)
    except knowledge_errors.KnowledgeError:
        return None  # the undo is done: a fact that cannot be read is only named


def run_fact_action(
    session: Session,
    fact: str,
    reason: str,
    action: Callable[[KnowledgeClient, str, models.ReasonIn], Result],
) -> Result:
    """Run an action of the service on a fact, with a reason; `fact` may be a short id."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    body = models.ReasonIn(reason=require_reason(reason))
    with scope_context.client(session) as client:
        return action(client, short_ids.resolve(client, fact), body)


def require_reason(reason: str) -> str:
    """Validate a reason.

    Raises:
        UsageError: The reason is empty.
    """
    if not reason.strip():
        raise errors.UsageError("--reason is empty; it is stored with the fact")
    return reason


def write_result(session: Session, answer: WireModel, form: Format, *, page: str) -> ExitStatus:
    """Write an answer in the requested form; for people it is a page of text."""
    if form is Format.TABLE:
        session.write(page)
    elif form is Format.NAME:
        session.write(f"{_fact_id(answer)}\n")
    else:
        session.write(output.dump(answer, form))
    return ExitStatus.SUCCEEDED


def _fact_id(answer: WireModel) -> str:
    """Return the id of the fact that an answer is about."""
    fields = ("id", "fact_id", "fact")
    value = next(getattr(answer, name) for name in fields if hasattr(answer, name))
    return str(getattr(value, "id", value))
