"""`kais approvals`: tool calls of agents that wait for a person."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from kais import approvals, labels, reasons
from kais.approvals import ApprovalDecision
from kais.resources.mission import CallApprovalStatus, Mission
from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.commands.options import AllNamespaces, DryRun, Output, dry_run_suffix
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group
from kais_cli.views import output, quantities, table_layout
from kais_cli.views.output import Format

app = group("approvals", "Decide about tool calls of agents that wait for a person.")

Call = Annotated[str, typer.Argument(metavar="CALL", help="ID of the call, or its beginning.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason, which the agent reads.")]
_HEADERS = ("NAMESPACE", "MISSION", "CELL", "CALL", "TOOL", "EXPIRES", "ARGUMENTS")
_ARGUMENTS_SHOWN = 120
_ENTRY = "(entry)"
_PARTICIPLES = {"approve": "approved", "deny": "rejected"}


@command(app, "list")
def list_approvals(
    session: Session, output_: Output = Format.TABLE, all_namespaces: AllNamespaces = False
) -> ExitStatus:
    """List the tool calls that wait for an approval, with their arguments.

    The table has the first 120 characters of the arguments; `-o yaml` has all.
    """
    waiting = _waiting(session, None if all_namespaces else session.namespace)
    if output_ is Format.NAME:
        session.write("".join(f"{call.call}\n" for _, call in waiting))
        return ExitStatus.SUCCEEDED
    if output_ is not Format.TABLE:
        records = [
            {
                "namespace": mission.metadata.namespace,
                "mission": mission.metadata.name,
                **call.to_dict(),
            }
            for mission, call in waiting
        ]
        session.write(output.dump_object({"items": records}, output_))
        return ExitStatus.SUCCEEDED
    if not waiting:
        searched_namespaces = (
            "any namespace" if all_namespaces else f"namespace {session.namespace}"
        )
        elsewhere = "" if all_namespaces else "; `kais approvals list -A` looks in all namespaces"
        session.note(f"no call waits for an approval in {searched_namespaces}{elsewhere}")
        return ExitStatus.SUCCEEDED
    rows = [
        (
            mission.metadata.namespace,
            mission.metadata.name,
            call.cell or _ENTRY,
            call.call,
            call.tool,
            _format_expiry(call.expires_at, session.environment.now()),
            _shorten(call.arguments or ""),
        )
        for mission, call in waiting
    ]
    session.write(table_layout.format_table(_HEADERS, rows))
    return ExitStatus.SUCCEEDED


def _shorten(arguments: str) -> str:
    """Cut arguments and mark the cut, so that people know that they do not see all of them."""
    is_cut = len(arguments) > _ARGUMENTS_SHOWN
    return f"{arguments[:_ARGUMENTS_SHOWN]}…" if is_cut else arguments


def _format_expiry(expires_at: str, now: datetime) -> str:
    """Format when a call can no longer be approved: `in 12m`; unchanged if it is no time."""
    try:
        at = datetime.fromisoformat(expires_at)
    except ValueError:
        return expires_at
    if at.tzinfo is None:
        return expires_at
    return f"in {quantities.format_age(now, at)}" if at > now else "expired"


@command(app, "approve")
def approve(
    session: Session, call: Call, reason: Reason = "", dry_run: DryRun = False
) -> ExitStatus:
    """Approve a tool call with its present arguments; the agent makes it."""
    return _decide(session, call, ("approve", reason), dry_run=dry_run)


@command(app, "reject")
def reject(
    session: Session, call: Call, reason: Reason = "", dry_run: DryRun = False
) -> ExitStatus:
    """Reject a tool call; the agent reads the reason, and continues without it."""
    return _decide(session, call, ("deny", reason), dry_run=dry_run)


def _waiting(session: Session, namespace: str | None) -> list[tuple[Mission, CallApprovalStatus]]:
    bodies = session.cluster.list("Mission", namespace)
    missions = resource_access.read_valid(session, Mission, bodies)
    return [
        (mission, call)
        for mission in missions
        if mission.status.outcome is None
        for call in mission.status.approvals
        if call.outcome is None
    ]


def _decide(
    session: Session, prefix: str, decision: tuple[approvals.Decision, str], *, dry_run: bool
) -> ExitStatus:
    matches = [
        (mission, call)
        for mission, call in _waiting(session, session.namespace)
        if prefix and call.call.startswith(prefix)
    ]
    if len(matches) != 1:
        problem = "no call" if not matches else "more than one call"
        where = "-A" if not matches else f"-n {session.namespace}"
        raise errors.Refused(
            f"{problem} of namespace {session.namespace} that waits begins with {prefix!r}; "
            f"see `kais approvals list {where}`"
        )
    [(mission, call)] = matches
    _require_effect(mission)
    verb, reason = decision
    user = session.cluster.user_name()
    decided = ApprovalDecision(
        call=call.call, sha256=call.sha256, decision=verb, by=user, reason=reason
    )
    annotations = {
        labels.APPROVAL: approvals.dump_decisions([*_pending(mission, decided), decided]),
        labels.APPROVAL_BY: user,
    }
    metadata: dict[str, Any] = {"annotations": annotations}
    if mission.metadata.resource_version:  # two decisions at once must not replace each other
        metadata["resourceVersion"] = mission.metadata.resource_version
    patch: dict[str, Any] = {"metadata": metadata}
    session.cluster.patch(
        "Mission", session.namespace, mission.metadata.name, patch, dry_run=dry_run
    )
    suffix = dry_run_suffix(dry_run=dry_run)
    session.note(f"{mission.ref}: {call.tool} ({call.call}) {_PARTICIPLES[verb]}{suffix}")
    return ExitStatus.SUCCEEDED


def _require_effect(mission: Mission) -> None:
    """Require that the operator can still record a decision about a call.

    Raises:
        Refused: It cannot.
    """
    for condition in mission.status.conditions:
        if condition.reason == reasons.Reason.APPROVAL_LIMIT_REACHED:
            raise errors.Refused(
                f"a decision about a call of {mission.ref} has no effect: {condition.message}"
            )


def _pending(mission: Mission, new: ApprovalDecision) -> list[ApprovalDecision]:
    """Return the decisions of the same person that no cell has stored yet, about other calls.

    Raises:
        Refused: Another person made them, and the annotations have one author.
    """
    annotations = mission.metadata.annotations
    author = annotations.get(labels.APPROVAL_BY, "")
    try:
        decisions = approvals.parse_decisions(annotations.get(labels.APPROVAL, ""), author)
    except ValueError:
        return []  # it decides nothing
    waiting = {call.call for call in mission.status.approvals if call.outcome is None}
    pending = [decision for decision in decisions if decision.call in waiting]
    if pending and author != new.by:
        raise errors.Refused(
            f"the cell has not yet stored what {author} decided about call {pending[0].call} of "
            f"{mission.ref}; try again in a few seconds"
        )
    return [decision for decision in pending if decision.call != new.call]
