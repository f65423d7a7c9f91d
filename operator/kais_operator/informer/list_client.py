"""Lists of one kind: whole, to begin with; then only names and versions, to compare with memory.

A watch tells what happens, and neither that it has fallen silent nor what went while it was cut.
A list tells both. Names and versions are cheap: the API server leaves out everything else, and of
what is left only a few fields are decoded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from kais.resources.base import API_GROUP
from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import Connection
from kais_operator.planning.plan import Body, ObjectRef

PAGE = 250
_MARKS_PAGE = 500
_MARKS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True)
class Subject:
    """What one list is about; the namespace is None for all, the selector may be empty."""

    kind: str
    namespace: str | None
    selector: str = ""

    def __str__(self) -> str:
        return f"{self.kind} in {self.namespace or 'all namespaces'}"


@dataclass(frozen=True, slots=True)
class Mark:
    """One object's name and state, and whether an object of ours controls it."""

    ref: ObjectRef
    uid: str
    version: str
    is_controlled: bool = False


@dataclass(frozen=True)
class Marks:
    """All objects of a subject at one version of the cluster."""

    version: str
    found: tuple[Mark, ...]


class _Owner(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815 (as the API has it)
    controller: bool = False


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    resourceVersion: str  # noqa: N815 (as the API has it)
    namespace: str = ""
    ownerReferences: list[_Owner] | None = None  # noqa: N815 (as the API has it)


class _Item(msgspec.Struct):
    metadata: _Metadata


class _Of(msgspec.Struct, rename={"following": "continue"}):
    resourceVersion: str = ""  # noqa: N815 (as the API has it)
    following: str = ""


class _Page(msgspec.Struct):
    metadata: _Of
    items: list[_Item] | None = None


_DECODER = msgspec.json.Decoder(_Page)


class Listing:
    """Lists over a connection; every method raises ClusterError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def pages(self, subject: Subject) -> AsyncIterator[tuple[list[Body], str]]:
        """Give whole objects, page by page, each with the version that the list is of."""
        kind, path = subject.kind, api_paths.collection(subject.kind, subject.namespace)
        named = {"apiVersion": api_paths.RESOURCES[kind].api_version, "kind": kind}
        query = _query(subject, PAGE)
        while True:
            page = await self._connection.call("GET", path, query=query)
            items = [{**named, **item} for item in page.get("items") or ()]
            yield items, str(page["metadata"]["resourceVersion"])
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following

    async def marks(self, subject: Subject) -> Marks:
        """Give the names and states of all objects."""
        path = api_paths.collection(subject.kind, subject.namespace)
        query = _query(subject, _MARKS_PAGE)
        found: list[Mark] = []
        while True:
            content = await self._connection.content(path, query=query, accept=_MARKS)
            try:
                page = _DECODER.decode(content)
            except msgspec.DecodeError as exc:
                raise errors.ClusterUnavailable(
                    f"GET {path}: the answer is no list: {exc}"
                ) from exc
            for item in page.items or ():
                of = item.metadata
                ref = ObjectRef(subject.kind, of.namespace, of.name)
                found.append(Mark(ref, of.uid, of.resourceVersion, _is_controlled(of)))
            if not page.metadata.following:
                return Marks(page.metadata.resourceVersion, tuple(found))
            query["continue"] = page.metadata.following

    async def read(self, ref: ObjectRef) -> Body | None:
        """Read one object as it is now; None when it is gone."""
        try:
            return await self._connection.call("GET", api_paths.single(ref))
        except errors.NotFound:
            return None


def _is_controlled(metadata: _Metadata) -> bool:
    owners = metadata.ownerReferences or ()
    return any(o.controller and o.apiVersion.startswith(f"{API_GROUP}/") for o in owners)


def _query(subject: Subject, page: int) -> dict[str, str]:
    selected = {"labelSelector": subject.selector} if subject.selector else {}
    return {"limit": str(page), **selected}
