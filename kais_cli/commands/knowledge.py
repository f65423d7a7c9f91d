"""`kais knowledge`: ask, add to and list what a namespace's teams know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kais import scopes
from kais_cli import errors, output, tables
from kais_cli.exit_status import ExitStatus
from kais_cli.options import Output
from kais_cli.output import Format
from kais_cli.session import Session, command, group

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient

app = group("knowledge", "Ask and tell what is known.")

Scope = Annotated[
    str | None,
    typer.Option(
        help="Scope: a path (realm:demo/formation:x), or a Blueprint's name in the namespace."
    ),
]
Limit = Annotated[int, typer.Option(min=1, max=100, help="At most this many facts.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag; may be repeated.")]


@command(app, "recall")
def recall(
    session: Session,
    query: Annotated[str, typer.Argument(help="What to ask, in plain words.")],
    scope: Scope = None,
    limit: Limit = 10,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Print what is known about a question, best first."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with _client(session) as client:
        named = (_path(session, scope),) if scope else ()
        found = client.recall(models.RecallIn(query=query, limit=limit, scopes=named))
    if output_ is Format.NAME:
        session.write("".join(f"{fact.id}\n" for fact in found.facts))
    elif output_ is not Format.TABLE:
        session.write(output.dump(found.model_dump(mode="json", by_alias=True), output_))
    elif not found.facts:
        session.note("nothing is known about this")
    else:
        session.write(tables.recalled(found.facts, width=session.environment.width))
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
    with _client(session) as client:
        fact = models.FactIn(
            content=text,
            scope=_path(session, scope) if scope else None,
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
    limit: Limit = 50,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List facts, newest first."""
    with _client(session) as client:
        page = client.list_facts(
            scope=_path(session, scope) if scope else None,
            kind=kind,
            tag=tag,
            lifecycle=lifecycle,
            source=source,
            limit=limit,
        )
    if output_ is Format.NAME:
        session.write("".join(f"{fact.id}\n" for fact in page.facts))
    elif output_ is not Format.TABLE:
        session.write(output.dump(page.model_dump(mode="json", by_alias=True)["facts"], output_))
    elif not page.facts:
        session.note("no facts match")
    else:
        session.write(tables.facts(page.facts))
    if page.cursor:
        session.note(f"there are more than {limit}; narrow it down or raise --limit")
    return ExitStatus.SUCCEEDED


@contextmanager
def _client(session: Session) -> Iterator[KnowledgeClient]:
    from kais_cli import knowledge_access  # noqa: PLC0415 (loads httpx)

    cluster = None if _is_direct(session) else session.cluster
    namespace = _namespace(session)
    with knowledge_access.connect(session.environment, cluster, namespace=namespace) as client:
        yield client


def _is_direct(session: Session) -> bool:
    return session.environment.settings.knowledge_url is not None


def _namespace(session: Session) -> str:
    """Name the realm; where the service's address is told, no cluster is asked for it."""
    return session.chosen_namespace or "default" if _is_direct(session) else session.namespace


def _path(session: Session, scope: str) -> str:
    """Write a scope as a path; a bare name is a formation of the namespace."""
    is_path = ":" in scope or scope == "platform"
    try:
        found = scopes.Scope.parse(scope) if is_path else scopes.Scope(_namespace(session), scope)
    except scopes.InvalidScope as exc:
        raise errors.UsageError(f"--scope {exc}") from exc
    return str(found)
