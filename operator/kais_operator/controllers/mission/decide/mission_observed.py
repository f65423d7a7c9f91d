"""The observed state of a Mission: all inputs of its decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kais.approvals import CallApproval
from kais.pod_defaults import NO_POLICY, PodPolicy
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.cell import Cell
from kais.resources.knowledge_scope import KnowledgeScope
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide.attempt_pods import Refusal
from kais_operator.controllers.mission.decide.check_results import Output
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam
from kais_operator.controllers.mission.decide.run_history_annotation import AttemptHistory
from kais_operator.planning import annotation_values
from kais_operator.planning.agent_settings import NO_AGENTS, AgentSettings
from kais_operator.planning.agent_tasks import AgentReply
from kais_operator.planning.children import Parent
from kais_operator.planning.container_results import Process
from kais_operator.planning.cost_reservation_annotation import Account
from kais_operator.planning.failed_write import FailedWrite
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import models


@dataclass(frozen=True)
class Ledger:
    """The known state of the run in the knowledge service.

    Attributes:
        run: the run in the ledger; None when the ledger has none or was not read.
        extraction: its state; None when there is none or it was not read.
        is_opened: this process has recorded the start of the run.
        is_closed: this process has recorded the end of the run.
        is_extraction_accepted: the service has accepted the extraction from this process.
        is_extraction_counted: this process has refreshed the statistics since the extraction ended.
        problem: why the knowledge service did not answer; None when it did.
        refusal: why the service permanently rejects calls about the run.
        failure: why the last call about the run failed, which is repeated; None if it did not.
        episodes_refusal: why the run is recorded without the operator's episodes.
    """

    run: models.RunDetail | None = None
    extraction: models.Extraction | None = None
    is_opened: bool = False
    is_closed: bool = False
    is_extraction_accepted: bool = False
    is_extraction_counted: bool = False
    problem: str | None = None
    refusal: str | None = None
    failure: str | None = None
    episodes_refusal: str | None = None


@dataclass(frozen=True)
class RunningContainer:
    """A container of a ready pod of the entry cell, and the pod's UID."""

    pod: ObjectRef
    name: str
    uid: str


