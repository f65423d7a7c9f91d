from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge_client.models import PrincipalIn, Subject
from knowledge_service.errors import IdentityUnavailable, Unauthenticated, Unregistered
from knowledge_service.identity.cache import Cache, Identity
from knowledge_service.identity.kubernetes import KubernetesAuthentication, TokenReviewer
from tests.builders_knowledge import LEAD, OPERATOR
from tests.fakes.clock import FakeClock
from tests.fakes.store import MemoryStore

USERNAME = "system:serviceaccount:demo:lead-0"


class ApiServer:
    """Answers TokenReviews; `status` is what it says, `asked` the bodies it was sent."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.authorization: list[str] = []
        self.code = 201
        self.status: dict[str, Any] = {
            "authenticated": True,
            "audiences": ["kais-knowledge"],
            "user": {"username": USERNAME, "uid": "u-1"},
        }

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(json.loads(request.content))
        self.authorization.append(request.headers["authorization"])
        return httpx.Response(self.code, json={"status": self.status})


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    subject = Subject(username=USERNAME, uid="u-1")
    registered = PrincipalIn(name="demo/lead-0", type="agent", subject=subject, home=LEAD)
    made.put_principal(registered, actor=OPERATOR)
    return made


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("own-token\n")
    return path


Authenticate = Callable[[], KubernetesAuthentication]


@pytest.fixture
def authentication(
    server: ApiServer, store: MemoryStore, token_file: Path, clock: FakeClock
) -> KubernetesAuthentication:
    client = httpx.AsyncClient(transport=httpx.MockTransport(server), base_url="https://api")
    reviewer = TokenReviewer(client, token_file, "kais-knowledge")
    admins = {"system:serviceaccount:kais-system:kais-operator"}
    return KubernetesAuthentication(reviewer, store, admins, clock.monotonic)


async def test_registered_account_gets_its_principal(
    authentication: KubernetesAuthentication, server: ApiServer
) -> None:
    found = await authentication.principal("cell-token")
    assert (found.name, found.home) == ("demo/lead-0", LEAD)
    assert server.asked[0]["spec"] == {"token": "cell-token", "audiences": ["kais-knowledge"]}
    assert server.authorization == ["Bearer own-token"]


async def test_verdict_is_kept_for_thirty_seconds(
    authentication: KubernetesAuthentication, server: ApiServer, clock: FakeClock
) -> None:
    await authentication.principal("t")
    clock.advance(29)
    await authentication.principal("t")
    assert len(server.asked) == 1
    clock.advance(2)
    server.status = {"authenticated": False}
    with pytest.raises(Unauthenticated):
        await authentication.principal("t")


async def test_own_token_is_read_again_for_each_review(
    authentication: KubernetesAuthentication, server: ApiServer, token_file: Path
) -> None:
    await authentication.principal("a")
    token_file.write_text("rotated")  # noqa: ASYNC240 - a test has nobody to block
    await authentication.principal("b")
    assert server.authorization == ["Bearer own-token", "Bearer rotated"]


async def test_administrators_need_no_registration(
    authentication: KubernetesAuthentication, server: ApiServer
) -> None:
    server.status["user"] = {"username": "system:serviceaccount:kais-system:kais-operator"}
    assert (await authentication.principal("t")).may("admin", "platform")


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "error": "expired"},
        {"authenticated": True, "audiences": ["other"], "user": {"username": USERNAME}},
        {"authenticated": True, "user": {"username": USERNAME}},
        {"authenticated": True, "audiences": ["kais-knowledge"], "user": {}},
        {},
    ],
)
async def test_token_that_is_not_for_us_is_refused(
    authentication: KubernetesAuthentication, server: ApiServer, status: dict[str, Any]
) -> None:
    server.status = status
    with pytest.raises(Unauthenticated, match="does not take this token for audience"):
        await authentication.principal("t")


@pytest.mark.parametrize("user", [{"username": "someone"}, {"username": USERNAME, "uid": "u-2"}])
async def test_unknown_account_or_one_made_again_is_unregistered(
    authentication: KubernetesAuthentication, server: ApiServer, user: dict[str, str]
) -> None:
    server.status["user"] = user
    with pytest.raises(Unregistered, match=f"{user['username']} is not registered yet"):
        await authentication.principal("t")


async def test_without_a_token_nobody_is_asked(
    authentication: KubernetesAuthentication, server: ApiServer
) -> None:
    with pytest.raises(Unauthenticated, match="send a token of audience kais-knowledge"):
        await authentication.principal(None)
    assert server.asked == []


@pytest.mark.parametrize("code", [401, 403, 500])
async def test_api_server_that_refuses_or_is_away_is_said_without_the_token(
    authentication: KubernetesAuthentication, server: ApiServer, code: int
) -> None:
    server.code = code
    with pytest.raises(IdentityUnavailable, match="the cluster cannot be asked") as caught:
        await authentication.principal("secret-token")
    assert "secret-token" not in caught.value.detail
    assert f"(the API server answers {code})" in caught.value.detail
    server.code = 201
    assert (await authentication.principal("secret-token")).name == "demo/lead-0"


@pytest.mark.parametrize("status", [None, [], {"authenticated": True, "audiences": None}])
async def test_review_without_a_verdict_is_a_refusal(
    authentication: KubernetesAuthentication, server: ApiServer, status: Any
) -> None:
    server.status = status
    with pytest.raises(Unauthenticated):
        await authentication.principal("t")


async def test_missing_own_token_is_unavailable(
    authentication: KubernetesAuthentication, token_file: Path
) -> None:
    token_file.unlink()  # noqa: ASYNC240 - a test has nobody to block
    with pytest.raises(IdentityUnavailable, match="FileNotFoundError"):
        await authentication.principal("t")


def test_cache_is_bounded_and_drops_what_was_unused_longest(clock: FakeClock) -> None:
    cache = Cache(clock.monotonic, size=2)
    cache.put("a", Identity("a", None))
    cache.put("b", None)
    cache.get("a")
    cache.put("c", None)
    assert len(cache) == 2
    assert cache.get("b") is None
    assert cache.get("a") == (Identity("a", None),)
    clock.advance(6)
    assert cache.get("c") is None
