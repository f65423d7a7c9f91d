"""Authenticate ServiceAccounts: the API server reviews their projected tokens.

token -> cache (20 s) -> one TokenReview at a time for each token -> username and UID
      -> administrator, registered principal, or person whom a rule names
A person may also send the token of their own login, which is one for the API server itself.
No log, error or cache holds a token. The service reads its own token again for each review.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread
import httpx

from knowledge_service.authentication.cache import Cache, Identity
from knowledge_service.authentication.people import PersonRule, is_account, person
from knowledge_service.authentication.token_review_limits import TokenReviewLimiter
from knowledge_service.domain.principals import Principal, administrator
from knowledge_service.errors import (
    Forbidden,
    IdentityUnavailable,
    Unauthenticated,
    Unregistered,
)

if TYPE_CHECKING:
    from knowledge_client.models import PrincipalIn
    from knowledge_service.ports import PrincipalStore

_REVIEWS_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_TIMEOUT_S = 5.0
# Separate threads, so that slow requests do not delay authentication.
_THREADS = 4


class TokenReviewer:
    """Sends TokenReviews to the API server."""

    def __init__(self, client: httpx.AsyncClient, token_file: Path, audience: str) -> None:
        self._client = client
        self._token_file = token_file
        self._audience = audience

    async def review(self, token: str) -> Identity | None:
        """Return the user of a token, None when the token is not valid for the audience.

        Raises:
            IdentityUnavailable: the API server does not answer or rejects the review.
        """
        return await self._review(token, (self._audience,))

    async def review_login(self, token: str) -> Identity | None:
        """Return the user of a token for the API server itself, None when it is not valid.

        Raises:
            IdentityUnavailable: the API server does not answer or rejects the review.
        """
        return await self._review(token, ())

    async def _review(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """Return the user of a token; without audiences, it must be one for the API server.

        Raises:
            IdentityUnavailable: the API server does not answer or rejects the review.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **({"audiences": [*audiences]} if audiences else {})},
        }
        try:
            own_token = self._token_file.read_text().strip()
            response = await self._client.post(
                _REVIEWS_PATH, json=body, headers={"Authorization": f"Bearer {own_token}"}
            )
            response.raise_for_status()
            status: dict[str, Any] = response.json().get("status") or {}
        except httpx.HTTPStatusError as exc:
            raise IdentityUnavailable(
                _unavailable_message(f"the API server answers {_status_code(exc)}")
            ) from exc
        except (httpx.HTTPError, OSError, ValueError) as exc:
            raise IdentityUnavailable(_unavailable_message(type(exc).__name__)) from exc
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        if not set(audiences) <= set(status.get("audiences") or ()):
            return None
        return Identity(user["username"], user.get("uid"), tuple(user.get("groups") or ()))


def _unavailable_message(reason: str) -> str:
    return f"the cluster cannot validate the token ({reason}); try again"


def _status_code(failure: httpx.HTTPStatusError) -> int:
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
        *,
        people: Sequence[PersonRule] = (),
    ) -> None:
        self._reviewer = reviewer
        self._principals = principals
        self._administrators = frozenset(administrators)
        self._people = tuple(people)
        self._has_logins = any(rule.is_for_logins for rule in people)
        self._cache = Cache(monotonic)
        self._limiter = TokenReviewLimiter(self._is_registered)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._pending_reviews: dict[bytes, asyncio.Future[Identity | None]] = {}

    async def principal(self, bearer: str | None) -> Principal:
        """Return the administrator or registered principal of a token."""
        if not bearer:
            raise Unauthenticated("send a token of audience kais-knowledge as bearer")
        cached = self._cache.get(bearer)
        identity = cached[0] if cached else await self._review(bearer)
        if identity is None:
            raise Unauthenticated(
                "the API server rejects this token for the audience kais-knowledge"
            )
        if identity.username in self._administrators:
            return administrator(identity.username, "system")
        person_principal = person(identity, self._people)
        if person_principal is not None:
            return person_principal
        registration = await self._registration(identity.username)
        if registration is None and self._people and not is_account(identity):
            raise Forbidden(
                f"{identity.username} is in no group that may use the knowledge service;"
                " the value knowledge.people of the chart names these groups"
            )
        if registration is None or (
            registration.subject.uid and registration.subject.uid != identity.uid
        ):
            raise Unregistered(f"{identity.username} is not registered yet; try again in a moment")
        # A recreated account has another UID and is another principal.
        subject = f"{identity.username} {identity.uid or ''}"
        return Principal(
            registration.name,
            registration.type,
            registration.home,
            registration.grants,
            registration.quota,
            subject,
            registration.default_scope,
        )

    async def _is_registered(self, username: str) -> bool:
        if username in self._administrators:
            return True
        return await self._registration(username) is not None

    async def _registration(self, username: str) -> PrincipalIn | None:
        find = self._principals.principal
        return await anyio.to_thread.run_sync(find, username, limiter=self._threads)

    async def _review(self, bearer: str) -> Identity | None:
        """Review a token once for all concurrent requests that carry it."""
        key = hashlib.sha256(bearer.encode()).digest()
        pending = self._pending_reviews.get(key)
        if pending is None:
            pending = asyncio.ensure_future(self._request_review(bearer))
            self._pending_reviews[key] = pending
            pending.add_done_callback(lambda finished: self._on_review_end(key, finished))
        # A caller that disconnects must not cancel the review for others.
        return await asyncio.shield(pending)

    def _on_review_end(self, key: bytes, review: asyncio.Future[Identity | None]) -> None:
        self._pending_reviews.pop(key, None)
        if not review.cancelled():
            review.exception()  # mark it as retrieved, also when nothing awaits it

    async def _request_review(self, bearer: str) -> Identity | None:
        async with self._limiter.hold_slot(bearer):
            identity = await self._reviewer.review(bearer)
            if identity is None and self._has_logins:
                login = await self._reviewer.review_login(bearer)
                # A ServiceAccount must use a token of the service's audience, not one for the API
                # server.
                identity = None if login is None or is_account(login) else login
        self._cache.put(bearer, identity)
        return identity


def http_client(api: str, ca_file: Path) -> httpx.AsyncClient:
    """Return an HTTP client for the API server that trusts the CA of the cluster only."""
    context = ssl.create_default_context(cafile=str(ca_file)) if ca_file.exists() else True
    return httpx.AsyncClient(base_url=api, verify=context, timeout=_TIMEOUT_S, trust_env=False)
