"""`kais knowledge`: ask, add to and list what a namespace's teams know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kais_cli import errors, fact_pages, output, realm, tables
from kais_cli.exit_status import ExitStatus
from kais_cli.options import Output
from kais_cli.output import Format
from kais_cli.session import Session, command, group

if TYPE_CHECKING:
    from knowledge_client.models import Fact, FactPage, ReviewPage

app = group("knowledge", "Ask and tell what is known.")

Scope = Annotated[
    str | None,
    typer.Option(
        help="Scope: a path (realm:demo/formation:x), or a Blueprint's name in the namespace."
    ),
]
Limit = Annotated[int, typer.Option(min=1, max=100, help="At most this many facts.")]
At = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="A day or a time, in UTC, as 2026-05-31."
    ),
]
Cursor = Annotated[str | None, typer.Option(help="Where the page before ended, as it was told.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag; may be repeated.")]


@command(app, "recall")
def recall(  # noqa: PLR0913 (one argument per option)
    session: Session,
    query: Annotated[str, typer.Argument(help="What to ask, in plain words.")],
    *,
    scope: Scope = None,
    limit: Limit = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each score is made of.")
    ] = False,
    why_not: Annotated[
        list[str] | None,
        typer.Option("--why-not", metavar="ID", help="Say what became of a fact; repeatable."),
    ] = None,
    valid_at: At = None,
    known_at: At = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Print what is known about a question, best first."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with realm.client(session) as client:
        question = models.RecallIn(
            query=query,
            limit=limit,
            scopes=(realm.path(session, scope),) if scope else (),
            explain=explain,
            why_not=tuple(why_not or ()),
            valid_at=moment(valid_at),
            known_at=moment(known_at),
        )
        found = client.recall(question)
    if output_ is Format.NAME:
        session.write("".join(f"{fact.id}\n" for fact in found.facts))
    elif output_ is not Format.TABLE:
        session.write(output.dump(found.model_dump(mode="json", by_alias=True), output_))
    elif not found.facts:
        session.note("nothing is known about this")
    else:
        shown = tables.explained if explain else tables.recalled
        session.write(shown(found.facts, width=session.environment.width))
    if output_ is Format.TABLE:
        session.write(fact_pages.whereabouts(found.why_not))
    return ExitStatus.SUCCEEDED


@command(app, "add")
def add(  # noqa: PLR0913 (one argument per option)
    session: Session,
    text: Annotated[str, typer.Argument(help="The fact, as a sentence.")],
    *,
    scope: Scope = None,
    kind: Annotated[str, typer.Option(help="Kind, such as fact, pitfall or pattern.")] = "fact",
    tag: Tags = None,
    confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="How sure it is, 0 to 1.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="With --predicate: replaces what was known of the two.")
    ] = None,
    predicate: Annotated[str | None, typer.Option(help="See --subject.")] = None,
) -> ExitStatus:
    """Store a fact and print its id."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    if not text.strip():
        raise errors.UsageError("the fact is empty; write it as a sentence")
    with realm.client(session) as client:
        fact = models.FactIn(
            content=text,
            scope=realm.path(session, scope) if scope else None,
            kind=kind,
            tags=tuple(tag or ()),
            confidence=confidence,
            subject=subject,
            predicate=predicate,
            source=models.Source(type="user_input"),
        )
        done = client.remember(fact)
    session.write(f"{done.fact_id}\n")
    if done.status == "confirmed":
        session.note("an equal fact was known already; it is confirmed")
    for old in done.superseded:
        session.note(f"replaces {old}")
    for other in done.contradicts:
        session.note(f"contradicts {other}; both stay")
    return ExitStatus.SUCCEEDED


@command(app, "list")
def list_facts(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    scope: Scope = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    lifecycle: Annotated[
        str | None, typer.Option(help="live, superseded, retracted or archived.")
    ] = "live",
    source: Annotated[
        str | None, typer.Option(help="Only from this source, such as mission_extraction.")
    ] = None,
    valid_at: At = None,
    known_at: At = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List facts, newest first, a page at a time."""
    with realm.client(session) as client:
        page = client.list_facts(
            scope=realm.path(session, scope) if scope else None,
            kind=kind,
            tag=tag,
            lifecycle=lifecycle,
            source=source,
            valid_at=moment(valid_at),
            known_at=moment(known_at),
            cursor=cursor,
            limit=limit,
        )
    return write_page(session, page, output_, table=tables.facts, none="no facts match")


def write_page(
    session: Session,
    page: FactPage | ReviewPage,
    form: Format,
    *,
    table: Callable[[Sequence[Fact]], str],
    none: str,
) -> ExitStatus:
    """Write a page of facts in the form that was asked for, and say how to get the next one.

    `table` makes the columns for people, who are told `none` when there is nothing.
    """
    if form is Format.NAME:
        session.write("".join(f"{fact.id}\n" for fact in page.facts))
    elif form is not Format.TABLE:
        session.write(output.dump(page.model_dump(mode="json", by_alias=True)["facts"], form))
    elif not page.facts:
        session.note(none)
    else:
        session.write(table(page.facts))
    if page.cursor:
        session.note(f"there are more: --cursor {page.cursor}")
    return ExitStatus.SUCCEEDED


def moment(given: datetime | None) -> datetime | None:
    """Read a time that was typed without a zone as UTC."""
    return given.replace(tzinfo=UTC) if given else None
