"""`kais knowledge charts`: structural tension charts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kais_cli import errors
from kais_cli.commands import knowledge
from kais_cli.commands.knowledge import Cursor, Scope
from kais_cli.commands.options import Output
from kais_cli.exit_status import ExitStatus
from kais_cli.facts.detail_view import pluralise
from kais_cli.graph import chart_view
from kais_cli.knowledge import scope_context, time_parsing
from kais_cli.session import Session, command, group
from kais_cli.views import output
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from knowledge_client.models import ActionStepIn, Chart

app = group("charts", "Keep structural tension charts.")
knowledge.app.add_typer(app)
_MAX_LISTED_STEPS = 3
_MAX_DAYS = 36_500  # a hundred years; a deadline after the year 9999 is no time
_PHASES = ("germination", "assimilation", "completion")

ChartId = Annotated[str, typer.Argument(metavar="CHART", help="Id of the chart.")]
Step = Annotated[str, typer.Argument(metavar="STEP", help="Name of the action step.")]
Steps = Annotated[
    list[str] | None,
    typer.Option("--step", metavar="TITLE", help="Action step; may be repeated."),
]
Due = Annotated[str, typer.Option(metavar="TIME", help=f"Due date. {time_parsing.HELP}")]
OptionalDue = Annotated[
    str | None, typer.Option("--due", metavar="TIME", help=f"Due date. {time_parsing.HELP}")
]
Reality = Annotated[str, typer.Option(help="A sentence about what is true now.")]


@command(app, "create")
def create(  # noqa: PLR0913 (one argument per option)
    session: Session,
    outcome: Annotated[str, typer.Argument(help="The desired outcome: what is to exist.")],
    *,
    reality: Reality,
    due: Due,
    step: Steps = None,
    scope: Scope = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Create a chart; steps get due dates between now and that of the chart."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    target = (
        scope_context.default_scope(session)
        if scope is None
        else scope_context.path(session, scope)
    )
    due_date = _parse_due(session, due)
    if due_date is None:
        raise errors.UsageError("--due is empty")
    chart = models.ChartIn(
        desired_outcome=outcome,
        current_reality=reality,
        due_date=due_date,
        action_steps=_steps(step),
        scope=target,
    )
    with scope_context.client(session) as client:
        return _write(session, client.create_chart(chart), output_)


@command(app, "list")
def list_charts(
    session: Session,
    *,
    scope: Scope = None,
    completed: Annotated[
        bool, typer.Option("--completed", help="List completed charts as well.")
    ] = False,
    cursor: Cursor = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List active charts, last changed first, 20 at a time."""
    return _list(session, scope, output_, completed=completed, cursor=cursor)


