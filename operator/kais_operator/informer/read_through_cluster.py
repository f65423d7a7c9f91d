"""The Cluster port on top of the cache; reads from the API server where a decision needs it.

From the cache: watched objects and lists of them. From the API server: what the cache lacks (`get`
never takes that for absence), what is not watched, and whatever is read with `fresh`. Only
`get_child` takes a miss for absence, because the create that follows would find an object of that
name; if it is not watched, its name is read from the API server from then on. A Namespace, which is
not watched either, is read again after 10 s.

Our own writes are in the cache before they return, so a reconcile always observes them. After a
write that failed because the cache was late, the object is read again.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kais.scopes import Scope
from kais_operator import errors
from kais_operator.informer.cache import Cache
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import Clock, Cluster

_W = TypeVar("_W")
_EQUALS = re.compile(r"[A-Za-z0-9./_-]+==?[A-Za-z0-9._-]*")
_MAX_FOREIGN_NAMES = 1_000  # names that objects of others have; an arbitrary bound
_OWNER_CONFIRMED_KINDS = frozenset({"Job"})
"""Their creation starts something that cannot be undone, so their owner is read first."""
_NAMESPACE_AGE_S = 10.0
"""No watch reports the labels of namespaces; a cell that they refuse is tried again after 30 s."""
_STALE = (errors.AlreadyExists, errors.Conflict, errors.NotFound)


@dataclass(frozen=True)
class _ReadNamespace:
    """A namespace, and when its read began, monotonic."""

    body: Body
    read_at_s: float


class CachedCluster:
    """Wraps another Cluster; the informer fills `cache`."""

    def __init__(self, live: Cluster, cache: Cache, *, clock: Clock) -> None:
        self._live = live
        self._cache = cache
        self._clock = clock
        self._foreign_names: OrderedDict[ObjectRef, None] = OrderedDict()
        self._namespaces: OrderedDict[str, _ReadNamespace] = OrderedDict()

    async def get(self, ref: ObjectRef, *, fresh: bool = False) -> Body | None:
        """Read an object; None if it does not exist, which the API server confirms."""
        if fresh:
            return await self._fetch(ref)
        if ref.kind == "Namespace":
            return await self._namespace(ref)
        body = self._cached(ref)
        if body is not None or self._cache.is_deleted(ref):
            return body
        return await self._fetch(ref)

    async def get_child(self, ref: ObjectRef) -> Body | None:
        """Read the object that has the name of a child."""
        body = self._cached(ref)
        is_authoritative = (
            self._cache.covers(ref.kind, ref.namespace) and ref not in self._foreign_names
        )
        if body is not None or is_authoritative:
            return body
        body = await self._fetch(ref)
        if body is None or self._cache.is_watched(body):
            self._foreign_names.pop(ref, None)
        return body

    async def list(
        self, kind: str, namespace: str | None, *, labels: str = "", fresh: bool = False
    ) -> Sequence[Body]:
        """List objects; of kinds that are watched by our label, only those that have it."""
        selector = _equality_selector(labels)
        if not fresh and selector is not None and self._cache.covers(kind, namespace):
            return self._cache.find(kind, namespace, selector)
        bodies = await self._live.list(kind, namespace, labels=labels)
        for body in bodies:
            self._cache_body(body)
        return bodies

    async def scopes_of_borrowers(
        self, namespace: str, account: str, *, excluding: str
    ) -> Sequence[Scope]:
        """Return scopes of the cells that borrow an account."""
        if all(self._cache.covers(kind, namespace) for kind in ("Cell", "Formation")):
            return self._cache.accounts.scopes(namespace, account, excluding=excluding)
        return await self._live.scopes_of_borrowers(namespace, account, excluding=excluding)

    async def create(self, body: Body) -> Body:
        """Create an object; raises AlreadyExists, and NotReady if its owner has changed."""
        ref = _ref(body)
        if ref.kind in _OWNER_CONFIRMED_KINDS:
            await self._confirm_owner(body)
        try:
            return self._cache_body(await self._live.create(body))
        except errors.AlreadyExists:
            existing = await self._fetch(ref)
            if existing is not None and not self._cache.is_watched(existing):
                self._record_foreign_name(ref)
            raise

    async def apply(self, body: Body, *, uid: str) -> Body:
        """Apply server-side to exactly the object with this UID; raises Conflict."""
        return self._cache_body(
            await self._fetch_on_conflict(_ref(body), self._live.apply(body, uid=uid))
        )

    async def patch_metadata(self, ref: ObjectRef, patch: Body, *, resource_version: str) -> Body:
        """Merge-patch metadata on exactly this resourceVersion; raises Conflict."""
        write = self._live.patch_metadata(ref, patch, resource_version=resource_version)
        patched = await self._fetch_on_conflict(ref, write)
        if _is_finalized(patched["metadata"]):
            self._cache.remove(ref, patched["metadata"]["uid"])
            return patched
        return self._cache_body(patched)

    async def patch_spec(
        self, ref: ObjectRef, patch: Body, *, metadata: Body, resource_version: str
    ) -> Body:
        """Merge-patch a spec and metadata on exactly this resourceVersion; raises Conflict."""
        write = self._live.patch_spec(
            ref, patch, metadata=metadata, resource_version=resource_version
        )
        return self._cache_body(await self._fetch_on_conflict(ref, write))

    async def apply_status(self, body: Body) -> Body:
        """Apply the status subresource."""
        return self._cache_body(
            await self._fetch_on_conflict(_ref(body), self._live.apply_status(body))
        )

    async def delete(
        self, ref: ObjectRef, *, uid: str, resource_version: str | None = None
    ) -> Body | None:
        """Delete with preconditions; returns what finalizers hold, None if it is gone."""
        deletion = self._live.delete(ref, uid=uid, resource_version=resource_version)
        remaining = await self._fetch_on_conflict(ref, deletion)
        if remaining is None:
            self._cache.remove(ref, uid)
        else:
            self._cache_body(remaining)
        return remaining

    async def events_about(self, ref: ObjectRef, *, uid: str) -> Sequence[Body]:
        """Read the Events about exactly this object; Events are not watched."""
        return await self._live.events_about(ref, uid=uid)

    async def emit(self, involved: Body, *, severity: str, reason: str, message: str) -> None:
        """Write a Kubernetes Event about an object."""
        await self._live.emit(involved, severity=severity, reason=reason, message=message)

    # Inside

    def _cached(self, ref: ObjectRef) -> Body | None:
        return self._cache.get(ref) if self._cache.covers(ref.kind, ref.namespace) else None

    def _cache_body(self, body: Body) -> Body:
        if self._cache.is_watched(body):
            self._cache.put(body, is_confirmed=False)
        return body

    def _record_foreign_name(self, ref: ObjectRef) -> None:
        self._foreign_names[ref] = None
        if len(self._foreign_names) > _MAX_FOREIGN_NAMES:
            self._foreign_names.popitem(last=False)

    async def _fetch(self, ref: ObjectRef) -> Body | None:
        """Read from the API server, and cache the result."""
        cached = self._cache.get(ref)
        body = await self._live.get(ref)
        if body is not None:
            return self._cache_body(body)
        if cached is not None:
            self._cache.remove(ref, cached["metadata"]["uid"])
        return None

    async def _fetch_on_conflict(self, ref: ObjectRef, write: Awaitable[_W]) -> _W:
        """Await a write; if it fails because the object has changed, read the object again."""
        try:
            return await write
        except _STALE:
            await self._fetch(ref)
            raise

    async def _namespace(self, ref: ObjectRef) -> Body | None:
        """Read a namespace again after `_NAMESPACE_AGE_S`, or if it may be another one."""
        now_s = self._clock.monotonic()
        self._drop_old_namespaces(now_s)
        is_current = self._cache.covers("Cell", ref.name) and not self._cache.has_new_objects(
            ref.name
        )
        if is_current and ref.name in self._namespaces:
            return self._namespaces[ref.name].body
        self._namespaces.pop(ref.name, None)
        namespace = await self._live.get(ref)
        if namespace is not None:
            self._namespaces[ref.name] = _ReadNamespace(namespace, now_s)
            self._namespaces.move_to_end(ref.name)
        return namespace

    def _drop_old_namespaces(self, now_s: float) -> None:
        while self._namespaces:
            name, oldest = next(iter(self._namespaces.items()))
            if now_s - oldest.read_at_s < _NAMESPACE_AGE_S:
                break
            del self._namespaces[name]

    async def _confirm_owner(self, body: Body) -> None:
        """Read the owner of a new object; raises NotReady if the cached version is old."""
        ref = _controller(body)
        if ref is None or not self._cache.covers(ref.kind, ref.namespace):
            return
        cached_version = self._cache.version(ref)
        live = await self._fetch(ref)
        if live is None or live["metadata"]["resourceVersion"] != cached_version:
            child = f"{body['kind']}/{ref.namespace}/{body['metadata']['name']}"
            raise errors.NotReady(f"{child} waits: {ref} has changed", requeue_after_s=0.0)


def _is_finalized(metadata: Body) -> bool:
    """Return whether an object is deleted with its last finalizer."""
    is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not is_held


def _controller(body: Body) -> ObjectRef | None:
    metadata = body["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return ObjectRef(owner["kind"], metadata.get("namespace") or "", owner["name"])
    return None


def _equality_selector(selector: str) -> Mapping[str, str] | None:
    """Parse a selector of equalities; None if it has other terms."""
    equalities = {}
    for term in filter(None, selector.split(",")):
        if not _EQUALS.fullmatch(term):
            return None
        label, _, value = term.partition("=")
        equalities[label] = value.lstrip("=")
    return equalities


def _ref(body: Body) -> ObjectRef:
    metadata = body["metadata"]
    return ObjectRef(body["kind"], metadata.get("namespace") or "", metadata["name"])
