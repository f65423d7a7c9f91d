"""`kais knowledge graph`: entities, observations and relations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kais_cli import errors
from kais_cli.commands import knowledge
from kais_cli.commands.knowledge import AllPages, Cursor, Scope
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts.detail_view import pluralise
from kais_cli.graph import tables
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command, group
from kais_cli.views import output, table_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Graph, GraphObservationsIn, GraphRelationsIn

app = group("graph", "Read and change the graph of entities and relations.")
knowledge.app.add_typer(app)

PAGE_SIZE = 200
"""The maximum number of entities that the service returns at once."""
_BOUNDS = (
    "an answer has at most 200 entities, 500 observations of each, and 1,000 relations among them"
)

Name = Annotated[str, typer.Argument(help="Name of the entity.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of entities.")]
Texts = Annotated[list[str], typer.Argument(metavar="TEXT", help="Observations, in order.")]
From = Annotated[str, typer.Argument(metavar="FROM", help="Name of the first entity.")]
RelationType = Annotated[
    str, typer.Argument(metavar="RELATION", help="Type of the relation, such as depends_on.")
]
To = Annotated[str, typer.Argument(metavar="TO", help="Name of the second entity.")]
Metadata = Annotated[
    str | None, typer.Option(metavar="JSON", help="Further fields, as a JSON object.")
]
Limit = Annotated[int, typer.Option(min=1, max=PAGE_SIZE, help="Maximum number of entities.")]


@command(app, "list")
def list_entities(
    session: Session,
    *,
    scope: Scope = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    every_page: AllPages = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List entities, newest first, and the relations among them."""
    path = None if scope is None else scope_context.path(session, scope)
    with scope_context.client(session) as client:
        graph = _join(
            read_pages(client, scope=path, cursor=cursor, limit=None if every_page else limit)
        )
        if not graph.entities:
            session.note(f"no entities{scope_context.suggest_scope(session, client, scope)}")
    _write_graph(session, graph, output_, hint="--all, or --cursor")
    return ExitStatus.SUCCEEDED


