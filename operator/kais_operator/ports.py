"""The operator's ports: the cluster, the knowledge service, a renderer, containers, a clock.

Protocols only. `kubernetes/`, `informer/`, `knowledge/` and `rendering/` implement them, and
`tests/fakes/` in memory; both pass the same contract suites.
Errors are those of `kais_operator.errors`, whatever library an adapter uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from kais.approvals import ApprovalDecision
from kais.pod_defaults import NO_POLICY, PodPolicy
from kais.scopes import Scope
from kais_operator.planning.agent_settings import NO_AGENTS, AgentSettings
from kais_operator.planning.agent_tasks import AgentReply
from kais_operator.planning.container_results import Log, Process
from kais_operator.planning.failed_write import FailedWrite
from kais_operator.planning.plan import AgentCall, Body, ObjectRef, RunInContainer, SendMessage
from knowledge_client import models


class Cluster(Protocol):
    """Reads and writes of Kubernetes objects. Every write first checks that this process leads.

    Raises:
        NotFound, AlreadyExists, Conflict, Forbidden, Invalid, NotLeading, ClusterUnavailable:
            see `errors`.
    """

    async def get(self, ref: ObjectRef, *, fresh: bool = False) -> Body | None:
        """Read an object; None if it does not exist.

        The result may be as old as the watches are late. `fresh` reads from the API server, for
        decisions that no precondition of a write guards.
        """
        ...

    async def get_child(self, ref: ObjectRef) -> Body | None:
        """Read the object that has the name of a child.

        May return None for an object of another owner that is not watched: creating the child then
        raises AlreadyExists, and from then on this method returns the object.
        """
        ...

    async def list(
        self, kind: str, namespace: str | None, *, labels: str = "", fresh: bool = False
    ) -> Sequence[Body]:
        """List objects of one kind; `labels` is a label selector, None means all namespaces.

        Of other kinds than ours, the result may lack objects without our managed-by label, unless
        they are read `fresh`, for the same decisions as with `get`.
        """
        ...

    async def scopes_of_borrowers(
        self, namespace: str, account: str, *, excluding: str
    ) -> Sequence[Scope]:
        """Return scopes of the cells that borrow an account, except the cell called `excluding`.

        Not the scopes of all cells, but enough for the nearest common scope of all.
        """
        ...

    async def create(self, body: Body) -> Body:
        """Create an object; raises AlreadyExists."""
        ...

    async def apply(self, body: Body, *, uid: str) -> Body:
        """Server-side apply as `kais-operator`, forced, on exactly the object with this UID."""
        ...

    async def patch_metadata(self, ref: ObjectRef, patch: Body, *, resource_version: str) -> Body:
        """Merge-patch metadata on exactly this resourceVersion; raises Conflict."""
        ...

    async def patch_spec(
        self, ref: ObjectRef, patch: Body, *, metadata: Body, resource_version: str
    ) -> Body:
        """Merge-patch a spec, and metadata with it, on exactly this resourceVersion.

        Raises:
            Conflict: it has another one.
        """
        ...

    async def apply_status(self, body: Body) -> Body:
        """Server-side apply of the status subresource as `kais-operator-status`."""
        ...

    async def delete(
        self, ref: ObjectRef, *, uid: str, resource_version: str | None = None
    ) -> Body | None:
        """Delete with a UID precondition and background propagation; a missing object is no error.

        With a resourceVersion the object must have that too; raises Conflict.
        Returns the object while finalizers or a grace period hold it, None if it is gone.
        """
        ...

    async def events_about(self, ref: ObjectRef, *, uid: str) -> Sequence[Body]:
        """Read the Kubernetes Events about exactly this object now, oldest first."""
        ...

    async def emit(self, involved: Body, *, severity: str, reason: str, message: str) -> None:
        """Write a Kubernetes Event about an object."""
        ...


class Knowledge(Protocol):
    """The knowledge service, as `knowledge_client.AsyncKnowledgeClient` offers it.

    Raises:
        KnowledgeUnavailable: the service does not answer. Other `KnowledgeError`s: it refuses.
    """

    async def whoami(self) -> models.WhoAmI: ...
    async def put_principal(self, principal: models.PrincipalIn) -> models.PrincipalIn: ...
    async def put_scope(self, path: str, config: models.ScopeConfig) -> models.ScopeOut: ...
    async def delete_scope(self, path: str, *, erase: bool = False) -> None: ...
    async def list_scopes(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> models.ScopePage: ...
    async def put_run(self, run_id: str, run: models.RunIn) -> models.Run: ...
    async def get_run(self, run_id: str, *, namespace: str | None = None) -> models.RunDetail: ...
    async def add_episodes(self, episodes: models.EpisodesIn) -> models.EpisodesAccepted: ...
    async def recall(
        self, query: models.RecallIn, *, idempotency_key: str | None = None
    ) -> models.Recalled: ...
    async def start_extraction(self, request: models.ExtractionIn) -> models.Extraction: ...
    async def get_extraction(
        self, run_id: str, *, namespace: str | None = None
    ) -> models.Extraction: ...
    async def stats_batch(self, request: models.StatsIn) -> models.Stats: ...
    async def blueprint_stats(
        self, namespace: str, name: str, *, canary: int | None = None, since: datetime | None = None
    ) -> models.BlueprintStats: ...
    async def issue_ticket(self, call: models.TicketIn) -> models.Ticket: ...


class Renderer(Protocol):
    """Compiles and renders templates in a worker that can be killed, by `kais.blueprint_rendering`.

    Raises:
        RenderingFailed: the worker exceeded its time or memory limit; the message says which.
        RenderingPending: there is no result yet; call again when there is one.
        RendererUnavailable: no worker could be reached; nothing is known about the template.
    """

    async def compile(self, spec: Body, *, namespace: str) -> Any:
        """Compile a Blueprint's spec to a `kais.blueprint_rendering.CompileReport`."""
        ...

    async def render(  # noqa: PLR0913 - the names that a template finds in scope
        self,
        spec: Body,
        parameters: Body,
        *,
        blueprint: str,
        revision: int,
        instance: str,
        namespace: str,
        previous: Body | None = None,
    ) -> Any:
        """Validate and render, with the result of `kais.blueprint_rendering.render_blueprint`."""
        ...

    async def find(self, pattern: str, text: str, *, ignore_case: bool, namespace: str) -> bool:
        """Search a text for a user's regular expression; ValueError if it is invalid."""
        ...


