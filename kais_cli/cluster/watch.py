"""Watch one object by name: list, watch from that version, and repeat after a lost connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from kais.resources import base, kinds
from kais_cli.error_messages import kubernetes_api
from kais_cli.ports import Change, Target

_POLL_S = 1.0
_WATCH_S = 300  # seconds after which the API server ends a watch, and a new one starts
_RECONNECT_DELAY_S = 1.0  # seconds between a lost connection and the next try


async def next_change(queue: asyncio.Queue[Change]) -> Change | None:
    """Return the next change, or None if there is none within a second."""
    try:
        return await asyncio.wait_for(queue.get(), _POLL_S)
    except TimeoutError:
        return None


async def follow(api: Any, target: Target, queue: asyncio.Queue[Change]) -> None:
    """Put the current target and all its changes into the queue, until cancelled."""
    exists = False
    while True:
        try:
            version, items = await _list(api, target)
            if items or exists:
                await queue.put(Change(target, items[0] if items else None))
            exists = bool(items)
            async for body in _changes(api, target, version):
                exists = body is not None
                await queue.put(Change(target, body))
        except kubernetes_api.API_ERRORS:  # the next list shows whether changes were missed
            await asyncio.sleep(_RECONNECT_DELAY_S)


def _call(api: Any, target: Target, **options: Any) -> Any:
    params = {"fieldSelector": f"metadata.name={target.name}", **options.pop("params", {})}
    return api.call_api(
        "GET",
        version=base.API_VERSION,
        namespace=target.namespace,
        url=kinds.BY_NAME[target.kind].PLURAL,
        params=params,
        **options,
    )


async def _list(api: Any, target: Target) -> tuple[str, list[dict[str, Any]]]:
    async with _call(api, target, timeout=30) as response:
        body = response.json()
    kind = {"apiVersion": base.API_VERSION, "kind": target.kind}
    return body["metadata"]["resourceVersion"], [kind | item for item in body["items"]]


async def _changes(api: Any, target: Target, version: str) -> Any:
    params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_S)}
    timeout = httpx.Timeout(30, read=_WATCH_S + 30)
    async with _call(api, target, params=params, stream=True, timeout=timeout) as response:
        async for line in response.aiter_lines():
            event = json.loads(line)
            if event["type"] == "ERROR":  # the version is too old: read again
                return
            yield None if event["type"] == "DELETED" else event["object"]
