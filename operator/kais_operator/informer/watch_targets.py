"""Which kinds the operator watches, where, and by which labels."""

from __future__ import annotations

from collections.abc import Iterator

from kais import labels
from kais_operator.informer.list_client import WatchTarget

KINDS = (
    "Blueprint",
    "BlueprintRevision",
    "BlueprintInstance",
    "Formation",
    "Cell",
    "Mission",
    "KnowledgeScope",
)
KOPF_KINDS = ("Blueprint", "BlueprintRevision", "KnowledgeScope")
"""The kinds that kopf watches. People declare them for many instances, so events are few."""
INSTANCE_KINDS = tuple(kind for kind in KINDS if kind not in KOPF_KINDS)
"""Instances and the objects of our kinds that they consist of; `child_watches` watches them."""
CHILD_KINDS = (
    "Deployment",
    "Job",
    "Pod",
    "Service",
    "ConfigMap",
    "ServiceAccount",
    "PersistentVolumeClaim",
)
WATCHED_WITHOUT_LABEL = frozenset({"ServiceAccount"})
"""Children that are watched without our label too, but not cached: cells borrow them."""
CHILD_SELECTOR = f"{labels.MANAGED_BY}={labels.MANAGER}"
HEARTBEAT_KIND = "Lease"
"""The kind of the watch heartbeat; its events arrive as all others do, and it is never listed."""


def child_watches(namespaces: tuple[str, ...], *, operator_namespace: str) -> Iterator[WatchTarget]:
    """Yield the watches of instances and their children; kopf watches the other kinds.

    Children of other kinds are watched by our managed-by label, except those that cells borrow.
    """
    for namespace in namespaces or (None,):
        for kind in INSTANCE_KINDS:
            yield WatchTarget(kind, namespace)
        for kind in CHILD_KINDS:
            selector = "" if kind in WATCHED_WITHOUT_LABEL else CHILD_SELECTOR
            yield WatchTarget(kind, namespace, selector)
    if namespaces and operator_namespace not in namespaces:
        yield WatchTarget("ConfigMap", operator_namespace, CHILD_SELECTOR)


def list_targets(namespaces: tuple[str, ...], *, operator_namespace: str) -> Iterator[WatchTarget]:
    """Yield the lists that fill the cache; without namespaces, of the whole cluster.

    Our kinds are listed completely, children by our managed-by label.
    """
    for namespace in namespaces or (None,):
        for kind in KINDS:
            yield WatchTarget(kind, namespace)
        for kind in CHILD_KINDS:
            yield WatchTarget(kind, namespace, CHILD_SELECTOR)
    if namespaces and operator_namespace not in namespaces:
        yield WatchTarget("ConfigMap", operator_namespace, CHILD_SELECTOR)
