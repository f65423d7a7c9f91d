"""Decide about one child of an object by who owns the object with its name.

The rule is the same for all kinds. A child is looked up by name, because another owner may have
taken the name. The object with that name is

- missing: it is created; if another client is faster, the next reconcile reads the owner;
- being deleted: the operator waits, whatever its owner is;
- owned (its controller owner is the parent, by UID): it is applied when it differs;
- orphaned (labelled as this parent's child but without a controller owner, as restored objects
  are): it is adopted;
- foreign: it is left unchanged, and a condition of the parent reports it. If it belongs to an
  earlier object with the name of the parent, the garbage collector deletes it, and the operator
  waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from kais import labels, names
from kais.errors import InvalidResource
from kais.reasons import Reason
from kais.resources import kinds
from kais.resources.base import Resource
from kais_operator.planning import memo, plan, quantities
from kais_operator.planning.plan import Body, ObjectRef

RETRY_INTERVAL = timedelta(seconds=5)
"""How often a deletion is checked; arbitrary, watch events are usually faster."""
NAME_TAKEN_RETRY_INTERVAL = timedelta(seconds=30)
"""How often a taken name is checked; no watch event reports objects of other owners."""

EDIT_UNDONE = "EditUndone"
"""The reason of the Event about an edit of a child that the operator reverts."""
_MAX_LISTED_PATHS = 5
_HASHES: memo.RecentResults[bytes, str] = memo.RecentResults(8_000)
"""The hashes of the children of some 300 instances, in about 2 MiB."""
_EVENT_LIMIT = 1024  # the API server's limit for an Event's message

PARENT_LABELS: Mapping[str, str] = {
    "BlueprintInstance": labels.INSTANCE,
    "Formation": labels.FORMATION,
    "Cell": labels.CELL,
    "Mission": labels.MISSION,
}
"""The label with the parent's name, by the kind of the parent."""


@dataclass(frozen=True)
class Parent:
    """The object that owns a child."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def owner_reference(self) -> Body:
        """Return the controller owner reference of this parent's children."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def label(self) -> dict[str, str]:
        """Return the labels that identify this parent's children even without an owner."""
        parent_labels = {labels.MANAGED_BY: labels.MANAGER}
        if self.kind in PARENT_LABELS:
            parent_labels[PARENT_LABELS[self.kind]] = names.label_value(self.name)
        return parent_labels


class Ownership(StrEnum):
    """The owner of the object with a child's name."""

    MISSING = "Missing"
    OWNED = "Ours"
    ORPHANED = "Orphaned"
    DELETING = "Going"
    FOREIGN = "Foreign"


@dataclass(frozen=True)
class ChildDecision:
    """The decision about one child.

    Attributes:
        ownership: the owner of the object with its name.
        actions: the resulting writes; none for an object that is foreign or being deleted.
        reason: `NameTaken`, or `Deleting` while that object is being deleted, or is about to be;
            None when the child is as desired, or will be after the writes.
        message: describes the reason; empty without one.
        requeue_after: delay until the next reconcile, as no watch event may come; None waits for
            an event.
    """

    ownership: Ownership
    actions: tuple[plan.Action, ...] = ()
    reason: Reason | None = None
    message: str = ""
    requeue_after: timedelta | None = None


def ownership_of(live: Body | None, parent: Parent) -> Ownership:
    """Return who owns the object with the name of a child of `parent`."""
    if live is None:
        return Ownership.MISSING
    metadata = live["metadata"]
    if metadata.get("deletionTimestamp"):
        return Ownership.DELETING
    controller = controller_uid(live)
    if controller is not None:
        return Ownership.OWNED if controller == parent.uid else Ownership.FOREIGN
    live_labels = metadata.get("labels") or {}
    parent_labels = parent.label()
    if len(parent_labels) > 1 and all(
        live_labels.get(key) == value for key, value in parent_labels.items()
    ):
        return Ownership.ORPHANED
    return Ownership.FOREIGN


def decide_child(desired: Body, live: Body | None, parent: Parent) -> ChildDecision:
    """Choose the write for one child from the object with its name.

    `desired` is the whole child as `child_body` builds it. Use `decide_fixed_child` for kinds that
    cannot change after their creation (Job, immutable ConfigMap). A ConfigMap that someone made
    immutable is deleted, because the API server refuses every change of its data.
    """
    decision = decide_fixed_child(desired, live, parent)
    if decision.ownership is not Ownership.OWNED or live is None:
        return decision
    if not differs(desired, live) and not has_additions(desired, live):
        return decision
    if _is_frozen(desired, live):
        message = f"{ref_of(desired)} was made immutable with other data; it is created again"
        return ChildDecision(
            Ownership.OWNED,
            (plan.Delete(ref_of(desired), uid=live["metadata"]["uid"]),),
            reason=Reason.DELETING,
            message=message,
            requeue_after=RETRY_INTERVAL,
        )
    apply = plan.Apply(desired, uid=live["metadata"]["uid"])
    return ChildDecision(Ownership.OWNED, (apply, *_undone_edit(desired, live, parent)))


