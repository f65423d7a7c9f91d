"""What can go wrong between a caller and the knowledge service.

KnowledgeError
├── KnowledgeUnavailable      no connection, a timeout, 502, 503, 504: try later
│   └── TookTooLong           the service ended a read that took too long: ask for less
├── Unauthenticated           no token, or one that the service does not take (401)
├── PermissionDenied          known, but not allowed there (403)
│   └── PrincipalUnregistered known to the cluster, not yet to the service: try within 30 s
├── NotFound                  nothing there that the caller may see (404)
├── Conflict                  the store says otherwise (409); `code` says which conflict
├── Compacted                 the events after the given one are not kept (410): begin anew
├── InvalidRequest            the request can never succeed as it is (400, 422, a bad address)
│   └── Unsupported           the service is older than a field of the request; it was not sent
├── TooLarge                  a bound was passed, named in the message (413)
├── QuotaExceeded             too much at once (429); `retry_after_s` when the service said so
└── UnexpectedAnswer          not an answer of this interface: another server, or a fault (500)
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
    """Anything that a call of the client raises; the text says what failed and what to do.

    `problem` is the service's own account and absent when the service did not answer.
    """

    def __init__(
        self, message: str, *, problem: Problem | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def code(self) -> str | None:
        """The problem's stable code, to be compared with `ErrorCode`; None without a problem."""
        return self.problem.code if self.problem else None

    @property
    def violations(self) -> tuple[ProblemViolation, ...]:
        """Everything that is wrong with the body, all at once; empty when that was not it."""
        return self.problem.violations if self.problem else ()


class KnowledgeUnavailable(KnowledgeError):
    """The service could not be reached or cannot answer now; nothing is wrong with the request."""


class ReadTimeout(KnowledgeUnavailable):
    """The service ended a read that took too long; the same one takes as long again."""


class Unauthenticated(KnowledgeError):
    """The service does not know who calls."""


class PermissionDenied(KnowledgeError):
    """The caller may not do this there."""


class PrincipalUnregistered(PermissionDenied):
    """The token is good but its account is not registered yet."""


class NotFound(KnowledgeError):
    """Nothing there, or nothing that the caller may see: the two are not told apart."""


class Conflict(KnowledgeError):
    """What is stored contradicts the request."""


class Compacted(KnowledgeError):
    """What followed the given event is not kept any more; read anew and listen from now on."""


class InvalidRequest(KnowledgeError):
    """The request is wrong and repeating it is useless."""


class Unsupported(InvalidRequest):
    """The service does not have a field of the request yet; nothing was sent."""


class TooLarge(KnowledgeError):
    """The request passes a bound of the service."""


class QuotaExceeded(KnowledgeError):
    """The caller used up its share for now."""


class UnexpectedAnswer(KnowledgeError):
    """The answer is none that this interface has."""


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
    """Choose the error for a refusal: by its code, else (an unknown one, a proxy) by its status."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    return _BY_STATUS.get(status, UnexpectedAnswer)
