"""Whose is the object that bears our child's name, and what follows: one rule for all kinds.

A child is looked at by its name, because a name is taken by whoever came first. What is found is

- nothing: it is created; if somebody is faster, the next look says who;
- going: it is waited for, whoever it belonged to;
- ours (its controller owner is the parent, by UID): it is applied when it is not as wanted;
- orphaned (labelled as this parent's child, but without a controller owner, as restored objects
  are): it is adopted;
- anybody else's: it is left alone, and the parent's condition names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from kais import labels, names
from kais.errors import InvalidResource
from kais.reasons import Reason
from kais.resources import kinds
from kais.resources.base import Resource
from kais_operator.planning import plan, quantities
from kais_operator.planning.plan import Body, ObjectRef

LOOK_AGAIN = timedelta(seconds=5)
"""When a deletion is looked for again; arbitrary, watch events are usually faster."""
LOOK_AGAIN_TAKEN = timedelta(seconds=30)
"""When a taken name is looked at again; no watch event tells of other people's objects."""

PARENT_LABELS: Mapping[str, str] = {
    "BlueprintInstance": labels.INSTANCE,
    "Formation": labels.FORMATION,
    "Cell": labels.CELL,
    "Mission": labels.MISSION,
}
"""The label that says which parent of a kind a child belongs to."""


@dataclass(frozen=True)
class Parent:
    """The object whose child is decided upon."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def owner_reference(self) -> Body:
        """Give the controller owner reference of this parent's children."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def label(self) -> dict[str, str]:
        """Give the labels by which a child of this parent is known even without its owner."""
        known = {labels.MANAGED_BY: labels.MANAGER}
        if self.kind in PARENT_LABELS:
            known[PARENT_LABELS[self.kind]] = names.label_value(self.name)
        return known


class Standing(StrEnum):
    """What was found under a child's name."""

    MISSING = "Missing"
    OURS = "Ours"
    ORPHANED = "Orphaned"
    GOING = "Going"
    FOREIGN = "Foreign"


@dataclass(frozen=True)
class ChildDecision:
    """What to do about one child.

    Attributes:
        standing: what was found under its name.
        actions: the writes that follow; none for a foreign or going object.
        reason: `NameTaken`, or `Deleting` while what bears the name is going; None when the child
            is or will be as wanted.
        message: the same in words, empty when there is no reason.
        requeue_after: when to look again although no watch event may tell; None waits for one.
    """

    standing: Standing
    actions: tuple[plan.Action, ...] = ()
    reason: Reason | None = None
    message: str = ""
    requeue_after: timedelta | None = None


def standing(seen: Body | None, parent: Parent) -> Standing:
    """Say whose the object is that was found under the name of a child of `parent`."""
    if seen is None:
        return Standing.MISSING
    metadata = seen["metadata"]
    if metadata.get("deletionTimestamp"):
        return Standing.GOING
    controller = controller_uid(seen)
    if controller is not None:
        return Standing.OURS if controller == parent.uid else Standing.FOREIGN
    carried = metadata.get("labels") or {}
    known = parent.label()
    if len(known) > 1 and all(carried.get(key) == value for key, value in known.items()):
        return Standing.ORPHANED
    return Standing.FOREIGN


def decide_child(desired: Body, seen: Body | None, parent: Parent) -> ChildDecision:
    """Choose the write for one child from what stands under its name.

    `desired` is the whole child as `child_body` makes it. A kind that cannot change after its
    creation (Job, immutable ConfigMap) is given to `decide_fixed_child` instead. A ConfigMap that
    somebody made immutable is deleted, because the API server refuses every change of its data.
    """
    decision = decide_fixed_child(desired, seen, parent)
    if decision.standing is not Standing.OURS or seen is None:
        return decision
    if not differs(desired, seen) and not has_more(desired, seen):
        return decision
    if _is_frozen(desired, seen):
        message = f"{ref_of(desired)} was made immutable with other data; it is created again"
        return ChildDecision(
            Standing.OURS,
            (plan.Delete(ref_of(desired), uid=seen["metadata"]["uid"]),),
            reason=Reason.DELETING,
            message=message,
            requeue_after=LOOK_AGAIN,
        )
    return ChildDecision(Standing.OURS, (plan.Apply(desired, uid=seen["metadata"]["uid"]),))


