"""What the service answers when it refuses, and whether it is well."""

from __future__ import annotations

from typing import Literal

from knowledge_client.wire import Wire


class Health(Wire):
    """`ok` when the store answers."""

    status: Literal["ok", "unavailable"]
    detail: str | None = None


class ProblemViolation(Wire):
    """One thing that is wrong with a body."""

    path: str
    message: str


class Problem(Wire):
    """RFC 9457 problem details. `code` is one of `knowledge_client.errors.Code`."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    violations: tuple[ProblemViolation, ...] = ()
