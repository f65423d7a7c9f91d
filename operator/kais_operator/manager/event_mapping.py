"""Which keys a watch event concerns: pure, but for the index that it is given.

one of the seven kinds -> itself, its owner, who waits for it, its realm
a child                -> its owner of ours, else the object that its labels name
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kais import labels
from kais_operator.informer.watch_targets import KINDS
from kais_operator.manager.reference_index import ReferenceIndex
from kais_operator.planning.plan import Body, ObjectRef

REALM = "Realm"
OUTBOX = "Outbox"
_PARENT_LABELS = (
    (labels.MISSION, "Mission"),
    (labels.CELL, "Cell"),
    (labels.FORMATION, "Formation"),
    (labels.INSTANCE, "BlueprintInstance"),
)
"""From the most to the least specific; the first that a child has is the one it concerns."""
COALESCE_S = 0.1
"""Several children of one parent change together: the parent looks once. An arbitrary number."""
STATUS_COALESCE_S = 0.5
"""The same for parents that only tell how their children are: nobody waits for them."""
INSTANCE_COALESCE_S = 1.0
"""And for those above these: by then the formation and the mission have told."""
MESSAGE_COALESCE_S = 3.0
"""And for what only says in other words how it stands, such as a pod that still waits: reasons and
readiness are the same as before."""
PRIORITY_DELAYS_S = {"Cell": 3.0, "Formation": 6.0, "BlueprintInstance": 9.0}
"""So long a look that was not asked for at once lets others go first, while the queue is behind:
what is to be made comes before words about it, and each parent after its children."""
REALM_DELAY_S = 10.0
"""A realm's account is looked after this late after the first sight of the realm."""


def priority_delay_s(key: ObjectRef) -> float:
    """Say how long a later look at a key lets others go first."""
    return PRIORITY_DELAYS_S.get(key.kind, 0.0)


@dataclass(frozen=True)
class ReconcileRequest:
    """A key to look at, and how soon."""

    ref: ObjectRef
    delay_s: float = 0.0


def ref_of(kind: str, body: Body) -> ObjectRef:
    """Name the object of a watch event."""
    metadata = body["metadata"]
    return ObjectRef(kind, metadata.get("namespace") or "", metadata["name"])


def requests_for_event(
    kind: str,
    body: Body,
    *,
    is_deleted: bool,
    reference_index: ReferenceIndex,
    operator_namespace: str,
) -> tuple[ReconcileRequest, ...]:
    """Name the keys that an event of an object concerns, each once, itself first."""
    ref = ref_of(kind, body)
    requests = (
        _requests_for_resource(ref, body, is_deleted=is_deleted, reference_index=reference_index)
        if kind in KINDS
        else _requests_for_child(ref, body, reference_index, operator_namespace)
    )
    earliest: dict[ObjectRef, ReconcileRequest] = {}
    for request in requests:
        previous = earliest.get(request.ref)
        if previous is None or request.delay_s < previous.delay_s:
            earliest[request.ref] = request
    return tuple(earliest.values())


def _requests_for_resource(
    ref: ObjectRef, body: Body, *, is_deleted: bool, reference_index: ReferenceIndex
) -> Iterator[ReconcileRequest]:
    yield ReconcileRequest(ref)
    yield ReconcileRequest(ObjectRef(REALM, "", ref.namespace), REALM_DELAY_S)
    owner = _controller_owner(ref, body) or _labelled_owner(ref, body, reference_index)
    if owner is not None and owner != ref:
        only_message_changed = not is_deleted and reference_index.only_message_changed(ref)
        yield ReconcileRequest(
            owner, MESSAGE_COALESCE_S if only_message_changed else _coalesce_delay_s(owner)
        )
    yield from _requests_for_referrers(ref, owner, reference_index)
    yield from _requests_around_blueprint(
        ref, body, is_deleted=is_deleted, reference_index=reference_index
    )
    if ref.kind == "KnowledgeScope" and is_deleted:
        for scope in reference_index.scopes_in(ref.namespace):
            yield ReconcileRequest(scope, COALESCE_S)


