"""An API server in memory: good enough for decisions, not for schemas.

It has uid, resourceVersion, generation (on spec change), create with AlreadyExists, apply with a
UID precondition and removal of what we no longer apply, metadata patches with a resourceVersion
precondition, the status subresource, deletion with finalizers, label selectors, and garbage
collection when a test asks for it. What a user, a kubelet or a controller would do is done with
`put`, `set_status` and `edit`; only the port's own writes are counted in `writes`.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kais.scopes import Scope
from kais_operator import errors
from kais_operator.kubernetes.account_index import AccountIndex
from kais_operator.planning.plan import Body, ObjectRef
from tests.fakes import exclusive_fields
from tests.fakes.chart_rbac import Rights, of_call
from tests.fakes.clock import FakeClock
from tests.fakes.json_copy import json_copy
from tests.fakes.merge_rules import apply_owned, merge_patch

_WITH_STATUS = frozenset(
    {"Blueprint", "BlueprintRevision", "BlueprintInstance", "Formation", "Cell", "Mission"}
    | {"KnowledgeScope", "Deployment", "Job", "Pod", "Namespace"}
)
_SET_BASED = re.compile(r"^(\S+) (in|notin) \(([^)]*)\)$")


def ref_of(body: Body) -> ObjectRef:
    metadata = body["metadata"]
    return ObjectRef(body["kind"], metadata.get("namespace", ""), metadata["name"])


def reference_of(ref: ObjectRef) -> Body:
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


class FakeCluster:
    """The Cluster port. `writes` lists (verb, ref) of each write made through the port.

    A call that one of `rights` lacks raises Forbidden; without any everything is allowed.
    """

    def __init__(
        self,
        *bodies: Body,
        clock: FakeClock | None = None,
        leads: Callable[[], bool] = lambda: True,
        namespaces: Sequence[str] = ("demo", "kais-system"),
        rights: Sequence[Rights] = (),
    ) -> None:
        self.clock = clock or FakeClock()
        self.leads = leads
        self.rights = tuple(rights)
        self.writes: list[tuple[str, ObjectRef]] = []
        self.events: list[Body] = []
        self.terminating: set[str] = set()
        self._objects: dict[ObjectRef, Body] = {}
        self._applied: dict[str, Body] = {}
        self._failures: list[tuple[str, str | None, errors.OperatorError]] = []
        self._versions = itertools.count(1)
        for namespace in namespaces:
            self._add_namespace(namespace)
        for body in bodies:
            self.put(body)

    # What a test does to the cluster

    def put(self, body: Body) -> Body:
        """Create or replace as a user or another controller would; a given status is kept."""
        body = json_copy(body)
        ref = ref_of(body)
        if ref.namespace:
            self._add_namespace(ref.namespace)
        live = self._objects.get(ref)
        if live is None:
            return self._store_new(body)
        metadata = {**live["metadata"], **body["metadata"]}
        return self._store_changed(ref, {**live, **body, "metadata": metadata})

    def edit(self, ref: ObjectRef, patch: Body) -> Body:
        """Merge-patch anything of an object, status included."""
        return self._store_changed(ref, merge_patch(self._objects[ref], patch))

    def set_status(self, ref: ObjectRef, status: Body) -> Body:
        """Replace the status, as the controller of a workload does."""
        return self._store_changed(ref, {**self._objects[ref], "status": json_copy(status)})

    def read(self, ref: ObjectRef) -> Body:
        """Read without the port; KeyError when it is missing."""
        return json_copy(self._objects[ref])

    def refs(self, kind: str | None = None) -> list[ObjectRef]:
        return sorted(ref for ref in self._objects if kind is None or ref.kind == kind)

    def remove(self, ref: ObjectRef) -> None:
        """Delete as a user would: finalizers hold."""
        self._delete(ref)

    def vanish(self, ref: ObjectRef) -> None:
        """Make an object disappear whatever holds it."""
        self._objects.pop(ref, None)

    def collect_garbage(self) -> None:
        """Delete, down to the leaves, what has owners none of which exists."""
        doomed = list(self._orphans())
        while doomed:
            for ref in doomed:
                self._delete(ref)
            doomed = [ref for ref in self._orphans() if not self._deleting(ref)]

    def tell_event(self, about: Body, **told: str) -> None:
        """Store an Event about an object, as any controller may."""
        ref = ref_of(about)
        name = f"{ref.name}.{len(self._objects)}"
        self._store_new(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": ref.namespace or "default"},
                "involvedObject": {**reference_of(ref), "uid": about["metadata"]["uid"]},
                **told,
            }
        )

    def fail(self, verb: str, error: errors.OperatorError, *, kind: str | None = None) -> None:
        """Make the next `verb` (of that kind) through the port raise."""
        self._failures.append((verb, kind, error))

    def stop_failing(self) -> None:
        """Accept the calls that `fail` would still let raise."""
        self._failures.clear()

    # The port

    async def get(self, ref: ObjectRef, *, fresh: bool = True) -> Body | None:
        self._require("get", ref)
        body = self._objects.get(ref)
        return json_copy(body) if body else None

    async def get_child(self, ref: ObjectRef) -> Body | None:
        return await self.get(ref)

    async def list(
        self, kind: str, namespace: str | None, *, labels: str = "", fresh: bool = True
    ) -> Sequence[Body]:
        self._require("list", ObjectRef(kind, namespace or "", ""))
        return [
            json_copy(body)
            for ref, body in sorted(self._objects.items())
            if ref.kind == kind
            and namespace in (None, ref.namespace)
            and _matches(labels, body["metadata"].get("labels") or {})
        ]

    async def scopes_of_borrowers(
        self, namespace: str, account: str, *, excluding: str
    ) -> Sequence[Scope]:
        index = AccountIndex()
        for kind in ("Formation", "Cell"):
            for body in await self.list(kind, namespace):
                index.put(body)
        return index.scopes(namespace, account, excluding=excluding)

    async def create(self, body: Body) -> Body:
        ref = ref_of(body)
        self._write("create", ref, body)
        if ref.namespace in self.terminating:
            raise errors.NamespaceTerminating(f"namespace {ref.namespace} is being terminated")
        if ref.namespace and ObjectRef("Namespace", "", ref.namespace) not in self._objects:
            raise errors.NotFound(f"{ref}: namespace {ref.namespace} not found")
        if ref in self._objects:
            raise errors.AlreadyExists(f"{ref} already exists")
        body = json_copy(body)
        if ref.kind in _WITH_STATUS:
            body.pop("status", None)
        applied = json_copy(body)
        stored = self._store_new(body)
        self._applied[stored["metadata"]["uid"]] = applied
        return stored

    async def apply(self, body: Body, *, uid: str) -> Body:
        ref = ref_of(body)
        self._write("apply", ref, body)
        live = self._objects.get(ref)
        if live is None or live["metadata"]["uid"] != uid:
            raise errors.Conflict(f"{ref} is no longer the object with uid {uid}")
        applied = {key: value for key, value in body.items() if key != "status"}
        if live.get("immutable") and live.get("data", {}) != body.get("data", {}):
            raise errors.Invalid(f"{ref} is invalid: data is immutable when `immutable` is set")
        conflict = exclusive_fields.problem(live, applied, self._applied.get(uid))
        if conflict is not None:
            raise errors.Invalid(f"{ref} is invalid: {conflict}")
        merged = apply_owned(live, applied, self._applied.get(uid))
        if str(body["apiVersion"]).startswith("kais.io/"):
            merged["spec"] = json_copy(applied["spec"])
        for key in ("uid", "resourceVersion", "generation", "creationTimestamp"):
            if key in live["metadata"]:
                merged["metadata"][key] = live["metadata"][key]
        self._applied[uid] = json_copy(applied)
        return self._store_changed(ref, merged)

    async def patch_metadata(self, ref: ObjectRef, patch: Body, *, resource_version: str) -> Body:
        self._write("patch", ref, {"metadata": patch})
        live = self._objects.get(ref)
        if live is None:
            raise errors.NotFound(f"{ref} not found")
        if live["metadata"]["resourceVersion"] != resource_version:
            raise errors.Conflict(f"{ref} changed since resourceVersion {resource_version}")
        return self._store_changed(ref, merge_patch(live, {"metadata": patch}))

    async def patch_spec(
        self, ref: ObjectRef, patch: Body, *, metadata: Body, resource_version: str
    ) -> Body:
        full_fields = {"metadata": metadata, "spec": patch}
        self._write("patch", ref, full_fields)
        live = self._objects.get(ref)
        if live is None:
            raise errors.NotFound(f"{ref} not found")
        if live["metadata"]["resourceVersion"] != resource_version:
            raise errors.Conflict(f"{ref} changed since resourceVersion {resource_version}")
        return self._store_changed(ref, merge_patch(live, full_fields))

    async def apply_status(self, body: Body) -> Body:
        ref = ref_of(body)
        self._write("status", ref)
        live = self._objects.get(ref)
        if live is None:
            raise errors.NotFound(f"{ref} not found")
        return self._store_changed(ref, {**live, "status": json_copy(body["status"])})

    async def delete(
        self, ref: ObjectRef, *, uid: str, resource_version: str | None = None
    ) -> Body | None:
        self._write("delete", ref)
        live = self._objects.get(ref)
        if live is None:
            return None
        if live["metadata"]["uid"] != uid:
            raise errors.Conflict(f"{ref} is no longer the object with uid {uid}")
        if resource_version not in (None, live["metadata"]["resourceVersion"]):
            raise errors.Conflict(f"{ref} changed since resourceVersion {resource_version}")
        self._delete(ref)
        return json_copy(self._objects.get(ref))

    async def events_about(self, ref: ObjectRef, *, uid: str) -> Sequence[Body]:
        self._require("list", ObjectRef("Event", ref.namespace, ""))
        return [
            json_copy(body)
            for reference, body in self._objects.items()
            if (reference.kind, reference.namespace) == ("Event", ref.namespace)
            and body["involvedObject"]["uid"] == uid
        ]

    async def emit(self, involved: Body, *, severity: str, reason: str, message: str) -> None:
        self._write("emit", ref_of(involved))
        told = {"type": severity, "reason": reason, "message": message}
        self.events.append({"about": ref_of(involved), **told})
        self.tell_event(involved, **told)

    # Inside

    def _write(self, verb: str, ref: ObjectRef, body: Body | None = None) -> None:
        if not self.leads():
            raise errors.NotLeading(f"the Lease is lost; {verb} of {ref} was not sent")
        self._require(verb, ref, body)
        self.writes.append((verb, ref))

    def _require(self, verb: str, ref: ObjectRef, body: Body | None = None) -> None:
        self._maybe_fail(verb, ref)
        for rights in self.rights:
            for needed, subject, subresource in of_call(verb, ref, body):
                rights.require(needed, subject, subresource=subresource)

    def _maybe_fail(self, verb: str, ref: ObjectRef) -> None:
        for failure in self._failures:
            if failure[0] == verb and failure[1] in (None, ref.kind):
                self._failures.remove(failure)
                raise failure[2]

    def _add_namespace(self, name: str) -> None:
        ref = ObjectRef("Namespace", "", name)
        if ref not in self._objects:
            self._store_new({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def _store_new(self, body: Body) -> Body:
        metadata = body["metadata"]
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata["resourceVersion"] = str(next(self._versions))
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", _stamp(self.clock))
        self._objects[ref_of(body)] = body
        return json_copy(body)

    def _store_changed(self, ref: ObjectRef, body: Body) -> Body:
        live = self._objects[ref]
        body = json_copy(body)
        if body == live:
            return body
        if _spec_of(body) != _spec_of(live):
            body["metadata"]["generation"] = live["metadata"]["generation"] + 1
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self._objects[ref] = body
        if self._deleting(ref) and not body["metadata"].get("finalizers"):
            del self._objects[ref]
        return json_copy(body)

    def _delete(self, ref: ObjectRef) -> None:
        live = self._objects[ref]
        if not live["metadata"].get("finalizers"):
            del self._objects[ref]
        elif not self._deleting(ref):
            self.edit(ref, {"metadata": {"deletionTimestamp": _stamp(self.clock)}})

    def _deleting(self, ref: ObjectRef) -> bool:
        return "deletionTimestamp" in self._objects[ref]["metadata"]

    def _orphans(self) -> Iterator[ObjectRef]:
        uids = {body["metadata"]["uid"] for body in self._objects.values()}
        for ref, body in list(self._objects.items()):
            owners = body["metadata"].get("ownerReferences") or []
            if owners and not any(owner["uid"] in uids for owner in owners):
                yield ref


def _spec_of(body: Body) -> Any:
    return {key: value for key, value in body.items() if key not in ("metadata", "status")}


def _stamp(clock: FakeClock) -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _matches(selector: str, labels: dict[str, str]) -> bool:
    return all(_matches_term(term.strip(), labels) for term in _terms(selector))


def _terms(selector: str) -> list[str]:
    return [term for term in re.split(r",(?![^(]*\))", selector) if term.strip()]


def _matches_term(term: str, labels: dict[str, str]) -> bool:
    if match := _SET_BASED.match(term):
        values = {value.strip() for value in match[3].split(",")}
        return (labels.get(match[1]) in values) == (match[2] == "in")
    if "!=" in term:
        key, value = term.split("!=")
        return labels.get(key) != value
    if "=" in term:
        key, _, value = term.partition("=")
        return labels.get(key) == value.lstrip("=")
    if term.startswith("!"):
        return term[1:] not in labels
    return term in labels
