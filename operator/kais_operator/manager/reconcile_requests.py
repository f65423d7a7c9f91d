"""Maps a watch event to the keys to reconcile; reads nothing but the event and an index.

an object of our kinds -> itself, its owner, objects that wait for it, its realm
a child                -> its owner of our kinds, otherwise the object that its labels name
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from kais import labels
from kais_operator.controllers.outbox.decide import outbox
from kais_operator.informer.watch_targets import KINDS
from kais_operator.manager.reference_index import ReferenceIndex, reports_ready
from kais_operator.planning.plan import Body, ObjectRef

REALM = "Realm"
OUTBOX = "Outbox"
_PARENT_LABELS = (
    (labels.MISSION, "Mission"),
    (labels.CELL, "Cell"),
    (labels.FORMATION, "Formation"),
    (labels.INSTANCE, "BlueprintInstance"),
)
"""From the most to the least specific label; the first one that a child has names its parent."""
COALESCE_S = 0.1
"""Changes of several children within this time cause one reconcile of the parent. Arbitrary."""
STATUS_COALESCE_S = 0.5
"""The same for parents that only report the state of their children: nothing waits for them."""
FIRST_STATUS_COALESCE_S = 2.5
"""The same for a cell whose pod starts and whose first status is held back until about then."""
WAITING_COALESCE_S = 1.0
"""The same for cells that are not ready, of which a formation can only report that it waits."""
INSTANCE_COALESCE_S = 1.0
"""The same for instances: by then the formation and the mission have written their status."""
MESSAGE_COALESCE_S = 3.0
"""The same for a change of messages only, such as a pod that still waits: reasons and readiness are
the same as before."""
PRIORITY_DELAYS_S = {"Cell": 3.0, "Formation": 6.0, "BlueprintInstance": 9.0}
"""How far a delayed reconcile ranks behind others while the queue is behind: creating objects comes
before reporting on them, and parents come after their children."""
STARTING_PRIORITY_DELAY_S = 20.0
"""The same for a cell whose pod is starting: while there is a backlog, its status would only wait
for the end of it (`debounce`)."""
UNDER_WAY_LEAD_S = 30.0
"""How far a mission with an attempt ranks ahead of others: its end is reported before other
missions start. Otherwise their tasks would wait for the operator too. Bounded, so nothing
starves. Missions whose cell does not answer rank like others."""
REALM_DELAY_S = 10.0
"""Delay of a realm's reconcile after events in the realm, except for the first."""


def priority_delay_s(key: ObjectRef, delay_s: float, reference_index: ReferenceIndex) -> float:
    """Return how far a reconcile of the key, due in `delay_s`, ranks behind others."""
    if reference_index.is_under_way(key):
        return -UNDER_WAY_LEAD_S
    if key.kind == "Cell" and delay_s > COALESCE_S:
        return STARTING_PRIORITY_DELAY_S
    return PRIORITY_DELAYS_S.get(key.kind, 0.0) if delay_s > 0 else 0.0


@dataclass(frozen=True)
class ReconcileRequest:
    """A key to reconcile, and after which delay."""

    ref: ObjectRef
    delay_s: float = 0.0


def ref_of(kind: str, body: Body) -> ObjectRef:
    """Return the reference to the object of a watch event; its strings are shared with others."""
    metadata = body["metadata"]
    namespace, name = metadata.get("namespace") or "", metadata["name"]
    return ObjectRef(sys.intern(kind), sys.intern(namespace), sys.intern(name))


