"""Lists one kind and watches it from there, for ever: what `handlers` hears of the cluster.

    list (pages) -> listed -> watch -> happened, heard ... -> watch from the last version again
         ^------------------- the version is too old (410): nothing may be missed --'

A watch that says nothing for longer than the API server's bookmarks are apart is given up, and one
that breaks is opened again where it ended, so that nothing is listed again without need. A
loop instead of kopf's: see docs/decisions/0022-memory-and-watches.md.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import json

from kais_operator import errors
from kais_operator.adapters import api_paths, cluster_failures
from kais_operator.adapters.connection import Connection
from kais_operator.decide.plan import Body

logger = logging.getLogger(__name__)

SILENCE_S = 75.0
"""The API server sends a bookmark each minute or so; a watch without one is dead."""
_PAGE = "250"
_WATCH_S = (240, 300)
"""How long a watch is asked for; spread, so that not all of them are opened at once again."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_INTERNAL = 500
_STEADY_S = 30.0
"""A watch that held this long was no failure: the next pause is the first one again."""


class Told(Protocol):
    """Who hears what a watch tells; each call is quick and raises nothing."""

    def listed(self, kind: str, body: Body) -> None:
        """Hear of one object of a list."""

    def list_ended(self, kind: str, namespace: str | None, *, seen: set[str], version: str) -> None:
        """Hear that the list is whole: `seen` has the UID of each object in it."""

    def happened(self, kind: str, body: Body, *, is_gone: bool) -> None:
        """Hear that an object came, changed or went."""

    def heard(self, kind: str, namespace: str | None) -> None:
        """Hear that the watch is alive."""


@dataclass(frozen=True)
class Subject:
    """What one watch is about; the namespace is None for all, the selector may be empty."""

    kind: str
    namespace: str | None
    selector: str = ""

    def __str__(self) -> str:
        return f"{self.kind} in {self.namespace or 'all namespaces'}"


class KindWatch:
    """One list and watch; `run` it in a task. `lists` bounds how many list at a time."""

    def __init__(
        self, connection: Connection, subject: Subject, told: Told, *, lists: asyncio.Semaphore
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._told = told
        self._lists = lists
        self._path = api_paths.collection(subject.kind, subject.namespace)
        self._selected = {"labelSelector": subject.selector} if subject.selector else {}
        self._version: str | None = None
        self._said = ""

    async def run(self) -> None:
        """List and watch until it is cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began = asyncio.get_running_loop().time()
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._watch()
            except errors.Expired:
                logger.info("%s: listed again, the watch fell behind", self._subject)
                self._version = None
            except errors.ClusterError as exc:
                self._say_once(f"{self._subject}: {exc}")
            if asyncio.get_running_loop().time() - began > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))  # noqa: S311 (a spread)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _list(self) -> str:
        """Tell every object of the kind, and give the version to watch from."""
        subject = self._subject
        seen: set[str] = set()
        version = ""
        async with self._lists:
            async for page in self._pages():
                for item in page.get("items") or ():
                    seen.add(item["metadata"]["uid"])
                    self._told.listed(subject.kind, self._complete(item))
                version = str(page["metadata"]["resourceVersion"])
                self._told.heard(subject.kind, subject.namespace)
        self._said = ""
        self._told.list_ended(subject.kind, subject.namespace, seen=seen, version=version)
        return version

    async def _pages(self) -> AsyncIterator[Body]:
        query = {"limit": _PAGE, **self._selected}
        while True:
            page = await self._connection.call("GET", self._path, query=query)
            yield page
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following

    async def _watch(self) -> None:
        """Tell events until the watch ends.

        Raises:
            ClusterError: It broke; Expired when the API server no longer has what happened since.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(random.randint(*_WATCH_S)),  # noqa: S311 (a spread)
            **self._selected,
        }
        watch = self._connection.stream(self._path, query=query, silence_s=SILENCE_S)
        async with watch as events:
            async for some in events:
                for event in some:
                    self._tell(event)
                self._told.heard(self._subject.kind, self._subject.namespace)

    def _tell(self, event: dict[str, Any]) -> None:
        body: Body = event["object"]
        if event["type"] == "ERROR":
            code = int(body.get("code") or _INTERNAL)
            raise cluster_failures.from_status(code, json.encode(body), what=f"WATCH {self._path}")
        self._version = str(body["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            kind, is_gone = self._subject.kind, event["type"] == "DELETED"
            self._told.happened(kind, self._complete(body), is_gone=is_gone)

    def _complete(self, item: Body) -> Body:
        """Name the kind, which the items of a list leave out."""
        kind = self._subject.kind
        return {"apiVersion": api_paths.RESOURCES[kind].api_version, "kind": kind, **item}

    def _say_once(self, text: str) -> None:
        if text != self._said:
            logger.warning("%s", text)
        self._said = text
