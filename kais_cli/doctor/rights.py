"""What the kubeconfig's user may do in a namespace, as far as the commands need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kais_cli.doctor.findings import Finding, ok, warning

if TYPE_CHECKING:
    from kais_cli.ports import Cluster

_GROUP = "kais.io"
_NEEDED = (
    ("list", "blueprints", _GROUP, "see blueprints", "the role view"),
    ("create", "blueprintinstances", _GROUP, "use blueprints", "the role edit"),
    ("patch", "missions", _GROUP, "abort, approve and reject missions", "the role edit"),
    ("create", "serviceaccounts/token", "", "ask the knowledge service", "the role edit"),
)


def check(cluster: Cluster, namespace: str, *, service_namespace: str) -> Iterator[Finding]:
    """Say what the user may not do, and which role would allow it."""
    lacking = [
        (what, role)
        for verb, resource, group, what, role in _NEEDED
        if not cluster.may(verb, resource, namespace=namespace, group=group)
    ]
    if not cluster.may("create", "pods/portforward", namespace=service_namespace):
        role = f"create on pods/portforward in {service_namespace}"
        lacking.append(("reach the knowledge service", role))
    for what, role in lacking:
        yield warning("rights", f"you may not {what} in {namespace}", f"ask for {role}")
    if not lacking:
        yield ok("rights", f"you may do all that kais does in {namespace}")
