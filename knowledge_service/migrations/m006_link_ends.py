"""Links found from either end without a look at the links themselves, closed ones too.

SQLite takes an index for covering only when it holds each column that a query names. The index of
live links does not hold `closed_at`, by which it is chosen, so each link was read; and closed links
that begin at a fact were found by reading all there are.
"""

from __future__ import annotations

SQLITE = """
DROP INDEX link_to;
DROP INDEX link_into;
CREATE INDEX link_out ON link(from_no, to_no, type, closed_at);
CREATE INDEX link_in ON link(to_no, from_no, type, closed_at);
"""
