"""Vectors of facts, compared one by one with the vector of a query.

The search is exhaustive over the visible scopes, so that nothing invisible affects a rank. It is
meant for tens of thousands of visible facts, not for millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from knowledge_service.ports.embeddings import FactPosition, UnembeddedFact
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories import base

# The number of nearest facts that become candidates.
_NEAREST = 50
_UNEMBEDDED = """SELECT f.fact_no, f.id, coalesce(f.title || char(10), '') || f.content
  FROM fact f LEFT JOIN vector v
  ON v.scope_no = f.scope_no AND v.fact_no = f.fact_no AND v.model = ?1
  WHERE f.fact_no > ?2 AND v.fact_no IS NULL ORDER BY f.fact_no LIMIT ?3"""
_EXISTS = "SELECT 1 FROM fact WHERE fact_no = ? AND id = ?"
_NEWEST = "SELECT fact_no, id FROM fact ORDER BY fact_no DESC LIMIT 1"
# By id: a fact that was erased meanwhile gets no vector, and its number may be another's by now.
_STORE_VECTOR = """INSERT OR REPLACE INTO vector(scope_no, fact_no, model, data)
  SELECT scope_no, fact_no, ?2, ?3 FROM fact WHERE id = ?1"""
_OF_SCOPE = "SELECT fact_no, data FROM vector WHERE scope_no = ? AND model = ? ORDER BY fact_no"


class Vectors(base.SqliteRepository):
    """The `VectorStore` port."""

    def facts_without_vector(
        self, model: str, after: FactPosition | None, limit: int
    ) -> tuple[list[UnembeddedFact], FactPosition | None]:
        """Return facts without a vector."""
        with self._readers.bulk_connection() as connection:
            is_current = after and connection.execute(_EXISTS, after).fetchall()
            number = after.number if after and is_current else 0
            rows: Any = connection.execute(_UNEMBEDDED, (model, number, limit)).fetchall()
            last = rows if len(rows) == limit else connection.execute(_NEWEST).fetchall()
        position = FactPosition(*last[-1][:2]) if last else None
        return [UnembeddedFact(fact_id, text) for _, fact_id, text in rows], position

    def keep_vectors(self, model: str, vectors: Sequence[tuple[str, bytes]]) -> None:
        """Store vectors in one commit."""

        def work(tx: Transaction) -> None:
            tx.executemany(_STORE_VECTOR, [(fact_id, model, data) for fact_id, data in vectors])

        self._writer.submit(work)


def nearest(
    connection: apsw.Connection, scope_nos: Iterable[int], model: str, vector: Sequence[float]
) -> Mapping[int, float]:
    """Return the similarity of the facts nearest to a vector: 1 for the best, 0 for the last."""
    numbers: list[int] = []
    rows: list[bytes] = []
    size = len(vector) * 4
    for scope_no in sorted(scope_nos):
        for number, data in connection.execute(_OF_SCOPE, (scope_no, model)):
            if len(data) == size:
                numbers.append(number)
                rows.append(data)
    if not rows:
        return {}
    matrix = np.frombuffer(b"".join(rows), "<f4").reshape(len(rows), -1).astype(np.float64)
    query_vector = np.array(vector)
    norms = np.linalg.norm(matrix, axis=1) * np.linalg.norm(query_vector)
    likeness = (matrix @ query_vector) / np.maximum(norms, 1e-12)
    order = np.lexsort((np.array(numbers), -likeness))[:_NEAREST]
    best, last = likeness[order[0]], likeness[order[-1]]
    span = max(float(best - last), 1e-9)
    return {
        numbers[position]: float(likeness[position] - last) / span for position in order.tolist()
    }
