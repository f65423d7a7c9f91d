"""Work at the end of a commit: the facts of all its jobs are indexed together."""

from __future__ import annotations

import apsw

from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db import postings
from knowledge_service.store.sqlite.db.transaction import Transaction


class GroupCommit:
    """Collects the index changes of a commit's jobs."""

    def __init__(self) -> None:
        self._unindexed: dict[int, list[tuple[int, postings.Text]]] = {}
        self._erased: list[postings.Erased] = []
        self._emptied: set[int] = set()
        self.moves_scopes = False
        self.is_begun = False
        """Whether a job has written something that the rollback of a later one must not undo."""

    def take(self, tx: Transaction) -> None:
        """Add the index changes of one job."""
        for scope_no in tx.emptied:
            self._emptied.add(scope_no)
            self._unindexed.pop(scope_no, None)
        for scope_no, texts in tx.unindexed.items():
            self._unindexed.setdefault(scope_no, []).extend(texts)
        self._erased += tx.erased
        self.is_begun = True
        self.moves_scopes = self.moves_scopes or tx.moves_scopes

    @property
    def erases(self) -> bool:
        """Return whether facts leave the index."""
        return bool(self._erased or self._emptied)

    def index(self, connection: apsw.Connection) -> ErasedDocuments:
        """Index new facts, those of a scope together; return the documents that left the index."""
        blanked: dict[int, list[int] | None] = dict.fromkeys(self._emptied)
        for scope_no in self._emptied:
            postings.clear_scope(connection, scope_no)
        for scope_no, texts in self._unindexed.items():
            postings.add(connection, scope_no, texts)
        for erased_document in self._erased:
            document_index = postings.erase(connection, erased_document)
            document_indexes = blanked.setdefault(erased_document.scope_no, [])
            if document_index is not None and document_indexes is not None:
                document_indexes.append(document_index)
        return blanked
