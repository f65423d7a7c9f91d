"""Report the operator's requests that the API server denied, according to its Events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kais import labels
from kais_cli.doctor.findings import Finding, failed, ok

if TYPE_CHECKING:
    from kais_cli.ports import Body, Cluster

_MAX_LISTED = 3


def check(cluster: Cluster, namespace: str | None) -> Iterator[Finding]:
    """Report the objects of a namespace, or of all, for which the operator got a 403."""
    messages: dict[str, str] = {}
    for event in sorted(cluster.list("Event", namespace), key=_time):
        involved_object, reason = event["involvedObject"], event.get("reason")
        if not _is_of_operator(event) or not {"kind", "name"} <= involved_object.keys():
            continue  # Events may omit fields that the API server does not require
        place = f"{event['metadata']['namespace']}/" if namespace is None else ""
        name = f"{involved_object['kind']}/{place}{involved_object['name']}"
        if reason == labels.EVENT_FORBIDDEN:
            messages[name] = event.get("message", "")
        elif reason == labels.EVENT_ALLOWED:
            messages.pop(name, None)
    for name in list(messages)[:_MAX_LISTED]:
        yield failed(
            "operator",
            f"the API server refused it on {name}: {messages[name]}",
            "if it lacks a right, helm upgrade kais charts/kais; else raise the quota or change "
            "the admission policy that it names",
        )
    if len(messages) > _MAX_LISTED:
        remainder = f"and on {len(messages) - _MAX_LISTED} more objects"
        selection = f"-n {namespace}" if namespace is not None else "-A"
        yield failed("operator", remainder, f"kubectl get events {selection}")
    if not messages:
        place = namespace or "all namespaces"
        yield ok("operator", f"the API server refused it nothing in {place} within the hour")


def _is_of_operator(event: Body) -> bool:
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    return bool(component == labels.MANAGER_CHILDREN)


def _time(event: Body) -> str:
    return str(event.get("lastTimestamp") or "")