class Containers(Protocol):
    """What the checks of missions need: logs of containers, and commands that run in them."""

    def read_log(self, pod: ObjectRef, container: str) -> Log | None:
        """Return the last 256 KiB of a container's log, once; None while it is being read.

        The first call starts reading in the background. A log that is too long or takes too long
        has a problem instead of a text.

        Raises:
            ClusterError: as `Cluster` does; the next call starts over.
        """
        ...

    def start_command(self, command: RunInContainer) -> None:
        """Start a command in the background, unless its key has been started.

        A command that repeats is started if it is not running.

        Raises:
            NotLeading: the Lease is lost; nothing was started.
        """
        ...

    def result_of(self, mission: ObjectRef, key: str) -> tuple[Process, str] | None:
        """Return the state and standard output of a started command; None for an unknown key.

        The output of a command that repeats is that of its latest run that succeeded.
        """
        ...

    def is_running(self, mission: ObjectRef) -> bool:
        """Return whether a command of a mission is still running, or one repeats."""
        ...

    def end_commands(self, mission: ObjectRef) -> None:
        """End the commands of a mission, including queued ones, and drop their results."""
        ...

    def end_all(self) -> None:
        """End all commands, because this process no longer leads."""
        ...


class Agents(Protocol):
    """Cells that serve A2A: messages to them, and the tasks of these messages."""

    async def reply_to(self, call: AgentCall) -> AgentReply:
        """Return what a cell reports about a message; an error becomes its `problem`."""
        ...

    def on_end(self, notify: Callable[[ObjectRef], None]) -> None:
        """Have `notify` called with a mission when one of its tasks has ended.

        Not every end is noticed, so tasks are polled as well.
        """
        ...

    def is_undelivered(self, call: AgentCall) -> bool:
        """Return whether this process knows that no server ever got a message."""
        ...

    def has_ended(self, call: AgentCall) -> bool:
        """Return whether this process has read how the task of a message ended.

        Then `reply_to` returns it without a request, whether the cell exists or not.
        """
        ...

    def send(self, message: SendMessage) -> None:
        """Send a message in the background, unless this process is sending it or does not lead."""
        ...

    async def cancel(self, call: AgentCall) -> None:
        """Cancel the task of a message; a cell that does not answer soon is left alone."""
        ...

    async def decide(self, call: AgentCall, decision: ApprovalDecision) -> None:
        """Pass on what a person decided about a tool call; a repeat changes nothing."""
        ...

    def end_all(self) -> None:
        """End all sending, because this process no longer leads."""
        ...


