"""The log of one container, read while it is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from kais_cli.cluster.api_client import ApiServer, ResponseError

_NOT_STARTED = 400
"""The API server's answer while a container has not been started yet."""


async def read(
    api: ApiServer, namespace: str, pod: str, *, params: Mapping[str, str]
) -> AsyncIterator[str]:
    """Yield pieces of a container's log; with follow, until the container ends."""
    try:
        async with api.call_api(
            "GET",
            version="v1",
            namespace=namespace,
            url=f"pods/{pod}/log",
            params=dict(params),
            stream=True,
            timeout=None,
        ) as response:
            async for piece in response.aiter_text():
                yield piece
    except ResponseError as exc:
        if exc.status_code != _NOT_STARTED:
            raise


async def next_piece(pieces: AsyncIterator[str]) -> str | None:
    """Wait for the next piece; None at the end."""
    return await anext(pieces, None)
