"""`kais receipt`: what one recall returned, and whether it would return the same again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts import receipt_view
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command, group
from kais_cli.views import output
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from knowledge_client import KnowledgeClient
    from knowledge_client.models import Fact, Receipt, ReplayResult

app = group("receipt", "Show and replay what a recall returned.")

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="ID of the receipt, as `kais mission show` and a run's report print it."
    ),
]


@command(app, "show")
def show(session: Session, receipt: Id, output_: Output = Format.TABLE) -> ExitStatus:
    """Show a recall: who asked what, and the facts that it returned, best first."""
    with scope_context.client(session) as client:
        answer = client.get_receipt(receipt)
        if output_ is Format.TABLE:
            facts = _facts(client, answer.facts)
            session.write(
                receipt_view.format_receipt(answer, facts, width=session.environment.width)
            )
            return ExitStatus.SUCCEEDED
    return _write(session, answer, output_)


@command(app, "replay")
def replay(session: Session, receipt: Id, output_: Output = Format.TABLE) -> ExitStatus:
    """Repeat a recall with the knowledge of its time; the facts should be the same."""
    with scope_context.client(session) as client:
        return _compare(session, client, client.replay(receipt), output_, is_now=False)


@command(app, "diff")
def diff(session: Session, receipt: Id, output_: Output = Format.TABLE) -> ExitStatus:
    """Repeat a recall with the knowledge of now, and show which facts moved, came or went."""
    with scope_context.client(session) as client:
        return _compare(session, client, client.diff(receipt), output_, is_now=True)


def _compare(
    session: Session, client: KnowledgeClient, result: ReplayResult, form: Format, *, is_now: bool
) -> ExitStatus:
    if form is not Format.TABLE:
        return _write(session, result, form)
    facts = _facts(client, [change.fact for change in result.moved])
    session.write(receipt_view.format_replay(result, facts, is_now=is_now))
    return ExitStatus.SUCCEEDED


def _write(session: Session, answer: Receipt | ReplayResult, form: Format) -> ExitStatus:
    if form is Format.NAME:
        session.write("".join(f"{fact_id}\n" for fact_id in answer.facts))
    else:
        session.write(output.dump(answer, form))
    return ExitStatus.SUCCEEDED


def _facts(client: KnowledgeClient, ids: Iterable[str]) -> dict[str, Fact]:
    """Return the facts that the caller may read, by id."""
    from knowledge_client import errors as refused  # noqa: PLC0415 (loads httpx)

    facts = {}
    for fact_id in ids:
        try:
            facts[fact_id] = client.get_fact(fact_id)
        except refused.NotFound:
            continue
    return facts
