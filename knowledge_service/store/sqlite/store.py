"""The whole store in one file: opens it, migrates it, and combines the repositories."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

from knowledge_client.models import StoreIdentity
from knowledge_service import clock as clocks
from knowledge_service.domain.capacity import UNDECLARED_FACTS
from knowledge_service.event_log import times
from knowledge_service.search import pipeline
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.startup_progress import Progress
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection, read_pool
from knowledge_service.store.sqlite.db.wal_checkpoint import Checkpointer
from knowledge_service.store.sqlite.db.write_queue import WriteQueue
from knowledge_service.store.sqlite.repositories.audit_log import AuditLog
from knowledge_service.store.sqlite.repositories.episodes import Episodes
from knowledge_service.store.sqlite.repositories.extractions import Extractions
from knowledge_service.store.sqlite.repositories.fact_lifecycle import FactLifecycle
from knowledge_service.store.sqlite.repositories.facts import Facts
from knowledge_service.store.sqlite.repositories.links import Links
from knowledge_service.store.sqlite.repositories.operations import Operations
from knowledge_service.store.sqlite.repositories.principals import Principals
from knowledge_service.store.sqlite.repositories.provenance import Provenance
from knowledge_service.store.sqlite.repositories.recall import RecallRepository, Searcher
from knowledge_service.store.sqlite.repositories.runs import Runs
from knowledge_service.store.sqlite.repositories.scope_adoption import Adoption
from knowledge_service.store.sqlite.repositories.scopes import Scopes
from knowledge_service.store.sqlite.repositories.usage import Usage
from knowledge_service.store.sqlite.repositories.vectors import Vectors
from knowledge_service.store.sqlite.upgrade import migrate

# Writes the first page of the file with a number that nothing reads. An update of a row to the same
# value would write nothing, and succeed on a disk that takes no writes.
_TOUCH = "PRAGMA user_version=0"
# A readiness probe of the kubelet waits 5 s.
_LOOK_S = 3.0
_META = "SELECT value FROM meta WHERE key = ?"


class SqliteStore(
    Facts,
    RecallRepository,
    Runs,
    Episodes,
    Extractions,
    Scopes,
    Principals,
    Links,
    Provenance,
    Usage,
    AuditLog,
    FactLifecycle,
    Adoption,
    Vectors,
    Operations,
):
    """The `Store` port on one SQLite file, which this process owns until `close`.

    Raises:
        FileLocked: another process has locked the file.
        SchemaTooNew: a newer version wrote the file.
        StartupError: the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        clock: clocks.Clock = clocks.now,
        *,
        progress: Progress | None = None,
        reads_within: timedelta = read_pool.TIME_LIMIT,
        undeclared_facts: int = UNDECLARED_FACTS,
        ranker_config: RankerConfig = pipeline.DEFAULT_CONFIG,
    ) -> None:
        self.ranker_config = ranker_config
        self._reads_within = reads_within
        self._undeclared_facts = undeclared_facts
        self._lock = connection.lock(path)
        try:
            store_id = self._open(path, clock, progress or Progress())
        except connection.FAILURES as exc:
            self._lock.close()
            raise connection.damaged_error(path, exc) from exc
        except BaseException:
            self._lock.close()
            raise
        # Each opening counts as a restore, so that the operator repeats its registrations.
        self._identity = StoreIdentity(id=store_id, epoch=int(clock().timestamp()))

    def _open(self, path: Path, clock: clocks.Clock, progress: Progress) -> str:
        writing = connection.open_writer(path)
        try:
            migrate.migrate(writing, clock, progress=progress)
            (store_id,) = next(iter(writing.execute(_META, ("store_id",))))
            projection_rebuild.renew_index(writing, progress)
            connection.begin_serving(writing)
        except BaseException:
            connection.close_connection(writing)
            raise
        self._file = connection.File(path)
        checkpointer = Checkpointer(path, self._file)
        checkpointer.start()
        bound = self._undeclared_facts
        writer = WriteQueue(writing, clock, self._file, checkpointer, undeclared_facts=bound)
        reading = read_pool.ReadPool(path, self._reads_within, writer.mark_damaged)
        writer.watch_erasures(reading.postings_cache.record_erasure)
        super().__init__(reading, writer)
        return str(store_id)

    def search_in(self, searcher: Searcher) -> None:
        """Have searches run by another process, which learns of each erasure before its commit."""
        own_cache = self._readers.postings_cache

        def record_erasure(version: int, erased: ErasedDocuments) -> None:
            own_cache.record_erasure(version, erased)
            searcher.record_erasure(version, erased)

        self._readers.wait_for_other_process = searcher.wait_for_open_searches
        self._writer.watch_erasures(record_erasure, searcher.set_erasure_version)
        self.searcher = searcher

    def drop_postings(self) -> None:
        """Free the postings that this process has cached, because another one searches."""
        self._readers.postings_cache.clear()

    def identity(self) -> StoreIdentity:
        """Return the store's id and epoch."""
        return self._identity

    def latest(self) -> datetime:
        """Return the time of the last event in the log."""
        return times.from_us(self._writer.latest_us)

    @property
    def erased_at_s(self) -> float:
        """Return when text was last erased, by `time.monotonic`: no later read has it."""
        return self._writer.erased_at_s

    def receipts_waiting_s(self) -> float:
        """Return how many seconds the oldest receipt without a run has waited to be stored."""
        return self._writer.deferred.waiting_s

    def erased_pending_s(self) -> float:
        """Return the seconds that the write-ahead log has held erased bytes; 0 if it holds none."""
        return self._writer.erased_since_s or 0.0

    def check(self) -> None:
        """Check that the writer can commit, without a write unless the disk is in doubt.

        After a failed write, or when there is little room, one page is written unchanged, because
        only a write shows whether the disk takes writes again.

        Raises:
            StoreUnavailable: the store cannot write.
        """
        is_in_doubt = self._writer.write_error is not None or not self._file.has_room_for_writes()
        touch = _TOUCH if is_in_doubt else "SELECT 1"
        self._writer.submit(lambda tx: tx.execute(touch).fetchall(), patience_s=_LOOK_S)
        if self._writer.write_error:
            raise self._writer.write_error

    def check_alive(self) -> None:
        """Check whether a commit has failed for good.

        Raises:
            StoreUnavailable: nothing can be written until a restart.
        """
        if self._writer.fatal_error:
            raise self._writer.fatal_error

    def close(self) -> None:
        """Finish the queued writes, checkpoint the log, and release the file in any case.

        Closing twice has no effect.
        """
        if self._lock.closed:
            return
        with ExitStack() as last_first:
            last_first.callback(self._lock.close)
            last_first.callback(self._file.close)
            last_first.callback(self._readers.close)
            last_first.callback(self._writer.close)
