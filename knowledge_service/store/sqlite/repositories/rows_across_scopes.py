"""Merges rows of several scopes in one order, read from indexes that begin with the scope.

Only rows of these scopes are read: rows of other scopes cost nothing.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from knowledge_service.store.sqlite.json_lists import json_list

# An arbitrary number of rows of one scope that are read at a time.
_PAGE = 50

Key = tuple[Any, ...]


class _Descending(tuple[Any, ...]):
    """A key that sorts before smaller ones."""

    def __lt__(self, compared: tuple[Any, ...]) -> bool:
        return tuple.__gt__(self, compared)


@dataclass(frozen=True)
class ScopedRows:
    """The queries that read rows in the order of their key, which is their first columns.

    `heads` takes the scopes as JSON and the key to start after, and returns each scope that has a
    row, with the key of its first row. `page` takes a scope, the key to start after and a number of
    rows.
    """

    heads: str
    page: str
    descending: bool = False

    def merge(
        self, connection: apsw.Connection, scopes: Collection[int], start_key: Key
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of all these scopes in the order of their keys."""
        order = _Descending if self.descending else tuple
        size = len(start_key)
        heads: Any = connection.execute(self.heads, (json_list(sorted(scopes)), *start_key))
        heap = [(order(key), scope_no) for scope_no, *key in heads]
        heapq.heapify(heap)
        pages: dict[int, deque[tuple[Any, ...]]] = {}
        while heap:
            scope_no = heap[0][1]
            rows = pages.get(scope_no) or self._page(connection, scope_no, start_key)
            row = rows.popleft()
            yield row
            pages[scope_no] = rows = rows or self._page(connection, scope_no, row[:size])
            if rows:
                heapq.heapreplace(heap, (order(rows[0][:size]), scope_no))
            else:
                heapq.heappop(heap)

    def _page(
        self, connection: apsw.Connection, scope_no: int, start_key: Key
    ) -> deque[tuple[Any, ...]]:
        return deque(connection.execute(self.page, (scope_no, *start_key, _PAGE)))
