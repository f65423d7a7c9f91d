"""Watch one object or a list: list, watch from that version, repeat after a lost connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from kais import resource_names
from kais.resources import base
from kais_cli.cluster.api_client import ApiServer, ResponseError, decode, read_object
from kais_cli.error_messages import kubernetes_api
from kais_cli.ports import Body, Change, Target

_Item = TypeVar("_Item")
_POLL_S = 1.0
_TRANSIENT = (httpx.codes.GONE, httpx.codes.TOO_MANY_REQUESTS)
"""Refusals of a request that is accepted later: the version is too old, or too many requests."""
_WATCH_S = 300  # seconds after which the API server ends a watch, and a new one starts
_RECONNECT_DELAY_S = 1.0  # seconds between a lost connection and the next try


@dataclass(frozen=True)
class Collection:
    """The objects of a kind in a namespace, or in all, that have some labels, or any."""

    kind: str
    namespace: str | None
    labels: str = ""


async def next_item(
    queue: asyncio.Queue[_Item], watches: Sequence[asyncio.Task[None]]
) -> _Item | None:
    """Return the next item, or None if there is none within a second.

    Raises:
        ResponseError: The API server has refused one of the watches.
    """
    try:
        return await asyncio.wait_for(queue.get(), _POLL_S)
    except TimeoutError:
        for task in watches:
            if task.done():
                task.result()
        return None


async def follow(
    api: ApiServer, target: Target, queue: asyncio.Queue[Change], *, exists: bool
) -> None:
    """Put the current target and all its changes into the queue, until cancelled.

    `exists` is whether the target is known to exist, so that its absence is a deletion.

    Raises:
        ResponseError: The API server refuses the watch, and a retry would not help.
    """
    request = _request(
        target.kind, target.namespace, {"fieldSelector": f"metadata.name={target.name}"}
    )
    while True:
        try:
            version, items = await _list(api, request)
            if items or exists:
                await queue.put(Change(target, items[0] if items else None))
            exists = bool(items)
            async for event in _events(api, request, version):
                exists = event["type"] != "DELETED"
                await queue.put(Change(target, event["object"] if exists else None))
        except kubernetes_api.API_ERRORS as exc:
            _raise_if_final(exc)
            # The next list shows whether changes were missed.
            await asyncio.sleep(_RECONNECT_DELAY_S)


async def follow_list(
    api: ApiServer, collection: Collection, queue: asyncio.Queue[Sequence[Body]]
) -> None:
    """Put the objects of a collection, then each change, into the queue, until cancelled.

    Raises:
        ResponseError: The API server refuses the watch, and a retry would not help.
    """
    selector = {"labelSelector": collection.labels} if collection.labels else {}
    request = _request(collection.kind, collection.namespace, selector)
    versions: dict[str, str] = {}  # by UID, to put only what changed while the watch was lost
    while True:
        try:
            list_version, items = await _list(api, request)
            changed = [body for body in items if versions.get(_uid(body)) != _version(body)]
            versions |= {_uid(body): _version(body) for body in changed}
            if changed:
                await queue.put(changed)
            async for event in _events(api, request, list_version):
                body = event["object"]
                versions[_uid(body)] = _version(body)
                await queue.put([body])
        except kubernetes_api.API_ERRORS as exc:
            _raise_if_final(exc)
            await asyncio.sleep(_RECONNECT_DELAY_S)  # the next list shows what was missed


def _raise_if_final(failure: Exception) -> None:
    """Raise a refusal that another try would not change."""
    if not isinstance(failure, ResponseError) or failure.status_code in _TRANSIENT:
        return
    if not httpx.codes.is_server_error(failure.status_code):
        raise failure


def _uid(body: Body) -> str:
    return str(body["metadata"]["uid"])


def _version(body: Body) -> str:
    return str(body["metadata"]["resourceVersion"])


@dataclass(frozen=True)
class _Request:
    """A request for the objects of a kind: the kind, and the options of `call_api`."""

    kind: str
    options: dict[str, Any]
    params: dict[str, str]


def _request(kind: str, namespace: str | None, selector: dict[str, str]) -> _Request:
    options = {
        "version": base.API_VERSION,
        "namespace": namespace,
        "path": (resource_names.BY_KIND[kind].plural,),
    }
    return _Request(kind, options, selector)


async def _list(api: ApiServer, request: _Request) -> tuple[str, list[Body]]:
    async with api.call_api(
        "GET", params=request.params, timeout=30, **request.options
    ) as response:
        body = read_object(response)
    kind = {"apiVersion": base.API_VERSION, "kind": request.kind}
    return body["metadata"]["resourceVersion"], [kind | item for item in body["items"]]


async def _events(api: ApiServer, request: _Request, version: str) -> AsyncIterator[Body]:
    """Yield the events of a watch; end when the version is too old, and the caller must list.

    Raises:
        TooDeep: The object of an event nests too deeply.
    """
    params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_S)}
    timeout = httpx.Timeout(30, read=_WATCH_S + 30)
    async with api.call_api(
        "GET", params=request.params | params, stream=True, timeout=timeout, **request.options
    ) as response:
        async for line in response.aiter_lines():
            try:
                event = decode(line, response.status_code)
            except json.JSONDecodeError as exc:  # the connection ended within an event
                raise httpx.RemoteProtocolError("incomplete event of a watch") from exc
            if event["type"] == "ERROR":
                return
            yield event
