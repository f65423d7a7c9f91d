"""The blackboard of a team: marks that its cells leave in the shared workspace, and that expire.

Each mark is a file, so that cells on other nodes need no locks. A cell that writes to the
workspace can forge marks; a reader takes them for data, bounded in number and size.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent_runtime import journal
from agent_runtime.errors import ToolError
from agent_runtime.money.meter import Clock
from agent_runtime.prompt import BOARD_TAG, MARK_TAG, Framing
from kais import topology_files
from kais.agent_tools import AgentTool

FOLDER: Final = topology_files.BLACKBOARD_FOLDER
MARK_CHARACTERS: Final = 4000
TOPIC_CHARACTERS: Final = 120
MAX_MARKS: Final = 1000
SHOWN_MARKS: Final = 50
SHOWN_CHARACTERS: Final = 32_768
_FILE_BYTES: Final = 32 * 1024
_RULE_BYTES: Final = 2 * 1024 * 1024
_MAX_SKEW_S: Final = 300
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One mark; `at_s` is when it was left, in seconds since 1970."""

    text: str
    topic: str
    cell: str
    run: str
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Blackboard:
    """The tool of one task.

    Attributes:
        shared: the workspace of the team.
        peers_file: `routes.json`; `topology.json` beside it says how fast marks expire.
        sees_other_runs: whether marks of other runs are shown; False in runs without knowledge.
    """

    shared: Path
    peers_file: Path | None
    cell: str
    run: str
    sees_other_runs: bool
    framing: Framing
    clock: Clock

    def tools(self) -> dict[AgentTool, Callable[..., Any]]:
        """Return the tool by its name."""
        return {AgentTool.BLACKBOARD: self.blackboard}

    async def blackboard(self, mark: str = "", topic: str = "") -> str:
        """Read the marks of your team, newest first, and leave a mark of your own.

        Args:
            mark: A note for the other agents. Leave it empty to read only.
            topic: The topic of the mark, in a few words. If the mark is empty, only marks with this
                topic are shown.
        """
        if len(mark) > MARK_CHARACTERS or len(topic) > TOPIC_CHARACTERS:
            raise ToolError(
                f"a mark has at most {MARK_CHARACTERS} characters, and a topic {TOPIC_CHARACTERS}"
            )
        return await asyncio.to_thread(self._use, mark, topic)

    def _use(self, mark: str, topic: str) -> str:
        decay_s = self._decay_s()
        try:
            with self._folder() as folder:
                marks, unreadable_count = self._read_all(folder, decay_s)
                if mark.strip():
                    marks = [
                        self._leave(folder, mark, topic, len(marks) + unreadable_count),
                        *marks,
                    ]
        except OSError as exc:
            raise ToolError(f"the blackboard cannot be used: {exc.strerror or exc}") from exc
        visible = [each for each in marks if self._is_visible(each)]
        if topic and not mark.strip():
            visible = [each for each in visible if each.topic == topic]
        return self._show(visible, unreadable_count)

    def _decay_s(self) -> float:
        decay = None
        if self.peers_file is not None:
            try:
                with self.peers_file.with_name("topology.json").open("rb") as stream:
                    decay = topology_files.parse_decay(json.loads(stream.read(_RULE_BYTES)))
            except (OSError, ValueError, RecursionError):
                decay = None
        if decay is None:
            raise ToolError(
                "there is no blackboard: the formation needs topology.blackboard and a workspace"
            )
        return decay * 60

    @contextmanager
    def _folder(self) -> Iterator[int]:
        root = os.open(self.shared, _DIRECTORY)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(FOLDER, 0o755, dir_fd=root)
            folder = os.open(FOLDER, _DIRECTORY, dir_fd=root)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)

    def _read_all(self, folder: int, decay_s: float) -> tuple[list[Mark], int]:
        """Return the marks that have not expired, newest first, and how many cannot be read."""
        now, unreadable_count = self.clock.now_s(), 0
        marks: list[Mark] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(marks) + unreadable_count >= MAX_MARKS:
                    break
                mark = _read(folder, entry.name)
                if mark is None or mark.at_s > now + _MAX_SKEW_S:
                    unreadable_count += 1
                elif mark.at_s + decay_s <= now:
                    _remove(folder, entry.name)
                else:
                    marks.append(mark)
        return sorted(marks, key=lambda each: each.at_s, reverse=True), unreadable_count

    def _leave(self, folder: int, text: str, topic: str, count: int) -> Mark:
        """Store a mark; a call that is repeated after a restart stores no second one."""
        if count >= MAX_MARKS:
            raise ToolError(f"the blackboard is full: it has {MAX_MARKS} marks; wait, or read them")
        at_s = self.clock.now_s()
        mark = Mark(text=text, topic=topic, cell=self.cell, run=self.run, at_s=at_s)
        name = f"{journal.call_id() or uuid.uuid4()}.json"
        try:
            handle = os.open(name, _CREATE, 0o644, dir_fd=folder)
        except FileExistsError:
            return mark
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            json.dump(vars(mark), file)
        return mark

    def _is_visible(self, mark: Mark) -> bool:
        return self.sees_other_runs or mark.run == self.run

    def _show(self, marks: list[Mark], unreadable_count: int) -> str:
        if not marks and not unreadable_count:
            return "the blackboard is empty"
        now, frames, size = self.clock.now_s(), [], 0
        for mark in marks[:SHOWN_MARKS]:
            age = f"{max(0.0, now - mark.at_s) / 60:.0f}"
            attributes = {"cell": mark.cell, "topic": mark.topic or None, "minutes_ago": age}
            frame = self.framing.wrap(MARK_TAG, mark.text, attributes)
            size += len(frame)
            if size > SHOWN_CHARACTERS:
                break
            frames.append(frame)
        hidden = len(marks) - len(frames)
        notes = [f"[{hidden} older marks left out]"] if hidden else []
        if unreadable_count:
            notes.append(f"[{unreadable_count} entries left out: too large, or no marks]")
        opening = self.framing.open_tag(BOARD_TAG, {})
        return "\n".join((opening, *frames, self.framing.close_tag(BOARD_TAG), *notes))


def _read(folder: int, name: str) -> Mark | None:
    """Read a mark; None if the file is not a valid mark."""
    try:
        # `open` closes the descriptor of a folder; `os.fdopen` leaves it open.
        with open(name, "rb", opener=lambda *_: os.open(name, _READ, dir_fd=folder)) as file:
            content = file.read(_FILE_BYTES + 1)
        if len(content) > _FILE_BYTES:
            return None
        value = json.loads(content)
        at_s = float(value["at_s"])
        if not math.isfinite(at_s):
            return None
        return Mark(
            text=str(value["text"])[:MARK_CHARACTERS],
            topic=str(value["topic"])[:TOPIC_CHARACTERS],
            cell=str(value["cell"])[:TOPIC_CHARACTERS],
            run=str(value["run"]),
            at_s=at_s,
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):  # another cell was faster, or owns the file
        os.unlink(name, dir_fd=folder)
