"""The result of a decision: a frozen Plan of writes, status and the next reconcile.

    observe -> decide -> apply -> status

A decision is a pure function `(resource, observed, now) -> Plan`. After a Plan is applied, deciding
again on what is then observed returns an empty Plan: every decision is a fixed point. Nothing in
this package reads a clock, the environment or the network, and nothing writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kais.approvals import ApprovalDecision
from kais.outcomes import Outcome
from knowledge_client import models

Body = dict[str, Any]


@dataclass(frozen=True, order=True, slots=True)
class ObjectRef:
    """A reference to one object of the cluster; `kind` is unique among the kinds that kais uses."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Create:
    """Create a child. AlreadyExists is no failure; the next reconcile reads the owner."""

    body: Body


@dataclass(frozen=True)
class Apply:
    """Update an owned child by server-side apply; refused unless it still has `uid`.

    An apply leaves fields that others own. If these conflict with the body, such as two sources of
    one volume, the API server refuses the apply as invalid. Then the actions `if_invalid` are
    executed instead; with None the reconcile fails.
    """

    body: Body
    uid: str
    if_invalid: tuple[PatchSpec | EmitEvent, ...] | None = None


@dataclass(frozen=True)
class Delete:
    """Delete an owned child, with its UID as a precondition. A missing child is a success.

    With `waits_for_knowledge` the child is not deleted while a call to the knowledge service in the
    same Plan fails, because the child is the only record of that call. With `resource_version` it
    is deleted only as it was observed, because the same Plan records what it contains.
    """

    ref: ObjectRef
    uid: str
    waits_for_knowledge: bool = False
    resource_version: str | None = None


@dataclass(frozen=True)
class PatchMetadata:
    """Set annotations, labels or finalizers of an object that a user owns.

    A value of None removes the annotation or label. The patch is refused unless the resourceVersion
    is the one that was observed: such a write (run-id, outcome, finalizer) is a decision that must
    not be repeated on another state.
    """

    ref: ObjectRef
    resource_version: str
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[Body, ...] | None = None


@dataclass(frozen=True)
class PatchSpec:
    """Change fields of an owned child that others may own, by a merge patch of its spec.

    The patch is refused unless the resourceVersion is the one that was observed. `blocked` says
    what waits for the patch, and `remedy` what a person can do if it keeps failing; both are empty
    if nothing waits.
    """

    ref: ObjectRef
    resource_version: str
    spec: Body
    annotations: Mapping[str, str]
    blocked: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class SetAside:
    """Annotate an outbox with why the service permanently rejects a call of the same Plan.

    Nothing is written if no call was rejected. Repeating such a call is useless, and the outbox is
    its only record.
    """

    ref: ObjectRef
    resource_version: str


@dataclass(frozen=True)
class RegisterPrincipal:
    """Register a ServiceAccount as a principal with the knowledge service."""

    principal: models.PrincipalIn

    @property
    def key(self) -> str:
        """The key of this account, under which failures are recorded."""
        return self.principal.subject.username


@dataclass(frozen=True)
class PutScope:
    """Configure a scope in the knowledge service."""

    path: str
    config: models.ScopeConfig

    @property
    def key(self) -> str:
        """The key of this scope with these settings, under which refusals are recorded."""
        return f"{self.path} {self.config.model_dump_json()}"


@dataclass(frozen=True)
class DeleteScope:
    """Delete the knowledge of exactly one scope from the knowledge service."""

    path: str


def run_key(namespace: str | None, run_id: str) -> str:
    """Return the key of a run in the sync state; a run-id is unique only in its namespace."""
    return f"{namespace or ''}/{run_id}"


@dataclass(frozen=True)
class PutRun:
    """Open a run in the ledger, or close it if `run.outcome` is set."""

    run_id: str
    run: models.RunIn
    traceparent: str | None = None

    @property
    def key(self) -> str:
        """The key of the run in the sync state."""
        return run_key(self.run.namespace, self.run_id)


@dataclass(frozen=True)
class CloseRun:
    """Close a run of which only the id is known; the ledger has the rest, if it has the run.

    A run of another mission is not closed. With None as `mission` the owner is not checked. The
    namespace is None only in the outbox of an older version.
    """

    run_id: str
    outcome: Outcome
    finished_at: datetime
    namespace: str | None = None
    mission: str | None = None


@dataclass(frozen=True)
class RecordEpisodes:
    """Add what the operator observed of a run to its record.

    The namespace is None only in the outbox of an older version.
    """

    run_id: str
    namespace: str | None
    episodes: tuple[models.EpisodeIn, ...]

    @property
    def key(self) -> str:
        """The key of the run in the sync state."""
        return run_key(self.namespace, self.run_id)


@dataclass(frozen=True)
class RequestExtraction:
    """Request the extraction of facts from a closed run.

    The service answers at once; the job is durable there. The namespace is None only in the outbox
    of an older version.
    """

    run_id: str
    namespace: str | None
    max_facts: int = 7
    traceparent: str | None = None

    @property
    def key(self) -> str:
        """The key of the run in the sync state."""
        return run_key(self.namespace, self.run_id)


