"""Who waits for whom: an index over watch events, for triggers that no label and no owner names.

A mission names its formation or cell, an instance its blueprint. What happens to those concerns
the mission until it has its outcome, and the instance until its run has begun or when it follows
new revisions. A cell names its formation, which says where the cell is at home. A hint for the
queue only: a decision never reads it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import json

from kais import labels, names
from kais_operator.planning import run_stamps
from kais_operator.planning.plan import Body, ObjectRef

_VOLATILE_METADATA = frozenset({"resourceVersion", "managedFields"})
FormationScope = tuple[str | None, str | None]
"""The scope that a formation names, and the Blueprint that it was made from."""


class ReferenceIndex:
    """The index; fed with every watch event of the kinds that refer to others."""

    def __init__(self) -> None:
        self._targets: dict[ObjectRef, ObjectRef] = {}
        self._referrers: dict[ObjectRef, set[ObjectRef]] = {}
        self._accounts: dict[ObjectRef, ObjectRef] = {}
        self._borrowers: dict[ObjectRef, set[ObjectRef]] = {}
        self._by_label: dict[ObjectRef, ObjectRef] = {}
        self._namespaces: dict[str, set[ObjectRef]] = {}
        self._formation_scopes: dict[ObjectRef, FormationScope] = {}
        self._rescoped_formation: ObjectRef | None = None
        self._with_attempt: set[ObjectRef] = set()
        self._fingerprints: dict[ObjectRef, int] = {}
        self._changed_object: ObjectRef | None = None

    def update(self, ref: ObjectRef, body: Body, *, is_deleted: bool) -> None:
        """Take in one watch event."""
        self._forget(ref)
        self._rescoped_formation = None
        self._update_fingerprint(ref, None if is_deleted else body)
        if ref.kind == "KnowledgeScope":
            scopes = self._namespaces.setdefault(ref.namespace, set())
            scopes.discard(ref) if is_deleted else scopes.add(ref)
        if ref.kind == "Formation":
            self._update_formation_scope(ref, None if is_deleted else _formation_scope(body))
        if is_deleted:
            return
        label_value = names.label_value(ref.name)
        if label_value != ref.name:
            self._by_label[ObjectRef(ref.kind, ref.namespace, label_value)] = ref
        account = (body.get("spec") or {}).get("serviceAccountName") if ref.kind == "Cell" else None
        if account:
            account_ref = ObjectRef("ServiceAccount", ref.namespace, str(account))
            self._accounts[ref] = account_ref
            self._borrowers.setdefault(account_ref, set()).add(ref)
        target = _target(ref, body)
        if target is not None:
            self._targets[ref] = target
            self._referrers.setdefault(target, set()).add(ref)
            if (body.get("status") or {}).get("attempt"):
                self._with_attempt.add(ref)

    def referrers(self, target: ObjectRef) -> frozenset[ObjectRef]:
        """Name the objects that wait for what happens to this one."""
        return frozenset(r for r in self._referrers.get(target, ()) if r.kind != "Cell")

    def borrowers(self, account: ObjectRef) -> frozenset[ObjectRef]:
        """Name the cells that borrow the account."""
        return frozenset(self._borrowers.get(account, ()))

    def only_message_changed(self, ref: ObjectRef) -> bool:
        """Whether the last event changed nothing of this object but words of its status."""
        return ref in self._fingerprints and ref != self._changed_object

    def cells_to_register(self, formation: ObjectRef) -> frozenset[ObjectRef]:
        """Name the cells of a formation if the last event gave them another home."""
        if formation != self._rescoped_formation:
            return frozenset()
        return frozenset(r for r in self._referrers.get(formation, ()) if r.kind == "Cell")

    def has_attempt(self, ref: ObjectRef) -> bool:
        """Whether a mission has begun an attempt, so that its team concerns it less."""
        return ref in self._with_attempt

    def scopes_in(self, namespace: str) -> frozenset[ObjectRef]:
        """Name the KnowledgeScopes of a namespace: one that goes may have hidden another."""
        return frozenset(self._namespaces.get(namespace, ()))

    def by_label(self, kind: str, namespace: str, value: str) -> ObjectRef:
        """Name the object that a label's value means; long names are cut in labels."""
        labelled_ref = ObjectRef(kind, namespace, value)
        return self._by_label.get(labelled_ref, labelled_ref)

    def _update_formation_scope(
        self, formation: ObjectRef, formation_scope: FormationScope | None
    ) -> None:
        previous = self._formation_scopes.pop(formation, None)
        if formation_scope is not None:
            self._formation_scopes[formation] = formation_scope
        if formation_scope != previous:
            self._rescoped_formation = formation

    def _update_fingerprint(self, ref: ObjectRef, body: Body | None) -> None:
        previous = self._fingerprints.pop(ref, None)
        if body is not None:
            self._fingerprints[ref] = _fingerprint(body)
        self._changed_object = ref if self._fingerprints.get(ref) != previous else None

    def _forget(self, ref: ObjectRef) -> None:
        self._by_label.pop(ObjectRef(ref.kind, ref.namespace, names.label_value(ref.name)), None)
        self._with_attempt.discard(ref)
        _remove(ref, self._targets, self._referrers)
        _remove(ref, self._accounts, self._borrowers)


