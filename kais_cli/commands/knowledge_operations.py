"""`kais knowledge perform`: several acts of a file as one operation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
import typer

from kais_cli import argument_parsing, errors
from kais_cli.commands.knowledge import app
from kais_cli.commands.options import Output
from kais_cli.error_messages import failures
from kais_cli.exit_status import ExitStatus
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.views import output, table_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from knowledge_client.models import OperationIn

_COLUMNS = ("NO", "ACT", "STATUS", "FACT")


@command(app, "perform")
def perform(
    session: Session,
    file: Annotated[
        str,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="YAML or JSON file with `reason` and `acts`; - reads stdin.",
        ),
    ],
    *,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Reason; stored with the facts, in place of the file's."),
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Perform the acts of a file as one operation: all of them, or none.

    The acts are remember, revise, retract, link, unlink, set_alias and remove_alias. A fact is an
    id, an alias, or act:N for the fact of act N, counted from 0. `kais knowledge undo` of one of
    the facts reverts the whole operation.
    """  # fmt: skip
    operation = _read_operation(session, file, reason)
    with scope_context.client(session) as client:
        performed = client.perform(operation)
    if output_ is Format.TABLE:
        rows = [
            (str(number), result.act, result.status, result.fact_id)
            for number, result in enumerate(performed.results)
        ]
        session.write(table_layout.format_table(_COLUMNS, rows))
    elif output_ is Format.NAME:
        facts = dict.fromkeys(result.fact_id for result in performed.results)
        session.write("".join(f"{fact_id}\n" for fact_id in facts))
    else:
        session.write(output.dump(performed, output_))
    return ExitStatus.SUCCEEDED


def _read_operation(session: Session, file: str, reason: str | None) -> OperationIn:
    """Read and validate the file; facts without a scope get the default one.

    Raises:
        UsageError: the file cannot be read, or is no operation; the message names each field.
    """
    from kais_cli.blueprints import render_requests  # noqa: PLC0415 (starts a process)
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    if file == "-":
        subject, text = "standard input", argument_parsing.read_text(session, file) or ""
    else:
        subject, text = file, render_requests.read_text(Path(file), subject=file)
    documents = render_requests.parse_yaml(text, subject=subject)
    document = documents[0] if len(documents) == 1 else None
    if not isinstance(document, dict):
        raise errors.UsageError(f"{subject} must be one object with `reason` and `acts`")
    content: dict[str, Any] = {**document, "reason": reason} if reason is not None else document
    try:
        operation = models.OperationIn.model_validate(content, extra="forbid")
    except pydantic.ValidationError as exc:
        raise errors.UsageError(
            f"{subject} is not an operation: {failures.format_validation_error(exc)}"
        ) from exc
    scope = scope_context.default_scope(session)
    acts = tuple(
        act.model_copy(update={"fact": act.fact.model_copy(update={"scope": scope})})
        if isinstance(act, models.RememberAct) and act.fact.scope is None and scope
        else act
        for act in operation.acts
    )
    return operation.model_copy(update={"acts": acts})
