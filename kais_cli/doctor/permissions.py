"""Check the permissions that the commands need in a namespace."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kais.resources import kinds
from kais_cli.doctor.findings import Finding, ok, warning

if TYPE_CHECKING:
    from kais_cli.cluster.install_defaults import Release
    from kais_cli.ports import Cluster

_GROUP = "kais.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_MAX_PURPOSES = 3  # arbitrary; a longer list of purposes says less than the permissions themselves


@dataclass(frozen=True)
class Role:
    """A Role or ClusterRole that grants permissions; `title` is what people call it."""

    kind: str
    name: str
    title: str


_EDIT = Role("clusterrole", "edit", "the role edit")
_VIEW = Role("clusterrole", "view", "the role view")


@dataclass(frozen=True)
class Permission:
    """Verbs on one resource that commands use; `name` limits them to one object."""

    purpose: str
    role: Role
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
    title = f"the Role {release.people} of {release.namespace}"
    role, pod = Role("role", release.people, title), release.knowledge_pod
    purpose = f"reach the knowledge service in {release.namespace}"
    return (
        Permission(purpose, role, ("get",), "pods", "", pod),
        Permission(purpose, role, ("get", "create"), "pods/portforward", "", pod),
    )


def check(cluster: Cluster, namespace: str, release: Release) -> Iterator[Finding]:
    """Report the missing permissions of each namespace, and the role that would grant them."""
    is_complete = True
    for checked_namespace, permissions in (
        (namespace, IN_NAMESPACE),
        (release.namespace, of_release(release)),
    ):
        missing = _missing(cluster, permissions, checked_namespace)
        if missing:
            is_complete = False
            roles = [permission.role for permission in missing]
            role = _EDIT if _EDIT in roles else roles[0]  # edit includes view
            binding = _binding(role, checked_namespace, cluster.user_name())
            message = _describe(missing, checked_namespace)
            yield warning("rights", message, f"ask for {role.title}: {binding}")
    if is_complete:
        yield ok("rights", f"you may do all that kais does in {namespace}")


def _missing(
    cluster: Cluster, permissions: Sequence[Permission], namespace: str
) -> list[Permission]:
    """Return the permissions that the user lacks, with the verbs that are not allowed."""
    denied = [
        replace(
            permission,
            verbs=tuple(
                verb
                for verb in permission.verbs
                if not _is_allowed(cluster, verb, permission, namespace)
            ),
        )
        for permission in permissions
    ]
    return [permission for permission in denied if permission.verbs]


def _describe(missing: Sequence[Permission], namespace: str) -> str:
    """Name the missing permissions, and their purposes if they are few."""
    resources_by_verbs: dict[str, list[str]] = {}
    for permission in missing:
        resources_by_verbs.setdefault(", ".join(permission.verbs), []).append(permission.resource)
    names = "; ".join(
        f"{verbs} {', '.join(resources)}" for verbs, resources in resources_by_verbs.items()
    )
    purposes = list(dict.fromkeys(permission.purpose for permission in missing))
    if len(purposes) > _MAX_PURPOSES:
        return f"you lack rights in {namespace}: {names}"
    return f"you may not {' or '.join(purposes)}: no right to {names}"


def _binding(role: Role, namespace: str, user: str) -> str:
    """Return the command by which an administrator binds a role to the user."""
    account = user.removeprefix(_SERVICE_ACCOUNT)
    subject = f"--user={user}" if account == user else f"--serviceaccount={account}"
    binding = f"{account.rpartition(':')[2]}-{role.name}".replace("/", "-")
    command = ["kubectl", "create", "rolebinding", binding, "-n", namespace]
    return shlex.join([*command, f"--{role.kind}={role.name}", subject])


def _is_allowed(cluster: Cluster, verb: str, permission: Permission, namespace: str) -> bool:
    return cluster.is_allowed(
        verb, permission.resource, namespace=namespace, group=permission.group, name=permission.name
    )
