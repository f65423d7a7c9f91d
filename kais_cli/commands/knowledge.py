"""`kais knowledge`: ask, add to and list what a namespace's teams know."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from kais_cli import argument_parsing, errors
from kais_cli.commands.options import As, Listed, Output
from kais_cli.environment import Environment
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import detail_view, output_formats, short_ids, tables
from kais_cli.knowledge import scope_context, time_parsing
from kais_cli.session import Session, command, group
from kais_cli.settings import Identity
from kais_cli.views import output
from kais_cli.views.output import Format, Listing

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact, FactPage, Recalled, Remembered, ReviewPage

app = group("knowledge", "Query and manage facts.")


@app.callback()
def choose_identity(ctx: typer.Context, identity: As = Identity.NAMESPACE) -> None:
    """Query and manage facts."""
    environment = ctx.find_object(Environment) or Environment()
    ctx.obj = environment.with_identity(identity)


Scope = Annotated[
    str | None,
    typer.Option(
        help="Scope: a path (realm:demo/formation:x), or a Blueprint's name in the namespace."
    ),
]
Below = Annotated[
    bool, typer.Option("--below", help="Also the scopes below --scope that you may read.")
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of facts.")]
AllPages = Annotated[bool, typer.Option("--all", help="List every page.")]
ValidAt = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help=f"Only facts that were valid at this time. {time_parsing.HELP}"
    ),
]
KnownAt = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Answer as of this time: what was recorded and not yet closed then. "
        f"{time_parsing.HELP}",
    ),
]
Cursor = Annotated[str | None, typer.Option(help="Cursor returned by the previous page.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag; may be repeated.")]
Schema = Annotated[str | None, typer.Option(help="Only facts with data of this schema.")]
Facets = Annotated[
    list[str] | None,
    typer.Option(
        "--facet",
        metavar="NAME=VALUE",
        help="Only facts whose data has this value, such as applicability.projects=shop; needs"
        " --schema; may be repeated.",
    ),
]
LIFECYCLES = ("live", "superseded", "retracted", "archived")
SOURCES = (
    "mission_extraction", "explicit_remember", "user_input", "promoted", "experiment", "import",
)  # fmt: skip


@command(app, "recall")
def recall(  # noqa: PLR0913 (one argument per option)
    session: Session,
    query: Annotated[str, typer.Argument(help="The question, in plain words; - reads stdin.")],
    *,
    scope: Scope = None,
    below: Below = False,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of facts.")] = 10,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Explain each score. Scores are comparable within one answer only."
        ),
    ] = False,
    why_not: Annotated[
        list[str] | None,
        typer.Option(
            "--why-not", metavar="ID", help="Explain why a fact was not returned; may be repeated."
        ),
    ] = None,
    schema: Schema = None,
    facets: Facets = None,
    valid_at: ValidAt = None,
    known_at: KnownAt = None,
    output_: Listed = Listing.TABLE,
) -> ExitStatus:
    """Recall facts that answer a question, best first."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    query_text = argument_parsing.read_text(session, query) or ""
    if not query_text.strip():
        raise errors.UsageError("the question is empty; ask in plain words")
    now = session.environment.now()
    path = _required_scope(session, scope) if below else None
    question = models.RecallIn(
        query=query_text,
        limit=limit,
        scopes=() if scope is None else (scope_context.path(session, scope),),
        explain=explain,
        schema=schema,
        facets=tuple(facets or ()),
        why_not=tuple(argument_parsing.fact_id(fact_id) for fact_id in why_not or ()),
        valid_at=time_parsing.parse(valid_at, option="--valid-at", now=now),
        known_at=time_parsing.parse(known_at, option="--known-at", now=now),
    )
    with scope_context.client(session) as client:
        whole_ids = tuple(short_ids.resolve(client, fact_id) for fact_id in question.why_not)
        question = question.model_copy(update={"why_not": whole_ids})
        if path is not None:
            paths = (path, *(s.path for s in scope_context.scopes_below(client, path)))
            question = question.model_copy(update={"scopes": paths})
        answer = client.recall(question)
        is_empty_for_people = not answer.facts and output_ in (Listing.TABLE, Listing.WIDE)
        scope_hint = (
            scope_context.suggest_scope(session, client, scope, has_below=not below)
            if is_empty_for_people
            else ""
        )
    if is_empty_for_people:
        session.note(f"{detail_view.no_results_message(question)}{scope_hint}")
    session.write(
        _format_answer(session, answer, output_, question=query_text if explain else None)
    )
    if output_ in (Listing.TABLE, Listing.WIDE):
        session.write(detail_view.explain_missing_facts(answer.why_not))
    return ExitStatus.SUCCEEDED


