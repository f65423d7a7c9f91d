"""Callers are ServiceAccounts: their projected tokens, reviewed by the API server for our audience.

token -> cache (20 s) -> one TokenReview at a time per token, in its lane -> username and UID
      -> administrator, or registered principal
Tokens are in no log, no error and no cache; the service's own is read again for each review.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread
import httpx

from knowledge_service.authentication.cache import Cache, Identity
from knowledge_service.authentication.token_review_limits import Lanes
from knowledge_service.domain.access_control import Principal, administrator
from knowledge_service.errors import IdentityUnavailable, Unauthenticated, Unregistered

if TYPE_CHECKING:
    from knowledge_client.models import PrincipalIn
    from knowledge_service.ports import PrincipalStore

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_TIMEOUT_S = 5.0
# Threads of its own, so that no slow request keeps callers from being known.
_THREADS = 4


class TokenReviewer:
    """Asks the API server about tokens."""

    def __init__(self, client: httpx.AsyncClient, token_file: Path, audience: str) -> None:
        self._client = client
        self._token_file = token_file
        self._audience = audience

    async def review(self, token: str) -> Identity | None:
        """Return who a token belongs to, None when it is not good for our audience.

        Raises:
            IdentityUnavailable: the API server does not answer, or refuses the review.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        try:
            own = self._token_file.read_text().strip()
            answer = await self._client.post(
                _REVIEWS, json=body, headers={"Authorization": f"Bearer {own}"}
            )
            answer.raise_for_status()
            status: dict[str, Any] = answer.json().get("status") or {}
        except httpx.HTTPStatusError as exc:
            raise IdentityUnavailable(_unasked(f"the API server answers {_code(exc)}")) from exc
        except (httpx.HTTPError, OSError, ValueError) as exc:
            raise IdentityUnavailable(_unasked(type(exc).__name__)) from exc
        user = status.get("user") or {}
        audiences = status.get("audiences") or []
        if not status.get("authenticated") or self._audience not in audiences:
            return None
        return Identity(user["username"], user.get("uid")) if user.get("username") else None


def _unasked(why: str) -> str:
    return f"the cluster cannot be asked who you are ({why}); try again"


def _code(failure: httpx.HTTPStatusError) -> int:
    return failure.response.status_code


class KubernetesAuthentication:
    """Turns a bearer token into a principal."""

    mode: Literal["kubernetes", "token", "none"] = "kubernetes"

    def __init__(
        self,
        reviewer: TokenReviewer,
        principals: PrincipalStore,
        administrators: Collection[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reviewer = reviewer
        self._principals = principals
        self._administrators = frozenset(administrators)
        self._cache = Cache(monotonic)
        self._lanes = Lanes(self._is_known)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._under_way: dict[bytes, asyncio.Future[Identity | None]] = {}

    async def principal(self, bearer: str | None) -> Principal:
        """Return the administrator or registered principal behind a token."""
        if not bearer:
            raise Unauthenticated("send a token of audience kais-knowledge as bearer")
        known = self._cache.get(bearer)
        identity = known[0] if known else await self._review(bearer)
        if identity is None:
            raise Unauthenticated(
                "the cluster does not take this token for audience kais-knowledge"
            )
        if identity.username in self._administrators:
            return administrator(identity.username, "system")
        found = await self._registered(identity.username)
        if found is None or (found.subject.uid and found.subject.uid != identity.uid):
            raise Unregistered(f"{identity.username} is not registered yet; try again in a moment")
        # An account that is made anew is another one: it has another UID.
        subject = f"{identity.username} {identity.uid or ''}"
        return Principal(found.name, found.type, found.home, found.grants, found.quota, subject)

    async def _is_known(self, username: str) -> bool:
        if username in self._administrators:
            return True
        return await self._registered(username) is not None

    async def _registered(self, username: str) -> PrincipalIn | None:
        find = self._principals.principal
        return await anyio.to_thread.run_sync(find, username, limiter=self._threads)

    async def _review(self, bearer: str) -> Identity | None:
        """Ask once for all who come with the same token while the answer is under way."""
        key = hashlib.sha256(bearer.encode()).digest()
        under_way = self._under_way.get(key)
        if under_way is None:
            under_way = asyncio.ensure_future(self._ask(bearer))
            self._under_way[key] = under_way
            under_way.add_done_callback(lambda done: self._asked(key, done))
        # A caller that hangs up takes the answer from nobody else.
        return await asyncio.shield(under_way)

    def _asked(self, key: bytes, done: asyncio.Future[Identity | None]) -> None:
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()  # seen, also when nobody waits any more

    async def _ask(self, bearer: str) -> Identity | None:
        async with self._lanes.turn(bearer):
            identity = await self._reviewer.review(bearer)
        self._cache.put(bearer, identity)
        return identity


def client(api: str, ca_file: Path) -> httpx.AsyncClient:
    """Make the HTTP client of the API server, which trusts the cluster's CA only."""
    context = ssl.create_default_context(cafile=str(ca_file)) if ca_file.exists() else True
    return httpx.AsyncClient(base_url=api, verify=context, timeout=_TIMEOUT_S, trust_env=False)
