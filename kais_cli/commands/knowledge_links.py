"""`kais knowledge link|unlink|links|report-usage`: links between facts, and how facts were used."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kais_cli import argument_parsing
from kais_cli.commands.knowledge import AllPages, app
from kais_cli.commands.knowledge_facts import FactId
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import short_ids, tables
from kais_cli.facts.detail_view import pluralise
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.views import output, table_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Link

_PAGE = 100
_COLUMNS = ("TYPE", "FROM", "TO", "WEIGHT", "BY", "RECORDED (UTC)", "REMOVED (UTC)")
LinkType = Annotated[
    str, typer.Argument(metavar="TYPE", help="Type of the link, such as mentions.")
]
ToFact = Annotated[
    str,
    typer.Argument(metavar="TO", help="The other fact.", callback=argument_parsing.fact_id),
]


class UsageKind(StrEnum):
    """The kinds of usage that a caller may report about a fact."""

    CONSULTED = "consulted"
    APPLIED = "applied"
    PREVENTED = "prevented"


@command(app, "link")
def link(
    session: Session,
    fact: FactId,
    type_: LinkType,
    to: ToFact,
    weight: Annotated[float | None, typer.Option(min=0, help="Weight of the link.")] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Link a fact to another one.

    A link that exists already stays as it is.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        body = models.LinkIn(
            from_=short_ids.resolve(client, fact),
            to=short_ids.resolve(client, to),
            type=type_,
            weight=weight,
        )
        linked = client.link(body)
    if output_ is Format.TABLE:
        text = {"created": "linked", "exists": "linked already"}.get(linked.status)
        session.write(f"{body.from_} {type_} {body.to}: {text or linked.reason or 'no link'}\n")
    elif output_ is Format.NAME:
        session.write(f"{linked.link.id}\n" if linked.link else "")
    else:
        session.write(output.dump(linked, output_))
    return ExitStatus.SUCCEEDED


@command(app, "unlink")
def unlink(session: Session, fact: FactId, type_: LinkType, to: ToFact) -> ExitStatus:
    """Remove a link, if there is one.

    `kais knowledge links` still shows it, with the time of its removal.
    """
    with scope_context.client(session) as client:
        from_id, to_id = short_ids.resolve(client, fact), short_ids.resolve(client, to)
        client.unlink(from_id, to_id, type_)
    session.write(f"{from_id} {type_} {to_id}: unlinked\n")
    return ExitStatus.SUCCEEDED


@command(app, "links")
def list_links(
    session: Session,
    fact: FactId,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only links of this type; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of links.")] = 50,
    *,
    all_: AllPages = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List the links from and to a fact, newest first, also those that were removed."""
    with scope_context.client(session) as client:
        every_link = _links(client, short_ids.resolve(client, fact), types or ())
        links = list(itertools.islice(every_link, None if all_ else limit + 1))
    listed_links = links if all_ else links[:limit]
    if output_ is Format.TABLE:
        rows = [_row(link) for link in listed_links]
        session.write(table_layout.format_table(_COLUMNS, rows) if rows else "")
    elif output_ is Format.NAME:
        session.write("".join(f"{link.id}\n" for link in listed_links))
    else:
        session.write(output.dump(listed_links, output_))
    if len(listed_links) < len(links):
        session.note("there are more links; use --all or a higher --limit")
    elif not listed_links:
        session.note("no links match")
    return ExitStatus.SUCCEEDED


@command(app, "report-usage")
def report_usage(
    session: Session,
    fact: FactId,
    kind: Annotated[UsageKind, typer.Option(help="How the fact was used.")],
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many times.")] = 1,
    run: Annotated[str | None, typer.Option(help="Run in which it was used.")] = None,
    usage_session: Annotated[
        str | None,
        typer.Option("--session", help="Session in which it was used, such as issue-12."),
    ] = None,
) -> ExitStatus:
    """Report that a fact was used, so that the service counts and audits it."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        fact_id = short_ids.resolve(client, fact)
        use = models.FactUse(fact=fact_id, kind=kind.value, count=count)
        client.count_usage(models.UsageIn(uses=(use,), run=run, session=usage_session))
    session.write(f"{fact_id}: {kind.value} {pluralise(count, 'time')}\n")
    return ExitStatus.SUCCEEDED


def _links(client: KnowledgeClient, fact_id: str, types: Sequence[str]) -> Iterator[Link]:
    """Yield every visible link of a fact."""
    cursor = None
    while True:
        page = client.list_links(fact_id, types=types, cursor=cursor, limit=_PAGE)
        yield from page.links
        cursor = page.cursor
        if cursor is None:
            return


def _row(link_: Link) -> tuple[object, ...]:
    recorded, removed = map(tables.format_timestamp, (link_.recorded_at, link_.closed_at))
    return (link_.type, link_.from_, link_.to, link_.weight, link_.actor, recorded, removed)
