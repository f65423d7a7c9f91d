"""Evaluate one check from what was observed: pure, and the same wherever its command ran.

Passed and Failed are results about the work. Error means that the check could not be evaluated.
"""

from __future__ import annotations

import json
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kais.resources.check import Check, CheckStatus, CheckType
from kais_operator.planning.container_results import Process

MESSAGE_LIMIT = 256
"""Characters of a result's message; an annotation keeps fifty results."""
_DEFAULT_S = {CheckType.COMMAND: 300, CheckType.COVERAGE: 300}
_USUAL_S = 30
_EXIT_OK, _EXIT_MISSING = 0, 1
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The result of a check; Pending until it is final."""

    name: str
    status: CheckStatus
    message: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the result can no longer change."""
        return self.status is not CheckStatus.PENDING


@dataclass(frozen=True)
class Output:
    """The output of a check, and whether its patterns match.

    Attributes:
        text: at most some hundred KiB; the end of a longer output.
        fails: whether failPattern matches; None without one.
        succeeds: whether successPattern matches; None without one.
        problem: why the check cannot be evaluated: no output, or a pattern that is invalid or too
            slow.
    """

    text: str = ""
    fails: bool | None = None
    succeeds: bool | None = None
    problem: str | None = None


def _failure_message(check: Check, process: Process) -> str:
    """Describe why a command could not be run; without argv it needs the shell of the image."""
    if check.argv is None and process.is_program_missing:
        purpose = (
            "look for files with; use mode: Task" if check.paths else "run command with; give argv"
        )
        return f"the cell's image has no shell (sh) to {purpose}"
    return process.failure or ""


def is_response(check: Check) -> bool:
    """Whether the check evaluates the cell's answer instead of running something."""
    return check.type in (CheckType.RESPONSE, CheckType.NATS_RESPONSE)


def needs_output(check: Check) -> bool:
    """Whether the check needs more than the exit code."""
    has_pattern = check.fail_pattern is not None or check.success_pattern is not None
    return check.type is CheckType.COVERAGE or (check.type is CheckType.COMMAND and has_pattern)


def timeout_of(check: Check) -> timedelta:
    """Return the timeout of a check; by default 5 minutes for commands and 30 s for others."""
    return timedelta(seconds=check.timeout_seconds or _DEFAULT_S.get(check.type, _USUAL_S))


def argv_of(check: Check) -> list[str]:
    """Return the command as a list; a command given as text is passed to the image's shell."""
    return list(check.argv) if check.argv else ["sh", "-c", check.command or ""]


def pending(check: Check, message: str = "") -> Result:
    """Return the result of a check that is not evaluated yet."""
    return Result(check.name, CheckStatus.PENDING, message)


def evaluate(check: Check, process: Process | None, output: Output | None, now: datetime) -> Result:
    """Evaluate a check by its process; Pending while the process runs or its output is not read."""
    if process is not None and process.failure is not None:
        return _error(check, _failure_message(check, process))
    if process is None or process.began_at is None:
        return pending(check, (process.waiting_message if process else None) or "")
    if _is_late(process, timeout_of(check), now):
        return _error(check, f"it did not end within {int(timeout_of(check).total_seconds())} s")
    is_read = output is not None or not needs_output(check)
    if process.ended_at is None or not is_read:
        return pending(check)
    return _by_exit_code(check, process) if output is None else _by_output(check, process, output)


def _is_late(process: Process, limit: timedelta, now: datetime) -> bool:
    """Whether the process exceeded its limit by its own times.

    They are whole seconds, so a process that ends in time may take exactly the limit.
    """
    if process.began_at is None:
        return False
    if process.ended_at is not None:
        return process.ended_at - process.began_at > limit
    return now - process.began_at >= limit


def evaluate_response(check: Check, output: Output | None) -> Result:
    """Evaluate a response check by the cell's answer; Pending until the answer is read."""
    if output is None:
        return pending(check)
    if output.problem is not None:
        return _error(check, output.problem)
    by_pattern = _by_patterns(check, output, "the answer")
    if by_pattern is not None:
        return by_pattern
    if not output.text.strip():
        return _failed(check, "the cell left no answer")
    return Result(check.name, CheckStatus.PASSED)


def _by_output(check: Check, process: Process, output: Output) -> Result:
    if output.problem is not None:
        return _error(check, output.problem)
    if check.type is CheckType.COVERAGE:
        return _by_number(check, process, output)
    return _by_patterns(check, output, "the output") or _by_exit_code(check, process)


def _by_patterns(check: Check, output: Output, subject: str) -> Result | None:
    if output.fails:
        return _failed(check, f"{subject} matches failPattern {check.fail_pattern!r}")
    if output.succeeds is None:
        return None
    if output.succeeds:
        return Result(check.name, CheckStatus.PASSED)
    return _failed(check, f"{subject} does not match successPattern {check.success_pattern!r}")


def _by_exit_code(check: Check, process: Process) -> Result:
    if process.exit_code == _EXIT_OK:
        return Result(check.name, CheckStatus.PASSED)
    last = process.output_tail.strip().splitlines()[-1:] or [""]
    if check.type is CheckType.FILE_EXISTS and process.exit_code != _EXIT_MISSING:
        return _error(check, f"the files could not be looked for: {last[0]}")
    if check.type is CheckType.FILE_EXISTS:
        return _failed(check, last[0] or "a file is missing")
    return _failed(check, f"exit code {process.exit_code}{': ' if last[0] else ''}{last[0]}")


def _by_number(check: Check, process: Process, output: Output) -> Result:
    if check.value is None:
        return _error(check, "the check has no value to compare with")
    document = _parse_json(output.text)
    if document is None:
        return _error(check, f"the command printed no JSON (exit code {process.exit_code})")
    number = _value_at(document, check.json_path or "")
    if isinstance(number, bool) or not isinstance(number, int | float):
        return _error(check, f"there is no number at jsonPath {check.json_path!r}")
    if not abs(number) <= sys.float_info.max:  # so that NaN counts as well
        return _error(check, f"the number at jsonPath {check.json_path!r} is not finite")
    sign = check.operator or ">="
    comparison = f"{number:g} {sign} {check.value:g}"
    if _OPERATORS[sign](number, check.value):
        return Result(check.name, CheckStatus.PASSED, comparison)
    return _failed(check, f"not {comparison}")


def _parse_json(text: str) -> Any:
    """Parse the JSON in an output, alone or after other lines; None without any."""
    lines = text.strip().splitlines()
    start = text.find("{")
    for part in (text, lines[-1] if lines else "", text[start:] if start >= 0 else ""):
        try:
            return json.loads(part)
        except (ValueError, RecursionError):
            continue
    return None


def _value_at(document: Any, path: str) -> Any:
    value = document
    for step in path.removeprefix("$").strip(".").split(".") if path.strip("$.") else ():
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _failed(check: Check, message: str) -> Result:
    return Result(check.name, CheckStatus.FAILED, message[:MESSAGE_LIMIT])


def _error(check: Check, message: str) -> Result:
    return Result(check.name, CheckStatus.ERROR, message[:MESSAGE_LIMIT])
