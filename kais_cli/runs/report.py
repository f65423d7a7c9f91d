"""Follow an instance or mission to its end and report the result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kais import durations
from kais.outcomes import Outcome
from kais_cli import errors
from kais_cli.exit_status import ExitStatus
from kais_cli.ports import Target
from kais_cli.runs import (
    awaited_state,
    follow,
    progress,
    progress_display,
    run_exit_status,
    service_cell,
)
from kais_cli.runs.progress import RunState
from kais_cli.views import agent_usage, model_trees, output, text_layout
from kais_cli.views.output import Format

if TYPE_CHECKING:
    from kais.resources.mission import Mission
    from kais_cli.ports import Body
    from kais_cli.runs.progress_display import Display
    from kais_cli.runs.run_knowledge import RunKnowledge
    from kais_cli.session import Session
    from knowledge_client.models import Fact


_WITH_LOGS = (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.BUDGET_EXCEEDED)
"""Outcomes of runs that have logs, because their work has started."""


def generate_instance_name(session: Session, blueprint: str) -> str:
    """Generate the name `<blueprint>-<5 characters>`."""
    return f"{blueprint}-{session.environment.suffix()}"


def parse_timeout(timeout: str) -> timedelta:
    """Parse `--timeout`.

    Raises:
        UsageError: The text is not a duration.
    """
    try:
        return durations.parse(timeout)
    except ValueError as exc:
        raise errors.UsageError(f"--timeout {exc}") from exc


def wait_for(
    session: Session, kind: str, name: str, state: str, *, form: Format, timeout: str
) -> ExitStatus:
    """Wait until an object is in a state, as `kubectl wait --for` does, and write its name.

    Raises:
        UsageError: The state or the timeout is not valid, or the deleted object is to be written.
        TimedOut: The timeout passed first.
    """
    is_named = form in (Format.TABLE, Format.NAME)
    if not is_named and isinstance(awaited_state.parse(state), awaited_state.Deleted):
        raise errors.UsageError(f"--for={state} has no object to write; leave out -o {form}")
    target = Target(kind, session.namespace, name)
    body = awaited_state.wait(session, target, state, timeout=parse_timeout(timeout))
    if is_named or body is None:
        text = output.format_names([{"metadata": {"name": name}}], kind=kind)
        is_table = form is Format.TABLE
        session.write(text.replace("\n", " condition met\n") if is_table else text)
    else:
        session.write(output.dump_object(body, form))
    return ExitStatus.SUCCEEDED


def follow_instance(
    session: Session, instance: Body, *, form: Format, timeout: timedelta, revision: int
) -> ExitStatus:
    """Follow a new instance and report it; the exit status reflects the outcome."""
    name = instance["metadata"]["name"]
    blueprint = instance["spec"]["blueprintRef"]["name"]
    display = progress_display.open_display(session.environment, form=form)
    display.line(f"{name} created in {session.namespace} from {blueprint}, revision {revision}")
    return _follow_objects(session, name, display, form=form, timeout=timeout)


def follow_existing_instance(
    session: Session, instance: Body, *, form: Format, timeout: timedelta
) -> ExitStatus:
    """Follow an instance to the end of its run; the exit status reflects the outcome."""
    display = progress_display.open_display(session.environment, form=form)
    name = instance["metadata"]["name"]
    return _follow_objects(session, name, display, form=form, timeout=timeout)


def _follow_objects(
    session: Session, name: str, display: Display, *, form: Format, timeout: timedelta
) -> ExitStatus:
    kinds = ("BlueprintInstance", "Formation", "Mission")
    targets = [Target(kind, session.namespace, name) for kind in kinds]
    state = follow.follow(session, targets, display=display, timeout=timeout)
    return write_report(session, state, name=name, form=form)


def follow_mission(
    session: Session,
    name: str,
    *,
    form: Format,
    timeout: timedelta,
    after_run: str | None = None,
    instance: str | None = None,
) -> ExitStatus:
    """Follow an existing mission and report it; the exit status reflects the outcome.

    The status of the ended run `after_run` is ignored. `instance` is the instance that owns the
    mission and recreates it after an update.
    """
    display = progress_display.open_display(session.environment, form=form)
    targets = [Target("Mission", session.namespace, name)]
    targets += [Target("BlueprintInstance", session.namespace, instance)] if instance else []
    state = follow.follow(session, targets, display=display, timeout=timeout, after_run=after_run)
    return write_report(session, state, name=name, form=form)


def write_report(session: Session, state: RunState, *, name: str, form: Format) -> ExitStatus:
    """Print the outcome of a run, its result, and its recalled and stored facts."""
    exit_status = run_exit_status.exit_status_of(state)
    status = ExitStatus.FAILED if exit_status is None else exit_status
    if form is Format.NAME:
        kind = "mission" if state.mission else "blueprintinstance"
        session.write(f"{kind}.kais.io/{name}\n")
        return status
    run_knowledge = _fetch_run_knowledge(session, state.mission) if state.mission else None
    if form is Format.TABLE:
        lines = _outcome_line(state, name) + _logs_line(session, state)
        session.write(_format_report(state, lines, run_knowledge, width=session.environment.width))
    else:
        session.write(output.dump(_tree(state, name, run_knowledge), form))
    return status


def _fetch_run_knowledge(session: Session, mission: Mission) -> RunKnowledge | None:
    """Fetch the facts of a run; an unavailable service only causes a warning."""
    from kais_cli.knowledge import connection  # noqa: PLC0415 (loads httpx)
    from kais_cli.runs import run_knowledge  # noqa: PLC0415 (loads httpx)

    try:
        with connection.connect(
            session.environment, session.cluster, namespace=session.namespace
        ) as client:
            return run_knowledge.fetch_run_knowledge(client, mission)
    except errors.CliError as exc:
        session.note(f"warning: the facts of the run are not shown: {exc}")
        return None


def _format_report(
    state: RunState, outcome_lines: str, run_knowledge: RunKnowledge | None, *, width: int | None
) -> str:
    parts = [outcome_lines]
    mission = state.mission
    if mission and mission.status.result:
        cut = " (cut at 4 KiB)" if mission.status.result_truncated else ""
        parts.append(
            f"result{cut}:\n{text_layout.format_result(mission.status.result, width=width)}"
        )
    if mission and mission.status.turns is not None:
        parts.append(f"agent: {agent_usage.format_usage(mission.status)}\n")
    if run_knowledge is not None:
        receipt = f" (receipt {run_knowledge.receipt})" if run_knowledge.receipt else ""
        parts.append(_facts(f"recalled{receipt}", run_knowledge.recalled, width=width))
        parts.append(_facts("learnt", run_knowledge.learnt, width=width))
    return ("\n" if width else "").join(parts)


def _outcome_line(state: RunState, name: str) -> str:
    duration = progress.duration(state)
    duration_note = f" after {duration}" if duration else ""
    attempt = f", attempt {state.attempt}" if state.attempt else ""
    if state.outcome is None:
        description = "deleted" if state.is_deleted else "ready, without a mission"
        if run_exit_status.exit_status_of(state) is ExitStatus.FAILED:
            description = "cannot run as it is; fix the problems reported above"
        return f"{name}: {description}\n"
    line = f"{name}: {state.outcome}{duration_note}{attempt}\n"
    mission = state.mission
    if state.outcome is Outcome.SUCCEEDED or mission is None or not mission.status.message:
        return line
    reason = mission.status.message.removeprefix(f"{state.outcome}: ")
    result = (mission.status.result or "").strip()
    if result.startswith("{"):  # the report shows the members of a result of JSON
        reason = reason.removesuffix(f": {result}")
    return f"{line}reason: {reason}\n"


def _logs_line(session: Session, state: RunState) -> str:
    """Return the line with the command for the logs of a failed run; empty for other runs."""
    mission = state.mission
    if mission is None or not mission.status.message or state.outcome not in _WITH_LOGS:
        return ""
    name, namespace = mission.metadata.name, mission.metadata.namespace
    cell = service_cell.find(session, mission)
    if cell is not None:
        return f"logs: {service_cell.logs_command(cell, namespace)}\n"
    return f"logs: kais mission logs {name} -n {namespace}\n"


def _facts(title: str, facts: tuple[Fact, ...], *, width: int | None) -> str:
    if not facts:
        return f"{title}: nothing\n"
    lines = "".join(_fact(fact, width) for fact in facts)
    return f"{title}: {len(facts)} {'fact' if len(facts) == 1 else 'facts'}\n{lines}"


def _fact(fact: Fact, width: int | None) -> str:
    head, tokens = f"  {fact.id}  {fact.source.type} {fact.confidence:.2f}", fact.content.split()
    if width is None:
        return f"{head}  {' '.join(tokens)}\n"
    return f"{head}\n{text_layout.wrap_text(' '.join(tokens), width=width, indent='    ')}"


def _usage_tree(mission: Mission | None) -> dict[str, Any] | None:
    """Return what the models of a run used; None for a run without a mind."""
    if mission is None or mission.status.turns is None:
        return None
    status = mission.status
    return {
        "turns": status.turns,
        "toolCalls": status.tool_calls,
        "tokens": status.tokens.to_dict() if status.tokens else None,
        "cost": status.cost,
    }


@dataclass(frozen=True)
class RunReport:
    """The result of a run as programs read it; what is None is not known."""

    name: str
    outcome: str | None
    run_id: str | None
    attempt: int | None
    result: str | None = None
    usage: dict[str, Any] | None = None
    knowledge: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON tree."""
        return {model_trees.to_camel_case(name): value for name, value in vars(self).items()}


def _tree(state: RunState, name: str, run_knowledge: RunKnowledge | None) -> dict[str, Any]:
    mission = state.mission
    return RunReport(
        name,
        outcome=state.outcome.value if state.outcome else None,
        run_id=mission.status.run_id if mission else None,
        attempt=mission.status.attempt if mission else None,
        result=mission.status.result if mission else None,
        usage=_usage_tree(mission),
        knowledge=run_knowledge.to_dict() if run_knowledge else None,
    ).to_dict()
