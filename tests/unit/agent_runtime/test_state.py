"""What the state of a cell keeps about its tasks, messages and tool calls."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_runtime.errors import AgentError
from agent_runtime.journal import ToolCallRecord
from agent_runtime.state import SqliteJournal, State, TaskRow
from agent_runtime.tickets import Caller


def journal_in(state: State, task: str = "task") -> SqliteJournal:
    state.add_task(
        TaskRow(
            id=task,
            owner="operator",
            context="run-1",
            content_hash="",
            caller=Caller(name="operator", role="operator"),
            is_final=False,
            updated_ns=1,
            body=b"",
        )
    )
    return state.journal(task)


def test_result_of_a_failed_tool_call_is_kept_as_a_failure(tmp_path: Path) -> None:
    state = State(tmp_path / "tasks.db")
    journal = journal_in(state)
    journal.open_tool_call("1/a", "write_file")
    journal.close_tool_call("1/a", "no such folder", is_failed=True)
    assert journal.tool_call("1/a") == ToolCallRecord("no such folder", is_failed=True)
    state.close()


def test_state_of_a_version_that_kept_no_failures_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    state = State(file)
    journal = journal_in(state)
    journal.open_tool_call("1/a", "write_file")
    journal.close_tool_call("1/a", "wrote 1 bytes")
    state.close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("ALTER TABLE tool_call DROP COLUMN is_failed")
    for _ in range(2):
        state = State(file)
        journal = state.journal("task")
        assert journal.tool_call("1/a") == ToolCallRecord("wrote 1 bytes")
        journal.open_tool_call("3/b", "write_file")
        journal.close_tool_call("3/b", "no such folder", is_failed=True)
        assert journal.tool_call("3/b") == ToolCallRecord("no such folder", is_failed=True)
        state.close()


def test_open_tasks_are_listed_in_the_order_of_their_messages(tmp_path: Path) -> None:
    state = State(tmp_path / "tasks.db")
    for task in ("b", "a", "c"):
        journal_in(state, task)
    state.save_task("b", b"", is_final=False, updated_ns=9)
    assert [row.id for row in state.open_tasks()] == ["b", "a", "c"]
    state.close()


def test_part_of_a_task_in_its_conversation_ends_where_the_next_task_begins(
    tmp_path: Path,
) -> None:
    state = State(tmp_path / "tasks.db")
    for task in ("first", "second", "third"):
        journal = journal_in(state, task)
        assert journal.end is None
        journal.append([b"question", b"answer"], position=journal.start)
    journals = [state.journal(task) for task in ("first", "second", "third")]
    assert [(journal.start, journal.end) for journal in journals] == [(0, 2), (2, 4), (4, None)]
    state.close()


def test_messages_belong_to_the_later_of_two_tasks_that_began_at_one_position(
    tmp_path: Path,
) -> None:
    state = State(tmp_path / "tasks.db")
    journal_in(state, "stopped before its message was stored")
    later = journal_in(state, "later")
    later.append([b"question", b"answer"], position=0)
    assert state.journal("stopped before its message was stored").end == 0
    assert state.journal("later").end is None
    state.close()


def test_messages_are_stored_all_or_none(tmp_path: Path) -> None:
    state = State(tmp_path / "tasks.db")
    journal = journal_in(state)
    journal.append([b"one"], position=0)
    state.execute(
        "CREATE TRIGGER full BEFORE INSERT ON message WHEN NEW.position = 2"
        " BEGIN SELECT RAISE(ABORT, 'disk is full'); END",
        (),
    )
    with pytest.raises(AgentError, match="disk is full"):
        journal.append([b"two", b"three"], position=1)
    assert journal.messages() == [b"one"]
    state.execute("DROP TRIGGER full", ())
    journal.append([b"two", b"three"], position=1)
    assert journal.messages() == [b"one", b"two", b"three"]


def test_a_report_of_usage_replaces_those_of_the_same_message_alone(tmp_path: Path) -> None:
    state = State(tmp_path / "tasks.db")
    journal_in(state)
    state.save_peer_usages("task", "m-1", {"critic-0": "1", "worker-0": "2"})
    state.save_peer_usages("task", "m-10", {"critic-0": "3"})
    state.save_peer_usages("task", "m-1", {"critic-0": "4"})
    assert sorted(state.peer_usages("task")) == [("critic-0", "3"), ("critic-0", "4")]
    state.close()
