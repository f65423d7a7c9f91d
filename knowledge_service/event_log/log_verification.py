"""Verifies the log's hash chain: nothing was changed, and nothing is missing except erased data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from knowledge_service.event_log import event_payloads, fact_events
from knowledge_service.event_log.event_payloads import StoredPayload, UnreadablePayload
from knowledge_service.event_log.hash_chain import EMPTY, event_hash
from knowledge_service.event_log.store_ports import LogReader

MAX_PROBLEMS = 100
"""Enough to see what happened, without flooding the terminal if the whole log is damaged."""


@dataclass(frozen=True)
class Report:
    """The result of a verification; `problems` has a sentence for each damage.

    If the log is whole, everything else can be rebuilt.
    """

    events: int
    erased: int
    problems: tuple[str, ...]
    has_whole_log: bool = True


def verify_log(log: LogReader) -> Report:
    """Verify that the chain and every payload are as they were recorded."""
    problems: list[str] = []
    count = erased = 0
    try:
        erasable = _erased_events(log)
        for event_problems, is_erased in _checked_events(log, erasable):
            count += 1
            erased += is_erased
            problems += event_problems
            if len(problems) >= MAX_PROBLEMS:
                break
        problems += [f"payload {seq} belongs to no event" for seq in log.stray_payloads()]
    except log.read_errors as exc:
        problems.append(f"the log cannot be read behind event {count} ({exc})")
    return Report(count, erased, tuple(problems[:MAX_PROBLEMS]), not problems)


def _checked_events(log: LogReader, erasable: set[int]) -> Iterator[tuple[list[str], bool]]:
    """Yield the problems of each event, and whether it has no payload."""
    prev_hash, expected_seq = EMPTY.hash, 1
    for row, payload in log.entries():
        problems = []
        if row.seq != expected_seq or row.prev_hash != prev_hash:
            problems.append(f"event {row.seq} does not follow the one before it")
        if payload is None and row.seq not in erasable:
            problems.append(f"event {row.seq} has lost its payload")
        if payload is not None and not _has_hash(payload, row.payload_hash):
            problems.append(f"event {row.seq} has another payload than was recorded")
        yield problems, payload is None
        prev_hash, expected_seq = event_hash(row), row.seq + 1


def _has_hash(payload: StoredPayload, expected: bytes) -> bool:
    try:
        return payload.hash == expected
    except ValueError:
        return False


def _erased_events(log: LogReader) -> set[int]:
    """Return the events that erasures emptied."""
    seqs: set[int] = set()
    for _, payload in log.entries_of_type(fact_events.ERASED):
        try:
            parts = event_payloads.decode(payload) if payload else ()
        except UnreadablePayload:
            continue  # `_checked_events` reports this payload
        for part in parts:
            seqs |= set(part["events"]) if part else set()
    return seqs
