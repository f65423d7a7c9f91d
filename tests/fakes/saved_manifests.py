"""Objects that a person saves, edits and applies, as kubectl would."""

from __future__ import annotations

import copy

from kais import labels
from kais_operator.planning import run_stamps
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes.world import FakeWorld

_OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")


def saved(fake: FakeWorld, ref: ObjectRef) -> Body:
    """What `kubectl get -o yaml` gives, as far as an apply takes it."""
    body = fake.cluster.read(ref)
    body.pop("status", None)
    for key in _OF_THE_SERVER:
        body["metadata"].pop(key, None)
    return body


def apply_copy(
    fake: FakeWorld, ref: ObjectRef, *, name: str | None = None, namespace: str | None = None
) -> ObjectRef:
    """Apply what was saved under another name or in another namespace, annotations and all."""
    body = copy.deepcopy(saved(fake, ref))
    body["metadata"] |= {"name": name or ref.name, "namespace": namespace or ref.namespace}
    fake.cluster.put(body)
    return ObjectRef(ref.kind, body["metadata"]["namespace"], body["metadata"]["name"])


def restore(fake: FakeWorld, ref: ObjectRef) -> None:
    """Lose an object, and apply what was saved of it: it has another UID then."""
    body = saved(fake, ref)
    fake.cluster.vanish(ref)
    fake.cluster.put(body)


def unmark(fake: FakeWorld, ref: ObjectRef) -> None:
    """Make the stamp of an object one of an older version, which did not bind it."""
    fake.cluster.edit(ref, {"metadata": {"annotations": {labels.RUN_OBJECT: None}}})


def mark(ref: ObjectRef) -> dict[str, str]:
    """The annotation that binds a stamp to this object."""
    return run_stamps.object_annotation(ref.kind, ref.namespace, ref.name)


def annotations_of(fake: FakeWorld, ref: ObjectRef) -> dict[str, str]:
    return dict(fake.cluster.read(ref)["metadata"].get("annotations") or {})