class Clock(Protocol):
    """Wall-clock time for timestamps, monotonic time for durations."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...


class KnowledgeSyncState(Protocol):
    """What the knowledge service has confirmed to this process, so that no reconcile repeats it.

    Only a cache: it is empty after a restart, and everything is sent again, which the service
    treats as a repeat. It is cleared when the id or epoch of the service's store changes.
    """

    def unavailable_reason(self) -> str | None:
        """Return why the service did not answer the last call; None if it did."""
        ...

    def is_registered(self, principal: models.PrincipalIn) -> bool: ...
    def mark_registered(self, principal: models.PrincipalIn) -> None: ...
    def is_configured(self, path: str, config: models.ScopeConfig) -> bool: ...
    def mark_configured(self, path: str, config: models.ScopeConfig) -> None: ...

    def mark_deleted(self, path: str) -> None:
        """Record that a scope was deleted with its settings."""
        ...

    def configured_below(self, path: str) -> frozenset[str]:
        """Return this scope and those below it that have other settings than the defaults."""
        ...

    def is_run_open(self, namespace: str | None, run_id: str) -> bool: ...
    def mark_run_open(self, namespace: str | None, run_id: str) -> None: ...
    def is_run_closed(self, namespace: str | None, run_id: str) -> bool: ...
    def mark_run_closed(self, namespace: str | None, run_id: str) -> None: ...
    def is_extraction_accepted(self, namespace: str | None, run_id: str) -> bool: ...
    def mark_extraction_accepted(self, namespace: str | None, run_id: str) -> None: ...
    def is_extraction_counted(self, namespace: str | None, run_id: str) -> bool: ...
    def mark_extraction_counted(self, namespace: str | None, run_id: str) -> None: ...

    def refusal(self, key: str) -> str | None:
        """Return why the service refused a run or settings; None after an hour."""
        ...

    def record_refusal(self, key: str, message: str) -> None: ...

    def episodes_refusal(self, key: str) -> str | None:
        """Return why the service took no episodes of a run that is recorded without them."""
        ...

    def record_episodes_refusal(self, key: str, message: str) -> None: ...

    def failure(self, key: str) -> str | None:
        """Return why calls with this key fail since the last one that the service took."""
        ...

    def record_failure(self, key: str, error: Exception) -> None: ...
    def forget_failure(self, key: str) -> None: ...

    def blueprint_stats(self, namespace: str, name: str) -> models.BlueprintStats | None:
        """Return the statistics of the last batch; later batches include this Blueprint."""
        ...

    def scope_stats(self, path: str) -> models.ScopeStats | None:
        """Return the statistics of the last batch; later batches include this scope."""
        ...

    def request_refresh(self, namespace: str, blueprint: str | None, *, is_urgent: bool) -> None:
        """Have a Blueprint and the realm's scopes read again; see `RefreshStatistics`."""
        ...


class WriteRefusals(Protocol):
    """Why the API server did not write what a reconcile wrote, by the key of the reconcile.

    In memory only, for one leader session: the next leader tries the write once more.
    """

    def refusal(self, key: ObjectRef) -> str | None:
        """Return why the last reconcile's writes were refused; None when they were accepted."""
        ...

    def failure(self, key: ObjectRef) -> FailedWrite | None:
        """Return the failures since the last writes that were accepted or refused."""
        ...

    def note(self, key: ObjectRef, message: str) -> None: ...
    def note_failure(self, key: ObjectRef, message: str, *, at: datetime) -> None: ...
    def forget(self, key: ObjectRef) -> None: ...
    def clear(self) -> None: ...


@dataclass(frozen=True)
class Placement:
    """Where this operator and the knowledge service are, and what every cell gets.

    Attributes:
        operator_namespace: where the Lease and the outbox live.
        knowledge_url: the service's address as pods reach it (`KNOWLEDGE_SERVICE_URL`).
        watched_namespaces: empty for all of the cluster.
        check_image: the image that checks for files in the workspace of a task's attempt.
        allowed_additions: paths that others may add to our Deployments and Services.
        has_spawn_policy: whether the chart's admission policies record who created a Cell and who
            reviewed a Mission.
        agents: settings for cells with a mind.
        pod_policy: defaults of the pods of cells, and the names that they may use.
    """

    operator_namespace: str
    knowledge_url: str
    watched_namespaces: tuple[str, ...] = ()
    check_image: str = ""
    allowed_additions: tuple[str, ...] = ()
    has_spawn_policy: bool = False
    agents: AgentSettings = NO_AGENTS
    pod_policy: PodPolicy = NO_POLICY


class RunSpans(Protocol):
    """Sends the spans of runs."""

    def record(self, run_id: str, run: models.RunIn, traceparent: str) -> None: ...


@dataclass(frozen=True)
class World:
    """All ports, as `observe` and `apply` receive them; without `run_spans` no traces are sent."""

    cluster: Cluster
    knowledge: Knowledge
    sync_state: KnowledgeSyncState
    renderer: Renderer
    clock: Clock
    placement: Placement
    containers: Containers
    agents: Agents
    write_refusals: WriteRefusals
    run_spans: RunSpans | None = None
