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
    """Yield the watches of children; kopf watches our kinds.

    Children are watched by our managed-by label, except those that cells borrow.
    """
    for namespace in namespaces or (None,):
        for kind in CHILD_KINDS:
            selector = "" if kind in WATCHED_WITHOUT_LABEL else CHILD_SELECTOR
            yield WatchTarget(kind, namespace, selector)
    if namespaces and operator_namespace not in namespaces:
        yield WatchTarget("ConfigMap", operator_namespace, CHILD_SELECTOR)


def list_targets(namespaces: tuple[str, ...], *, operator_namespace: str) -> Iterator[WatchTarget]:
    """Yield the lists that fill the cache; no namespaces stand for the whole cluster.

    Our kinds are listed whole, children by our managed-by label.
    """
    for namespace in namespaces or (None,):
        for kind in KINDS:
            yield WatchTarget(kind, namespace)
        for kind in CHILD_KINDS:
            yield WatchTarget(kind, namespace, CHILD_SELECTOR)
    if namespaces and operator_namespace not in namespaces:
        yield WatchTarget("ConfigMap", operator_namespace, CHILD_SELECTOR)
