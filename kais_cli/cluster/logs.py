"""The log of one container, read while it is written."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import httpx

from kais_cli import errors
from kais_cli.cluster import container_start
from kais_cli.cluster.api_client import ApiServer, ResponseError, read_object
from kais_cli.ports import Body, LogItem, LogOptions, Waiting

_NO_LOG = 400
"""The API server's answer about a container that has not started, or had not before this time."""
_POLL_S = 1.0  # seconds between two requests for the log of a container that has not started
_SOON = 10  # requests after which a wait that usually ends soon is worth a note


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
) -> AsyncIterator[LogItem]:
    """Yield pieces of a container's log; with follow, from its start until it ends.

    Before it starts, it yields what it waits for, once for each reason.

    Raises:
        ResponseError: The API server refused the request.
        NoPreviousLog: There was no previous container.
        NotStarted: The container is followed and does not start.
    """
    container, obstacle = params["container"], None
    notes = _WaitNotes(namespace, pod, container)
    operation = f"read the log of {container} in Pod/{namespace}/{pod}"
    while True:
        try:
            async for piece in _pieces(api, namespace, pod, params):
                yield piece
        except ResponseError as exc:
            _raise_if_final(exc, operation, params, obstacle)
        else:
            return
        if "follow" not in params:
            return
        # With an obstacle, it asks once more: the container may have run since the last answer.
        body = await _find_pod(api, namespace, pod)
        obstacle = container_start.obstacle(body, container)
        if obstacle is None:
            if (note := notes.next(body)) is not None:
                yield note
            await asyncio.sleep(_POLL_S)


class _WaitNotes:
    """What to say while a container does not start; nothing about a wait that usually ends soon."""

    def __init__(self, namespace: str, pod: str, container: str) -> None:
        self._namespace, self._pod, self._container = namespace, pod, container
        self._polls = 0
        self._noted: set[str] = set()

    def next(self, pod: Body | None) -> Waiting | None:
        """Return what the container waits for, unless that was said."""
        self._polls += 1
        wait = container_start.wait(pod or {}, self._container)
        if wait is None or wait.reason in self._noted:
            return None
        hint = f"; see `kubectl describe pod {self._pod} -n {self._namespace}`"
        if wait.is_unusual:
            hint = ""
        elif self._polls <= _SOON:
            return None
        self._noted.add(wait.reason)
        subject = f"{self._container} in Pod/{self._namespace}/{self._pod}"
        return Waiting(f"{subject} waits to start: {wait.message}{hint}")


def _raise_if_final(
    failure: ResponseError, operation: str, params: Mapping[str, str], obstacle: str | None
) -> None:
    """Raise a failure unless it means that the container has not started, and may start."""
    is_gone = failure.status_code == httpx.codes.NOT_FOUND and obstacle is not None
    if failure.status_code != _NO_LOG and not is_gone:
        raise failure
    if "previous" in params:
        raise errors.NoPreviousLog(f"{operation}: {failure}") from failure
    if obstacle is not None:
        raise errors.NotStarted(f"{operation}: {failure}; {obstacle}") from failure


async def _pieces(
    api: ApiServer, namespace: str, pod: str, params: Mapping[str, str]
) -> AsyncIterator[str]:
    """Yield pieces of a container's log from one response.

    Raises:
        ResponseError: The API server refused the request, or the pod has no node yet.
    """
    async with api.call_api(
        "GET",
        version="v1",
        namespace=namespace,
        path=("pods", pod, "log"),
        params=dict(params),
        stream=True,
        timeout=None,
    ) as response:
        if response.status_code == httpx.codes.NO_CONTENT:
            raise ResponseError("the pod has no node yet", _NO_LOG, None)
        async for piece in response.aiter_text():
            yield piece


async def _find_pod(api: ApiServer, namespace: str, pod: str) -> Body | None:
    """Read a pod by a list, because people who may read logs may not always get pods."""
    async with api.call_api(
        "GET",
        version="v1",
        namespace=namespace,
        path=("pods",),
        params={"fieldSelector": f"metadata.name={pod}"},
    ) as response:
        items: list[Body] = read_object(response)["items"]
    return next(iter(items), None)


async def next_piece(pieces: AsyncIterator[LogItem]) -> LogItem | None:
    """Wait for the next piece; None at the end."""
    return await anext(pieces, None)
