"""Decide what each pod of an attempt may cost, so that together they keep to its limit.

    Job created      -> its pods have a scheduling gate, and an annotation with the limit
    a pod is gated   -> record it, then annotate what earlier pods have left, and open the gate
    nothing is left  -> the attempt has spent its limit, and the pod never starts

The Job controller replaces a pod that was evicted. A pod whose gate is open counts as having spent
all that it may cost, until it is seen to have ended. `attempt_record` keeps what the pods reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from kais import labels
from kais.agent_results import AgentUsage
from kais.resources.field_types import rfc3339
from kais_operator.controllers.cell.decide import base_pod_spec
from kais_operator.controllers.mission.decide import attempt_pods, mind_usage
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body, ObjectRef, PatchSpec


@dataclass(frozen=True)
class LimitedPods:
    """The pods of an attempt under a limit on costs, as observed.

    Attributes:
        limit: what the attempt may cost, in US dollars.
        gated: the pod that waits for its limit; None without one.
        is_working: whether an earlier pod has not ended.
        not_started: UIDs of the pods whose task has not started.
    """

    limit: Decimal
    gated: Body | None = None
    is_working: bool = False
    not_started: frozenset[str] = frozenset()

    @property
    def gated_uid(self) -> str | None:
        """The UID of the pod that waits for its limit; None without one."""
        return str(self.gated["metadata"]["uid"]) if self.gated is not None else None

    def left(self, usages: Mapping[str, AgentUsage | None]) -> Decimal:
        """Return what the other pods of the attempt have left, by their usages."""
        if self._has_lost_report(usages):
            return Decimal(0)
        spent = mind_usage.total(self._others(usages)) or AgentUsage()
        return max(Decimal(0), self.limit - spent.cost)

    def is_used_up(self, usages: Mapping[str, AgentUsage | None]) -> bool:
        """Whether nothing is left for the gated pod. A limit of 0 allows free models."""
        return self._is_due() and self.limit > 0 and self.left(usages) == 0

    def is_opened(self, usages: Mapping[str, AgentUsage | None]) -> bool:
        """Whether the gated pod may start."""
        return self._is_due() and not self.is_used_up(usages)

    def used_up_message(self, usages: Mapping[str, AgentUsage | None]) -> str:
        """Describe why the gated pod does not start."""
        amount = f"${self.limit.normalize():f}"
        reason = f"its earlier pods have spent the {amount} that it may cost"
        if self._has_lost_report(usages):
            reason = (
                "the report of an earlier pod is lost, so all of the "
                f"{amount} that it may cost counts as spent"
            )
        return f"the pod that replaces a disrupted one was not started: {reason}"

    def _is_due(self) -> bool:
        return self.gated is not None and not self.is_working

    def _others(self, usages: Mapping[str, AgentUsage | None]) -> list[AgentUsage | None]:
        return [usage for uid, usage in usages.items() if uid != self.gated_uid]

    def _has_lost_report(self, usages: Mapping[str, AgentUsage | None]) -> bool:
        return None in self._others(usages)


def close(job: Body, limit: Decimal) -> None:
    """Add the gate and the limit of an attempt to the pod template of its Job."""
    template = job["spec"]["template"]
    annotations = template["metadata"].setdefault("annotations", {})
    annotations[labels.MAX_COST] = format(limit, "f")
    template["spec"]["schedulingGates"] = [{"name": labels.COST_LIMIT_GATE}]


def variable() -> Body:
    """Return the variable with the limit of a pod, which is read when its container starts."""
    field = {"fieldPath": f"metadata.annotations['{labels.MAX_COST}']"}
    return {"name": labels.ENV_MAX_COST, "valueFrom": {"fieldRef": field}}


def limit_of(job: Body) -> Decimal | None:
    """Return the limit of an attempt whose pods have a gate; None for other Jobs."""
    template = (job.get("spec") or {}).get("template") or {}
    gates = (template.get("spec") or {}).get("schedulingGates") or ()
    if not any(gate["name"] == labels.COST_LIMIT_GATE for gate in gates):
        return None
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        return annotation_values.parse_cost(annotations.get(labels.MAX_COST) or "0")
    except ValueError:
        return Decimal(0)  # a webhook changed the Job


def observe(job: Body, pods: Sequence[Body]) -> LimitedPods | None:
    """Read the pods of a Job, oldest first; None if they have no gate."""
    limit = limit_of(job)
    if limit is None:
        return None
    gated = [pod for pod in pods if _is_gated(pod)]
    waiting = [pod for pod in gated if not pod["metadata"].get("deletionTimestamp")]
    return LimitedPods(
        limit,
        gated=waiting[-1] if waiting else None,
        is_working=any(pod not in gated and not attempt_pods.has_ended(pod) for pod in pods),
        not_started=frozenset(pod["metadata"]["uid"] for pod in pods if not _is_started(pod)),
    )


def open_gate(
    limited: LimitedPods, usages: Mapping[str, AgentUsage | None], now: datetime
) -> PatchSpec | None:
    """Choose the write that lets a pod start with what is left; None if none is due."""
    pod = limited.gated
    if pod is None or not limited.is_opened(usages):
        return None
    metadata = pod["metadata"]
    others = [gate for gate in pod["spec"]["schedulingGates"] if not _is_ours(gate)]
    ref = ObjectRef("Pod", metadata["namespace"], metadata["name"])
    return PatchSpec(
        ref,
        metadata["resourceVersion"],
        {"schedulingGates": others or None},
        {
            labels.MAX_COST: format(limited.left(usages), "f"),
            labels.GATE_OPENED_AT: rfc3339(now),
        },
        blocked=f"{ref} waits, because its scheduling gate {labels.COST_LIMIT_GATE} could not be "
        "removed",
        remedy="allow the operator to patch pods, or correct the admission webhook or policy that "
        "refuses it; the operator tries again",
    )


def opened_at(pod: Body) -> datetime | None:
    """Return when the gate of a pod was opened; None if it has none, or someone edited the time."""
    annotations = pod["metadata"].get("annotations") or {}
    try:
        return annotation_values.time(annotations.get(labels.GATE_OPENED_AT))
    except ValueError:
        return None


def was_free(job: Body, pod: Body) -> bool:
    """Whether a pod of an attempt under a limit never starts its task, or never started it."""
    return limit_of(job) is not None and never_starts(pod)


def never_starts(pod: Body) -> bool:
    """Whether a pod has not started its task and will not.

    A gate is not opened any more when its pod is being deleted.
    """
    is_deleted_gated = _is_gated(pod) and "deletionTimestamp" in pod["metadata"]
    return (is_deleted_gated or attempt_pods.has_ended(pod)) and not _is_started(pod)


def may_work(pod: Body) -> bool:
    """Whether a pod may use its workspace now or later, if its Job is gone.

    Nobody opens the gate of such a pod, and nothing may delete it.
    """
    return not (attempt_pods.has_ended(pod) or _is_gated(pod))


def _is_gated(pod: Body) -> bool:
    return any(_is_ours(gate) for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def _is_ours(gate: Body) -> bool:
    return bool(gate["name"] == labels.COST_LIMIT_GATE)


def _is_started(pod: Body) -> bool:
    return attempt_pods.has_started(pod, base_pod_spec.TASK)
