"""Takes facts out of payloads, index and tables. The chain of hashes stays whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_service.store.sqlite import payloads
from knowledge_service.store.sqlite.projections import kept
from knowledge_service.store.sqlite.transaction import Transaction

_FIND = "SELECT fact_no, scope_no FROM fact WHERE id = ?"
_LINKS = "SELECT count(*) FROM link WHERE from_no = ?1 OR to_no = ?1"
_ABOUT = "SELECT seq FROM fact_event WHERE fact_no = ?"
_KEPT = "SELECT seq FROM event WHERE type = ?"
_PAYLOAD = "SELECT salt, bytes FROM payload WHERE seq = ?"
_REWRITE = "UPDATE payload SET salt = ?, bytes = ? WHERE seq = ?"
_DROP = "DELETE FROM payload WHERE seq = ?"
_FORGET_RUNS = "DELETE FROM fact_run WHERE fact_no = ?"
# An answer that is kept for a repeat may hold the fact itself; one that names it only may stay.
_FORGET_ANSWERS = """DELETE FROM idempotency
  WHERE instr(response, ?) > 0 AND instr(response, '"content":') > 0"""
_NUMBERS = ("fact_no", "from_no", "to_no", "origin_no", "copy_no")
_NAMES = ("fact", "from", "to", "origin", "copy", "was")


def erase(tx: Transaction, fact_ids: Sequence[str], *, actor: str, reason: str) -> tuple[int, int]:
    """Erase facts; return how many links and events went with them."""
    links, gone = 0, set()
    for fact_id in fact_ids:
        row = tx.one(_FIND, (fact_id,))
        if row is None:
            continue
        fact_no, scope_no = row
        links += int((tx.one(_LINKS, (fact_no,)) or (0,))[0])
        emptied, touched = _payloads(tx, fact_id, fact_no)
        gone |= touched
        tx.unindex(scope_no, fact_no)
        tx.equals.erase(scope_no, [fact_no])
        tx.execute(_FORGET_RUNS, (fact_no,))
        tx.execute(_FORGET_ANSWERS, (fact_id,))
        said = {"fact": fact_id, "scope": scope_no, "events": sorted(emptied), "reason": reason}
        tx.record("fact.erased", scope_no=scope_no, actor=actor, parts=[said])
    return links, len(gone)


def _payloads(tx: Transaction, fact_id: str, fact_no: int) -> tuple[set[int], set[int]]:
    """Erase what payloads say of a fact; return those of which nothing is left, and all touched."""
    emptied, touched = set(), set()
    about = [seq for (seq,) in tx.all(_ABOUT, (fact_no,))]
    for seq in sorted({*about, *(seq for (seq,) in tx.all(_KEPT, (kept.TYPE,)))}):
        row = tx.one(_PAYLOAD, (seq,))
        if row is None:
            continue
        sealed = payloads.Sealed(row[0], row[1])
        left = payloads.erase(sealed, lambda part: _concerns(part, fact_id, fact_no))
        if left is None:
            tx.execute(_DROP, (seq,))
            emptied.add(seq)
        elif left != sealed:
            tx.execute(_REWRITE, (left.salt, left.data, seq))
        else:
            continue
        touched.add(seq)
    return emptied, touched


def _concerns(part: Mapping[str, Any], fact_id: str, fact_no: int) -> bool:
    if "table" in part:
        row = part["row"]
        return fact_no in [row.get(name) for name in _NUMBERS]
    return fact_id in [part.get(name) for name in _NAMES]
