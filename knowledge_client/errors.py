"""The errors of calls to the knowledge service.

KnowledgeError
├── KnowledgeUnavailable      no connection, a timeout, 502, 503, 504: try later
│   └── ReadTimeout           the service ended a read that took too long: ask for less
├── Unauthenticated           no token, or one that the service rejects (401)
├── PermissionDenied          the caller is known, but lacks the permission (403)
│   └── PrincipalUnregistered known to the cluster, not yet to the service: retry for 30 s
├── NotFound                  no such object, or the caller may not see it (404)
├── Conflict                  the request conflicts with the stored state (409); see `code`
├── Compacted                 events after the given id are no longer kept (410): start again
├── InvalidRequest            the request can never succeed (400, 422, an invalid address)
│   └── Unsupported           the service is older than a field of the request; it was not sent
├── TooLarge                  the request exceeds the limit that the message names (413)
├── QuotaExceeded             a quota is used up (429); `retry_after_s` if the service sent it
└── UnexpectedAnswer          not a response of this API: another server, or a defect (500)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_client.error_codes import ErrorCode

if TYPE_CHECKING:
    from knowledge_client.models import Problem, ProblemViolation

__all__ = [
    "Compacted",
    "Conflict",
    "ErrorCode",
    "InvalidRequest",
    "KnowledgeError",
    "KnowledgeUnavailable",
    "NotFound",
    "PermissionDenied",
    "PrincipalUnregistered",
    "QuotaExceeded",
    "ReadTimeout",
    "TooLarge",
    "Unauthenticated",
    "UnexpectedAnswer",
    "Unsupported",
    "error_class",
]


class KnowledgeError(Exception):
    """The base class of all errors; the text says what failed and what to do.

    `problem` is the error response of the service; None when it did not respond.
    """

    def __init__(
        self, message: str, *, problem: Problem | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def code(self) -> str | None:
        """The code of the problem, to compare with `ErrorCode`; None without a problem."""
        return self.problem.code if self.problem else None

    @property
    def violations(self) -> tuple[ProblemViolation, ...]:
        """All violations of the request body; empty when the error has another cause."""
        return self.problem.violations if self.problem else ()


class KnowledgeUnavailable(KnowledgeError):
    """The service is unreachable or cannot respond now; the request may succeed later."""


class ReadTimeout(KnowledgeUnavailable):
    """The service stopped a read at its time limit; the same read would take as long again."""


class Unauthenticated(KnowledgeError):
    """The token is missing or not accepted."""


class PermissionDenied(KnowledgeError):
    """The caller lacks the permission for this scope."""


class PrincipalUnregistered(PermissionDenied):
    """The token is valid, but its account is not registered yet."""


class NotFound(KnowledgeError):
    """The object does not exist, or the caller may not see it; the two look the same."""


class Conflict(KnowledgeError):
    """The request conflicts with what is stored."""


class Compacted(KnowledgeError):
    """Events after the given id are no longer kept; read the current state and listen from now."""


class InvalidRequest(KnowledgeError):
    """The request is invalid; retrying it does not help."""


class Unsupported(InvalidRequest):
    """The service is too old for a field of the request; nothing was sent."""


class TooLarge(KnowledgeError):
    """The request exceeds a size limit of the service."""


class QuotaExceeded(KnowledgeError):
    """The caller exceeded its rate limit or quota."""


class UnexpectedAnswer(KnowledgeError):
    """The response is not one of this API."""


_BY_CODE: dict[str, type[KnowledgeError]] = {
    ErrorCode.UNAUTHENTICATED: Unauthenticated,
    ErrorCode.PRINCIPAL_UNREGISTERED: PrincipalUnregistered,
    ErrorCode.FORBIDDEN: PermissionDenied,
    ErrorCode.SCOPE_FORBIDDEN: PermissionDenied,
    ErrorCode.NOT_FOUND: NotFound,
    ErrorCode.CONFLICT: Conflict,
    ErrorCode.IDEMPOTENCY_CONFLICT: Conflict,
    ErrorCode.RUN_CLOSED_OTHERWISE: Conflict,
    ErrorCode.RETRACTED_BEFORE: Conflict,
    ErrorCode.COMPACTED: Compacted,
    ErrorCode.SECRET_REFUSED: InvalidRequest,
    ErrorCode.SCOPE_READ_ONLY: PermissionDenied,
    ErrorCode.INVALID_BODY: InvalidRequest,
    ErrorCode.INVALID_TOKEN: InvalidRequest,
    ErrorCode.TOO_LARGE: TooLarge,
    ErrorCode.QUOTA_EXCEEDED: QuotaExceeded,
    ErrorCode.STORE_UNAVAILABLE: KnowledgeUnavailable,
    ErrorCode.TOOK_TOO_LONG: ReadTimeout,
    ErrorCode.IDENTITY_UNAVAILABLE: KnowledgeUnavailable,
    ErrorCode.INTERNAL: UnexpectedAnswer,
}

_BY_STATUS: dict[int, type[KnowledgeError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    410: Compacted,
    413: TooLarge,
    422: InvalidRequest,
    429: QuotaExceeded,
    502: KnowledgeUnavailable,
    503: KnowledgeUnavailable,
    504: KnowledgeUnavailable,
}


def error_class(code: str | None, status: int) -> type[KnowledgeError]:
    """Return the class for an error response: by its code, or by its status for an unknown code."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    return _BY_STATUS.get(status, UnexpectedAnswer)
