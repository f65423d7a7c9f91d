"""Error responses, and the response of the health probes."""

from __future__ import annotations

from typing import Literal

from knowledge_client.base_model import WireModel


class Health(WireModel):
    """`ok` when the store responds."""

    status: Literal["ok", "unavailable"]
    detail: str | None = None


class ProblemViolation(WireModel):
    """One violation in a request body."""

    path: str
    message: str


class Problem(WireModel):
    """RFC 9457 problem details. `code` is one of `knowledge_client.errors.ErrorCode`."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    violations: tuple[ProblemViolation, ...] = ()
