"""What the API server refuses the operator, as its Events tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kais import labels
from kais_cli.doctor.findings import Finding, failed, ok

if TYPE_CHECKING:
    from kais_cli.ports import Body, Cluster

_SHOWN = 3


def check(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """Report the objects of a namespace on which the operator met a 403."""
    messages: dict[str, str] = {}
    for event in sorted(cluster.list("Event", namespace), key=_time):
        about, reason = event["involvedObject"], event.get("reason")
        if not _is_of_operator(event) or not {"kind", "name"} <= about.keys():
            continue  # Events may omit fields that the API server does not require
        name = f"{about['kind']}/{about['name']}"
        if reason == labels.EVENT_FORBIDDEN:
            messages[name] = event.get("message", "")
        elif reason == labels.EVENT_ALLOWED:
            messages.pop(name, None)
    for name in list(messages)[:_SHOWN]:
        yield failed(
            "operator",
            f"the API server refused it on {name}: {messages[name]}",
            "if it lacks a right, helm upgrade kais charts/kais; else raise the quota or change "
            "the admission policy that it names",
        )
    if len(messages) > _SHOWN:
        more = f"and on {len(messages) - _SHOWN} more objects"
        yield failed("operator", more, f"kubectl get events -n {namespace}")
    if not messages:
        yield ok("operator", f"nothing was refused it in {namespace} within the hour")


def _is_of_operator(event: Body) -> bool:
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    return bool(component == labels.MANAGER_CHILDREN)


def _time(event: Body) -> str:
    return str(event.get("lastTimestamp") or "")
