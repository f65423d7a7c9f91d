"""What routes are given: the service's parts, the caller, the key of a repeat."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from knowledge_service.clock import Clock
from knowledge_service.domain.facts import canonical
from knowledge_service.domain.visibility import Principal
from knowledge_service.errors import InvalidBody
from knowledge_service.metrics import Metrics
from knowledge_service.ports import Authenticator, Once, Store

_MAX_KEY = 255


@dataclass(frozen=True)
class Services:
    """Everything a route may use. `wake_extractor` tells the worker that there is a new job."""

    store: Store
    authenticator: Authenticator
    clock: Clock
    metrics: Metrics
    wake_extractor: Callable[[], None]


async def services(request: Request) -> Services:
    """Return the parts that `create_app` put together; async only to spare a worker thread."""
    found: Services = request.app.state.services
    return found


ServicesDep = Annotated[Services, Depends(services)]


async def caller(request: Request, parts: ServicesDep) -> Principal:
    """Find out who calls, from the bearer token and nothing else."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else None
    return await parts.authenticator.principal(bearer or None)


CallerDep = Annotated[Principal, Depends(caller)]
KeyHeader = Annotated[str | None, Header(alias="Idempotency-Key")]


def once(key: str | None, principal: Principal, route: str, body: BaseModel) -> Once | None:
    """Make the key of a repeat: per principal, bound to route and body; None without a header."""
    if key is None:
        return None
    if not 0 < len(key) <= _MAX_KEY:
        raise InvalidBody(f"Idempotency-Key must have 1 to {_MAX_KEY} characters")
    text = canonical([route, body.model_dump(mode="json", by_alias=True)])
    return Once(principal.name, key, hashlib.sha256(text.encode()).hexdigest())
