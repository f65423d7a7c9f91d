"""Whose run the annotations of an object speak of: its own, or that of another one.

An object that was copied carries its original's annotations. So the stamp of a run also names its
object, as a hash of kind, namespace and name: an edit of the name in a manifest does not change
the hash. A restored object keeps all three, and its run. Stamps without the hash are older;
the UID that their run-id was derived from, else their Jobs or the ledger, say whose they are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from kais import labels, names
from kais_operator.planning.plan import Body, ObjectRef

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
    labels.FIXED_PARAMETERS,
    labels.ABORT,
    labels.REVIEW,
)
"""What says something of a run, by the operator or, of abort and review, by a person."""


def object_annotation(kind: str, namespace: str, name: str) -> dict[str, str]:
    """Give the annotation that binds a stamp to its object."""
    return {labels.RUN_OBJECT: names.short_hash(f"{kind}/{namespace}/{name}", length=16)}


def is_own(ref: ObjectRef, body: Body) -> bool | None:
    """Whether the stamp on an object is its own; None for no stamp and for one without the hash."""
    carried = annotations_of(body)
    object_hash = carried.get(labels.RUN_OBJECT)
    if object_hash is None or labels.RUN_ID not in carried:
        return None
    return object_annotation(ref.kind, ref.namespace, ref.name)[labels.RUN_OBJECT] == object_hash


def is_derived(body: Body, uids: Iterable[str]) -> bool:
    """Whether the run-id was made of one of these UIDs, for the first run or its present nonce."""
    carried = annotations_of(body)
    nonces = ("", carried.get(labels.RERUN_TAKEN, ""))
    run_ids = {names.run_id(uid, nonce) for uid in uids for nonce in nonces}
    return carried.get(labels.RUN_ID) in run_ids


def run_annotations(body: Body) -> tuple[str, ...]:
    """Name the annotations that an object carries of a run."""
    carried = annotations_of(body)
    return tuple(name for name in _OF_A_RUN if name in carried)


def without_run(body: Body) -> Body:
    """Give the object as if no run had been stamped on it."""
    stripped = copy.deepcopy(body)
    for name in run_annotations(body):
        del stripped["metadata"]["annotations"][name]
    return stripped


def annotations_of(body: Body) -> Mapping[str, str]:
    """Read the annotations of an object."""
    carried: Mapping[str, str] = body["metadata"].get("annotations") or {}
    return carried
