"""Lists objects of one kind: in full for the first time, then only names and versions.

A watch reports neither that it is silent nor what was deleted while it was disconnected; a list
shows both. Names and versions are cheap: the API server leaves out everything else, and only a few
of the remaining fields are decoded.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from kais.resources.base import API_GROUP
from kais_operator import errors
from kais_operator.kubernetes import api_paths, object_json
from kais_operator.kubernetes.api_client import JSON, ApiClient
from kais_operator.planning.plan import Body, ObjectRef

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


class _Page(msgspec.Struct):
    metadata: object_json.ListMetadata
    items: list[_Item] | None = None


_DECODER = msgspec.json.Decoder(_Page)


class ListClient:
    """Lists through an API client; every method raises ClusterError."""

    def __init__(self, api_client: ApiClient) -> None:
        self._api_client = api_client

    async def pages(
        self, target: WatchTarget
    ) -> AsyncIterator[tuple[Iterator[Body | ObjectVersion], str]]:
        """Yield whole objects page by page, each page with the version of the list.

        Of an object that nests too deeply to be read, only its name and version are yielded.
        The objects of a page are decoded one at a time, as they are read: as dicts, all of them
        take 18 times the size of the page, and much of that would stay in the process.
        """
        path = api_paths.collection(target.kind, target.namespace)
        query = _query(target, PAGE_SIZE)
        while True:
            content = await self._api_client.get_bytes(path, query=query, accept=JSON)
            with decoding_list(path):
                page = object_json.decode_page(content)
            yield _objects(target.kind, page.items or (), path=path), page.metadata.resourceVersion
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
            with decoding_list(path):
                page = object_json.decode(_DECODER, content)
            objects.extend(_version(target.kind, item.metadata) for item in page.items or ())
            if not page.metadata.following:
                return ObjectVersions(page.metadata.resourceVersion, tuple(objects))
            query["continue"] = page.metadata.following

    async def read(self, ref: ObjectRef) -> Body | None:
        """Read an object from the API server; None if it does not exist.

        Raises:
            TooDeep: It nests too deeply.
        """
        try:
            return await self._api_client.call("GET", api_paths.single(ref))
        except errors.NotFound:
            return None


@contextlib.contextmanager
def decoding_list(path: str) -> Iterator[None]:
    """Turn what decoders raise into ClusterUnavailable."""
    try:
        yield
    except msgspec.DecodeError as exc:
        raise errors.ClusterUnavailable(f"GET {path}: the answer is no list: {exc}") from exc


def _objects(
    kind: str, items: Sequence[msgspec.Raw], *, path: str
) -> Iterator[Body | ObjectVersion]:
    """Decode the objects of a list, which have no apiVersion and kind of their own."""
    type_meta = {"apiVersion": api_paths.RESOURCES[kind].api_version, "kind": kind}
    for item in items:
        with decoding_list(path):
            body, is_readable = object_json.decode_object(item)
        full_body = {**type_meta, **body}
        yield full_body if is_readable else version_of(kind, full_body)


def version_of(kind: str, body: Body) -> ObjectVersion:
    """Return the name and version of an object."""
    return _version(kind, msgspec.convert(body["metadata"], _Metadata))


def _version(kind: str, metadata: _Metadata) -> ObjectVersion:
    return ObjectVersion(
        ObjectRef(kind, metadata.namespace, metadata.name),
        metadata.uid,
        metadata.resourceVersion,
        _is_controlled(metadata),
    )


def _is_controlled(metadata: _Metadata) -> bool:
    owners = metadata.ownerReferences or ()
    return any(o.controller and o.apiVersion.startswith(f"{API_GROUP}/") for o in owners)


def _query(target: WatchTarget, page_size: int) -> dict[str, str]:
    selected = {"labelSelector": target.selector} if target.selector else {}
    return {"limit": str(page_size), **selected}
