"""The Idempotency-Key of a write: a repeat gets the first answer and writes nothing."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from knowledge_service.domain.facts import canonical
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import InvalidBody
from knowledge_service.ports import IdempotencyKey

_MAX_KEY = 255


def bind_key(
    key: str | None, principal: Principal, operation: str, body: BaseModel
) -> IdempotencyKey | None:
    """Bind a key to its caller, operation and body; None when the caller sent no key.

    Raises:
        InvalidBody: the key is empty or too long.
    """
    if key is None:
        return None
    if not 0 < len(key) <= _MAX_KEY:
        raise InvalidBody(f"Idempotency-Key must have 1 to {_MAX_KEY} characters")
    text = canonical([operation, body.model_dump(mode="json", by_alias=True)])
    return IdempotencyKey(principal.identity, key, hashlib.sha256(text.encode()).hexdigest())