def requests_for_event(
    kind: str,
    body: Body,
    *,
    is_deleted: bool,
    reference_index: ReferenceIndex,
    operator_namespace: str,
) -> tuple[ReconcileRequest, ...]:
    """Return a request for each key that an event concerns, the object's own key first."""
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
        delay_s = _coalesce_delay_s(owner)
        if not is_deleted and reference_index.only_message_changed(ref):
            delay_s = MESSAGE_COALESCE_S
        elif not is_deleted and ref.kind == "Cell" and not reports_ready(body):
            delay_s = max(delay_s, WAITING_COALESCE_S)
        yield ReconcileRequest(owner, delay_s)
    yield from _requests_for_referrers(ref, owner, reference_index)
    if ref.kind == "Mission" and is_deleted:
        for account in _accounts_of(ref, body, reference_index):
            yield ReconcileRequest(account, COALESCE_S)
    yield from _requests_around_blueprint(
        ref, body, is_deleted=is_deleted, reference_index=reference_index
    )
    if ref.kind == "KnowledgeScope" and is_deleted:
        for scope in reference_index.scopes_in(ref.namespace):
            yield ReconcileRequest(scope, COALESCE_S)


def _accounts_of(
    mission: ObjectRef, body: Body, reference_index: ReferenceIndex
) -> Iterator[ObjectRef]:
    """Yield the objects on which a mission may have reserved costs."""
    spec = body.get("spec") or {}
    if spec.get("formationRef"):
        yield ObjectRef("Formation", mission.namespace, spec["formationRef"])
    if spec.get("cellRef"):
        cell = ObjectRef("Cell", mission.namespace, spec["cellRef"])
        formation = reference_index.formation_of(cell)
        yield from (cell,) if formation is None else (cell, formation)


def _requests_for_referrers(
    ref: ObjectRef, owner: ObjectRef | None, reference_index: ReferenceIndex
) -> Iterator[ReconcileRequest]:
    """Yield the objects that refer to this one or its owner, and cells whose scope changed."""
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
    """Yield a revision's Blueprint with its referrers, and the Blueprint of a deleted instance."""
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
        yield ReconcileRequest(owner, _child_delay_s(owner, ref, body, reference_index))
    elif ref.kind == "ConfigMap" and ref.namespace == operator_namespace:
        yield ReconcileRequest(ObjectRef(OUTBOX, ref.namespace, ref.name))
        for deleted_scope in outbox.deleted_scopes(body):
            realm = deleted_scope.realm or operator_namespace
            for scope in reference_index.scopes_in(realm):
                yield ReconcileRequest(scope)


def _child_delay_s(
    owner: ObjectRef, ref: ObjectRef, body: Body, reference_index: ReferenceIndex
) -> float:
    may_wait = owner.kind == "Cell" and not reference_index.is_ready(owner)
    if may_wait and _is_starting(ref, body):
        is_first = reference_index.is_unreported(owner)
        return FIRST_STATUS_COALESCE_S if is_first else STATUS_COALESCE_S
    return _coalesce_delay_s(owner)


def _is_starting(ref: ObjectRef, body: Body) -> bool:
    """Return whether a Deployment or pod is not ready yet, so that its cell is less urgent."""
    if ref.kind == "Deployment":
        return not (body.get("status") or {}).get("readyReplicas")
    return ref.kind == "Pod" and not reports_ready(body)


def _coalesce_delay_s(owner: ObjectRef) -> float:
    return {"Formation": STATUS_COALESCE_S, "BlueprintInstance": INSTANCE_COALESCE_S}.get(
        owner.kind, COALESCE_S
    )


def owning_instance(ref: ObjectRef, body: Body) -> ObjectRef | None:
    """Return the instance that owns an object, whose reconcile may have just created it."""
    owner = _controller_owner(ref, body)
    return owner if owner is not None and owner.kind == "BlueprintInstance" else None


def _controller_owner(ref: ObjectRef, body: Body) -> ObjectRef | None:
    """Return the controller owner of our kinds; owners are in the same namespace."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") in KINDS:
            return ObjectRef(owner["kind"], ref.namespace, owner["name"])
    return None


def _labelled_owner(
    ref: ObjectRef, body: Body, reference_index: ReferenceIndex
) -> ObjectRef | None:
    """Return the object that the most specific label names, if its kind is above the object's."""
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
