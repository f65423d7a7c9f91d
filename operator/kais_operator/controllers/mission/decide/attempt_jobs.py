"""Build the Job of one attempt of a Mission: the cell's pod with the attempt's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kais import labels, names
from kais.resources.cell import Cell
from kais.resources.check import Check
from kais_operator.controllers.cell.decide import environment, pods, volumes
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.controllers.mission.decide import check_pods
from kais_operator.planning import children
from kais_operator.planning.children import Parent
from kais_operator.planning.plan import Body

JOB_LATER_S = 90
"""Seconds between the deadline of a pod and that of its Job; the pod has 30 s to end."""


@dataclass(frozen=True)
class AttemptInputs:
    """The inputs of a task's attempt, besides the identity of its cell.

    Attributes:
        labelled: labels that the mission passes on to its Jobs and their pods.
        checks: checks that run in further containers of the pod.
        check_image: the image of the containers that check for files.
    """

    mission: str
    run_id: str
    attempt: int
    objective: str
    message: str = ""
    feedback: str = ""
    labelled: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    check_image: str = ""


def attempt_job(
    parent: Parent,
    cell: Cell,
    identity: CellIdentity,
    *,
    inputs: AttemptInputs,
    knowledge_url: str,
    seconds: int,
) -> Body:
    """Build the Job of one attempt, which may run for at most `seconds`.

    The pod has this deadline too, and the deadline of the Job is a little later. The kubelet keeps
    a pod that exceeds its deadline, so its status can still be read; the Job controller deletes it.

    The pod waits for the ConfigMap with its knowledge, which is created after the Job because it
    needs the Job's UID. A disruption does not count as a failure, so the pod may start twice.
    """
    job = names.job_name(parent.name, inputs.attempt)
    carried = {**pods.cell_labels(cell), **inputs.labelled}
    template_labels = {**carried, **parent.label()}
    body = children.child_body(
        parent,
        api_version="batch/v1",
        kind="Job",
        name=job,
        labelled=carried,
        content={
            "spec": {
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "Ignore",
                            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                        }
                    ]
                },
                "activeDeadlineSeconds": max(1, seconds) + JOB_LATER_S,
                "template": {
                    "metadata": {"labels": template_labels},
                    "spec": {
                        **_pod_spec(
                            cell, identity, job=job, inputs=inputs, knowledge_url=knowledge_url
                        ),
                        "activeDeadlineSeconds": max(1, seconds),
                    },
                },
            }
        },
    )
    body["metadata"]["annotations"] = {
        labels.ATTEMPT: str(inputs.attempt),
        labels.RUN_ID: inputs.run_id,
    }
    return body


def _pod_spec(
    cell: Cell, identity: CellIdentity, *, job: str, inputs: AttemptInputs, knowledge_url: str
) -> Body:
    mounted = volumes.volumes(cell, identity, knowledge_map=names.knowledge_map_name(job))
    variables = environment.variables(
        cell, identity, knowledge_url=knowledge_url, extra=_task_variables(inputs)
    )
    task = pods.container(cell, pods.TASK, variables=variables, mounted=mounted)
    check_containers = check_pods.containers(
        inputs.checks, cell, variables=variables, mounted=mounted, image=inputs.check_image
    )
    spec = pods.pod_spec(cell, identity, containers=check_containers or [task], mounted=mounted)
    first = {"initContainers": [task]} if check_containers else {}
    return {"restartPolicy": "Never", **spec, **first}


def _task_variables(inputs: AttemptInputs) -> dict[str, str]:
    return {
        labels.ENV_MISSION: inputs.mission,
        labels.ENV_RUN_ID: inputs.run_id,
        labels.ENV_ATTEMPT: str(inputs.attempt),
        labels.ENV_OBJECTIVE: inputs.objective,
        labels.ENV_MESSAGE: inputs.message,
        labels.ENV_FEEDBACK: inputs.feedback,
        labels.ENV_KNOWLEDGE_FILE: f"{volumes.KNOWLEDGE_FOLDER}/{labels.KNOWLEDGE_KEY}",
    }
