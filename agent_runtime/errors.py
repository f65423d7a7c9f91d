"""The failure of a mind: every failure ends as one of these, with a class and a sentence."""

from __future__ import annotations

from kais.agent_results import AgentFailure, FailureClass


class AgentError(Exception):
    """The mind gives no answer.

    Attributes:
        failure: the class, and the message for people.
        is_charged: whether the provider may charge for the call that failed.
    """

    def __init__(self, reason: FailureClass, message: str, *, is_charged: bool = False) -> None:
        super().__init__(message)
        self.failure = AgentFailure(reason, message)
        self.is_charged = is_charged


class ToolError(Exception):
    """A tool call failed; the message is for the mind, which may try something else."""


def find_cause(error: BaseException) -> AgentError | None:
    """Return the AgentError that an exception of a library was raised from, if there is one."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        if isinstance(current, AgentError):
            return current
        visited.add(id(current))
        current = current.__cause__ or current.__context__
    return None
