"""A Mission as one look found it: everything that its decision stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kais import labels
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.knowledge_scope import KnowledgeScope
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide.attempts_annotation import AttemptHistory
from kais_operator.controllers.mission.decide.check_rules import Output
from kais_operator.controllers.mission.decide.entrypoint import MissionTeam
from kais_operator.planning import annotation_values
from kais_operator.planning.children import Parent
from kais_operator.planning.container_results import Process
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import models


@dataclass(frozen=True)
class Ledger:
    """What is known of the run in the store.

    Attributes:
        run: as the ledger has it; None when it has none or was not asked.
        extraction: its state; None when there is none or it was not asked for.
        is_opened: this process told the ledger of the run's opening.
        is_closed: this process told the ledger of the run's end.
        is_extraction_accepted: this process was told that the extraction is taken over.
        is_extraction_counted: this process had the statistics read since the extraction was done.
        problem: why the store did not answer; None when it did.
        refusal: why the store refuses for good what it is told of the run.
    """

    run: models.Run | None = None
    extraction: models.Extraction | None = None
    is_opened: bool = False
    is_closed: bool = False
    is_extraction_accepted: bool = False
    is_extraction_counted: bool = False
    problem: str | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class RunningContainer:
    """A container of a ready pod of the entry cell, and the pod's UID."""

    pod: ObjectRef
    name: str
    uid: str


@dataclass(frozen=True)
class MissionObserved:
    """A Mission and its surroundings.

    Attributes:
        mission: the object.
        team: what its reference led to.
        jobs: every Job that carries the mission's label, and what stands under the next name.
        pods: the pods of these Jobs.
        maps: what stands under the name of each Job's knowledge map, by the Job's name.
        declared: the KnowledgeScopes of the namespace.
        instance: the instance that made the mission, where the ledger still needs its words or an
            attempt is to be started.
        ledger: what is known of the run in the store.
        refused_pods: why the API server refuses the pod of a Job without one, by the Job's name.
        refused_write: why the API server refused what the last reconcile wrote; None when it took
            it, or this process has not tried yet.
        history: the attempts, read from `jobs`, `pods` and the annotation.
        copied: annotations of the run of another object, which this one was copied from; `mission`
            is without them.
        outputs: what the checks of the latest attempt printed, by the check's name, as far as it
            was needed.
        is_reading: more of it is needed, and is being read; no watch event tells of its end.
        renderer_problem: why patterns of its checks cannot be looked for; None when they can. No
            watch event tells of its end either.
        execs: the commands of a round of checks in a running container, by the check's name.
        has_commands: a command of the mission runs in a container, of whatever attempt.
        container: the running container that such a round is done in; None without a ready pod.
        knowledge_url: the store's address as pods reach it.
        check_image: the image whose program looks for files.
        operator_namespace: where an outbox goes.
    """

    mission: Mission
    team: MissionTeam = field(default_factory=MissionTeam)
    jobs: Sequence[Body] = ()
    pods: Sequence[Body] = ()
    maps: Mapping[str, Body] = field(default_factory=dict)
    declared: Sequence[KnowledgeScope] = ()
    instance: BlueprintInstance | None = None
    ledger: Ledger = field(default_factory=Ledger)
    refused_pods: Mapping[str, str] = field(default_factory=dict)
    refused_write: str | None = None
    history: AttemptHistory = field(default_factory=AttemptHistory)
    copied: Sequence[str] = ()
    outputs: Mapping[str, Output] = field(default_factory=dict)
    is_reading: bool = False
    renderer_problem: str | None = None
    execs: Mapping[str, Process] = field(default_factory=dict)
    has_commands: bool = False
    container: RunningContainer | None = None
    knowledge_url: str = ""
    check_image: str = ""
    operator_namespace: str = ""


def parent_of(mission: Mission) -> Parent:
    """Give the Mission as the parent of its Jobs."""
    metadata = mission.metadata
    return Parent(
        mission.api_version, mission.kind, metadata.namespace, metadata.name, metadata.uid
    )


def run_id_of(mission: Mission) -> str | None:
    """Give the run that a mission has begun; None before it."""
    return annotation_values.run_id(mission.metadata.annotations)


def exec_key(mission: Mission, attempt: int, check: str) -> str:
    """Name one command of one round of checks.

    By the object too: a run-id stands in an annotation, and another mission's could be written
    there to read its results, or to be judged in its place.
    """
    return f"{mission.metadata.uid}/{run_id_of(mission)}/{attempt}/{check}"


def ref_of(mission: Mission) -> ObjectRef:
    """Name a Mission."""
    return ObjectRef(mission.kind, mission.metadata.namespace, mission.metadata.name)


def is_held(mission: Mission) -> bool:
    """Whether the finalizer keeps the object until its run is recorded."""
    return labels.FINALIZER in mission.metadata.finalizers