@dataclass(frozen=True)
class AskingPod:
    """The container of an attempt whose calls may wait, and what its command last printed.

    Attributes:
        process: the latest command; None before the first.
        reported: the calls that it printed.
        has_reported: whether it printed its calls, possibly none.
        problem: why its output cannot be used.
    """

    container: RunningContainer
    process: Process | None = None
    reported: tuple[CallApproval, ...] = ()
    has_reported: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class MissionObserved:
    """A Mission with everything that its decision depends on.

    Attributes:
        mission: the object.
        team: the objects that its reference leads to.
        jobs: every Job with the mission's label, and the object with the name of the next Job.
        pods: the pods of these Jobs.
        maps: the object with the name of each Job's knowledge ConfigMap, by the Job's name.
        declared: the KnowledgeScopes of the namespace.
        instance: the instance that created the mission; read while the ledger still needs its
            fields or an attempt is to be started.
        blueprint: name of the Blueprint of the mission's revision; read when the ledger needs it
            and the instance does not have it. Labels shorten long names and those with dots.
        ledger: what is known of the run in the knowledge service.
        refused_pods: why the API server refuses the pod of a Job without one, by the Job's name.
        refused_write: why the API server refused the writes of the last reconcile; None when it
            accepted them, or this process has not tried yet.
        failed_write: the failures of the API server to do these writes; None without one.
        history: the attempts, read from `jobs`, `pods` and the annotation.
        copied: run annotations that were copied from another object; `mission` is without them.
        outputs: the output of the latest attempt's checks as far as needed, by the check's name.
        is_reading: more output is being read; no watch event reports the end of that.
        renderer_problem: why patterns of checks cannot be evaluated; None when they can. No watch
            event reports the end of that either.
        execs: the commands of the checks in a running container, by the check's name.
        has_commands: whether a command of the mission, of any attempt, runs or repeats.
        container: the running container for such checks; None without a ready pod.
        reply: what the entry cell answered about the message of the latest attempt; None if there
            is no such message, or its result is recorded.
        asking_pod: the container of a Task whose tool calls may wait for a person; None without
            one.
        reviewer_pod: the container of the cell that reviews the work; None without a ready pod.
        review_reply: what that cell answered about the message for the review of the latest
            attempt; None if there is no such message, or its result is recorded.
        knowledge_url: the address of the knowledge service as pods reach it.
        check_image: the image with the program that checks for files.
        operator_namespace: the namespace of the outbox.
        agents: settings of the installation for cells with a mind.
        pod_policy: defaults of the installation for the pods of cells.
        has_review_policy: whether the API server confirms who wrote a verdict.
        spending_cell: the entry cell of an ended run whose cost is not counted yet; None if it is
            gone, or nothing is to be counted.
        spending_reviewer: the same for the cell that reviewed the run.
        accounts: where an ended run may have reserved what it could cost.
        has_fresh_team: whether the API server was asked for the formation and then for its cells,
            as a reservation needs it.
        released_runs: runs of other missions that hold a reservation and are over, or gone.
    """

    mission: Mission
    team: MissionTeam = field(default_factory=MissionTeam)
    jobs: Sequence[Body] = ()
    pods: Sequence[Body] = ()
    maps: Mapping[str, Body] = field(default_factory=dict)
    declared: Sequence[KnowledgeScope] = ()
    instance: BlueprintInstance | None = None
    blueprint: str | None = None
    ledger: Ledger = field(default_factory=Ledger)
    refused_pods: Mapping[str, Refusal] = field(default_factory=dict)
    refused_write: str | None = None
    failed_write: FailedWrite | None = None
    history: AttemptHistory = field(default_factory=AttemptHistory)
    copied: Sequence[str] = ()
    outputs: Mapping[str, Output] = field(default_factory=dict)
    is_reading: bool = False
    renderer_problem: str | None = None
    execs: Mapping[str, Process] = field(default_factory=dict)
    has_commands: bool = False
    container: RunningContainer | None = None
    reply: AgentReply | None = None
    asking_pod: AskingPod | None = None
    reviewer_pod: RunningContainer | None = None
    review_reply: AgentReply | None = None
    knowledge_url: str = ""
    check_image: str = ""
    operator_namespace: str = ""
    agents: AgentSettings = NO_AGENTS
    pod_policy: PodPolicy = NO_POLICY
    has_review_policy: bool = False
    spending_cell: Cell | None = None
    spending_reviewer: Cell | None = None
    accounts: Sequence[Account] = ()
    has_fresh_team: bool = False
    released_runs: frozenset[str] = frozenset()


def parent_of(mission: Mission) -> Parent:
    """Return the Mission as the parent of its Jobs."""
    metadata = mission.metadata
    return Parent(
        mission.api_version, mission.kind, metadata.namespace, metadata.name, metadata.uid
    )


def instance_name(mission: Mission) -> str | None:
    """Return the name of the instance that controls a mission; None without one."""
    owner = next((o for o in mission.metadata.owner_references if o.controller), None)
    return owner.name if owner is not None and owner.kind == "BlueprintInstance" else None


def run_id_of(mission: Mission) -> str | None:
    """Return the run-id of a mission; None before its run starts."""
    return annotation_values.run_id(mission.metadata.annotations)


def exec_key(mission: Mission, attempt: int, check: str) -> str:
    """Return the key of one command of a series of checks.

    It contains the UID of the object, because the run-id comes from an annotation: with the run-id
    of another mission, a user could read its results or be evaluated by them.
    """
    return f"{mission.metadata.uid}/{run_id_of(mission)}/{attempt}/{check}"


def ref_of(mission: Mission) -> ObjectRef:
    """Return a reference to a Mission."""
    return ObjectRef(mission.kind, mission.metadata.namespace, mission.metadata.name)
