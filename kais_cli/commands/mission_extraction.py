"""`kais mission extract`: what a model would draw from a run, beside what was stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kais.resources.mission import Mission
from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.commands.mission import Name, app
from kais_cli.commands.options import As, Output
from kais_cli.exit_status import ExitStatus
from kais_cli.knowledge import scope_context
from kais_cli.session import Session, command
from kais_cli.settings import Identity
from kais_cli.views import output, table_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from knowledge_client.models import ExtractionReplay

_MARKS = {"stored": "=", "new": "+", "left_out": "x"}


@command(app, "extract")
def extract(
    session: Session,
    name: Name,
    *,
    replay: Annotated[
        bool, typer.Option("--replay", help="Compare only; no fact is stored or changed.")
    ] = False,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="One of the models that the chart allows.")
    ],
    as_: As = Identity.NAMESPACE,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Ask a model for the facts of the last run, and compare them with the stored ones."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)
    from knowledge_client.models.extractions import REPLAY_SECONDS  # noqa: PLC0415

    if not replay:
        raise errors.UsageError(
            "facts are extracted once, when the run ends; use --replay to compare models"
        )
    session = replace(session, environment=session.environment.with_identity(as_))
    mission = Mission.from_dict(resource_access.get(session, "Mission", name))
    if mission.status.run_id is None or mission.status.outcome is None:
        raise errors.Refused(f"{mission.ref} has not ended, so there is no record to read")
    question = models.ReplayIn(
        run_id=mission.status.run_id, namespace=mission.metadata.namespace, model=model
    )
    with scope_context.client(session, timeout_s=REPLAY_SECONDS) as client:
        answer = client.replay_extraction(question)
    if output_ is Format.TABLE:
        session.write(_format(answer))
    else:
        session.write(output.dump(answer, output_))
    return ExitStatus.SUCCEEDED


def _format(answer: ExtractionReplay) -> str:
    lines = [f"{answer.model} on run {answer.run_id}; nothing was stored"]
    for fact in answer.facts:
        reason = f"  ({table_layout.format_cell(fact.reason)})" if fact.reason else ""
        content = table_layout.format_cell(fact.content)
        lines.append(f"  {_MARKS[fact.comparison]} {content}{reason}")
    lines += [f"  - {table_layout.format_cell(content)}" for content in answer.missing]
    if answer.unverified:
        lines.append(f"Not verified by the model: {table_layout.format_cell(answer.unverified)}.")
    lines.append("= stored, + new, - stored and not drawn again, x would be left out")
    tokens = f"{answer.input_tokens} input and {answer.output_tokens} output tokens"
    lines.append(f"The calls took {tokens}, and cost {answer.cost:.4f} US dollars.")
    return "\n".join(lines) + "\n"
