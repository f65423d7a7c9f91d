"""What the service refuses, each with its stable code, status and title.

ServiceError
├── Unauthenticated 401        Unregistered 403 (Retry-After)   Forbidden 403   ScopeForbidden 403
├── ScopeReadOnly 403          NotFound 404                     Conflict 409
├── IdempotencyConflict 409
├── SecretRefused 422
├── RunClosedOtherwise 409     RetractedBefore 409              Compacted 410   TooLarge 413
├── InvalidBody 422                InvalidToken 400
├── QuotaExceeded 429          IdentityUnavailable 503
├── StoreUnavailable 503
│   ├── TookTooLong 504
│   └── StoreDamaged 503
└── SchemaTooNew, FileLocked   only at start: the process ends with the message

One handler in `app` turns them into problem+json; nothing else builds an error body.
"""

from __future__ import annotations

from typing import ClassVar

from knowledge_client.error_codes import ErrorCode
from knowledge_client.models import Problem, ProblemViolation


class ServiceError(Exception):
    """A refusal; `detail` goes to the caller, so it never holds what the caller may not see."""

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    retry_after_s: int | None = None

    def __init__(self, detail: str, violations: tuple[ProblemViolation, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.violations = violations

    def problem(self) -> Problem:
        """Return the RFC 9457 body."""
        return Problem(
            title=self.title,
            status=self.status,
            code=self.code,
            detail=self.detail,
            violations=self.violations,
        )


class Unauthenticated(ServiceError):
    """No token, or one that the cluster does not take for our audience."""

    code, status, title = ErrorCode.UNAUTHENTICATED, 401, "Unauthenticated"


class Unregistered(ServiceError):
    """A good token of an account that nobody registered yet; the operator may be about to."""

    code, status, title = ErrorCode.PRINCIPAL_UNREGISTERED, 403, "Not registered"
    retry_after_s = 2


class Forbidden(ServiceError):
    """The caller may read the thing but lacks the verb."""

    code, status, title = ErrorCode.FORBIDDEN, 403, "Not permitted"


class ScopeForbidden(ServiceError):
    """The caller named a scope outside of what it may reach, whether that exists or not."""

    code, status, title = ErrorCode.SCOPE_FORBIDDEN, 403, "Scope not permitted"


class ScopeReadOnly(ServiceError):
    """The scope takes no writes by its own configuration."""

    code, status, title = ErrorCode.SCOPE_READ_ONLY, 403, "Scope is read-only"


class NotFound(ServiceError):
    """Nothing there, or nothing that the caller may see."""

    code, status, title = ErrorCode.NOT_FOUND, 404, "Not found"


class Conflict(ServiceError):
    """What is stored contradicts the request."""

    code, status, title = ErrorCode.CONFLICT, 409, "Conflict"


class IdempotencyConflict(ServiceError):
    """The same Idempotency-Key came with another body."""

    code, status, title = ErrorCode.IDEMPOTENCY_CONFLICT, 409, "Idempotency key reused"


class RunOutcomeConflict(ServiceError):
    """The run is closed with another outcome already."""

    code, status, title = ErrorCode.RUN_CLOSED_OTHERWISE, 409, "Run closed with another outcome"


class PreviouslyRetracted(ServiceError):
    """An equal fact was retracted in this scope."""

    code, status, title = ErrorCode.RETRACTED_BEFORE, 409, "Retracted before"


class Compacted(ServiceError):
    """The event that the caller knows last is no longer kept, or was never this store's."""

    code, status, title = ErrorCode.COMPACTED, 410, "Compacted"


class SecretRefused(ServiceError):
    """The scope refuses what looks like a secret, instead of masking it."""

    code, status, title = ErrorCode.SECRET_REFUSED, 422, "Secret refused"


class TooLarge(ServiceError):
    """A size bound was passed; the detail names it."""

    code, status, title = ErrorCode.TOO_LARGE, 413, "Too large"


class InvalidBody(ServiceError):
    """The body is not what the route takes; every violation is listed."""

    code, status, title = ErrorCode.INVALID_BODY, 422, "Invalid body"


class InvalidToken(ServiceError):
    """An event id or a cursor is none that this version of the service gave to this caller."""

    code, status, title = ErrorCode.INVALID_TOKEN, 400, "Invalid token"


class QuotaExceeded(ServiceError):
    """A run or a writer used up its share; with `retry_after_s` it is there again then."""

    code, status, title = ErrorCode.QUOTA_EXCEEDED, 429, "Quota exceeded"

    def __init__(self, detail: str, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class StoreUnavailable(ServiceError):
    """The database cannot be written or read now."""

    code, status, title = ErrorCode.STORE_UNAVAILABLE, 503, "Store unavailable"
    retry_after_s: int | None = 2


class ReadTimeout(StoreUnavailable):
    """A read was ended, since it would have held up others; the same one takes as long again."""

    code, status, title = ErrorCode.TOOK_TOO_LONG, 504, "Read timed out"
    retry_after_s = None


class StoreDamaged(StoreUnavailable):
    """The file is no whole database any more; only another copy of it helps, and no waiting."""

    retry_after_s = None


class IdentityUnavailable(ServiceError):
    """The cluster cannot be asked who the caller is."""

    code, status, title = ErrorCode.IDENTITY_UNAVAILABLE, 503, "Identity unavailable"
    retry_after_s = 2


class StartupError(Exception):
    """The process must not start; the message says what to do."""


class SchemaTooNew(StartupError):
    """The database was written by a newer version than this one."""


class FileLocked(StartupError):
    """Another process owns the database file."""
