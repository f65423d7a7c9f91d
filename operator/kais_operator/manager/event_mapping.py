"""Which keys a watch event concerns: pure, but for the index that it is given.

one of the seven kinds -> itself, its owner, who waits for it, its realm
a child                -> its owner of ours, else the object that its labels name
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kais import labels
from kais_operator.informer.watch_targets import KINDS
from kais_operator.manager.reference_index import References
from kais_operator.planning.plan import Body, ObjectRef

REALM = "Realm"
OUTBOX = "Outbox"
_BY_LABEL = (
    (labels.MISSION, "Mission"),
    (labels.CELL, "Cell"),
    (labels.FORMATION, "Formation"),
    (labels.INSTANCE, "BlueprintInstance"),
)
"""From the most to the least specific; the first that a child has is the one it concerns."""
SETTLE_S = 0.1
"""Several children of one parent change together: the parent looks once. An arbitrary number."""
TOLD_S = 0.5
"""The same for parents that only tell how their children are: nobody waits for them."""
LAST_TOLD_S = 1.0
"""And for those above these: by then the formation and the mission have told."""
REWORDED_S = 3.0
"""And for what only says in other words how it stands, such as a pod that still waits: reasons and
readiness are the same as before."""
PATIENCE_S = {"Cell": 3.0, "Formation": 6.0, "BlueprintInstance": 9.0}
"""So long a look that was not asked for at once lets others go first, while the queue is behind:
what is to be made comes before words about it, and each parent after its children."""
REALM_S = 10.0
"""A realm's account is looked after this late after the first sight of the realm."""


def patience_s(key: ObjectRef) -> float:
    """Say how long a later look at a key lets others go first."""
    return PATIENCE_S.get(key.kind, 0.0)


@dataclass(frozen=True)
class Route:
    """A key to look at, and how soon."""

    ref: ObjectRef
    after_s: float = 0.0


def ref_of(kind: str, body: Body) -> ObjectRef:
    """Name the object of a watch event."""
    metadata = body["metadata"]
    return ObjectRef(kind, metadata.get("namespace") or "", metadata["name"])


def routes(
    kind: str, body: Body, *, is_gone: bool, references: References, operator_namespace: str
) -> tuple[Route, ...]:
    """Name the keys that an event of an object concerns, each once, itself first."""
    ref = ref_of(kind, body)
    found = (
        _of_ours(ref, body, is_gone=is_gone, references=references)
        if kind in KINDS
        else _of_child(ref, body, references, operator_namespace)
    )
    earliest: dict[ObjectRef, Route] = {}
    for route in found:
        known = earliest.get(route.ref)
        if known is None or route.after_s < known.after_s:
            earliest[route.ref] = route
    return tuple(earliest.values())


def _of_ours(
    ref: ObjectRef, body: Body, *, is_gone: bool, references: References
) -> Iterator[Route]:
    yield Route(ref)
    yield Route(ObjectRef(REALM, "", ref.namespace), REALM_S)
    owner = _owner(ref, body) or _by_labels(ref, body, references)
    if owner is not None and owner != ref:
        is_reworded = not is_gone and references.is_reworded(ref)
        yield Route(owner, REWORDED_S if is_reworded else _settling(owner))
    yield from _waiting(ref, owner, references)
    yield from _around_blueprints(ref, body, is_gone=is_gone, references=references)
    if ref.kind == "KnowledgeScope" and is_gone:
        for scope in references.scopes_in(ref.namespace):
            yield Route(scope, SETTLE_S)


def _waiting(ref: ObjectRef, owner: ObjectRef | None, references: References) -> Iterator[Route]:
    """Route to who waits for the object or, with a cell, for its formation; and who moves."""
    if ref.kind in ("Formation", "Cell", "Blueprint"):
        for target in (ref, owner):
            for waiting in references.referrers(target) if target else ():
                begun = references.is_under_way(waiting)
                yield Route(waiting, TOLD_S if begun else SETTLE_S)
    if ref.kind == "Formation":
        for cell in references.cells_to_register(ref):
            yield Route(cell, SETTLE_S)


def _around_blueprints(
    ref: ObjectRef, body: Body, *, is_gone: bool, references: References
) -> Iterator[Route]:
    """A revision concerns its head and who waits for it; an instance that goes, the head."""
    spec = body.get("spec") or {}
    if ref.kind == "BlueprintRevision" and spec.get("blueprint"):
        head = ObjectRef("Blueprint", ref.namespace, spec["blueprint"])
        yield Route(head, SETTLE_S)
        for waiting in references.referrers(head):
            yield Route(waiting, SETTLE_S)
    if ref.kind == "BlueprintInstance" and is_gone:
        name = (spec.get("blueprintRef") or {}).get("name")
        if name:
            yield Route(ObjectRef("Blueprint", ref.namespace, name), SETTLE_S)


def _of_child(
    ref: ObjectRef, body: Body, references: References, operator_namespace: str
) -> Iterator[Route]:
    if ref.kind == "ServiceAccount" and ref.name == labels.USER_ACCOUNT:
        yield Route(ObjectRef(REALM, "", ref.namespace))
        return
    for cell in references.borrowers(ref):
        yield Route(cell)
    owner = _owner(ref, body) or _by_labels(ref, body, references)
    if owner is not None:
        yield Route(owner, _settling(owner))
    elif ref.kind == "ConfigMap" and ref.namespace == operator_namespace:
        yield Route(ObjectRef(OUTBOX, ref.namespace, ref.name))


def _settling(owner: ObjectRef) -> float:
    return {"Formation": TOLD_S, "BlueprintInstance": LAST_TOLD_S}.get(owner.kind, SETTLE_S)


def maker(ref: ObjectRef, body: Body) -> ObjectRef | None:
    """Name the use that an object is of, whose pass may still be telling of it."""
    owner = _owner(ref, body)
    return owner if owner is not None and owner.kind == "BlueprintInstance" else None


def _owner(ref: ObjectRef, body: Body) -> ObjectRef | None:
    """Name the controller owner of ours; owners are in the same namespace."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") in KINDS:
            return ObjectRef(owner["kind"], ref.namespace, owner["name"])
    return None


def _by_labels(ref: ObjectRef, body: Body, references: References) -> ObjectRef | None:
    """Name what the most specific label names, unless it is the object's own kind or below it."""
    told = body["metadata"].get("labels") or {}
    if told.get(labels.MANAGED_BY) != labels.MANAGER:
        return None
    for label, kind in _above(ref.kind):
        if told.get(label):
            return references.by_label(kind, ref.namespace, told[label])
    return None


def _above(kind: str) -> tuple[tuple[str, str], ...]:
    levels = {"Mission": 3, "Formation": 3, "Cell": 2, "BlueprintInstance": 4}
    if kind in KINDS:
        return _BY_LABEL[levels.get(kind, len(_BY_LABEL)) :]
    return _BY_LABEL