def _format_answer(
    session: Session, answer: Recalled, form: Listing, *, question: str | None
) -> str:
    """Format an answer in the requested form; empty for people if there are no results."""
    if form is Listing.NAME:
        return "".join(f"{fact.id}\n" for fact in answer.facts)
    if form in (Listing.JSON, Listing.YAML):
        return output.dump(answer, Format(form.value))
    if not answer.facts:
        return ""
    if form is Listing.WIDE and question is None:
        return tables.format_recall_wide(answer.facts)
    width = session.environment.width
    return tables.format_recall(answer.facts, width=width, question=question)


@command(app, "add")
def add(  # noqa: PLR0913 (one argument per option)
    session: Session,
    text: Annotated[str, typer.Argument(help="The fact, as a sentence; - reads stdin.")],
    *,
    scope: Scope = None,
    kind: Annotated[str, typer.Option(help="Kind, such as fact, pitfall or pattern.")] = "fact",
    tag: Tags = None,
    confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Confidence, from 0 to 1.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="Subject; with --predicate, replaces earlier facts with the same key."),
    ] = None,
    predicate: Annotated[str | None, typer.Option(help="Predicate; requires --subject.")] = None,
    valid_from: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Start of validity. {time_parsing.HELP}"),
    ] = None,
    valid_until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"End of validity. {time_parsing.HELP}"),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Store the fact even if an equal one was retracted; as a draft if a reviewer "
            "rejected or replaced an equal one.",
        ),
    ] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Store a fact and print its id."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    content = argument_parsing.read_text(session, text) or ""
    if not content.strip():
        raise errors.UsageError("the fact is empty; write it as a sentence")
    if (subject is None) != (predicate is None):
        raise errors.UsageError("--subject and --predicate form one key; set both or neither")
    now = session.environment.now()
    fact = models.FactIn(
        content=content,
        scope=scope_context.default_scope(session)
        if scope is None
        else scope_context.path(session, scope),
        kind=kind,
        tags=tuple(tag or ()),
        confidence=confidence,
        subject=subject,
        predicate=predicate,
        valid_from=time_parsing.parse(valid_from, option="--valid-from", now=now),
        valid_until=time_parsing.parse(valid_until, option="--valid-until", now=now),
        force=force,
        source=models.Source(type="user_input"),
    )
    with scope_context.client(session) as client:
        remembered = client.remember(fact)
        stored = _read_back(client, remembered)
    if output_ in (Format.TABLE, Format.NAME):
        session.write(f"{remembered.fact_id}\n")
        _note_related_facts(session, remembered)
        for note in detail_view.store_changes(stored, content) if stored else ():
            session.note(note)
    else:
        session.write(output.dump(remembered, output_))
    return ExitStatus.SUCCEEDED


def _read_back(client: KnowledgeClient, remembered: Remembered) -> Fact | None:
    """Read a new fact as the service stored it; None if the caller may write but not read."""
    from knowledge_client import errors as refused  # noqa: PLC0415 (loads httpx)

    if remembered.status != "created":
        return None
    with suppress(refused.KnowledgeError):
        return client.get_fact(remembered.fact_id)
    return None


def _note_related_facts(session: Session, remembered: Remembered) -> None:
    """Report the changes to related facts."""
    if remembered.status == "confirmed":
        session.note("an equal fact exists already and was confirmed")
    for superseded_id in remembered.superseded:
        session.note(f"replaces {superseded_id}")
    for contradicted_id in remembered.contradicts:
        session.note(f"contradicts {contradicted_id}; both stay")


