"""Watches objects of one target from a version on, as the API server streams the changes.

The API server sends a bookmark about every minute, so a stream that is silent for longer than
`IDLE_TIMEOUT_S` is broken, even if the connection looks intact.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from kais_operator import errors
from kais_operator.informer.list_client import WatchTarget, decoding_list
from kais_operator.kubernetes import api_errors, api_paths, object_json
from kais_operator.kubernetes.api_client import JSON, ApiClient
from kais_operator.planning.plan import Body

IDLE_TIMEOUT_S = 75.0
_SERVER_TIMEOUT_S = 300
"""The API server ends a watch after this time; the next one resumes from the last version."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change of an object; a bookmark has only the version to resume from.

    An object that is not readable nests too deeply, so parts of its body are missing.
    """

    body: Body
    is_deleted: bool = False
    is_bookmark: bool = False
    is_readable: bool = True

    @property
    def version(self) -> str:
        """The version from which a watch resumes after this event."""
        return str(self.body["metadata"]["resourceVersion"])


class WatchClient:
    """Watches through an API client; every method raises ClusterError."""

    def __init__(self, api_client: ApiClient) -> None:
        self._api_client = api_client

    async def current_version(self, target: WatchTarget) -> str:
        """Return the version that a list of the target has now."""
        path = api_paths.collection(target.kind, target.namespace)
        content = await self._api_client.get_bytes(path, query={"limit": "1"}, accept=JSON)
        with decoding_list(path):
            return object_json.decode_page(content).metadata.resourceVersion

    async def events(self, target: WatchTarget, *, version: str) -> AsyncIterator[WatchEvent]:
        """Yield the changes after a version, until the API server ends the watch.

        Raises:
            Expired: The version is too old.
            ClusterUnavailable: The stream broke, was silent for too long, or is not JSON.
        """
        path = api_paths.collection(target.kind, target.namespace)
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_SERVER_TIMEOUT_S),
            "resourceVersion": version,
            **({"labelSelector": target.selector} if target.selector else {}),
        }
        rest = b""
        async with self._api_client.stream(
            path, query=query, idle_timeout_s=IDLE_TIMEOUT_S
        ) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _parse(line, operation=f"WATCH {path}")


def _parse(line: bytes, *, operation: str) -> WatchEvent:
    try:
        event = object_json.decode_event(line)
        body, is_readable = object_json.decode_object(event.object)
    except msgspec.DecodeError as exc:
        raise errors.ClusterUnavailable(f"{operation}: the answer is no event: {exc}") from exc
    if event.type == "ERROR":
        code = body.get("code", 0)
        raise api_errors.from_status(code, bytes(event.object), operation=operation)
    body.get("metadata", {}).pop("managedFields", None)
    is_deleted = event.type == "DELETED"
    return WatchEvent(
        body,
        is_deleted=is_deleted,
        is_bookmark=event.type == "BOOKMARK",
        is_readable=is_readable or is_deleted,
    )
