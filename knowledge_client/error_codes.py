"""The codes of the service's error responses, shared by service and client."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """The `code` of a problem. Codes never change, unlike the texts beside them."""

    UNAUTHENTICATED = "unauthenticated"
    PRINCIPAL_UNREGISTERED = "principal-unregistered"
    FORBIDDEN = "forbidden"
    SCOPE_FORBIDDEN = "scope-forbidden"
    NOT_FOUND = "not-found"
    CONFLICT = "conflict"
    IDEMPOTENCY_CONFLICT = "idempotency-conflict"
    RUN_CLOSED_OTHERWISE = "run-closed-otherwise"
    RETRACTED_BEFORE = "retracted-before"
    COMPACTED = "compacted"
    SECRET_REFUSED = "secret-refused"  # noqa: S105 (a code, no password)
    SCOPE_READ_ONLY = "scope-read-only"
    INVALID_BODY = "invalid-body"
    INVALID_TOKEN = "invalid-token"  # noqa: S105 (a code, no password)
    TICKET_INVALID = "ticket-invalid"
    TICKET_EXPIRED = "ticket-expired"
    LOOP = "loop"
    TOO_LARGE = "too-large"
    QUOTA_EXCEEDED = "quota-exceeded"
    STORE_UNAVAILABLE = "store-unavailable"
    TOOK_TOO_LONG = "took-too-long"
    IDENTITY_UNAVAILABLE = "identity-unavailable"
    INTERNAL = "internal"
