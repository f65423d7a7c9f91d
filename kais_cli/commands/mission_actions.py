"""`kais mission retry|abort|approve|reject`: the verbs, which are annotations, and `logs`.

Each verb is acknowledged in the Mission's status; `kubectl annotate` does the same.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kais import labels
from kais.resources.mission import Mission
from kais_cli import errors
from kais_cli.cluster import annotation_verbs, resource_access
from kais_cli.commands.mission import Name, app
from kais_cli.commands.options import (
    Container,
    DryRun,
    Follow,
    Output,
    Previous,
    RunNumber,
    Since,
    Tail,
    Timeout,
    Timestamps,
    dry_run_suffix,
    log_options,
)
from kais_cli.exit_status import ExitStatus
from kais_cli.ports import LogOptions
from kais_cli.runs import earlier_runs, report
from kais_cli.runs import logs as runs_logs
from kais_cli.session import Session, command
from kais_cli.views import output
from kais_cli.views.output import Format

Feedback = Annotated[str, typer.Option(metavar="TEXT", help="Feedback of the reviewer.")]
_OWNER = "BlueprintInstance"
_TAIL = 1000  # lines of each container without --tail


@command(app, "retry")
def retry(
    session: Session,
    name: Name,
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Follow the new run to its end.")
    ] = True,
    timeout: Timeout = "30m",
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Run a finished mission again, as a new run."""
    mission = Mission.from_dict(resource_access.get(session, "Mission", name))
    if mission.status.outcome is None:
        raise errors.Refused(
            f"{mission.ref} has not ended; wait for it, or end it with `kais mission abort {name}`"
        )
    # The instance owns the run of its mission: it starts the next one and passes it on.
    owner = next((o.name for o in mission.metadata.owner_references if o.kind == _OWNER), None)
    kind, target = (_OWNER, owner) if owner else ("Mission", name)
    nonce = session.environment.suffix()
    annotated = annotation_verbs.annotate(
        session, kind, target, {labels.RERUN: nonce}, dry_run=dry_run
    )
    suffix = dry_run_suffix(dry_run=dry_run)
    session.note(f"{kind}/{session.namespace}/{target} runs again: {labels.RERUN}={nonce}{suffix}")
    if dry_run or not wait:
        session.write(
            output.dump_object(annotated, Format.NAME if output_ is Format.TABLE else output_)
        )
        return ExitStatus.SUCCEEDED
    return report.follow_mission(
        session,
        name,
        form=output_,
        timeout=report.parse_timeout(timeout),
        after_run=mission.status.run_id,
        instance=owner,
    )


@command(app, "abort")
def abort(
    session: Session,
    name: Name,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason; shown in the mission's message.")
    ] = "aborted",
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Abort a mission. Its outcome is Cancelled, which does not affect success rates."""
    mission = Mission.from_dict(resource_access.get(session, "Mission", name))
    if mission.status.outcome is not None:
        raise errors.Refused(f"{mission.ref} has ended already: {mission.status.outcome}")
    if not reason.strip():
        raise errors.UsageError("--reason is empty; say why, or leave it out")
    annotated = annotation_verbs.annotate(
        session, "Mission", name, {labels.ABORT: reason}, dry_run=dry_run
    )
    message = f"{mission.ref} is being ended: {reason}{dry_run_suffix(dry_run=dry_run)}"
    return resource_access.write_acknowledgement(session, annotated, message, output_)


@command(app, "approve")
def approve(
    session: Session,
    name: Name,
    feedback: Feedback = "",
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Approve the attempt that waits for a review; the mission succeeds."""
    return _review(session, name, ("approve", feedback), dry_run=dry_run, form=output_)


@command(app, "reject")
def reject(
    session: Session,
    name: Name,
    feedback: Feedback = "",
    dry_run: DryRun = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Reject the attempt that waits for a review; the next attempt receives the feedback."""
    if not feedback.strip():
        raise errors.UsageError("--feedback is required: describe what to improve")
    return _review(session, name, ("reject", feedback), dry_run=dry_run, form=output_)


@command(app, "logs")
def logs(  # noqa: PLR0913 (one argument per option)
    session: Session,
    name: Name,
    *,
    run: RunNumber = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Number of the attempt. Default: the latest.")
    ] = None,
    tail: Tail = _TAIL,
    follow: Follow = False,
    container: Container = None,
    since: Since = None,
    previous: Previous = False,
    timestamps: Timestamps = False,
) -> ExitStatus:
    """Print the logs of an attempt: its work and its checks.

    A mission of a cell in mode Service, the default of agents, has no pods of its own; use
    `kais cell logs`.

    The pods of an earlier run (--run) are deleted; of it, the command prints the record that the
    knowledge service keeps: messages, tool calls, errors and checks of all its attempts.

    With --follow, a sidecar is followed at the same time as the work, and each line begins with its
    pod and container.
    """
    options = log_options(
        tail, follow=follow, since=since, previous=previous, timestamps=timestamps
    )
    mission = Mission.from_dict(resource_access.get(session, "Mission", name))
    earlier_run = earlier_runs.earlier_run(mission, run)
    if earlier_run is not None:
        if container is not None or options != LogOptions(_TAIL):
            raise errors.UsageError(
                f"--run {run} prints the whole record of an earlier run; leave out -c, -f, -p,"
                " --since, --tail and --timestamps"
            )
        earlier_runs.write_record(session, mission, earlier_run, attempt)
        return ExitStatus.SUCCEEDED
    runs_logs.write(session, name, attempt=attempt, container=container, options=options)
    return ExitStatus.SUCCEEDED


_PARTICIPLES = {"approve": "approved", "reject": "rejected"}


def _review(
    session: Session, name: str, decision: tuple[str, str], *, dry_run: bool, form: Format
) -> ExitStatus:
    mission = Mission.from_dict(resource_access.get(session, "Mission", name))
    review = mission.spec.completion.review
    if review is None or not review.enabled:
        raise errors.Refused(f"{mission.ref} has no review: its spec.completion.review is not set")
    if mission.status.outcome is not None:
        raise errors.Refused(f"{mission.ref} has ended already: {mission.status.outcome}")
    if mission.status.review is None or mission.status.review.status != "Pending":
        raise errors.Refused(
            f"{mission.ref} does not wait for a review now;"
            f" see `kais mission show {name} -n {session.namespace}`"
        )
    verdict, feedback = decision
    attempt = mission.status.attempt or 1
    annotation = {"attempt": attempt, "verdict": verdict, "feedback": feedback}
    annotation |= {"run": mission.status.run_id} if mission.status.run_id else {}
    text = json.dumps(annotation, ensure_ascii=False)
    by_name = {labels.REVIEW: text, labels.REVIEWED_BY: session.cluster.user_name()}
    annotated = annotation_verbs.annotate(session, "Mission", name, by_name, dry_run=dry_run)
    suffix = dry_run_suffix(dry_run=dry_run)
    message = f"{mission.ref}: attempt {attempt} {_PARTICIPLES[verdict]}{suffix}"
    return resource_access.write_acknowledgement(session, annotated, message, form)
