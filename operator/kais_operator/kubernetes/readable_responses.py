"""Responses for another client, such as kopf, without objects that nest too deeply.

Such a client would end at them. The informer's lists report them; see `object_json`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import msgspec
from aiohttp import connector

from kais_operator.kubernetes import object_json


class ReadableResponse(aiohttp.ClientResponse):
    """A response of the API server whose lists and watch events nest at most `MAX_DEPTH` levels."""

    async def start(self, connection: connector.Connection) -> aiohttp.ClientResponse:
        """Start, and replace the stream."""
        await super().start(connection)
        self.content = cast("aiohttp.StreamReader", _ReadableStream(self.content))
        return self

    async def json(self, **options: Any) -> Any:
        """Decode the body; a list lacks the objects that nest too deeply."""
        try:
            page = object_json.decode_page(await self.read())
        except msgspec.DecodeError:
            return await super().json(**options)
        if page.items is None:
            return await super().json(**options)
        items = [object_json.decode_object(item) for item in page.items]
        return {
            "apiVersion": page.apiVersion,
            "kind": page.kind,
            "metadata": msgspec.to_builtins(page.metadata),
            "items": [body for body, is_readable in items if is_readable],
        }


class _ReadableStream:
    """A stream of watch events, read in chunks."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield lines as soon as they are complete."""
        rest = b""
        async for chunk in self._content.iter_chunked(size):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield object_json.readable_event(line) + b"\n"
        if rest:
            yield rest