def _undone_edit(desired: Body, live: Body, parent: Parent) -> tuple[plan.EmitEvent, ...]:
    """Return an Event about the child if another client changed it; none for a new spec.

    No Event about replicas to or from 0: the operator itself stops cells and starts them again, and
    keeps the hash of a template that it rendered earlier.
    """
    carried = live["metadata"].get("labels") or {}
    if carried.get(labels.SPEC_HASH) != desired["metadata"]["labels"].get(labels.SPEC_HASH):
        return ()
    paths = list(_changed_paths(desired, live))
    if paths == ["spec.replicas"] and 0 in (
        live["spec"].get("replicas"),
        desired["spec"]["replicas"],
    ):
        return ()
    owner = f"{parent.kind}/{parent.namespace}/{parent.name}"
    changed_fields = ", ".join(paths[:_MAX_LISTED_PATHS]) or f"fields that {owner} does not declare"
    suffix = f" and {len(paths) - _MAX_LISTED_PATHS} more" if len(paths) > _MAX_LISTED_PATHS else ""
    message = (
        f"another client changed {ref_of(desired)} ({changed_fields}{suffix});"
        " the change is undone, because"
        f" {owner} decides it: change that object instead"
    )
    child = plan.Involved(desired["apiVersion"], ref_of(desired), live["metadata"]["uid"])
    return (plan.EmitEvent("Warning", EDIT_UNDONE, message[:_EVENT_LIMIT], child),)


