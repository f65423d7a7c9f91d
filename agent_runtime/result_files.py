"""Writes the result of an attempt: the termination message, and the whole answer."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from kais import agent_results
from kais.agent_results import AgentResult

ANSWER_FILE: Final = "answer.txt"
_log = logging.getLogger(__name__)


def write_result(result: AgentResult, file: Path, *, limit_bytes: int) -> None:
    """Write the termination message into the file that the kubelet created.

    A single write overwrites an earlier message, so that a killed process leaves one of the two.
    """
    text = agent_results.serialize(result, limit_bytes=limit_bytes).encode()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, text.ljust(os.fstat(descriptor).st_size))
        os.ftruncate(descriptor, len(text))
    finally:
        os.close(descriptor)


def write_answer(answer: str, folder: Path) -> None:
    """Write the whole answer into the private folder of the cell, for the checks of the mission.

    A failure, such as a full disk, is only logged: the result does not depend on the file.
    """
    try:
        (folder / ANSWER_FILE).write_text(answer, encoding="utf-8", errors="replace")
    except OSError as exc:
        _log.warning("cannot write the answer to %s: %s", folder / ANSWER_FILE, exc)
