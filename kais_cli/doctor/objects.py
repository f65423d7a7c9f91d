"""Objects of a namespace that somebody has to look at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kais.resources import kinds
from kais_cli.doctor.findings import Finding, ok, warning

if TYPE_CHECKING:
    from kais_cli.ports import Body, Cluster

_UNSEEN = timedelta(minutes=1)  # the operator looks at a new object within seconds
_DELETING = timedelta(minutes=5)
_SHOWN = 5


def check(cluster: Cluster, namespace: str, *, now: datetime) -> Iterator[Finding]:
    """Say which objects nobody has looked at, and which cannot go."""
    bodies = [body for kind in kinds.BY_NAME for body in cluster.list(kind, namespace)]
    unseen = [_ref(body) for body in bodies if _is_unseen(body, now)]
    stuck = [_ref(body) for body in bodies if _is_stuck(body, now)]
    if unseen:
        yield warning(
            "objects",
            f"not looked at yet: {_listed(unseen)}",
            "check that the operator runs and watches this namespace",
        )
    if stuck:
        yield warning(
            "objects",
            f"deleted more than 5 min ago and still here: {_listed(stuck)}",
            "kubectl describe shows which finalizer waits for what",
        )
    if not unseen and not stuck:
        yield ok("objects", f"{len(bodies)} in {namespace}, none of them stuck")


def _is_unseen(body: Body, now: datetime) -> bool:
    observed = body.get("status", {}).get("observedGeneration", 0)
    is_old = _age(body["metadata"].get("creationTimestamp"), now) > _UNSEEN
    return bool(is_old and observed < body["metadata"].get("generation", 1))


def _is_stuck(body: Body, now: datetime) -> bool:
    return _age(body["metadata"].get("deletionTimestamp"), now) > _DELETING


def _age(since: str | None, now: datetime) -> timedelta:
    if since is None:
        return timedelta()
    return now - datetime.fromisoformat(since.replace("Z", "+00:00"))


def _ref(body: Body) -> str:
    return f"{body['kind']}/{body['metadata']['name']}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