@command(app, "search")
def search(
    session: Session,
    text: Annotated[
        str, typer.Argument(help="A part of a name, a type or an observation; ignores case.")
    ],
    *,
    scope: Scope = None,
    limit: Limit = 50,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Search entities by a part of a name, a type or an observation."""
    if not text:
        raise errors.UsageError("the text is empty; give a part of a name or an observation")
    path = None if scope is None else scope_context.path(session, scope)
    with scope_context.client(session) as client:
        graph = client.read_graph(scope=path, contains=text, limit=limit)
    if not graph.entities:
        session.note("no entity has this text")
    _write_graph(session, graph, output_, hint="a larger --limit, or a longer text")
    return ExitStatus.SUCCEEDED


@command(app, "open")
def open_entities(session: Session, names: Names, *, output_: Output = Format.TABLE) -> ExitStatus:
    """Show entities with all observations, and the relations among them."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        graph = client.open_entities(models.GraphNamesIn(names=tuple(names)))
    if output_ is Format.TABLE:
        session.write("\n".join(map(tables.format_details, graph.entities)))
        _write_relations(session, graph)
        _note_bounds(session, graph, "fewer names")
    else:
        _write_graph(session, graph, output_, hint="fewer names")
    found_names = {entity.name for entity in graph.entities}
    missing = [name for name in dict.fromkeys(names) if name not in found_names]
    for name in missing:
        session.note(f"entity {name!r} does not exist or is not visible to you")
    return ExitStatus.FAILED if missing else ExitStatus.SUCCEEDED


@command(app, "create")
def create(  # noqa: PLR0913 (one argument per option)
    session: Session,
    name: Name,
    *,
    entity_type: Annotated[str, typer.Option("--type", help="Type, such as person or project.")],
    observation: Annotated[
        list[str] | None,
        typer.Option("--observation", metavar="TEXT", help="Observation; may be repeated."),
    ] = None,
    metadata: Metadata = None,
    scope: Scope = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Create an entity; one that exists is not changed."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    entity = models.GraphEntityIn(
        name=name,
        entity_type=entity_type,
        observations=tuple(observation or ()),
        metadata=_parse_metadata(metadata),
    )
    with scope_context.client(session) as client:
        graph = client.create_entities(
            models.GraphEntitiesIn(entities=(entity,), scope=_target(session, scope))
        )
    if not graph.entities:
        session.note(f"entity {name!r} exists already and was not changed")
    _write_graph(session, graph, output_, hint="fewer observations")
    return ExitStatus.SUCCEEDED


@command(app, "observe")
def observe(session: Session, name: Name, texts: Texts) -> ExitStatus:
    """Add observations to an entity, behind those that it has."""
    with scope_context.client(session) as client:
        (added,) = client.add_observations(_observations(name, texts)).observations
    return _report(session, "added", len(added.contents), len(texts), "observation")


@command(app, "relate")
def relate(
    session: Session,
    from_: From,
    relation_type: RelationType,
    to: To,
    *,
    strength: Annotated[float | None, typer.Option(min=0, help="Strength, from 0.")] = None,
    metadata: Metadata = None,
) -> ExitStatus:
    """Create a relation between two entities."""
    body = _relations(
        from_, relation_type, to, strength=strength, metadata=_parse_metadata(metadata)
    )
    with scope_context.client(session) as client:
        created = client.create_relations(body).relations
    return _report(session, "created", len(created), 1, "relation")


@command(app, "delete")
def delete(session: Session, names: Names) -> ExitStatus:
    """Delete entities with their observations and relations.

    The facts are retracted, so they stay in the history, and the names can be used again.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        deleted = client.delete_entities(models.GraphNamesIn(names=tuple(names))).names
    return _report(session, "deleted", len(deleted), len(set(names)), "entity", "entities")


@command(app, "forget")
def forget(session: Session, name: Name, texts: Texts) -> ExitStatus:
    """Delete observations of an entity."""
    with scope_context.client(session) as client:
        (deleted,) = client.delete_observations(_observations(name, texts)).observations
    return _report(session, "deleted", len(deleted.contents), len(set(texts)), "observation")


@command(app, "unrelate")
def unrelate(session: Session, from_: From, relation_type: RelationType, to: To) -> ExitStatus:
    """Delete a relation between two entities."""
    with scope_context.client(session) as client:
        deleted = client.delete_relations(_relations(from_, relation_type, to)).relations
    return _report(session, "deleted", len(deleted), 1, "relation")


def read_pages(
    client: KnowledgeClient, *, scope: str | None, cursor: str | None = None, limit: int | None
) -> Iterator[Graph]:
    """Yield pages until they contain `limit` entities, or all of them with None.

    All pages together have the relations that lead from their entities.
    """
    remaining = limit
    while True:
        size = PAGE_SIZE if remaining is None else min(remaining, PAGE_SIZE)
        page = client.read_graph(scope=scope, cursor=cursor, limit=size, outgoing=True)
        yield page
        cursor = page.cursor
        remaining = None if remaining is None else remaining - len(page.entities)
        if cursor is None or (remaining is not None and remaining <= 0):
            return


def _join(pages: Iterable[Graph]) -> Graph:
    """Return one graph with the relations among its own entities."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    graph = models.Graph(entities=(), relations=())
    is_cut = False
    for page in pages:
        # A page with a cursor is always truncated, also if the next page has the rest.
        is_cut = is_cut or (page.truncated and page.cursor is None)
        graph = page.model_copy(
            update={
                "entities": graph.entities + page.entities,
                "relations": graph.relations + page.relations,
            }
        )
    names = {entity.name for entity in graph.entities}
    relations = tuple(
        relation for relation in graph.relations if {relation.from_, relation.to} <= names
    )
    is_truncated = is_cut or graph.cursor is not None
    return graph.model_copy(update={"relations": relations, "truncated": is_truncated})


def _write_graph(session: Session, graph: Graph, form: Format, *, hint: str) -> None:
    if form is Format.NAME:
        session.write(
            "".join(f"{table_layout.format_cell(entity.name)}\n" for entity in graph.entities)
        )
    elif form is Format.TABLE:
        session.write(tables.format_entities(graph.entities))
        _write_relations(session, graph)
    else:
        session.write(output.dump(graph, form))
    _note_bounds(session, graph, f"{hint} {graph.cursor}" if graph.cursor else hint)


def _write_relations(session: Session, graph: Graph) -> None:
    relations = tables.format_relations(graph.relations)
    session.write(f"\n{relations}" if relations else "")


def _note_bounds(session: Session, graph: Graph, hint: str) -> None:
    if graph.truncated:
        session.note(f"there is more: use {hint}; {_BOUNDS}")


def _report(
    session: Session, verb: str, count: int, requested: int, singular: str, plural: str = ""
) -> ExitStatus:
    """Write how many items changed; the others were in that state already."""
    noun = pluralise(count, singular) if count == 1 or not plural else f"{count:,} {plural}"
    session.write(f"{verb} {noun}\n")
    if count < requested:
        rest = "exist already" if verb in ("added", "created") else "do not exist"
        session.note(f"{requested - count:,} of {requested:,} {rest}")
    return ExitStatus.SUCCEEDED


def _target(session: Session, scope: str | None) -> str | None:
    return (
        scope_context.default_scope(session)
        if scope is None
        else scope_context.path(session, scope)
    )


def _parse_metadata(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise errors.UsageError(f"--metadata is not JSON ({exc})") from exc
    if not isinstance(tree, dict):
        raise errors.UsageError('--metadata must be a JSON object, such as {"level": 1}')
    return tree


def _observations(name: str, texts: list[str]) -> GraphObservationsIn:
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    item = models.EntityObservationsIn(entity=name, contents=tuple(texts))
    return models.GraphObservationsIn(observations=(item,))


def _relations(from_: str, relation_type: str, to: str, **fields: Any) -> GraphRelationsIn:
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    item = {"from": from_, "relation_type": relation_type, "to": to, **fields}
    return models.GraphRelationsIn.model_validate({"relations": [item]})