def _requests_for_referrers(
    ref: ObjectRef, owner: ObjectRef | None, reference_index: ReferenceIndex
) -> Iterator[ReconcileRequest]:
    """Route to who waits for the object or, with a cell, for its formation; and who moves."""
    if ref.kind in ("Formation", "Cell", "Blueprint"):
        for target in (ref, owner):
            for referrer in reference_index.referrers(target) if target else ():
                has_attempt = reference_index.has_attempt(referrer)
                yield ReconcileRequest(referrer, STATUS_COALESCE_S if has_attempt else COALESCE_S)
    if ref.kind == "Formation":
        for cell in reference_index.cells_to_register(ref):
            yield ReconcileRequest(cell, COALESCE_S)


def _requests_around_blueprint(
    ref: ObjectRef, body: Body, *, is_deleted: bool, reference_index: ReferenceIndex
) -> Iterator[ReconcileRequest]:
    """A revision concerns its head and who waits for it; an instance that goes, the head."""
    spec = body.get("spec") or {}
    if ref.kind == "BlueprintRevision" and spec.get("blueprint"):
        blueprint = ObjectRef("Blueprint", ref.namespace, spec["blueprint"])
        yield ReconcileRequest(blueprint, COALESCE_S)
        for referrer in reference_index.referrers(blueprint):
            yield ReconcileRequest(referrer, COALESCE_S)
    if ref.kind == "BlueprintInstance" and is_deleted:
        name = (spec.get("blueprintRef") or {}).get("name")
        if name:
            yield ReconcileRequest(ObjectRef("Blueprint", ref.namespace, name), COALESCE_S)


def _requests_for_child(
    ref: ObjectRef, body: Body, reference_index: ReferenceIndex, operator_namespace: str
) -> Iterator[ReconcileRequest]:
    if ref.kind == "ServiceAccount" and ref.name == labels.USER_ACCOUNT:
        yield ReconcileRequest(ObjectRef(REALM, "", ref.namespace))
        return
    for cell in reference_index.borrowers(ref):
        yield ReconcileRequest(cell)
    owner = _controller_owner(ref, body) or _labelled_owner(ref, body, reference_index)
    if owner is not None:
        yield ReconcileRequest(owner, _coalesce_delay_s(owner))
    elif ref.kind == "ConfigMap" and ref.namespace == operator_namespace:
        yield ReconcileRequest(ObjectRef(OUTBOX, ref.namespace, ref.name))


def _coalesce_delay_s(owner: ObjectRef) -> float:
    return {"Formation": STATUS_COALESCE_S, "BlueprintInstance": INSTANCE_COALESCE_S}.get(
        owner.kind, COALESCE_S
    )


def owning_instance(ref: ObjectRef, body: Body) -> ObjectRef | None:
    """Name the use that an object is of, whose pass may still be telling of it."""
    owner = _controller_owner(ref, body)
    return owner if owner is not None and owner.kind == "BlueprintInstance" else None


def _controller_owner(ref: ObjectRef, body: Body) -> ObjectRef | None:
    """Name the controller owner of ours; owners are in the same namespace."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") in KINDS:
            return ObjectRef(owner["kind"], ref.namespace, owner["name"])
    return None


def _labelled_owner(
    ref: ObjectRef, body: Body, reference_index: ReferenceIndex
) -> ObjectRef | None:
    """Name what the most specific label names, unless it is the object's own kind or below it."""
    object_labels = body["metadata"].get("labels") or {}
    if object_labels.get(labels.MANAGED_BY) != labels.MANAGER:
        return None
    for label, kind in _labels_above(ref.kind):
        if object_labels.get(label):
            return reference_index.by_label(kind, ref.namespace, object_labels[label])
    return None


def _labels_above(kind: str) -> tuple[tuple[str, str], ...]:
    levels = {"Mission": 3, "Formation": 3, "Cell": 2, "BlueprintInstance": 4}
    if kind in KINDS:
        return _PARENT_LABELS[levels.get(kind, len(_PARENT_LABELS)) :]
    return _PARENT_LABELS
