"""Build the Job of one attempt of a Mission: the cell's pod with the attempt's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kais import agent_tools, labels, names, trace_context
from kais.agent_tools import AgentTool
from kais.resources.cell import Cell
from kais.resources.cell_template import Mind, Tool
from kais.resources.check import Check
from kais_operator.controllers.cell.decide import (
    base_pod_spec,
    environment,
    minds,
    pod_field_merge,
    volumes,
)
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity
from kais_operator.controllers.mission.decide import check_pods, cost_gate, termination_message
from kais_operator.controllers.mission.decide.budgets import Spending
from kais_operator.controllers.mission.decide.check_pods import CheckImages
from kais_operator.planning import children
from kais_operator.planning.agent_settings import NO_AGENTS, AgentSettings
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
        agents: settings of the installation for a cell with a mind.
        spending: what is spent, and what budgets leave to this attempt.
        pod_defaults: pod fields of the installation that the cell does not set itself.
        traceparent: the trace of the run; empty for none.
        arm: whether the run gets knowledge.
        calls_since: the first attempt whose tool calls this one continues.
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
    agents: AgentSettings = NO_AGENTS
    spending: Spending = field(default_factory=Spending)
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)
    traceparent: str = ""
    arm: str = "on"
    calls_since: int = 1


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
    needs the Job's UID. A disruption does not count as a failure, so the pod may start twice. Under
    a limit on costs, each pod waits until the operator has decided what it may cost.
    """
    job = names.job_name(parent.name, inputs.attempt)
    carried = {**base_pod_spec.cell_labels(cell), **inputs.labelled}
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
                    "metadata": pod_field_merge.template_metadata(
                        pod_field_merge.with_defaults(cell, inputs.pod_defaults), template_labels
                    ),
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
    if cell.spec.mind is not None and inputs.spending.left is not None:
        cost_gate.close(body, inputs.spending.left)
    return body


def _pod_spec(
    cell: Cell, identity: CellIdentity, *, job: str, inputs: AttemptInputs, knowledge_url: str
) -> Body:
    shaped = pod_field_merge.with_defaults(cell, inputs.pod_defaults)
    mounted = volumes.volumes(cell, identity, knowledge_map=names.knowledge_map_name(job))
    variables = environment.variables(
        cell, identity, knowledge_url=knowledge_url, extra=_task_variables(inputs)
    )
    check_containers = check_pods.containers(
        inputs.checks,
        shaped,
        variables=variables,
        mounted=mounted,
        images=CheckImages(inputs.check_image, inputs.agents.image),
    )
    if cell.spec.mind is not None:
        # Only the runtime gets the key: checks run commands of the mission's author.
        mounted = [*mounted, *minds.volumes(cell.spec.mind, cell.spec.tools)]
        count = 1 + len(check_containers) + len(pod_field_merge.init_containers(shaped))
        mind_variables = _mind_variables(cell.spec.mind, inputs, count, cell.spec.tools)
        variables = environment.variables(
            cell,
            identity,
            knowledge_url=knowledge_url,
            extra={**_task_variables(inputs), **mind_variables},
        )
        if inputs.spending.left is not None:
            variables.append(cost_gate.variable())
    task = base_pod_spec.container(
        shaped,
        base_pod_spec.TASK,
        variables=variables,
        mounted=mounted,
        agent_image=inputs.agents.image,
    )
    spec = base_pod_spec.pod_spec(
        shaped, identity, containers=check_containers or [task], mounted=mounted
    )
    if check_containers:
        # An init container has neither probes nor hooks, unless it is a sidecar.
        task = pod_field_merge.without_running_fields(task)
        spec["initContainers"] = [*spec.get("initContainers", ()), task]
    return {"restartPolicy": "Never", **spec}


def _mind_variables(
    mind: Mind, inputs: AttemptInputs, containers: int, tools: Sequence[Tool]
) -> dict[str, str]:
    """Return the variables of the agent runtime in a pod with this number of containers."""
    limit = termination_message.limit_for(containers)
    amounts = {
        labels.ENV_COST_SPENT: inputs.spending.cell or None,
        labels.ENV_COST_SPENT_HOUR: inputs.spending.cell_hour or None,
    }
    has_board = any(tool.name == AgentTool.BLACKBOARD for tool in tools)
    has_approvals = agent_tools.has_approvals(tools)
    return {
        **({labels.ENV_ARM: inputs.arm} if has_board else {}),
        **({labels.ENV_CALLS_SINCE: str(inputs.calls_since)} if has_approvals else {}),
        **minds.variables(mind, inputs.agents, tools),
        **{name: format(amount, "f") for name, amount in amounts.items() if amount is not None},
        labels.ENV_RESULT_BYTES: str(limit),
    }


def _task_variables(inputs: AttemptInputs) -> dict[str, str]:
    return {
        labels.ENV_MISSION: inputs.mission,
        labels.ENV_RUN_ID: inputs.run_id,
        labels.ENV_ATTEMPT: str(inputs.attempt),
        labels.ENV_OBJECTIVE: inputs.objective,
        labels.ENV_MESSAGE: inputs.message,
        labels.ENV_FEEDBACK: inputs.feedback,
        labels.ENV_KNOWLEDGE_FILE: f"{volumes.KNOWLEDGE_FOLDER}/{labels.KNOWLEDGE_KEY}",
        **({trace_context.ENV_TRACEPARENT: inputs.traceparent} if inputs.traceparent else {}),
    }
