"""The changes of the full-text index in one commit, collected from all its jobs."""

from __future__ import annotations

import apsw

from knowledge_service.search.postings import segment
from knowledge_service.search.postings.cache import ErasedDocuments
from knowledge_service.store.sqlite.db import posting_table
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.projections.trigram_index import TrigramChanges


class IndexChanges:
    """Collects what the jobs of a commit add to the index and remove from it."""

    def __init__(self) -> None:
        self._texts_to_index: dict[int, list[tuple[int, posting_table.Text]]] = {}
        self._documents_to_erase: list[posting_table.Erased] = []
        self._erases_new = False
        self._scopes_to_clear: set[int] = set()
        self._trigrams = TrigramChanges()
        self.changes_scopes = False
        self.is_begun = False
        """Whether a job has written something that the rollback of a later one must not undo."""

    def add(self, transaction: Transaction) -> None:
        """Add the index changes of one job."""
        for scope_no in transaction.scopes_to_clear:
            self._scopes_to_clear.add(scope_no)
            self._texts_to_index.pop(scope_no, None)
        for scope_no, texts in transaction.texts_to_index.items():
            self._texts_to_index.setdefault(scope_no, []).extend(texts)
        for erased in transaction.documents_to_erase:
            self._erase(erased)
        self._trigrams.merge(transaction.trigrams)
        self.is_begun = True
        self.changes_scopes = self.changes_scopes or transaction.changes_scopes

    @property
    def has_erasures(self) -> bool:
        """Return whether facts leave the index."""
        return bool(self._documents_to_erase or self._scopes_to_clear or self._erases_new)

    def write(self, connection: apsw.Connection) -> ErasedDocuments:
        """Index new facts, those of a scope together; return the documents that left the index.

        Erasures come first: a new fact may have the number of an erased one.
        """
        blanked: dict[int, list[int] | None] = dict.fromkeys(self._scopes_to_clear)
        for scope_no in self._scopes_to_clear:
            posting_table.clear_scope(connection, scope_no)
        for erased_document in self._documents_to_erase:
            document_index = posting_table.erase(connection, erased_document)
            document_indexes = blanked.setdefault(erased_document.scope_no, [])
            if document_index is not None and document_indexes is not None:
                document_indexes.append(document_index)
        for scope_no, texts in self._texts_to_index.items():
            posting_table.add(connection, scope_no, texts)
        self._trigrams.write(connection)
        return blanked

    def _erase(self, erased: posting_table.Erased) -> None:
        """Erase a document; one that this commit added leaves a tombstone in its place."""
        texts = self._texts_to_index.get(erased.scope_no, [])
        for at, (fact_no, _) in enumerate(texts):
            if fact_no == erased.fact_no:
                texts[at] = (segment.TOMBSTONE, b"")
                self._erases_new = True
                return
        self._documents_to_erase.append(erased)