def _changed_paths(desired: Mapping[str, Any], live: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of desired values that are missing or different, lists as a whole."""
    live_values = live if isinstance(live, Mapping) else {}
    for key, value in desired.items():
        if _contains({key: value}, live_values):
            continue
        if isinstance(value, Mapping) and isinstance(live_values.get(key), Mapping):
            yield from _changed_paths(value, live_values[key], f"{path}{key}.")
        else:
            yield f"{path}{key}"


def decide_fixed_child(desired: Body, live: Body | None, parent: Parent) -> ChildDecision:
    """Choose the write for a child that is created once and never changed."""
    ownership = ownership_of(live, parent)
    ref = ref_of(desired)
    if ownership is Ownership.MISSING:
        return ChildDecision(ownership, (plan.Create(desired),))
    if ownership is Ownership.ORPHANED and live is not None:
        return ChildDecision(ownership, (adopt(live, parent),))
    if ownership is Ownership.DELETING:
        message = f"{ref} is being deleted; it is created again when it is gone"
        return ChildDecision(
            ownership, reason=Reason.DELETING, message=message, requeue_after=RETRY_INTERVAL
        )
    if ownership is Ownership.FOREIGN and live is not None and _is_of_predecessor(live, parent):
        message = (
            f"{ref} belongs to an earlier {parent.kind}/{parent.namespace}/{parent.name}, which was"
            " deleted; it is created again when Kubernetes has removed it"
        )
        return ChildDecision(
            ownership, reason=Reason.DELETING, message=message, requeue_after=RETRY_INTERVAL
        )
    if ownership is Ownership.FOREIGN:
        message = (
            f"{ref} exists already and does not belong to {parent.kind}/{parent.namespace}/"
            f"{parent.name}; delete or rename it, it is left untouched"
        )
        return ChildDecision(
            ownership,
            reason=Reason.NAME_TAKEN,
            message=message,
            requeue_after=NAME_TAKEN_RETRY_INTERVAL,
        )
    return ChildDecision(ownership)


def adopt(live: Body, parent: Parent) -> plan.PatchMetadata:
    """Add the controller owner to an orphaned child, and keep its other owners."""
    owner_references = tuple(live["metadata"].get("ownerReferences") or ())
    return plan.PatchMetadata(
        ref_of(live),
        resource_version=live["metadata"]["resourceVersion"],
        owner_references=(*owner_references, parent.owner_reference()),
    )


def child_body(  # noqa: PLR0913 - one argument for each part of an object
    parent: Parent,
    *,
    api_version: str,
    kind: str,
    name: str,
    content: Body,
    labelled: Mapping[str, str] | None = None,
    annotated: Mapping[str, str] | None = None,
) -> Body:
    """Build a child: `content` (spec, data …) with its name, labels, owner and a hash of all.

    The hash shows a later reconcile that a field was removed from `desired`, which a comparison
    with the live object cannot show.
    """
    carried = {**(labelled or {}), **parent.label()}
    hashed_fields: Body = {"labels": carried, "content": content}
    metadata: Body = {
        "name": name,
        "namespace": parent.namespace,
        "labels": carried,
        "ownerReferences": [parent.owner_reference()],
    }
    if annotated:
        hashed_fields["annotations"] = metadata["annotations"] = dict(annotated)
    metadata["labels"] = {**carried, labels.SPEC_HASH: spec_hash(hashed_fields)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def spec_hash(tree: Body) -> str:
    """Return `names.spec_hash` of a tree, computed once while an object is decided repeatedly."""
    return _HASHES.get(memo.digest(tree), lambda: names.spec_hash(tree))


def differs(desired: Body, live: Body) -> bool:
    """Whether a desired value is missing or different in the live object.

    Additions by other clients, defaults of the API server, another spelling of a quantity and an
    omitted empty text are not differences.
    """
    return not _contains(desired, live)


def _is_frozen(desired: Body, live: Body) -> bool:
    """Whether the API server would refuse to change the data of a ConfigMap.

    A key that only the live object has is a change too: an apply removes a key that was desired.
    """
    if desired["kind"] != "ConfigMap" or live.get("immutable") is not True:
        return False
    return any((desired.get(key) or {}) != (live.get(key) or {}) for key in _DATA)


def has_additions(desired: Body, live: Body) -> bool:
    """Whether someone added to the spec of a child of one of the kinds of kais.

    Only the parent decides such a spec, and the models know the defaults of the API server. For
    other kinds an addition cannot be distinguished from a default.
    """
    kind = kinds.BY_NAME.get(desired["kind"])
    if kind is None or _contains(live.get("spec"), desired.get("spec")):
        return False
    try:
        return _spec_of(kind, desired) != _spec_of(kind, live)
    except InvalidResource:
        return True


def _spec_of(kind: type[Resource], body: Body) -> Body:
    return kind.from_dict({"spec": body.get("spec")}).spec.to_dict()


def _contains(desired: Any, live: Any) -> bool:
    if desired == live:
        return True
    if isinstance(desired, Mapping):
        live_values = live if isinstance(live, Mapping) else {}
        return all(
            _contains_amounts(value, live_values.get(key))
            if key in _AMOUNTS and isinstance(value, Mapping)
            else _is_same_amount(value, live_values.get(key))
            if key in _QUANTITIES
            else _contains(value, live_values.get(key))
            for key, value in desired.items()
        )
    if isinstance(desired, list | tuple):
        live_items = live if isinstance(live, list) else []
        return _contains_items(desired, live_items)
    return desired == "" and live is None


_DATA = ("data", "binaryData")
_AMOUNTS = ("requests", "limits")
_QUANTITIES = ("sizeLimit", "divisor")


def _is_same_amount(desired: Any, live: Any) -> bool:
    """Compare quantities; other values, as in the settings of a tool, are compared as they are."""
    if desired != live and all(isinstance(value, int | str) for value in (desired, live)):
        with contextlib.suppress(ValueError):
            return quantities.is_equal(desired, live)
    return _contains(desired, live)


def _contains_amounts(desired: Mapping[str, Any], live: Any) -> bool:
    live_amounts = live if isinstance(live, Mapping) else {}
    return all(
        name in live_amounts and _is_same_amount(amount, live_amounts[name])
        for name, amount in desired.items()
    )


def _contains_items(desired: Sequence[Any], live: Sequence[Any]) -> bool:
    for key in ("uid", "name"):
        if _are_unique(desired, key):
            by_key = {item.get(key): item for item in live if isinstance(item, Mapping)}
            return all(_contains(item, by_key.get(item[key])) for item in desired)
    if len(desired) != len(live):
        return False
    return all(
        _contains(desired_item, live_item)
        for desired_item, live_item in zip(desired, live, strict=True)
    )


def _are_unique(items: Sequence[Any], key: str) -> bool:
    """Whether every item has a key of its own: two mounts may have the name of one volume."""
    if not items or not all(isinstance(item, Mapping) and key in item for item in items):
        return False
    return len({item[key] for item in items}) == len(items)


def controller_uid(body: Body) -> str | None:
    """Return the UID of the controller owner; None without one."""
    owner = _controller(body)
    return None if owner is None else str(owner["uid"])


def _is_of_predecessor(live: Body, parent: Parent) -> bool:
    """Whether the controller owner had the kind and name of the parent; names are unique."""
    owner = _controller(live) or {}
    group = owner.get("apiVersion", "").rpartition("/")[0]
    is_same_kind = (group, owner.get("kind")) == (_group_of(parent), parent.kind)
    return is_same_kind and owner.get("name") == parent.name


def _group_of(parent: Parent) -> str:
    return parent.api_version.rpartition("/")[0]


def _controller(body: Body) -> Body | None:
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def ref_of(body: Body) -> ObjectRef:
    """Return a reference to the object with this body."""
    return ObjectRef(body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
