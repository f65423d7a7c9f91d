"""The log of one container, read while it is written."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

from kais_cli import errors
from kais_cli.cluster.api_client import ApiServer, ResponseError
from kais_cli.ports import LogOptions

_NO_LOG = 400
"""The API server's answer about a container that has not started, or had not before this time."""


def params(container: str, options: LogOptions) -> dict[str, str]:
    """Return the parameters of the request for a log."""
    since = {} if options.since is None else {"sinceSeconds": str(_seconds(options.since))}
    flags = {
        "follow": options.follow,
        "previous": options.previous,
        "timestamps": options.timestamps,
    }
    names = {name: "true" for name, is_set in flags.items() if is_set}
    return {"container": container, "tailLines": str(options.tail)} | since | names


def _seconds(duration: timedelta) -> int:
    """Round up: the API server takes whole seconds, at least one."""
    return math.ceil(duration / timedelta(seconds=1))


async def read(
    api: ApiServer, namespace: str, pod: str, *, params: Mapping[str, str]
) -> AsyncIterator[str]:
    """Yield pieces of a container's log; with follow, until the container ends.

    Raises:
        ResponseError: The API server refused the request.
        NoPreviousLog: There was no previous container.
    """
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
        if exc.status_code != _NO_LOG:
            raise
        if "previous" in params:
            operation = f"read the log of {params['container']} in Pod/{namespace}/{pod}"
            raise errors.NoPreviousLog(f"{operation}: {exc}") from exc


async def next_piece(pieces: AsyncIterator[str]) -> str | None:
    """Wait for the next piece; None at the end."""
    return await anext(pieces, None)
