"""The stable codes of the service's problems: one list for service and client."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """What a problem is, in a word that never changes; the sentence beside it may."""

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
    TOO_LARGE = "too-large"
    QUOTA_EXCEEDED = "quota-exceeded"
    STORE_UNAVAILABLE = "store-unavailable"
    TOOK_TOO_LONG = "took-too-long"
    IDENTITY_UNAVAILABLE = "identity-unavailable"
    INTERNAL = "internal"
