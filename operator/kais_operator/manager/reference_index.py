"""Index of references between objects, for events that neither a label nor an owner maps.

A mission refers to its formation or cell, an instance to its blueprint, a cell to its formation.
Changes of the target concern a mission until it has an outcome, and an instance until its run
starts or as long as it follows new revisions. The scope of a cell depends on its formation. The
index only feeds the queue; no decision reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import json

from kais import labels, names
from kais.conditions import ConditionType
from kais.reasons import Reason
from kais_operator.planning import run_stamps
from kais_operator.planning.plan import Body, ObjectRef

_VOLATILE_METADATA = frozenset({"resourceVersion", "managedFields"})
FormationScope = tuple[str | None, str | None]
"""The scope that a formation declares, and the Blueprint that it was created from."""


class ReferenceIndex:
    """The index; needs every watch event of our kinds."""

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
        self._under_way: set[ObjectRef] = set()
        self._unreported_cells: set[ObjectRef] = set()
        self._ready_cells: set[ObjectRef] = set()
        self._fingerprints: dict[ObjectRef, int] = {}
        self._changed_object: ObjectRef | None = None

    def update(self, ref: ObjectRef, body: Body, *, is_deleted: bool) -> None:
        """Update the index with one watch event."""
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
        self._update_cell(ref, body)
        self._update_mission(ref, body)
        target = _target(ref, body)
        if target is not None:
            self._targets[ref] = target
            self._referrers.setdefault(target, set()).add(ref)
            if (body.get("status") or {}).get("attempt"):
                self._with_attempt.add(ref)

    def referrers(self, target: ObjectRef) -> frozenset[ObjectRef]:
        """Return the missions and instances that refer to an object."""
        return frozenset(r for r in self._referrers.get(target, ()) if r.kind != "Cell")

    def formation_of(self, cell: ObjectRef) -> ObjectRef | None:
        """Return the formation that a cell names; None without one."""
        return self._targets.get(cell)

    def borrowers(self, account: ObjectRef) -> frozenset[ObjectRef]:
        """Return the cells that run under an account of another object."""
        return frozenset(self._borrowers.get(account, ()))

    def only_message_changed(self, ref: ObjectRef) -> bool:
        """Return whether the last event of this object changed only messages in its status."""
        return ref in self._fingerprints and ref != self._changed_object

    def cells_to_register(self, formation: ObjectRef) -> frozenset[ObjectRef]:
        """Return the cells of a formation if the last event changed their scope."""
        if formation != self._rescoped_formation:
            return frozenset()
        return frozenset(r for r in self._referrers.get(formation, ()) if r.kind == "Cell")

    def has_attempt(self, ref: ObjectRef) -> bool:
        """Return whether a mission has started an attempt, so that its formation is less urgent."""
        return ref in self._with_attempt

    def is_under_way(self, ref: ObjectRef) -> bool:
        """Return whether a mission has an attempt that its status does not report as ended.

        A mission whose cell does not answer does not count, because its reconcile waits for a
        timeout.
        """
        return ref in self._under_way

    def is_unreported(self, cell: ObjectRef) -> bool:
        """Return whether a cell has no status yet."""
        return cell in self._unreported_cells

    def is_ready(self, cell: ObjectRef) -> bool:
        """Return whether a cell reports that it is ready, so that a change may end that."""
        return cell in self._ready_cells

    def scopes_in(self, namespace: str) -> frozenset[ObjectRef]:
        """Return the KnowledgeScopes of a namespace: a deleted one may have shadowed another."""
        return frozenset(self._namespaces.get(namespace, ()))

    def by_label(self, kind: str, namespace: str, value: str) -> ObjectRef:
        """Return the object that a label value names; labels truncate long names."""
        labelled_ref = ObjectRef(kind, namespace, value)
        return self._by_label.get(labelled_ref, labelled_ref)

    def _update_mission(self, ref: ObjectRef, body: Body) -> None:
        if ref.kind == "Mission" and _is_under_way(ref, body):
            self._under_way.add(ref)

    def _update_cell(self, ref: ObjectRef, body: Body) -> None:
        if ref.kind != "Cell":
            return
        if not body.get("status"):
            self._unreported_cells.add(ref)
        if reports_ready(body):
            self._ready_cells.add(ref)
        account = (body.get("spec") or {}).get("serviceAccountName")
        if account:
            account_ref = ObjectRef("ServiceAccount", ref.namespace, str(account))
            self._accounts[ref] = account_ref
            self._borrowers.setdefault(account_ref, set()).add(ref)

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
        self._under_way.discard(ref)
        self._unreported_cells.discard(ref)
        self._ready_cells.discard(ref)
        _remove(ref, self._targets, self._referrers)
        _remove(ref, self._accounts, self._borrowers)


def reports_ready(body: Body) -> bool:
    """Return whether the status of an object has the condition Ready as True."""
    return any(
        condition["type"] == ConditionType.READY and condition["status"] == "True"
        for condition in (body.get("status") or {}).get("conditions") or ()
    )


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
    """Hash everything that other objects act upon: all but the messages of the status."""
    status = body.get("status") or {}
    conditions = [(c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or ()]
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in _VOLATILE_METADATA
    }
    visible_status = (status.get("phase"), status.get("outcome"), status.get("attempt"), conditions)
    return hash(json.encode([metadata, body.get("spec"), visible_status]))


def _formation_scope(body: Body) -> FormationScope:
    """Return what the scope of a formation depends on."""
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


def _is_under_way(ref: ObjectRef, body: Body) -> bool:
    status = body.get("status") or {}
    if status.get("outcome") or _waits_for_answer(status):
        return False
    return bool(status.get("attempt")) or labels.ATTEMPTS in _own_annotations(ref, body)


def _waits_for_answer(status: Mapping[str, Any]) -> bool:
    """Return whether an attempt that has started waits for a cell that does not answer."""
    reported = {c["type"]: (c["status"], c.get("reason")) for c in status.get("conditions") or ()}
    has_started = reported.get(ConditionType.STARTED, ("", ""))[0] == "True"
    return has_started and reported.get(ConditionType.SUCCEEDED) == (
        "Unknown",
        Reason.WAITING_FOR_PODS,
    )


def _target_of_instance(ref: ObjectRef, body: Body) -> ObjectRef | None:
    spec = body.get("spec") or {}
    name = _name(spec.get("blueprintRef"))
    follows = spec.get("updatePolicy") == "Automatic"
    is_started = labels.RUN_ID in _own_annotations(ref, body)
    if not name or (is_started and not follows):
        return None
    return ObjectRef("Blueprint", ref.namespace, name)


def _own_annotations(ref: ObjectRef, body: Body) -> Mapping[str, str]:
    """Return the annotations; none if those of the run were copied from another object."""
    return {} if run_stamps.is_own(ref, body) is False else run_stamps.annotations_of(body)


def _name(reference: object) -> str | None:
    """Return the name in a reference, which is a string or an object."""
    name = reference.get("name") if isinstance(reference, dict) else reference
    return name if isinstance(name, str) and name else None
