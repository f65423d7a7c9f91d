"""What every event log does, whatever database keeps it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from knowledge_service.errors import StartupError
from knowledge_service.event_log import replay, times
from knowledge_service.event_log.event_payloads import UnreadablePayload
from knowledge_service.event_log.hash_chain import EMPTY, event_hash
from knowledge_service.event_log.payload_erasure import ErasableFact, FactErasure
from tests.fakes.clock import START

# Pytest puts this folder's conftest.py on the path for its own tests only.
Log = Any

SCOPE = 1
SHIP, PORT, TIDE = (f"019b0000-0000-7000-8000-00000000000{n}" for n in range(3))
SOURCE = {"type": "agent", "actor": "demo/lead"}
DAY = timedelta(days=1)


def recorded(number: int, fact_id: str, content: str, **extra_fields: Any) -> dict[str, Any]:
    return {
        "no": number, "fact": fact_id, "kind": "claim", "content": content, "tags": ["Sea"],
        "confidence": 0.5, "source": SOURCE, **extra_fields,
    }  # fmt: skip


def write(log: Log, *events: tuple[str, list[dict[str, Any]]], actor: str = "lead") -> list[int]:
    with log.transaction(START) as tx:
        return [
            tx.record(kind, scope_no=SCOPE, actor=actor, parts=parts).seq for kind, parts in events
        ]


def write_and_fail(log: Log) -> None:
    with log.transaction(START) as tx:
        kind, parts = closing(SHIP)
        tx.record(kind, scope_no=SCOPE, actor="lead", parts=parts)
        raise RuntimeError("changed my mind")


FACTS = (
    ("scope.created", [{"path": "realm:demo", "realm": SCOPE}]),
    (
        "fact.recorded",
        [recorded(1, SHIP, "the ship is at sea"), recorded(2, PORT, "the port is closed")],
    ),
    ("fact.recorded", [recorded(3, TIDE, "the tide is low")]),
)


def closing(fact_id: str, reason: str = "it sank") -> tuple[str, list[dict[str, Any]]]:
    values = {
        "lifecycle": "retracted", "closed_at": times.to_us(START), "closed_reason": reason,
        "closed_by": "lead",
    }  # fmt: skip
    return "fact.closed", [{"fact": fact_id, "set": values}]


def erase(log: Log, fact_id: str) -> FactErasure:
    fact = log.facts()[fact_id]
    with log.transaction(START) as tx:
        erasure = FactErasure(
            tx.table, tx.references, ErasableFact(fact_id, fact.number, fact.scope_no)
        )
        erasure.erase()
        for kind, event in erasure.events(actor="lead", reason="asked for"):
            tx.record(kind, scope_no=event.scope_no, actor=event.actor, parts=event.parts)
    return erasure


def stored_text(log: Log) -> str:
    payloads = [entry.payload for entry in log.table.entries() if entry.payload]
    return "\n".join(payload.data.decode() for payload in payloads)


def event_lines(log: Log) -> list[bytes]:
    return [line for line in log.export().splitlines() if line.startswith(b'{"event"')]


def state(log: Log) -> Any:
    return copy.deepcopy((log.facts(), log.live_facts(SCOPE)))


class TestAppend:
    def test_events_are_numbered_from_one_and_read_back_as_they_were_written(
        self, log: Log
    ) -> None:
        assert write(log, *FACTS) == [1, 2, 3]
        events = list(replay.read_events(log.table))
        assert [event.type for event in events] == [kind for kind, _ in FACTS]
        assert [list(event.parts) for event in events] == [parts for _, parts in FACTS]
        assert {(event.scope_no, event.actor, event.at) for event in events} == {
            (SCOPE, "lead", times.to_us(START))
        }

    def test_each_event_carries_the_hash_of_the_one_before_it(self, log: Log) -> None:
        write(log, *FACTS)
        rows = [entry.row for entry in log.table.entries()]
        assert [row.prev_hash for row in rows] == [EMPTY.hash, *map(event_hash, rows[:-1])]
        assert all(entry.payload.hash == entry.row.payload_hash for entry in log.table.entries())

    def test_transaction_that_fails_leaves_nothing(self, log: Log) -> None:
        write(log, *FACTS)
        initial_state, exported = state(log), log.export()
        with pytest.raises(RuntimeError, match="changed my mind"):
            write_and_fail(log)
        assert (state(log), log.export()) == (initial_state, exported)
        assert write(log, closing(SHIP)) == [4]
        assert log.verify().problems == ()

    def test_moment_never_goes_back_when_the_clock_does(self, log: Log) -> None:
        write(log, *FACTS)
        with log.transaction(START - DAY) as tx:
            kind, parts = closing(SHIP)
            assert tx.record(kind, scope_no=SCOPE, actor="lead", parts=parts).at == times.to_us(
                START
            )


class TestRead:
    def test_stretch_begins_and_ends_where_it_was_asked_to(self, log: Log) -> None:
        write(log, *FACTS, closing(SHIP), closing(PORT))
        assert [entry.row.seq for entry in log.table.entries(2, 4)] == [2, 3, 4]
        assert [entry.row.seq for entry in log.table.entries(4)] == [4, 5]
        assert list(log.table.entries(6)) == []

    def test_events_of_one_type_are_read_alone(self, log: Log) -> None:
        write(log, *FACTS, closing(SHIP))
        assert [entry.row.seq for entry in log.table.entries_of_type("fact.recorded")] == [2, 3]
        assert list(log.table.entries_of_type("fact.erased")) == []

    def test_empty_log_has_no_last_event(self, log: Log) -> None:
        assert log.table.last_row() is None
        write(log, *FACTS)
        assert log.table.last_row().seq == 3


class TestProjections:
    def test_facts_are_projected_as_events_say(self, log: Log) -> None:
        write(log, *FACTS, closing(SHIP))
        ship, tide = log.facts()[SHIP], log.facts()[TIDE]
        assert (ship.content, ship.version) == ("the ship is at sea", 2)
        assert (ship.columns["lifecycle"], ship.columns["closed_reason"]) == (
            "retracted", "it sank",
        )  # fmt: skip
        assert (tide.version, tide.columns["tags"], tide.columns["review"]) == (1, ["Sea"], "none")
        assert log.live_facts(SCOPE) == 2

    def test_part_that_sets_nothing_new_makes_no_version(self, log: Log) -> None:
        write(log, *FACTS, ("fact.confirmed", [{"fact": TIDE, "set": {"confidence": 0.5}}]))
        assert log.facts()[TIDE].version == 1

    def test_rebuild_makes_the_same_facts_again(self, log: Log) -> None:
        write(log, *FACTS, closing(SHIP))
        write(log, ("fact.restored", [{"fact": SHIP, "set": {"lifecycle": "live"}}]))
        erase(log, PORT)
        initial_state = state(log)
        log.damage_facts()
        assert state(log) != initial_state
        assert log.rebuild() == 6
        assert state(log) == initial_state


class TestErasure:
    def test_erased_fact_leaves_no_text_and_the_chain_still_verifies(self, log: Log) -> None:
        write(log, *FACTS, closing(SHIP, "the ship is sunk"))
        erase(log, SHIP)
        assert "ship" not in stored_text(log)
        assert "the port is closed" in stored_text(log)
        report = log.verify()
        assert (report.problems, report.events, report.erased) == ((), 5, 1)
        assert log.facts().keys() == {PORT, TIDE}

    def test_erased_part_keeps_its_place_among_the_others(self, log: Log) -> None:
        write(log, *FACTS)
        erase(log, SHIP)
        (event,) = replay.read_events(log.table, 2, 2)
        assert event.parts == (None, recorded(2, PORT, "the port is closed"))

    def test_erasure_names_the_place_that_the_fact_had_and_what_it_was_indexed_by(
        self, log: Log
    ) -> None:
        write(log, *FACTS, closing(PORT))
        assert "the port is closed" in erase(log, PORT).text
        (event,) = replay.read_events(log.table, 5)
        assert dict(event.parts[0]) == {
            "fact": PORT, "scope": SCOPE, "events": [4], "reason": "asked for", "number": 2,
            "detached": [], "recorded": [2, 1],
        }  # fmt: skip

    def test_alias_goes_from_the_events_of_every_fact_that_had_it(self, log: Log) -> None:
        alias = {"namespace": "jira", "value": "SECRET-1"}
        write(
            log,
            *FACTS,
            ("alias.set", [{**alias, "fact": SHIP}]),
            ("alias.set", [{**alias, "fact": PORT, "was": SHIP}]),
        )
        (erased,) = erase(log, PORT).aliases
        assert (erased.alias, erased.holders) == (alias, {SHIP, PORT})
        assert "SECRET-1" not in stored_text(log)
        assert log.verify().problems == ()

    def test_review_that_brought_the_text_is_recorded_again_without_edits(self, log: Log) -> None:
        review = {
            "fact": SHIP, "decision": "edited", "actor_type": "human", "reason": "typo",
            "edits": {"content": "the ship is moored"}, "set": {},
        }  # fmt: skip
        write(log, *FACTS, ("fact.reviewed", [review]))
        moored = "019b0000-0000-7000-8000-000000000009"
        write(log, ("fact.recorded", [recorded(4, moored, "the ship is moored", op=4)]))
        erase(log, moored)
        assert "moored" not in stored_text(log)
        *_, restated = replay.read_events(log.table)
        assert restated.type == "fact.restated"
        assert dict(restated.parts[0]) == {
            "fact": SHIP, "decision": "edited", "actor_type": "human", "reason": "typo", "seq": 4,
            "at": times.to_us(START), "by": "lead", "stands": True,
            "edited": True,
        }  # fmt: skip
        initial_state = state(log)
        log.rebuild()
        assert state(log) == initial_state
        assert log.verify().problems == ()


def changed_actor(log: Log) -> None:
    (entry,) = log.table.entries(2, 2)
    log.overwrite(2, entry.row._replace(actor="eve"))


def changed_text(log: Log) -> None:
    (entry,) = log.table.entries(2, 2)
    data = entry.payload.data.replace(b"ship", b"boat")
    log.put_payload(2, replace(entry.payload, data=data))


def changed_salt(log: Log) -> None:
    (entry,) = log.table.entries(2, 2)
    log.put_payload(2, replace(entry.payload, salt=b"\0"))


def stray_payload(log: Log) -> None:
    (entry,) = log.table.entries(2, 2)
    log.put_payload(99, entry.payload)


NEWER = b'{"format":"kais-export/1","schema":9999}\n'
DAMAGE: Mapping[str, tuple[Callable[[Log], None], str]] = {
    "another actor": (changed_actor, "event 3 does not follow the one before it"),
    "no event": (lambda log: log.overwrite(2, None), "event 3 does not follow the one before it"),
    "no payload": (lambda log: log.table.delete_payload(2), "event 2 has lost its payload"),
    "another text": (changed_text, "event 2 has another payload than was recorded"),
    "another salt": (changed_salt, "event 2 has another payload than was recorded"),
    "a stray payload": (stray_payload, "payload 99 belongs to no event"),
}


class TestVerification:
    def test_log_that_nobody_touched_has_no_problem(self, log: Log) -> None:
        write(log, *FACTS, closing(SHIP))
        report = log.verify()
        assert (report.events, report.erased, report.problems) == (4, 0, ())
        assert report.has_whole_log

    @pytest.mark.parametrize(("damage", "problem"), DAMAGE.values(), ids=DAMAGE)
    def test_each_damage_is_a_problem(
        self, log: Log, damage: Callable[[Log], None], problem: str
    ) -> None:
        write(log, *FACTS, closing(SHIP))
        damage(log)
        report = log.verify()
        assert problem in report.problems
        assert not report.has_whole_log

    def test_payload_that_is_no_json_cannot_be_replayed(self, log: Log) -> None:
        write(log, *FACTS)
        (entry,) = log.table.entries(3, 3)
        log.put_payload(3, replace(entry.payload, data=b'{"fact'))
        with pytest.raises(UnreadablePayload):
            log.rebuild()


class TestExport:
    def test_import_makes_the_same_log_and_exports_the_same_bytes(
        self, log: Log, empty_logs: list[Log]
    ) -> None:
        write(log, *FACTS, closing(SHIP))
        erase(log, PORT)
        exported = log.export()
        for other_empty_log in empty_logs:
            other_empty_log.import_(exported.splitlines(keepends=True), START)
            assert state(other_empty_log) == state(log)
            assert other_empty_log.verify().problems == ()
        # A log of the other kind has rows of its own beside the events.
        (same_kind,) = (
            other_empty_log for other_empty_log in empty_logs if type(other_empty_log) is type(log)
        )
        assert same_kind.export() == exported

    def test_events_of_any_store_are_imported_by_any_other_to_the_byte(
        self, log: Log, empty_logs: list[Log]
    ) -> None:
        write(log, *FACTS, closing(SHIP))
        erase(log, PORT)
        for second in empty_logs:
            second.import_(log.export().splitlines(keepends=True), START)
            assert event_lines(second) == event_lines(log)

    def test_import_goes_on_where_the_export_ended(self, log: Log, empty_logs: list[Log]) -> None:
        write(log, *FACTS)
        for other in empty_logs:
            other.import_(log.export().splitlines(keepends=True), START)
            assert write(other, closing(TIDE)) == [4]
            assert other.verify().problems == ()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda lines: lines[:-1], "the export is incomplete after line"),
            (lambda lines: [*lines[:-2], lines[-1]], "was changed or lines are missing"),
            (lambda lines: [b"[]\n", *lines[1:]], "line 1 of the export is incomplete"),
            (lambda lines: [b'{"format":"x"}\n', *lines[1:]], "expected kais-export/1"),
            (
                lambda lines: [NEWER, *lines[1:]],
                "the export has schema 9999, this version knows up",
            ),
            (
                lambda lines: [line.replace(b"the tide", b"the tied") for line in lines],
                "has another payload than recorded",
            ),
            (
                lambda lines: [line.replace(b'"event":[2,', b'"event":[7,') for line in lines],
                "does not follow the one before it",
            ),
        ],
        ids=["torn", "shortened", "no object", "other format", "newer", "other text", "gap"],
    )
    def test_changed_export_is_refused_whole(
        self, log: Log, empty_logs: list[Log], change: Any, message: str
    ) -> None:
        write(log, *FACTS)
        lines = change(log.export().splitlines(keepends=True))
        for other in empty_logs:
            initial_state = other.export()
            with pytest.raises(StartupError, match=message):
                other.import_(lines, START)
            assert other.export() == initial_state

    def test_log_that_is_not_empty_takes_no_import(self, log: Log) -> None:
        write(log, *FACTS)
        with pytest.raises(StartupError, match="the database is not empty"):
            log.import_(log.export().splitlines(keepends=True), START)

    def test_export_has_the_header_the_events_and_a_count(self, log: Log) -> None:
        write(log, *FACTS)
        lines = [json.loads(line) for line in log.export().splitlines()]
        assert lines[0]["format"] == "kais-export/1"
        assert [line["event"][:3] for line in lines if "event" in line] == [
            [1, SCOPE, "scope.created"], [2, SCOPE, "fact.recorded"], [3, SCOPE, "fact.recorded"],
        ]  # fmt: skip
        assert lines[-1]["end"]["events"] == 3
