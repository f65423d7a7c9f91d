"""Find objects of a namespace that need attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kais.conditions import ConditionType
from kais.reasons import Reason
from kais.resources import kinds
from kais_cli.doctor.findings import Finding, ok, warning
from kais_cli.views import quantities

if TYPE_CHECKING:
    from kais_cli.ports import Body, Cluster

_OBSERVATION_TIMEOUT = timedelta(minutes=1)  # the operator reconciles a new object within seconds
_DELETION_TIMEOUT = timedelta(minutes=5)
_MAX_LISTED = 5
_PROGRESSING_REASONS = frozenset(
    {
        Reason.RUNNING, Reason.RECONCILING, Reason.WAITING_FOR_FORMATION, Reason.WAITING_FOR_CELLS,
        Reason.WAITING_FOR_PODS, Reason.NOT_REGISTERED, Reason.CHECKS_PENDING, Reason.RETRYING,
    }
)  # fmt: skip
"""Reasons of a mission that continues by itself; its timeout and start deadline end it."""
_MESSAGE_LIMIT = 200  # arbitrary; a message may have 4,096 characters, and doctor prints lines


@dataclass(frozen=True)
class _Failure:
    """An object that fails, or that does not progress without help."""

    kind: str
    namespace: str
    name: str
    reason: str
    message: str
    since: datetime


def check(cluster: Cluster, namespace: str | None, *, now: datetime) -> Iterator[Finding]:
    """Report objects that no operator has processed, that cannot be deleted, or that fail.

    Without a namespace, check those of all namespaces, and name the namespace of each.

    Objects that fail are counted by reason, the most frequent one first. The worst of a reason is
    the object that has failed for the longest time.
    """
    bodies = [body for kind in kinds.BY_NAME for body in cluster.list(kind, namespace)]
    unobserved = [_ref(body, namespace) for body in bodies if _is_unobserved(body, now)]
    stuck = [_ref(body, namespace) for body in bodies if _is_stuck(body, now)]
    if unobserved:
        yield warning(
            "objects",
            f"not processed yet: {_listed(unobserved)}",
            "check that the operator runs and watches this namespace",
        )
    if stuck:
        yield warning(
            "objects",
            f"deleted more than 5 min ago and still present: {_listed(stuck)}",
            "kubectl describe shows which finalizer waits for what",
        )
    failures = [failure for body in bodies if (failure := _failure(body)) is not None]
    for reason, count in Counter(failure.reason for failure in failures).most_common():
        group = [failure for failure in failures if failure.reason == reason]
        yield _failure_finding(reason, count, group, namespace, now)
    if not unobserved and not stuck and not failures:
        place = namespace or "all namespaces"
        yield ok("objects", f"{len(bodies)} in {place}, none of them stuck or failing")


def _failure_finding(
    reason: str, count: int, group: list[_Failure], namespace: str | None, now: datetime
) -> Finding:
    by_kind = Counter(failure.kind for failure in group)
    counts = " and ".join(f"{n} {kind}{'' if n == 1 else 's'}" for kind, n in by_kind.items())
    worst = min(group, key=lambda failure: failure.since)
    message = worst.message
    if len(message) > _MESSAGE_LIMIT:
        message = f"{message[: _MESSAGE_LIMIT - 1]}…"
    qualifier = "" if count == 1 else "the longest "
    name = worst.name if namespace is not None else f"{worst.namespace}/{worst.name}"
    return warning(
        "objects",
        f"{reason}: {counts}; {qualifier}{worst.kind}/{name}"
        f" for {quantities.format_age(worst.since, now)}: {' '.join(message.split())}",
        f"kubectl describe {worst.kind.lower()} {worst.name} -n {worst.namespace}",
    )


def _failure(body: Body) -> _Failure | None:
    """Read the summary condition of an object; None when it needs no attention."""
    summary = ConditionType.SUCCEEDED if body["kind"] == "Mission" else ConditionType.READY
    for condition in body.get("status", {}).get("conditions", []):
        if condition["type"] == summary and _needs_attention(body["kind"], condition):
            since = datetime.fromisoformat(condition["lastTransitionTime"].replace("Z", "+00:00"))
            metadata = body["metadata"]
            reason, message = condition["reason"], condition.get("message", "")
            namespace, name = metadata["namespace"], metadata["name"]
            return _Failure(body["kind"], namespace, name, reason, message, since)
    return None


def _needs_attention(kind: str, condition: Body) -> bool:
    """Whether a summary is False, or reports that a mission is blocked.

    The summary of a mission is Unknown until it ends. An instance is not ready while its mission
    runs, and the mission reports what blocks it.
    """
    status, reason = condition["status"], condition["reason"]
    if kind == "BlueprintInstance" and reason == Reason.RUNNING:
        return False
    if kind == "Mission" and status == "Unknown":
        return reason not in _PROGRESSING_REASONS
    return bool(status == "False")


def _is_unobserved(body: Body, now: datetime) -> bool:
    observed = body.get("status", {}).get("observedGeneration", 0)
    is_old = _age(body["metadata"].get("creationTimestamp"), now) > _OBSERVATION_TIMEOUT
    return bool(is_old and observed < body["metadata"].get("generation", 1))


def _is_stuck(body: Body, now: datetime) -> bool:
    return _age(body["metadata"].get("deletionTimestamp"), now) > _DELETION_TIMEOUT


def _age(since: str | None, now: datetime) -> timedelta:
    if since is None:
        return timedelta()
    return now - datetime.fromisoformat(since.replace("Z", "+00:00"))


def _ref(body: Body, namespace: str | None) -> str:
    metadata = body["metadata"]
    name = (
        metadata["name"] if namespace is not None else f"{metadata['namespace']}/{metadata['name']}"
    )
    return f"{body['kind']}/{name}"


def _listed(names: list[str]) -> str:
    remainder = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + remainder
