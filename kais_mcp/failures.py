"""Errors of tools: a code, what failed, and what to do next."""

from __future__ import annotations

from kais_mcp.tools import ToolAnswer
from knowledge_client.error_codes import ErrorCode
from knowledge_client.models import Problem, ProblemViolation

_DEFAULT_REMEDY = "Tell the person what failed."
_REMEDIES: dict[str, str] = {
    ErrorCode.UNAUTHENTICATED: "Ask the person to renew the token of this connection.",
    ErrorCode.PRINCIPAL_UNREGISTERED: "Wait some seconds, then call the tool again.",
    ErrorCode.FORBIDDEN: (
        "Do not try again with the same fact. Remember your own statement instead, or tell the"
        " person."
    ),
    ErrorCode.SCOPE_FORBIDDEN: "Leave `scope` and `scopes` out to use those of this connection.",
    ErrorCode.SCOPE_READ_ONLY: "Remember in another scope, or tell the person.",
    ErrorCode.NOT_FOUND: "Call `recall` to get the ids of facts that you can see.",
    ErrorCode.CONFLICT: "Call `why` to read what is stored, then decide again.",
    ErrorCode.RETRACTED_BEFORE: (
        "An equal fact was retracted; the message has the reason. Do not store it again unless you"
        " know better, and then say why in other words."
    ),
    ErrorCode.SECRET_REFUSED: "Remove the secret from the text.",
    ErrorCode.INVALID_BODY: "Correct the arguments by the input schema of the tool.",
    ErrorCode.INVALID_TOKEN: "Begin again without a cursor.",
    ErrorCode.TOO_LARGE: "Send less text.",
    ErrorCode.QUOTA_EXCEEDED: "Wait, then try again.",
    ErrorCode.STORE_UNAVAILABLE: "Wait some seconds, then call the tool again.",
    ErrorCode.TOOK_TOO_LONG: "Ask for less: a smaller limit, or fewer scopes.",
    ErrorCode.IDENTITY_UNAVAILABLE: "Wait some seconds, then call the tool again.",
}


class ToolFailure(Exception):
    """A call failed; `problem` is what the caller may know of it."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.retry_after_s = retry_after_s

    def answer(self) -> ToolError:
        """Return the parts of the error."""
        return ToolError(
            code=self.problem.code,
            message=self.problem.detail,
            remedy=remedy(self.problem.code),
            violations=self.problem.violations,
            retry_after_s=self.retry_after_s,
        )


class ToolError(ToolAnswer):
    """The parts of an error: a code, the reason, and what to do."""

    code: str
    message: str
    remedy: str
    violations: tuple[ProblemViolation, ...] = ()
    retry_after_s: float | None = None

    def render(self) -> str:
        """Return the error as text."""
        lines = [f"{self.code}: {self.message}"]
        lines += [
            f"- {violation.path or 'arguments'}: {violation.message}"
            for violation in self.violations
        ]
        if self.retry_after_s is not None:
            lines.append(f"Retry after {self.retry_after_s:g} s.")
        return "\n".join([*lines, self.remedy])


def remedy(code: str) -> str:
    """Return what to do about a problem."""
    return _REMEDIES.get(code, _DEFAULT_REMEDY)


def problem_of(code: ErrorCode, title: str, status: int, detail: str) -> Problem:
    """Return a problem that the service did not report."""
    return Problem(title=title, status=status, code=code, detail=detail)
