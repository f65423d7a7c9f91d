"""The errors that callers see, each with its stable problem code, status and title.

ServiceError
├── Unauthenticated 401        Unregistered 403 (Retry-After)   Forbidden 403   ScopeForbidden 403
├── ScopeReadOnly 403          CallLoop 403                     NotFound 404
├── TicketInvalid 401          TicketExpired 401                Conflict 409
├── IdempotencyConflict 409
├── SecretRefused 422
├── RunOutcomeConflict 409     PreviouslyRetracted 409          Compacted 410   TooLarge 413
├── InvalidBody 422                InvalidToken 400
├── QuotaExceeded 429          IdentityUnavailable 503
└── StoreUnavailable 503
    ├── ReadTimeout 504
    └── StoreDamaged 503
StartupError                   the process exits with the message
├── SchemaTooNew
└── FileLocked

`routes.problems` turns a ServiceError into problem+json; nothing else builds an error body.
"""

from __future__ import annotations

from typing import ClassVar

from knowledge_client.error_codes import ErrorCode
from knowledge_client.models import Problem, ProblemViolation


class ServiceError(Exception):
    """An error for the caller, who receives `detail`: it names nothing that it may not see."""

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
    """The request has no valid token for this service's audience."""

    code, status, title = ErrorCode.UNAUTHENTICATED, 401, "Unauthenticated"


class Unregistered(ServiceError):
    """The token is valid, but its account is not registered; the operator may be about to."""

    code, status, title = ErrorCode.PRINCIPAL_UNREGISTERED, 403, "Not registered"
    retry_after_s = 2


class Forbidden(ServiceError):
    """The caller may read the object but lacks the verb."""

    code, status, title = ErrorCode.FORBIDDEN, 403, "Not permitted"


class ScopeForbidden(ServiceError):
    """The caller may not reach the named scope, whether the scope exists or not."""

    code, status, title = ErrorCode.SCOPE_FORBIDDEN, 403, "Scope not permitted"


class ScopeReadOnly(ServiceError):
    """The configuration of the scope allows no writes."""

    code, status, title = ErrorCode.SCOPE_READ_ONLY, 403, "Scope is read-only"


class TicketInvalid(ServiceError):
    """This service did not issue the ticket."""

    code, status, title = ErrorCode.TICKET_INVALID, 401, "Invalid ticket"


class TicketExpired(ServiceError):
    """The ticket was valid, and its time is over."""

    code, status, title = ErrorCode.TICKET_EXPIRED, 401, "Ticket expired"


class CallLoop(ServiceError):
    """The call would return to a cell that waits for its answer."""

    code, status, title = ErrorCode.LOOP, 403, "Loop of calls"


class NotFound(ServiceError):
    """The object does not exist, or the caller may not see it."""

    code, status, title = ErrorCode.NOT_FOUND, 404, "Not found"


class Conflict(ServiceError):
    """The request conflicts with what is stored."""

    code, status, title = ErrorCode.CONFLICT, 409, "Conflict"


class IdempotencyConflict(ServiceError):
    """The Idempotency-Key was used with another body."""

    code, status, title = ErrorCode.IDEMPOTENCY_CONFLICT, 409, "Idempotency key reused"


class RunOutcomeConflict(ServiceError):
    """The run is already closed with another outcome."""

    code, status, title = ErrorCode.RUN_CLOSED_OTHERWISE, 409, "Run closed with another outcome"


class PreviouslyRetracted(ServiceError):
    """An equal fact was retracted in this scope."""

    code, status, title = ErrorCode.RETRACTED_BEFORE, 409, "Previously retracted"


class Compacted(ServiceError):
    """The event to continue from was deleted, or belongs to another store."""

    code, status, title = ErrorCode.COMPACTED, 410, "Compacted"


class SecretRefused(ServiceError):
    """The scope rejects text that looks like a secret instead of masking it."""

    code, status, title = ErrorCode.SECRET_REFUSED, 422, "Secret refused"


class TooLarge(ServiceError):
    """The request exceeds a size limit; the detail names the limit."""

    code, status, title = ErrorCode.TOO_LARGE, 413, "Too large"


class InvalidBody(ServiceError):
    """The request does not match the route's schema; every violation is listed."""

    code, status, title = ErrorCode.INVALID_BODY, 422, "Invalid body"


class InvalidToken(ServiceError):
    """This version of the service did not issue the event id or cursor to this caller."""

    code, status, title = ErrorCode.INVALID_TOKEN, 400, "Invalid token"


class QuotaExceeded(ServiceError):
    """The caller used up a quota; `retry_after_s` says when it is available again."""

    code, status, title = ErrorCode.QUOTA_EXCEEDED, 429, "Quota exceeded"

    def __init__(self, detail: str, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class StoreUnavailable(ServiceError):
    """The database can currently not be read or written."""

    code, status, title = ErrorCode.STORE_UNAVAILABLE, 503, "Store unavailable"
    retry_after_s: int | None = 2


class ReadTimeout(StoreUnavailable):
    """A read was cancelled because it delayed others; repeating it takes as long again."""

    code, status, title = ErrorCode.TOOK_TOO_LONG, 504, "Read timed out"
    retry_after_s = None


class StoreDamaged(StoreUnavailable):
    """The database file is corrupt: restore a backup; waiting does not help."""

    retry_after_s = None


class IdentityUnavailable(ServiceError):
    """The API server that reviews tokens does not answer."""

    code, status, title = ErrorCode.IDENTITY_UNAVAILABLE, 503, "Identity unavailable"
    retry_after_s = 2


class StartupError(Exception):
    """The process cannot start; the message says what to do."""


class SchemaTooNew(StartupError):
    """A newer version wrote the database."""


class FileLocked(StartupError):
    """Another process owns the database file."""
