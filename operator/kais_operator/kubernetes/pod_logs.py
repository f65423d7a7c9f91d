"""The logs of containers, read in the background and kept until a pass takes them.

A log is read from the API server as a stream, and its last bytes are kept: `limitBytes` would cut
off the end, where verdicts stand. `tailLines` only spares lines that cannot be among those bytes.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future

from kais_operator import errors
from kais_operator.kubernetes import api_paths
from kais_operator.kubernetes.api_client import Connection
from kais_operator.kubernetes.event_loop_thread import SideLoop
from kais_operator.planning.container_results import Log
from kais_operator.planning.plan import ObjectRef
from kais_rendering.fair_share import FairShare, surplus

logger = logging.getLogger(__name__)

KEPT_BYTES = 256 * 1024
MOST_BYTES = 16 * 2**20
"""A container that printed more is given up on: all of it would come through this process."""
PATIENCE_S = 10.0
_TAIL_LINES = str(KEPT_BYTES)  # a line has one byte at least, its end
_AT_ONCE, _MOST = 8, 2
_UNTAKEN = 64
"""Logs that were read and that no pass has taken: 16 MiB at most; the next pass reads again."""
_UPPER_TWO, _CONTINUES = 0b1100_0000, 0b1000_0000
_LONGEST_REST = 3
"""Bytes of a character of UTF-8 after its first one, which their upper two bits tell."""
_GONE = (errors.NotFound, errors.Invalid)

Key = tuple[ObjectRef, str]


class LogReader:
    """Reads logs over `twin` in `side`, in shares by namespace; counts requests on `connection`."""

    def __init__(
        self,
        connection: Connection,
        twin: Connection,
        side: SideLoop,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._connection = connection
        self._twin = twin
        self._side = side
        self._patience_s = patience_s
        self._share = FairShare(_AT_ONCE, most=_MOST)
        self._reads: dict[Key, Future[Log]] = {}

    def take(self, pod: ObjectRef, container: str) -> Log | None:
        """Give a log and forget it; None while it is read, which the first call begins.

        Raises:
            ClusterError: it could not be read now; the next call starts over.
        """
        key = (pod, container)
        read = self._reads.get(key)
        if read is None:
            self._forget_untaken()
            self._connection.requests["get"] += 1
            self._reads[key] = self._side.submit(self._read(pod, container))
            return None
        if not read.done():
            return None
        del self._reads[key]
        return read.result()

    def _forget_untaken(self) -> None:
        """Forget logs that no caller takes."""
        untaken = [key for key, read in self._reads.items() if read.done()]
        for key in surplus(untaken, limit=_UNTAKEN, namespace=lambda key: key[0].namespace):
            del self._reads[key]

    async def _read(self, pod: ObjectRef, container: str) -> Log:
        async with self._share.turn(pod.namespace):
            tail = Tail(KEPT_BYTES)
            try:
                async with asyncio.timeout(self._patience_s):
                    is_whole = await self._stream(pod, container, tail)
            except TimeoutError:
                return Log(problem=f"its log was not read within {self._patience_s:g} s")
            except _GONE as exc:
                return Log(problem=f"its output is gone with its pod: {exc}")
            except errors.Forbidden as exc:
                logger.log(logging.ERROR, "the log of %s in %s: %s", container, pod, exc)
                return Log(problem=f"its log may not be read: {exc}")
        if not is_whole:
            return Log(problem=f"its log is longer than {MOST_BYTES // 2**20} MiB; print less")
        return Log(tail.text())

    async def _stream(self, pod: ObjectRef, container: str, tail: Tail) -> bool:
        """Read a log into `tail`; False for one that is too long."""
        query = {"container": container, "tailLines": _TAIL_LINES}
        async with self._twin.chunks(f"{api_paths.single(pod)}/log", query=query) as chunks:
            async for chunk in chunks:
                tail.add(chunk)
                if tail.received > MOST_BYTES:
                    return False
        return True


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self.received = 0

    def add(self, data: bytes) -> None:
        """Take what came, and drop what is not among the last bytes any more."""
        self.received += len(data)
        self._bytes += data
        del self._bytes[: max(0, len(self._bytes) - self._limit)]

    def text(self, *, last: int | None = None) -> str:
        """Give the `last` bytes as text, all that were kept when None.

        A character that was cut in two is left out.
        """
        kept = self._bytes if last is None else self._bytes[-last:]
        start = 0
        if self.received > len(kept):
            while start < _LONGEST_REST and kept[start] & _UPPER_TWO == _CONTINUES:
                start += 1
        return kept[start:].decode("utf-8", "replace")