@command(app, "due")
def due(
    session: Session,
    *,
    within: Annotated[
        int, typer.Option(min=0, max=_MAX_DAYS, metavar="DAYS", help="Days from now.")
    ] = 0,
    scope: Scope = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """List the charts that are due, or have an open step that is."""
    deadline = session.environment.now() + timedelta(days=within)
    return _list(session, scope, output_, due_before=deadline)


@command(app, "archive")
def archive(
    session: Session,
    file: Annotated[
        Path, typer.Option("--to", help="File to write; must not exist. `graph import` reads it.")
    ],
    *,
    scope: Scope = None,
) -> ExitStatus:
    """Move completed charts to a memory file, and delete them from the graph.

    The file is complete before anything is deleted. A completed chart below an active one stays.
    """
    from kais_cli.graph import chart_archive  # noqa: PLC0415 (only this command)

    path = None if scope is None else scope_context.path(session, scope)
    with scope_context.client(session) as client:
        archived = chart_archive.archive(client, scope=path, file=file)
    charts = pluralise(len(archived.charts), "chart")
    session.note(f"{charts} with {archived.entities} entities moved to {file}")
    if archived.remaining_names:
        names = ", ".join(repr(name) for name in archived.remaining_names[:_MAX_LISTED_STEPS])
        session.note(f"{len(archived.remaining_names)} of them are still in the graph: {names}")
        return ExitStatus.FAILED
    return ExitStatus.SUCCEEDED


@command(app, "show")
def show(session: Session, chart: ChartId, *, output_: Output = Format.TABLE) -> ExitStatus:
    """Show a chart with its steps and its progress."""
    with scope_context.client(session) as client:
        return _write(session, client.get_chart(chart), output_)


@command(app, "update")
def update(  # noqa: PLR0913 (one argument per option)
    session: Session,
    chart: ChartId,
    *,
    outcome: Annotated[str | None, typer.Option(help="Another desired outcome.")] = None,
    reality: Annotated[
        list[str] | None,
        typer.Option(help="A further sentence about what is true now; may be repeated."),
    ] = None,
    due: OptionalDue = None,
    phase: Annotated[
        str | None, typer.Option(help="germination, assimilation or completion.")
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Change the outcome, the due date or the phase, or add to the current reality."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    if phase is not None and phase not in _PHASES:
        raise errors.UsageError(f"--phase {phase!r} is not one of {', '.join(_PHASES)}")
    changes = models.ChartChanges.model_validate(
        {
            "desired_outcome": outcome,
            "current_reality": reality or (),
            "due_date": _parse_due(session, due),
            "phase": phase,
        }
    )
    with scope_context.client(session) as client:
        return _write(session, client.change_chart(chart, changes), output_)


@command(app, "add")
def add(
    session: Session,
    chart: ChartId,
    title: Annotated[str, typer.Argument(help="Title of the action step.")],
    *,
    due: OptionalDue = None,
    reality: Annotated[
        str | None,
        typer.Option(
            help="A sentence about what is true now, which makes the step a chart of its own."
        ),
    ] = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Add an action step to a chart.

    With --reality, the step is telescoped in the same operation, and its chart is shown.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    step = models.AddedStepIn(
        title=title, due_date=_parse_due(session, due), current_reality=reality
    )
    with scope_context.client(session) as client:
        return _write(session, client.add_step(chart, step), output_)


@command(app, "remove")
def remove(
    session: Session, chart: ChartId, step: Step, *, output_: Output = Format.TABLE
) -> ExitStatus:
    """Remove an action step, and the chart that it was telescoped into."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        return _write(session, client.remove_step(chart, models.StepIn(step=step)), output_)


@command(app, "progress")
def progress(
    session: Session,
    step: Step,
    text: Annotated[str, typer.Argument(help="A sentence about what was done.")],
    *,
    reality: Annotated[
        bool, typer.Option("--reality", help="Add the text to the current reality as well.")
    ] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Record progress on an action step."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    body = models.StepProgressIn(step=step, observation=text, in_reality=reality)
    with scope_context.client(session) as client:
        return _write(session, client.record_progress(body), output_)


@command(app, "complete")
def complete(session: Session, step: Step, *, output_: Output = Format.TABLE) -> ExitStatus:
    """Complete an action step, or a chart by the name of its desired outcome.

    The step flows into the current reality of its chart. The last step completes the chart, and the
    step of the parent chart that it was telescoped from.
    """
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    with scope_context.client(session) as client:
        return _write(session, client.complete_step(models.StepIn(step=step)), output_)


@command(app, "telescope")
def telescope(
    session: Session,
    name: Step,
    *,
    reality: Reality,
    step: Steps = None,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Make a chart of an action step, which becomes its desired outcome."""
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    body = models.TelescopeIn(step=name, current_reality=reality, action_steps=_steps(step))
    with scope_context.client(session) as client:
        return _write(session, client.telescope_step(body), output_)


def _list(
    session: Session,
    scope: str | None,
    form: Format,
    *,
    completed: bool = False,
    due_before: datetime | None = None,
    cursor: str | None = None,
) -> ExitStatus:
    path = None if scope is None else scope_context.path(session, scope)
    with scope_context.client(session) as client:
        page = client.list_charts(
            scope=path, completed=completed, due_before=due_before, cursor=cursor
        )
    if form is Format.NAME:
        session.write("".join(f"{chart.id}\n" for chart in page.charts))
    elif form is Format.TABLE:
        session.write(chart_view.format_charts(page.charts))
    else:
        session.write(output.dump(page, form))
    if page.cursor:
        session.note(f"there are more charts: use --cursor {page.cursor}")
    elif not page.charts:
        session.note("no charts match")
    return ExitStatus.SUCCEEDED


def _write(session: Session, chart: Chart, form: Format) -> ExitStatus:
    if form is Format.NAME:
        session.write(f"{chart.id}\n")
    elif form is Format.TABLE:
        session.write(chart_view.format_chart(chart))
    else:
        session.write(output.dump(chart, form))
    for advice in chart.advice:
        session.note(f"advice: {advice}")
    return ExitStatus.SUCCEEDED


def _parse_due(session: Session, text: str | None) -> datetime | None:
    return time_parsing.parse(text, option="--due", now=session.environment.now())


def _steps(titles: Sequence[str] | None) -> tuple[ActionStepIn, ...]:
    from knowledge_client import models  # noqa: PLC0415 (loads httpx)

    return tuple(models.ActionStepIn(title=title) for title in titles or ())