@command(app, "list")
def list_facts(  # noqa: PLR0913 (one argument per option)
    session: Session,
    *,
    scope: Scope = None,
    below: Below = False,
    kind: Annotated[str | None, typer.Option(help="Only facts of this kind.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only facts with this tag.")] = None,
    lifecycle: Annotated[
        str | None, typer.Option(help="live, superseded, retracted or archived.")
    ] = "live",
    source: Annotated[
        str | None, typer.Option(help="Only facts from this source, such as mission_extraction.")
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Only facts about this fact (an id or alias), in the order of their positions.",
        ),
    ] = None,
    contains: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Only facts with this text in title, content or subject; ignores case.",
        ),
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Only facts with this subject.")] = None,
    alias_namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE", help="Only facts with an alias in this namespace, such as ko."
        ),
    ] = None,
    schema: Schema = None,
    facets: Facets = None,
    unlinked: Annotated[
        bool, typer.Option("--unlinked", help="Only facts without links that you can see.")
    ] = False,
    valid_at: ValidAt = None,
    known_at: KnownAt = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    every_page: AllPages = False,
    output_: Listed = Listing.TABLE,
) -> ExitStatus:
    """List facts, newest first, a page at a time."""
    now = session.environment.now()
    path = None if scope is None else scope_context.path(session, scope)
    if below:
        _required_scope(session, scope)
        if cursor is not None:
            raise errors.UsageError("--cursor belongs to one scope; leave out --below")
    of_lifecycle = argument_parsing.parse_choice(lifecycle, LIFECYCLES, option="--lifecycle")
    of_source = argument_parsing.parse_choice(source, SOURCES, option="--source")
    valid_time = time_parsing.parse(valid_at, option="--valid-at", now=now)
    known_time = time_parsing.parse(known_at, option="--known-at", now=now)
    subject_argument = None if about is None else argument_parsing.fact_id(about)
    with scope_context.client(session) as client:
        about_id = short_ids.resolve(client, subject_argument) if subject_argument else None

        def fetch(path: str | None, cursor: str | None, limit: int) -> FactPage:
            return client.list_facts(
                scope=path,
                kind=kind,
                tag=tag,
                lifecycle=of_lifecycle,
                source=of_source,
                about=about_id,
                contains=contains,
                subject=subject,
                alias_namespace=alias_namespace,
                schema=schema,
                facets=facets or (),
                unlinked=unlinked or None,
                valid_at=valid_time,
                known_at=known_time,
                cursor=cursor,
                limit=limit,
            )

        paths = [path]
        if below and path is not None:
            paths += [stats.path for stats in scope_context.scopes_below(client, path)]
        pages = argument_parsing.fetch_pages_of(
            [functools.partial(fetch, scope_path) for scope_path in paths],
            cursor=cursor,
            limit=None if every_page else limit,
        )
        table = tables.fact_table(columns=session.environment.columns)
        if not write_pages(session, pages, output_formats.writer(output_, table)):
            hint = scope_context.suggest_scope(session, client, scope, has_below=not below)
            session.note(f"no facts match{hint}")
    return ExitStatus.SUCCEEDED


def _required_scope(session: Session, scope: str | None) -> str:
    """Return the path of --scope.

    Raises:
        UsageError: The option is missing.
    """
    if scope is None:
        raise errors.UsageError("--below requires --scope, the scope to start from")
    return scope_context.path(session, scope)


def write_pages(
    session: Session, pages: Iterable[FactPage | ReviewPage], writer: output_formats.Writer
) -> int:
    """Write facts page by page, with one page in memory at a time; return their number.

    If there are more facts, notes how to get them.
    """
    count, cursor = 0, None
    for page in pages:
        session.write(writer.page(page.facts))
        count, cursor = count + len(page.facts), page.cursor
    session.write(writer.end())
    if cursor == argument_parsing.FURTHER_LISTS:
        session.note("there are more facts: use --all")
    elif cursor:
        session.note(f"there are more facts: use --all, or --cursor {cursor}")
    return count
