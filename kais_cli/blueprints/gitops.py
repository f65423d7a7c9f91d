"""Which tool applies an object again from a source, and so undoes a change made in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kais_cli.ports import Body

_LABELS = {
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
_ANNOTATIONS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "meta.helm.sh/release-name": "Helm",
}
_FIELD_MANAGERS = {
    "argocd-controller": "Argo CD",
    "argocd-application-controller": "Argo CD",
    "kustomize-controller": "Flux",
    "helm-controller": "Flux",
    "fleet": "Fleet",
    "helm": "Helm",
}


def manager_of(body: Body) -> str | None:
    """Return the tool that manages an object, by its labels, annotations and field managers."""
    metadata = body["metadata"]
    managers = (entry.get("manager", "") for entry in metadata.get("managedFields") or ())
    for names, known_managers in (
        (metadata.get("labels") or {}, _LABELS),
        (metadata.get("annotations") or {}, _ANNOTATIONS),
        (managers, _FIELD_MANAGERS),
    ):
        for name in names:
            if name in known_managers:
                return known_managers[name]
    return None