@dataclass(frozen=True)
class InjectKnowledge:
    """Recall what the cell may see, and create the ConfigMap that its attempt mounts.

    `recall` is None when injection is off; the ConfigMap says so and contains no facts. If the
    knowledge service does not answer, the ConfigMap contains the reason instead of facts, because
    knowledge never stops a mission.
    """

    map_body: Body
    recall: models.RecallIn | None
    idempotency_key: str
    traceparent: str | None = None


@dataclass(frozen=True)
class RunInContainer:
    """Run a command in a running container, in the background, once for each `key`.

    A later reconcile reads the result. If the operator process ends before that, the next one runs
    the command again. The command is ended with its mission. A command that `repeats` runs again
    if it has ended; until it has a new result, the previous one is read.
    """

    key: str
    mission: ObjectRef
    pod: ObjectRef
    container: str
    argv: tuple[str, ...]
    timeout_s: float
    repeats: bool = False


@dataclass(frozen=True)
class EndCommands:
    """End a mission's running commands in containers, because the result is no longer needed."""

    mission: ObjectRef


@dataclass(frozen=True)
class AgentAddress:
    """Where a cell serves A2A.

    Attributes:
        cell: the Cell.
        service: name of its Service.
        port: port of the Service.
        path: path of the server, which ends with a slash.
        account: username of the cell's ServiceAccount, for which tickets are issued.
    """

    cell: ObjectRef
    service: str
    port: int
    path: str
    account: str


@dataclass(frozen=True)
class AgentCall:
    """One message of a run, and what identifies its task.

    Attributes:
        mission: the Mission that sends it.
        message_id: derived from run, attempt and purpose, so a repeat has the same one.
        budget_left: what mission and formation leave, as a decimal; None without such a limit.
        traceparent: the trace of the run.
    """

    mission: ObjectRef
    address: AgentAddress
    run_id: str
    attempt: int
    message_id: str
    arm: models.Arm = "on"
    budget_left: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True)
class SendMessage:
    """Send a message to a cell in the background, unless this process is sending it.

    Attributes:
        call: the part of the message that identifies the task.
        text: the text.
        metadata: data that our runtime reads in addition to the text.
        is_first: no process has sent it before, because its stamp is part of the same plan.
    """

    call: AgentCall
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_first: bool = False


@dataclass(frozen=True)
class CancelTask:
    """Cancel the task of a message, because the result is no longer needed."""

    call: AgentCall


@dataclass(frozen=True)
class DecideToolCall:
    """Pass a person's decision about a tool call on to the cell that waits for it."""

    call: AgentCall
    decision: ApprovalDecision


@dataclass(frozen=True)
class RefreshStatistics:
    """Read the statistics again, because the counts in the ledger have changed.

    Attributes:
        namespace: the namespace of the run.
        blueprint: the Blueprint of the run; None for a run that counts for none.
        is_urgent: refresh at once, unless a change was reported in the last 30 s, and include the
            realm's scopes. Otherwise refresh after 30 s, so that the start of a short run does not
            delay its end.
        extracted: the run whose finished extraction is counted by this refresh.
    """

    namespace: str
    blueprint: str | None
    is_urgent: bool = True
    extracted: str | None = None


@dataclass(frozen=True)
class Involved:
    """The object that an Event is about, if it is not the reconciled one."""

    api_version: str
    ref: ObjectRef
    uid: str

    def to_body(self) -> Body:
        """Return the part of the object that an Event refers to."""
        metadata = {"namespace": self.ref.namespace, "name": self.ref.name, "uid": self.uid}
        return {"apiVersion": self.api_version, "kind": self.ref.kind, "metadata": metadata}


@dataclass(frozen=True)
class EmitEvent:
    """A Kubernetes Event about the reconciled object or `involved`; only on transitions."""

    type: str
    reason: str
    message: str
    involved: Involved | None = None


Action = (
    Create
    | Apply
    | Delete
    | PatchMetadata
    | PatchSpec
    | SetAside
    | RegisterPrincipal
    | PutScope
    | DeleteScope
    | PutRun
    | CloseRun
    | RecordEpisodes
    | RequestExtraction
    | InjectKnowledge
    | RunInContainer
    | EndCommands
    | SendMessage
    | CancelTask
    | DecideToolCall
    | RefreshStatistics
    | EmitEvent
)


@dataclass(frozen=True)
class Plan:
    """The result of a decision.

    Attributes:
        actions: writes in their necessary order; the first failure ends the reconcile.
        status: the whole desired status with conditions; None when none is written.
        requeue_after: delay until the next reconcile without a watch event; None waits for one.
    """

    actions: tuple[Action, ...] = ()
    status: Body | None = None
    requeue_after: timedelta | None = None
