"""The Cluster port over the API server.

Each write first checks `is_leader()`: a Lease expires by the monotonic clock, whatever the loop of
the election does. Field managers: `kais-operator` for children, `kais-operator-status` for status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any

from msgspec import DecodeError

from kais import labels as names
from kais.scopes import Scope
from kais_operator import errors
from kais_operator.kubernetes import api_paths, managed_fields, object_json
from kais_operator.kubernetes.account_index import AccountIndex
from kais_operator.kubernetes.api_client import APPLY_PATCH, JSON, MERGE_PATCH, ApiClient
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import Clock

_PAGE = "500"
_MESSAGE_LIMIT = 1024  # the API's bound of an Event's message
_APPLY_QUERY = {"force": "true", "fieldManager": names.MANAGER_CHILDREN}
_STATUS_QUERY = {"force": "true", "fieldManager": names.MANAGER_STATUS}
_METADATA_QUERY = {"fieldManager": names.MANAGER_METADATA}
_CREATE_QUERY = {"fieldManager": names.MANAGER_CHILDREN, "fieldValidation": "Ignore"}
"""By default the API server looks for unknown fields and warns of them, which nobody reads here."""


class ApiCluster:
    """The Cluster port over an API client."""

    def __init__(
        self, api_client: ApiClient, *, is_leader: Callable[[], bool], clock: Clock
    ) -> None:
        self._api_client = api_client
        self._is_leader = is_leader
        self._clock = clock

    async def get(self, ref: ObjectRef, *, fresh: bool = True) -> Body | None:
        """Read an object; None if it does not exist."""
        try:
            return await self._api_client.call("GET", api_paths.single(ref))
        except errors.NotFound:
            return None

    async def get_child(self, ref: ObjectRef) -> Body | None:
        """Read the object that has the name of a child; None if there is none."""
        return await self.get(ref)

    async def list(
        self, kind: str, namespace: str | None, *, labels: str = "", fresh: bool = True
    ) -> Sequence[Body]:
        """List objects of one kind, in pages; items get their kind, as single objects have it.

        Objects that nest too deeply are left out; the lists of the informer report them.
        """
        query = {"limit": _PAGE} | ({"labelSelector": labels} if labels else {})
        path = api_paths.collection(kind, namespace)
        items: list[Body] = []
        while True:
            page, continue_token = await self._page(path, query)
            items.extend(page)
            if not continue_token:
                break
            query["continue"] = continue_token
        type_meta = {"apiVersion": api_paths.RESOURCES[kind].api_version, "kind": kind}
        return [{**type_meta, **item} for item in items]

    async def scopes_of_borrowers(
        self, namespace: str, account: str, *, excluding: str
    ) -> Sequence[Scope]:
        """Return scopes of the cells that borrow an account, from lists of all cells."""
        index = AccountIndex()
        for kind in ("Formation", "Cell"):
            for body in await self.list(kind, namespace):
                index.put(body)
        return index.scopes(namespace, account, excluding=excluding)

    async def create(self, body: Body) -> Body:
        """Create an object; raises AlreadyExists."""
        ref = ref_of(body)
        path = api_paths.collection(ref.kind, ref.namespace)
        return await self._write("POST", path, query=_CREATE_QUERY, body=body)

    async def apply(self, body: Body, *, uid: str) -> Body:
        """Apply server-side, forced, to exactly the object with this UID; raises Conflict."""
        ref = ref_of(body)
        path = api_paths.single(ref)
        live = await self.get(ref)
        if live is None or live["metadata"]["uid"] != uid:
            raise errors.Conflict(f"{ref} is no longer the object with uid {uid}")
        migration = managed_fields.migration_patch(live)
        if migration is not None:
            await self._write("PATCH", path, body=migration, content_type=MERGE_PATCH)
        metadata = {**body["metadata"], "uid": uid}
        applied = {**body, "metadata": metadata}
        return await self._write(
            "PATCH", path, query=_APPLY_QUERY, body=applied, content_type=APPLY_PATCH
        )

    async def patch_metadata(self, ref: ObjectRef, patch: Body, *, resource_version: str) -> Body:
        """Merge-patch metadata on exactly this resourceVersion; raises Conflict."""
        return await self._write(
            "PATCH",
            api_paths.single(ref),
            query=_METADATA_QUERY,
            body={"metadata": {**patch, "resourceVersion": resource_version}},
            content_type=MERGE_PATCH,
        )

    async def patch_spec(
        self, ref: ObjectRef, patch: Body, *, metadata: Body, resource_version: str
    ) -> Body:
        """Merge-patch a spec and metadata on exactly this resourceVersion; raises Conflict."""
        versioned = {**metadata, "resourceVersion": resource_version}
        return await self._write(
            "PATCH",
            api_paths.single(ref),
            query=_METADATA_QUERY,
            body={"metadata": versioned, "spec": patch},
            content_type=MERGE_PATCH,
        )

    async def apply_status(self, body: Body) -> Body:
        """Apply the status subresource server-side."""
        path = f"{api_paths.single(ref_of(body))}/status"
        return await self._write(
            "PATCH", path, query=_STATUS_QUERY, body=body, content_type=APPLY_PATCH
        )

    async def delete(
        self, ref: ObjectRef, *, uid: str, resource_version: str | None = None
    ) -> Body | None:
        """Delete with preconditions; returns what finalizers hold, None if it is gone."""
        versioned = {} if resource_version is None else {"resourceVersion": resource_version}
        preconditions = {"uid": uid, **versioned}
        options = {"preconditions": preconditions, "propagationPolicy": "Background"}
        try:
            answer = await self._write("DELETE", api_paths.single(ref), body=options)
        except errors.NotFound:
            return None
        # The response is a Status, or the object: the last state if it is gone, else the current.
        is_held = "deletionTimestamp" in answer.get("metadata", {})
        return answer if is_held and answer.get("kind") == ref.kind else None

    async def events_about(self, ref: ObjectRef, *, uid: str) -> Sequence[Body]:
        """Read the Events about exactly this object, oldest first; at most one page of them."""
        selector = f"involvedObject.uid={uid},involvedObject.name={ref.name}"
        query = {"limit": _PAGE, "fieldSelector": selector}
        path = api_paths.collection("Event", ref.namespace)
        page, _ = await self._page(path, query)
        return sorted(page, key=_last_seen)

    async def emit(self, involved: Body, *, severity: str, reason: str, message: str) -> None:
        """Write a Kubernetes Event about an object."""
        metadata = involved["metadata"]
        namespace = metadata.get("namespace") or "default"
        at = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name'][:57]}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": involved["apiVersion"],
                "kind": involved["kind"],
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata["uid"],
                "resourceVersion": metadata.get("resourceVersion"),
            },
            "type": severity,
            "reason": reason,
            "message": message[:_MESSAGE_LIMIT],
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "source": {"component": names.MANAGER_CHILDREN},
            "reportingComponent": names.MANAGER_CHILDREN,
            "reportingInstance": "",
        }
        await self._write("POST", api_paths.collection("Event", namespace), body=body)

    async def _page(self, path: str, query: Mapping[str, str]) -> tuple[Sequence[Body], str]:
        """Return the readable objects of a page, and the token of the next one."""
        content = await self._api_client.get_bytes(path, query=query, accept=JSON)
        try:
            page = object_json.decode_page(content)
            items = [object_json.decode_object(item) for item in page.items or ()]
        except DecodeError as exc:
            raise errors.ClusterUnavailable(f"GET {path}: the answer is no list: {exc}") from exc
        return [body for body, is_readable in items if is_readable], page.metadata.following

    async def _write(self, method: str, path: str, **request: Any) -> Body:
        if not self._is_leader():
            raise errors.NotLeading(f"the Lease is lost; {method} {path} was not sent")
        return await self._api_client.call(method, path, **request)


def ref_of(body: Body) -> ObjectRef:
    """Return the reference to an object."""
    metadata = body["metadata"]
    return ObjectRef(body["kind"], metadata.get("namespace", ""), metadata["name"])


def _last_seen(event: Body) -> str:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return max(time or "" for time in times)
