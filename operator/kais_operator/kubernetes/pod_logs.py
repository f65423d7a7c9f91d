"""The logs of containers, read in the background and kept until a reconcile reads them.

A log is read from the API server as a stream, and its last bytes are kept: `limitBytes` would cut
off the end, where verdicts are. `tailLines` only saves the transfer of lines that cannot be among
those bytes.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future

from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import ApiClient
from kais_operator.kubernetes.stream_thread import StreamThread
from kais_operator.planning.container_results import Log
from kais_operator.planning.plan import ObjectRef
from kais_rendering.fair_share import FairShare, surplus

logger = logging.getLogger(__name__)

TAIL_BYTES = 256 * 1024
MAX_BYTES = 16 * 2**20
"""Longer logs are not read, because all of it would pass through this process."""
READ_TIMEOUT_S = 10.0
_TAIL_LINES = str(TAIL_BYTES)  # a line has one byte at least, its end
_MAX_CONCURRENT, _MAX_PER_NAMESPACE = 8, 2
_MAX_UNCLAIMED = 64
"""Logs that no reconcile has read yet: 16 MiB at most; others are read again."""
_UTF8_PREFIX_MASK, _UTF8_CONTINUATION = 0b1100_0000, 0b1000_0000
_MAX_CONTINUATION_BYTES = 3
"""Continuation bytes of one UTF-8 character; their upper two bits mark them."""
_POD_GONE_ERRORS = (errors.NotFound, errors.Invalid)

Key = tuple[ObjectRef, str]


class LogReader:
    """Reads logs with `stream_client` in `loop_thread`, in fair shares by namespace."""

    def __init__(
        self,
        api_client: ApiClient,
        stream_client: ApiClient,
        loop_thread: StreamThread,
        *,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        self._api_client = api_client
        self._stream_client = stream_client
        self._loop_thread = loop_thread
        self._timeout_s = timeout_s
        self._share = FairShare(_MAX_CONCURRENT, max_per_namespace=_MAX_PER_NAMESPACE)
        self._reads: dict[Key, Future[Log]] = {}

    def pop_or_start(self, pod: ObjectRef, container: str) -> Log | None:
        """Return a log and drop it; None while it is being read, which the first call starts.

        Raises:
            ClusterError: it could not be read; the next call starts over.
        """
        key = (pod, container)
        read = self._reads.get(key)
        if read is None:
            self._drop_unclaimed()
            self._api_client.requests["get", "pods"] += 1
            self._reads[key] = self._loop_thread.submit(self._read(pod, container))
            return None
        if not read.done():
            return None
        del self._reads[key]
        return read.result()

    def _drop_unclaimed(self) -> None:
        """Drop logs that no caller has read."""
        unclaimed = [key for key, read in self._reads.items() if read.done()]
        for key in surplus(unclaimed, limit=_MAX_UNCLAIMED, namespace=lambda key: key[0].namespace):
            del self._reads[key]

    async def _read(self, pod: ObjectRef, container: str) -> Log:
        async with self._share.turn(pod.namespace):
            tail = Tail(TAIL_BYTES)
            try:
                async with asyncio.timeout(self._timeout_s):
                    is_complete = await self._stream(pod, container, tail)
            except TimeoutError:
                return Log(problem=f"its log was not read within {self._timeout_s:g} s")
            except _POD_GONE_ERRORS as exc:
                return Log(problem=f"its output is gone with its pod: {exc}")
            except errors.Forbidden as exc:
                logger.log(logging.ERROR, "the log of %s in %s: %s", container, pod, exc)
                return Log(problem=f"its log may not be read: {exc}")
        if not is_complete:
            return Log(problem=f"its log is longer than {MAX_BYTES // 2**20} MiB; print less")
        return Log(tail.text())

    async def _stream(self, pod: ObjectRef, container: str, tail: Tail) -> bool:
        """Read a log into `tail`; False for one that is too long."""
        query = {"container": container, "tailLines": _TAIL_LINES}
        async with self._stream_client.stream(
            f"{api_paths.single(pod)}/log", query=query
        ) as chunks:
            async for chunk in chunks:
                tail.add(chunk)
                if tail.received > MAX_BYTES:
                    return False
        return True


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self.received = 0

    def add(self, data: bytes) -> None:
        """Append data, and drop what is beyond the limit."""
        self.received += len(data)
        self._bytes += data
        del self._bytes[: max(0, len(self._bytes) - self._limit)]

    def text(self, *, limit: int | None = None) -> str:
        """Return the last `limit` bytes as text, all of the tail if None.

        A character that was cut in two is omitted.
        """
        tail = self._bytes if limit is None else self._bytes[-limit:]
        start = 0
        if self.received > len(tail):
            while (
                start < _MAX_CONTINUATION_BYTES
                and tail[start] & _UTF8_PREFIX_MASK == _UTF8_CONTINUATION
            ):
                start += 1
        return tail[start:].decode("utf-8", "replace")
