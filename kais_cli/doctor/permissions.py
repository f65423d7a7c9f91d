"""Check the permissions that the commands need in a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kais.resources import kinds
from kais_cli.doctor.findings import Finding, ok, warning

if TYPE_CHECKING:
    from kais_cli.cluster.install_defaults import Release
    from kais_cli.ports import Cluster

_GROUP = "kais.io"
_EDIT, _VIEW = "the role edit", "the role view"


@dataclass(frozen=True)
class Permission:
    """Verbs on one resource that commands use; `name` limits them to one object."""

    purpose: str
    role: str
    verbs: tuple[str, ...]
    resource: str
    group: str = ""
    name: str = ""


IN_NAMESPACE = (
    *(
        Permission(f"see {model.PLURAL}", _VIEW, ("get", "list", "watch"), model.PLURAL, _GROUP)
        for model in kinds.BY_NAME.values()
    ),
    Permission("read the logs of missions", _VIEW, ("list",), "pods"),
    Permission("read the logs of missions", _VIEW, ("get",), "pods/log"),
    Permission("use blueprints", _EDIT, ("create",), "blueprintinstances", _GROUP),
    Permission("roll blueprints back", _EDIT, ("patch",), "blueprints", _GROUP),
    Permission("scale formations", _EDIT, ("patch",), "formations", _GROUP),
    Permission("abort, approve and reject missions", _EDIT, ("patch",), "missions", _GROUP),
    Permission("retry instances", _EDIT, ("patch",), "blueprintinstances", _GROUP),
    Permission(
        "ask the knowledge service", _EDIT, ("create",), "serviceaccounts/token", "", "kais-user"
    ),
)
"""The permissions that commands need in the namespace of their objects."""


def of_release(release: Release) -> tuple[Permission, ...]:
    """Return the permissions needed in the release's namespace: read and forward to one pod.

    A port-forward over a WebSocket is a GET, so the API server requires the verb get. From
    Kubernetes 1.35 on it also requires the verb create.
    """
    role, pod = f"the Role {release.people} of {release.namespace}", release.knowledge_pod
    purpose = f"reach the knowledge service in {release.namespace}"
    return (
        Permission(purpose, role, ("get",), "pods", "", pod),
        Permission(purpose, role, ("get", "create"), "pods/portforward", "", pod),
    )


def check(cluster: Cluster, namespace: str, release: Release) -> Iterator[Finding]:
    """Report the missing permissions, and the role that would grant them."""
    missing: dict[tuple[str, str], list[str]] = {}
    for checked_namespace, rights in (
        (namespace, IN_NAMESPACE),
        (release.namespace, of_release(release)),
    ):
        for permission in rights:
            for verb in permission.verbs:
                if not _is_allowed(cluster, verb, permission, checked_namespace):
                    key = (permission.purpose, permission.role)
                    missing.setdefault(key, []).append(f"{verb} {permission.resource}")
    for (purpose, role), verbs in missing.items():
        message = f"you may not {purpose}: no right to {', '.join(verbs)}"
        yield warning("rights", message, f"ask for {role}")
    if not missing:
        yield ok("rights", f"you may do all that kais does in {namespace}")


def _is_allowed(cluster: Cluster, verb: str, permission: Permission, namespace: str) -> bool:
    return cluster.is_allowed(
        verb, permission.resource, namespace=namespace, group=permission.group, name=permission.name
    )