def decide_fixed_child(desired: Body, seen: Body | None, parent: Parent) -> ChildDecision:
    """Choose the write for a child that is created once and never changed."""
    found = standing(seen, parent)
    ref = ref_of(desired)
    if found is Standing.MISSING:
        return ChildDecision(found, (plan.Create(desired),))
    if found is Standing.ORPHANED and seen is not None:
        return ChildDecision(found, (adopt(seen, parent),))
    if found is Standing.GOING:
        message = f"{ref} is being deleted; it is created again when it is gone"
        return ChildDecision(
            found, reason=Reason.DELETING, message=message, requeue_after=LOOK_AGAIN
        )
    if found is Standing.FOREIGN:
        message = (
            f"{ref} exists already and does not belong to {parent.kind}/{parent.namespace}/"
            f"{parent.name}; delete or rename it, it is left untouched"
        )
        return ChildDecision(
            found, reason=Reason.NAME_TAKEN, message=message, requeue_after=LOOK_AGAIN_TAKEN
        )
    return ChildDecision(found)


def adopt(seen: Body, parent: Parent) -> plan.PatchMetadata:
    """Give an orphaned child its controller owner back, beside the owners it has."""
    others = tuple(seen["metadata"].get("ownerReferences") or ())
    return plan.PatchMetadata(
        ref_of(seen),
        resource_version=seen["metadata"]["resourceVersion"],
        owner_references=(*others, parent.owner_reference()),
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
    """Make a child: `content` (spec, data …) with name, labels, owner and the hash of it all.

    The hash is what tells a later pass that something was taken out of `desired`, which comparing
    with what is there cannot show.
    """
    carried = {**(labelled or {}), **parent.label()}
    whole: Body = {"labels": carried, "content": content}
    metadata: Body = {
        "name": name,
        "namespace": parent.namespace,
        "labels": carried,
        "ownerReferences": [parent.owner_reference()],
    }
    if annotated:
        whole["annotations"] = metadata["annotations"] = dict(annotated)
    metadata["labels"] = {**carried, labels.SPEC_HASH: names.spec_hash(whole)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def differs(desired: Body, seen: Body) -> bool:
    """Whether something that is wanted is missing or different in what was seen.

    What others or the API server's defaults added is no difference, nor is another spelling of an
    amount, nor an empty text that was left out.
    """
    return not _holds(desired, seen)


def _is_frozen(desired: Body, seen: Body) -> bool:
    """Whether the API server would refuse to change the data of a ConfigMap."""
    if desired["kind"] != "ConfigMap" or seen.get("immutable") is not True:
        return False
    return any(differs(desired.get(key) or {}, seen.get(key) or {}) for key in _DATA)


def has_more(desired: Body, seen: Body) -> bool:
    """Whether somebody added to the spec of a child of one of our own kinds.

    Such a spec is its parent's word alone, and our models know what the API server fills in. Of
    other kinds nobody can tell an addition from a default.
    """
    kind = kinds.BY_NAME.get(desired["kind"])
    if kind is None or _holds(seen.get("spec"), desired.get("spec")):
        return False
    try:
        return _spec_of(kind, desired) != _spec_of(kind, seen)
    except InvalidResource:
        return True


def _spec_of(kind: type[Resource], body: Body) -> Body:
    return kind.from_dict({"spec": body.get("spec")}).spec.to_dict()


def _holds(wanted: Any, found: Any) -> bool:
    if wanted == found:
        return True
    if isinstance(wanted, Mapping):
        known = found if isinstance(found, Mapping) else {}
        return all(
            _holds_amounts(value, known.get(key))
            if key in _AMOUNTS and isinstance(value, Mapping)
            else _holds(value, known.get(key))
            for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        known_items = found if isinstance(found, list) else []
        return _holds_items(wanted, known_items)
    return wanted == "" and found is None


_DATA = ("data", "binaryData")
_AMOUNTS = ("requests", "limits")


def _holds_amounts(wanted: Mapping[str, Any], found: Any) -> bool:
    known = found if isinstance(found, Mapping) else {}
    return all(
        name in known and quantities.is_same(amount, known[name]) for name, amount in wanted.items()
    )


def _holds_items(wanted: Sequence[Any], found: Sequence[Any]) -> bool:
    for key in ("uid", "name"):
        if wanted and all(isinstance(item, Mapping) and key in item for item in wanted):
            by_key = {item.get(key): item for item in found if isinstance(item, Mapping)}
            return all(_holds(item, by_key.get(item[key])) for item in wanted)
    if len(wanted) != len(found):
        return False
    return all(_holds(one, other) for one, other in zip(wanted, found, strict=True))


def controller_uid(body: Body) -> str | None:
    """UID of the controller owner, None when there is none."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def ref_of(body: Body) -> ObjectRef:
    """Name an object by its body."""
    return ObjectRef(body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
