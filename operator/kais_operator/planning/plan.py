"""What a decision is: a frozen Plan of intended writes, conditions and the next look.

observe -> **decide** -> apply -> status. A decision is a pure function
`(resource, observed, now) -> Plan`. Applying a Plan and deciding again on what is then observed
gives an empty Plan: every decision is a fixed point. Nothing in this package reads a clock, the
environment or the network, and nothing writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kais.outcomes import Outcome
from knowledge_client import models

Body = dict[str, Any]


@dataclass(frozen=True, order=True, slots=True)
class ObjectRef:
    """The name of one object of the cluster; `kind` is unique among the kinds that kais touches."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Create:
    """The first write of a child. AlreadyExists is no failure: the next look says whose it is."""

    body: Body


@dataclass(frozen=True)
class Apply:
    """A later write of a child of ours: server-side apply, refused unless it still has `uid`.

    An apply leaves what others own. If that and the body exclude each other, such as two sources of
    one volume, the API server refuses the apply as invalid. Then the actions `if_invalid` take its
    place; with None the pass fails.
    """

    body: Body
    uid: str
    if_invalid: tuple[PatchSpec | EmitEvent, ...] | None = None


@dataclass(frozen=True)
class Delete:
    """Remove a child of ours, confirmed by its UID. Missing already is success.

    With `after_store` it is left out as long as a store call of the same Plan fails: what it
    removes is the only record of that call.
    """

    ref: ObjectRef
    uid: str
    after_store: bool = False


@dataclass(frozen=True)
class PatchMetadata:
    """Set annotations, labels or finalizers on an object that a user owns.

    A value of None removes the annotation or label. Refused unless the resourceVersion is still the
    one decided upon, since such a write is a decision that must not be repeated on another state
    (run-id, outcome, finalizer).
    """

    ref: ObjectRef
    resource_version: str
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    labels: Mapping[str, str | None] = field(default_factory=dict)
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[Body, ...] | None = None


@dataclass(frozen=True)
class PatchSpec:
    """Remove additions by others from a child of ours: a merge patch of its spec.

    Refused unless the resourceVersion is still the one decided upon.
    """

    ref: ObjectRef
    resource_version: str
    spec: Body
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class SetAside:
    """Write onto an outbox why a store call of the same Plan was refused for good.

    Left out when none was: repeating such a call is useless, and the object is its only record.
    """

    ref: ObjectRef
    resource_version: str


@dataclass(frozen=True)
class RegisterPrincipal:
    """Tell the store who a ServiceAccount is."""

    principal: models.PrincipalIn


@dataclass(frozen=True)
class PutScope:
    """Configure a scope in the store."""

    path: str
    config: models.ScopeConfig

    @property
    def key(self) -> str:
        """Name these settings of this scope, for what the store says of them."""
        return f"{self.path} {self.config.model_dump_json()}"


@dataclass(frozen=True)
class DeleteScope:
    """Delete exactly one scope's knowledge from the store."""

    path: str


def run_key(namespace: str | None, run_id: str) -> str:
    """Name a run, for what the store says of it: an id is unique in its namespace only."""
    return f"{namespace or ''}/{run_id}"


@dataclass(frozen=True)
class PutRun:
    """Open a run in the ledger, or close it: `run.outcome` is set at the end."""

    run_id: str
    run: models.RunIn

    @property
    def key(self) -> str:
        """Name the run, for what the store says of it."""
        return run_key(self.run.namespace, self.run_id)


@dataclass(frozen=True)
class CloseRun:
    """Close a run of which only the id is known: the ledger knows the rest. None there is fine.

    A run of another mission is left alone; None closes it whosever it is. An outbox of an older
    version may hold no namespace.
    """

    run_id: str
    outcome: Outcome
    finished_at: datetime
    namespace: str | None = None
    mission: str | None = None


@dataclass(frozen=True)
class RecordEpisodes:
    """Add what the operator saw of a run to its record.

    The namespace is None only in an outbox of an older version.
    """

    run_id: str
    namespace: str | None
    episodes: tuple[models.EpisodeIn, ...]

    @property
    def key(self) -> str:
        """Name the run, for what the store says of it."""
        return run_key(self.namespace, self.run_id)


@dataclass(frozen=True)
class RequestExtraction:
    """Ask for a closed run's facts; answers at once, the job is durable in the store.

    The namespace is None only in an outbox of an older version.
    """

    run_id: str
    namespace: str | None
    max_facts: int = 7

    @property
    def key(self) -> str:
        """Name the run, for what the store says of it."""
        return run_key(self.namespace, self.run_id)


@dataclass(frozen=True)
class InjectKnowledge:
    """Recall what the cell may see, and create the map that its attempt mounts.

    `recall` is None when injection is off: the map then says so and holds no fact. A store that
    does not answer gives a map without facts that says why: knowledge never stops a mission.
    """

    map_body: Body
    recall: models.RecallIn | None
    idempotency_key: str


@dataclass(frozen=True)
class RunInContainer:
    """Run a check's command in a running container, in the background; once for each `key`.

    Its end is seen by a later look. A process that is gone by then may have run it: the next one
    runs it again. It is ended with its mission.
    """

    key: str
    mission: ObjectRef
    pod: ObjectRef
    container: str
    argv: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True)
class EndCommands:
    """End a mission's running commands in containers: no result is needed any more."""

    mission: ObjectRef


@dataclass(frozen=True)
class RefreshStatistics:
    """What the ledger counts has changed: the statistics of it shall be read again.

    With `soon` also those of the realm's scopes, and at once unless a change of them was told in
    the last 30 s; without it after 30 s, so that a short run's beginning does not delay its end.
    `blueprint` is None for a run that counts for none. `extracted` names the run whose extraction
    is done and is counted by this.
    """

    namespace: str
    blueprint: str | None
    is_urgent: bool = True
    extracted: str | None = None


@dataclass(frozen=True)
class EmitEvent:
    """A Kubernetes Event about the object decided upon; only on transitions (C16)."""

    type: str
    reason: str
    message: str


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
    | RefreshStatistics
    | EmitEvent
)


@dataclass(frozen=True)
class Plan:
    """The outcome of a decision.

    Attributes:
        actions: writes in the order in which they must happen; the first that fails ends the pass.
        status: the whole desired status, conditions included; None when there is nothing to tell.
        requeue_after: when to look again without any watch event; None waits for one.
    """

    actions: tuple[Action, ...] = ()
    status: Body | None = None
    requeue_after: timedelta | None = None
