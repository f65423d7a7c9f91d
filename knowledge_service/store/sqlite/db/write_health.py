"""Whether the database file takes writes: the last error, a fatal one, or damage.

A full or read-only disk is a write error: the next commit may succeed. After a fatal error, above
all of fsync, the content of the disk is unknown, so everything is rejected until a restart. A
damaged file takes no writes either, because a restored backup would not contain them.
"""

from __future__ import annotations

import logging

from knowledge_service.errors import StoreDamaged, StoreUnavailable
from knowledge_service.store.sqlite.db import connection as connections

_log = logging.getLogger(__name__)
# A disk that was full has room again when this much is free: enough for some of the largest facts
# with their index.
_MIN_FREE_BYTES = 1 << 20


class WriteHealth:
    """The errors of one file; the writer thread sets them, other threads read them."""

    def __init__(self, file: connections.File) -> None:
        self._file = file
        self.write_error: StoreUnavailable | None = None
        """The reason why the last writes failed; None once there is room again."""
        self.fatal_error: StoreUnavailable | None = None
        """The failure since which the store is read-only; None as long as writes are possible."""
        self.damage: StoreDamaged | None = None

    @property
    def lasting_error(self) -> StoreUnavailable | None:
        """The fatal error or the damage; None if the next write may succeed."""
        return self.fatal_error or self.damage

    @property
    def last_error(self) -> StoreUnavailable | None:
        """The lasting error, else the error of the last commit."""
        return self.lasting_error or self.write_error

    def check_file(self) -> None:
        """Check that the file is still the one that was opened.

        Raises:
            StoreUnavailable: it is not, or the store is read-only since a failure.
        """
        if self.fatal_error is None:
            try:
                self._file.check()
            except StoreUnavailable as exc:
                self.fatal_error = exc
        self.raise_lasting_error()

    def raise_lasting_error(self) -> None:
        """Reject a write that cannot succeed.

        Raises:
            StoreUnavailable: the fatal error or the damage.
        """
        if self.lasting_error:
            raise self.lasting_error

    def mark_damaged(self, damage: StoreDamaged) -> None:
        """Reject all further writes."""
        if self.damage is None:
            _log.error("the database is damaged", extra={"fields": {"why": damage.detail}})
        self.damage = damage

    def set_write_error(self, error: StoreUnavailable | None) -> None:
        """Store and log when writes begin to fail, and when they succeed again.

        A rolled-back write leaves space in the write-ahead log. A small write fits into it although
        the disk is full, so its success proves nothing.
        """
        if isinstance(error, StoreDamaged):
            self.mark_damaged(error)
        if self.write_error and not error and self._file.free_bytes() < _MIN_FREE_BYTES:
            return
        if error and not self.write_error:
            _log.error("the store takes no writes", extra={"fields": {"why": error.detail}})
        if not error and self.write_error:
            _log.info("the store takes writes again")
        self.write_error = error
