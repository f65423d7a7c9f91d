"""Covering indexes of links by either end, including closed links.

SQLite uses an index as covering only if it holds each column that a query names. The index of live
links lacks `closed_at`, by which it is chosen, so each link was read. Closed links that begin at a
fact could only be found by reading all closed links.
"""

from __future__ import annotations

SQLITE = """
DROP INDEX link_to;
DROP INDEX link_into;
CREATE INDEX link_out ON link(from_no, to_no, type, closed_at);
CREATE INDEX link_in ON link(to_no, from_no, type, closed_at);
"""
