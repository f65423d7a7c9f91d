"""Lists objects of one kind: in full for the first time, then only names and versions.

A watch reports neither that it is silent nor what was deleted while it was disconnected; a list
shows both. Names and versions are cheap: the API server leaves out everything else, and only a few
of the remaining fields are decoded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kais.resources.base import API_GROUP
from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import JSON, ApiClient
from kais_operator.planning.plan import Body, ObjectRef

_T = TypeVar("_T")
PAGE_SIZE = 250
_METADATA_PAGE_SIZE = 500
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True)
class WatchTarget:
    """The scope of a list or watch; None means all namespaces, an empty selector all objects."""

    kind: str
    namespace: str | None
    selector: str = ""

    def __str__(self) -> str:
        return f"{self.kind} in {self.namespace or 'all namespaces'}"


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """The name and version of an object, and whether an object of our kinds controls it."""

    ref: ObjectRef
    uid: str
    version: str
    is_controlled: bool = False


@dataclass(frozen=True)
class ObjectVersions:
    """The versions of all objects of a target, at one version of the list."""

    version: str
    objects: tuple[ObjectVersion, ...]


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


class _ListMetadata(msgspec.Struct, rename={"following": "continue"}):
    resourceVersion: str = ""  # noqa: N815 (as the API has it)
    following: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Item] | None = None


class _FullPage(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_DECODER = msgspec.json.Decoder(_Page)
_FULL_DECODER = msgspec.json.Decoder(_FullPage)
_ITEM_DECODER = msgspec.json.Decoder(dict[str, Any])


class ListClient:
    """Lists through an API client; every method raises ClusterError."""

    def __init__(self, api_client: ApiClient) -> None:
        self._api_client = api_client

    async def pages(self, target: WatchTarget) -> AsyncIterator[tuple[Iterator[Body], str]]:
        """Yield whole objects page by page, each page with the version of the list.

        The objects of a page are decoded one at a time, as they are read: as dicts, all of them
        take 18 times the size of the page, and much of that would stay in the process.
        """
        path = api_paths.collection(target.kind, target.namespace)
        query = _query(target, PAGE_SIZE)
        while True:
            content = await self._api_client.get_bytes(path, query=query, accept=JSON)
            page = _decode(_FULL_DECODER, content, path=path)
            yield _bodies(target.kind, page.items or (), path=path), page.metadata.resourceVersion
            if not page.metadata.following:
                return
            query["continue"] = page.metadata.following

    async def versions(self, target: WatchTarget) -> ObjectVersions:
        """Return the names and versions of all objects."""
        path = api_paths.collection(target.kind, target.namespace)
        query = _query(target, _METADATA_PAGE_SIZE)
        objects: list[ObjectVersion] = []
        while True:
            content = await self._api_client.get_bytes(path, query=query, accept=_METADATA_ONLY)
            page = _decode(_DECODER, content, path=path)
            for item in page.items or ():
                metadata = item.metadata
                ref = ObjectRef(target.kind, metadata.namespace, metadata.name)
                objects.append(
                    ObjectVersion(
                        ref, metadata.uid, metadata.resourceVersion, _is_controlled(metadata)
                    )
                )
            if not page.metadata.following:
                return ObjectVersions(page.metadata.resourceVersion, tuple(objects))
            query["continue"] = page.metadata.following

    async def read(self, ref: ObjectRef) -> Body | None:
        """Read an object from the API server; None if it does not exist."""
        try:
            return await self._api_client.call("GET", api_paths.single(ref))
        except errors.NotFound:
            return None


def _decode(decoder: msgspec.json.Decoder[_T], content: bytes | msgspec.Raw, *, path: str) -> _T:
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as exc:
        raise errors.ClusterUnavailable(f"GET {path}: the answer is no list: {exc}") from exc


def _bodies(kind: str, items: Sequence[msgspec.Raw], *, path: str) -> Iterator[Body]:
    """Decode the objects of a list, which have no apiVersion and kind of their own."""
    type_meta = {"apiVersion": api_paths.RESOURCES[kind].api_version, "kind": kind}
    for item in items:
        body: Body = _decode(_ITEM_DECODER, item, path=path)
        yield {**type_meta, **body}


def _is_controlled(metadata: _Metadata) -> bool:
    owners = metadata.ownerReferences or ()
    return any(o.controller and o.apiVersion.startswith(f"{API_GROUP}/") for o in owners)


def _query(target: WatchTarget, page_size: int) -> dict[str, str]:
    selected = {"labelSelector": target.selector} if target.selector else {}
    return {"limit": str(page_size), **selected}
