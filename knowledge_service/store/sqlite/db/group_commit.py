"""What the jobs of one commit leave to its end: the index is written for all of them together."""

from __future__ import annotations

import apsw

from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db import postings
from knowledge_service.store.sqlite.db.transaction import Transaction


class GroupCommit:
    """What the jobs of a commit leave to its end."""

    def __init__(self) -> None:
        self._unindexed: dict[int, list[tuple[int, postings.Text]]] = {}
        self._erased: list[postings.Erased] = []
        self._emptied: set[int] = set()
        self.moves_scopes = False
        self.is_begun = False
        """Whether a job has written something that a later one must not take back."""

    def take(self, tx: Transaction) -> None:
        """Add what one job leaves."""
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
        """Tell whether facts leave the index."""
        return bool(self._erased or self._emptied)

    def index(self, connection: apsw.Connection) -> ErasedDocuments:
        """Index what the jobs wrote, all facts of a scope together; return what left the index."""
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
