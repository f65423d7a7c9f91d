"""Decide whether the run annotations of an object are its own or were copied from another object.

A copied object has the annotations of its original. The stamp of a run therefore contains a hash of
the object's kind, namespace and name; an edit of the name in a manifest does not change the hash. A
restored object keeps all three, and its run. Stamps without the hash are older. Their owner follows
from the UID that their run-id was derived from, else from their Jobs or the ledger.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from kais import labels, names
from kais_operator.planning.plan import Body, ObjectRef

OF_PEOPLE = (labels.REVIEW, labels.REVIEWED_BY, labels.APPROVAL, labels.APPROVAL_BY)
"""What people decided about the work of a run. The admission policies check updates only, so a run
that starts drops what its object was created with.
"""
_OF_A_RUN = (
    labels.RUN_ID,
    labels.RUN_OBJECT,
    labels.RUN_KIND,
    labels.RERUN_TAKEN,
    labels.OUTCOME,
    labels.ENDING,
    labels.ATTEMPTS,
    labels.EARLIER_RUNS,
    labels.ACCEPTED_AT,
    labels.HELD_UNTIL,
    labels.FIXED_PARAMETERS,
    labels.ABORT,
    labels.TRACEPARENT,
    *OF_PEOPLE,
)
"""Annotations about a run; a person writes those for abort, review and approval, the operator all
others.
"""


def object_annotation(kind: str, namespace: str, name: str) -> dict[str, str]:
    """Return the annotation that binds a stamp to its object."""
    return {labels.RUN_OBJECT: names.short_hash(f"{kind}/{namespace}/{name}", length=16)}


def is_own(ref: ObjectRef, body: Body) -> bool | None:
    """Whether an object's stamp is its own; None without a stamp or without its hash."""
    carried = annotations_of(body)
    object_hash = carried.get(labels.RUN_OBJECT)
    if object_hash is None or labels.RUN_ID not in carried:
        return None
    return object_annotation(ref.kind, ref.namespace, ref.name)[labels.RUN_OBJECT] == object_hash


def is_derived(body: Body, uids: Iterable[str]) -> bool:
    """Whether the run-id is derived from one of these UIDs, without a nonce or with the last."""
    carried = annotations_of(body)
    nonces = ("", carried.get(labels.RERUN_TAKEN, ""))
    run_ids = {names.run_id(uid, nonce) for uid in uids for nonce in nonces}
    return carried.get(labels.RUN_ID) in run_ids


def run_annotations(body: Body) -> tuple[str, ...]:
    """Return the names of an object's annotations about a run."""
    carried = annotations_of(body)
    return tuple(name for name in _OF_A_RUN if name in carried)


def without_run(body: Body) -> Body:
    """Return a copy of the object without annotations about a run."""
    stripped = copy.deepcopy(body)
    for name in run_annotations(body):
        del stripped["metadata"]["annotations"][name]
    return stripped


def annotations_of(body: Body) -> Mapping[str, str]:
    """Return the annotations of an object; empty without any."""
    carried: Mapping[str, str] = body["metadata"].get("annotations") or {}
    return carried
