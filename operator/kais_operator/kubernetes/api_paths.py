"""The paths of the kinds that kais uses in the Kubernetes API.

A fixed table instead of discovery: no request at the start, no cache file, nothing stale after a
CRD changes, and none of the memory of a dynamic client.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from kais_operator.planning.plan import ObjectRef

_KAIS = "kais.io/v1"


@dataclass(frozen=True)
class Resource:
    """The group, version and plural of a kind."""

    api_version: str
    plural: str
    is_namespaced: bool = True

    @property
    def root(self) -> str:
        """The path of the group and version."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}"


_OF_NAMESPACE = 2
"""Parts of a path that name a namespace."""
RESOURCES = {
    "Blueprint": Resource(_KAIS, "blueprints"),
    "BlueprintRevision": Resource(_KAIS, "blueprintrevisions"),
    "BlueprintInstance": Resource(_KAIS, "blueprintinstances"),
    "Formation": Resource(_KAIS, "formations"),
    "Cell": Resource(_KAIS, "cells"),
    "Mission": Resource(_KAIS, "missions"),
    "KnowledgeScope": Resource(_KAIS, "knowledgescopes"),
    "Deployment": Resource("apps/v1", "deployments"),
    "Job": Resource("batch/v1", "jobs"),
    "Pod": Resource("v1", "pods"),
    "Service": Resource("v1", "services"),
    "ConfigMap": Resource("v1", "configmaps"),
    "ServiceAccount": Resource("v1", "serviceaccounts"),
    "PersistentVolumeClaim": Resource("v1", "persistentvolumeclaims"),
    "Event": Resource("v1", "events"),
    "Namespace": Resource("v1", "namespaces", is_namespaced=False),
    "Lease": Resource("coordination.k8s.io/v1", "leases"),
}


def collection(kind: str, namespace: str | None) -> str:
    """Return the path of a kind's objects; None means all namespaces."""
    resource = RESOURCES[kind]
    if not resource.is_namespaced or namespace is None:
        return f"{resource.root}/{resource.plural}"
    return f"{resource.root}/namespaces/{quote(namespace, safe='')}/{resource.plural}"


def resource_of(path: str) -> str:
    """Return the resource in a path, such as `pods` in `/api/v1/namespaces/a/pods/b/log`."""
    parts = path.split("/")
    names = parts[3:] if parts[1] == "api" else parts[4:]
    is_in_namespace = names[0] == "namespaces" and len(names) > _OF_NAMESPACE
    return names[_OF_NAMESPACE] if is_in_namespace else names[0]


def single(ref: ObjectRef) -> str:
    """Return the path of one object."""
    return f"{collection(ref.kind, ref.namespace)}/{quote(ref.name, safe='')}"
