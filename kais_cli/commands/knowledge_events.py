"""`kais knowledge events`: the changes of facts, as they happen."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kais_cli.commands.knowledge import app
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import tables
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.views import model_trees, output, table_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from knowledge_client.models import Event

_RECONNECT_DELAY_S = 1.0


@command(app, "events")
def follow_events(
    session: Session,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="Only events with this topic or one below it, such as fact.recorded or block; may"
            " be repeated.",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="EVENT", help="Id of the last event that you have seen; `start`: the oldest."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="End after this number of events.")
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Follow the changes of facts that you can see, from now on; Ctrl-C ends it.

    Events name facts and contain none of their text. JSON has one event per line.
    """
    form = _formatter(output_)
    last_event: Event | None = None
    try:
        for count, event in enumerate(_events(session, after, topics or ()), start=1):
            session.write(form(event))
            session.environment.write()  # for readers of a pipe
            last_event = event
            if count == limit:
                break
    finally:
        if last_event is not None:
            session.note(f"to continue, use --after {last_event.id}")
    return ExitStatus.SUCCEEDED


def _events(session: Session, after: str | None, topics: Sequence[str]) -> Iterator[Event]:
    """Yield events; open a new stream when the service ends one, as when its token expires."""
    while True:
        with scope_context.client(session) as client:
            for event in client.events(after, topics=topics):
                yield event
                after = event.id
        time.sleep(_RECONNECT_DELAY_S)


def _formatter(form: Format) -> Callable[[Event], str]:
    if form is Format.NAME:
        return lambda event: f"{event.id}\n"
    if form is Format.JSON:
        return lambda event: json.dumps(model_trees.to_tree(event), ensure_ascii=False) + "\n"
    if form is Format.YAML:
        return lambda event: f"---\n{output.dump(event, form)}"
    columns = table_layout.Columns(("AT (UTC)", "TYPE", "SCOPE", "BY", "FACTS"))
    return lambda event: columns.format_rows([_row(event)])


def _row(event: Event) -> tuple[object, ...]:
    at = tables.format_timestamp(event.at)
    return (at, event.type, event.scope, event.actor, " ".join(event.facts))