def _remove(
    ref: ObjectRef,
    targets: dict[ObjectRef, ObjectRef],
    index: dict[ObjectRef, set[ObjectRef]],
) -> None:
    target = targets.pop(ref, None)
    if target is not None:
        referrers = index[target]
        referrers.discard(ref)
        if not referrers:
            del index[target]


def _fingerprint(body: Body) -> int:
    """Give a mark of what others act upon: all but how the status words it."""
    status = body.get("status") or {}
    conditions = [(c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or ()]
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in _VOLATILE_METADATA
    }
    visible_status = (status.get("phase"), status.get("outcome"), status.get("attempt"), conditions)
    return hash(json.encode([metadata, body.get("spec"), visible_status]))


def _formation_scope(body: Body) -> FormationScope:
    """Give what a formation's scope is made of."""
    knowledge = (body.get("spec") or {}).get("knowledge") or {}
    return knowledge.get("scope"), (body["metadata"].get("labels") or {}).get(labels.BLUEPRINT)


def _target(ref: ObjectRef, body: Body) -> ObjectRef | None:
    if ref.kind == "Cell":
        name = _name((body.get("spec") or {}).get("formationRef"))
        return ObjectRef("Formation", ref.namespace, name) if name else None
    if ref.kind == "Mission":
        return _target_of_mission(ref, body)
    if ref.kind == "BlueprintInstance":
        return _target_of_instance(ref, body)
    return None


def _target_of_mission(ref: ObjectRef, body: Body) -> ObjectRef | None:
    if labels.OUTCOME in _own_annotations(ref, body):
        return None
    spec = body.get("spec") or {}
    for field, kind in (("formationRef", "Formation"), ("cellRef", "Cell")):
        if spec.get(field):
            return ObjectRef(kind, ref.namespace, spec[field])
    return None


def _target_of_instance(ref: ObjectRef, body: Body) -> ObjectRef | None:
    spec = body.get("spec") or {}
    name = _name(spec.get("blueprintRef"))
    follows = spec.get("updatePolicy") == "Automatic"
    is_started = labels.RUN_ID in _own_annotations(ref, body)
    if not name or (is_started and not follows):
        return None
    return ObjectRef("Blueprint", ref.namespace, name)


def _own_annotations(ref: ObjectRef, body: Body) -> Mapping[str, str]:
    """Give the annotations; none of a copy, which still carries the run of its original."""
    return {} if run_stamps.is_own(ref, body) is False else run_stamps.annotations_of(body)


def _name(reference: object) -> str | None:
    """Read a reference, which is a name or an object with one."""
    name = reference.get("name") if isinstance(reference, dict) else reference
    return name if isinstance(name, str) and name else None
