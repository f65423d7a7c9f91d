from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge_client.models import PrincipalIn, Subject
from knowledge_service.authentication import people, token_review_limits
from knowledge_service.authentication.cache import Cache, Identity
from knowledge_service.authentication.kubernetes import KubernetesAuthentication, TokenReviewer
from knowledge_service.errors import Forbidden, IdentityUnavailable, Unauthenticated, Unregistered
from tests.fakes.clock import FakeClock
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import LEAD, OPERATOR

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
    memory_store = MemoryStore()
    subject = Subject(username=USERNAME, uid="u-1")
    registered = PrincipalIn(name="demo/lead-0", type="agent", subject=subject, home=LEAD)
    memory_store.put_principal(registered, actor=OPERATOR)
    return memory_store


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
    principal = await authentication.principal("cell-token")
    assert (principal.name, principal.home) == ("demo/lead-0", LEAD)
    assert server.asked[0]["spec"] == {"token": "cell-token", "audiences": ["kais-knowledge"]}
    assert server.authorization == ["Bearer own-token"]


RULES = people.parse_rules(
    '[{"group": "stewards", "scope": "platform", "subtree": true, "verbs": ["read", "review"]},'
    ' {"user": "system:serviceaccount:kais-system:kais-knowledge-admin", "scope": "platform",'
    ' "subtree": true, "verbs": ["admin"]}]'
)


class Logins(ApiServer):
    """Knows a token of a login, which is one for the API server itself, and no other token."""

    def __init__(self, username: str, *groups: str) -> None:
        super().__init__()
        self.user = {"username": username, "uid": "u-9", "groups": [*groups]}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        own = "audiences" not in json.loads(request.content)["spec"]
        audiences = ["https://kubernetes.default.svc"]
        self.status = {
            "authenticated": own,
            "audiences": audiences,
            "user": self.user if own else {},
        }
        return super().__call__(request)


def with_people(
    server: ApiServer, store: MemoryStore, token_file: Path, rules: tuple[people.PersonRule, ...]
) -> KubernetesAuthentication:
    client = httpx.AsyncClient(transport=httpx.MockTransport(server), base_url="https://api")
    reviewer = TokenReviewer(client, token_file, "kais-knowledge")
    return KubernetesAuthentication(reviewer, store, (), FakeClock().monotonic, people=rules)


async def test_person_of_a_named_group_is_admitted_by_the_token_of_the_own_login(
    store: MemoryStore, token_file: Path
) -> None:
    logins = Logins("ada@example.com", "stewards", "system:authenticated")
    principal = await with_people(logins, store, token_file, RULES).principal("login")
    assert (principal.name, principal.type, principal.home) == (
        "ada@example.com",
        "human",
        "platform",
    )
    assert principal.has_verb("review", "realm:demo")
    assert not principal.has_verb("write", "platform"), (
        "reading the platform is no right to write there"
    )
    assert not principal.has_verb("remember", "platform")
    assert not principal.has_verb("admin", "realm:demo")


async def test_person_of_no_named_group_is_refused(store: MemoryStore, token_file: Path) -> None:
    logins = Logins("eve@example.com", "developers")
    with pytest.raises(Forbidden, match=r"eve@example\.com is in no group that may use"):
        await with_people(logins, store, token_file, RULES).principal("login")


async def test_person_whom_a_rule_names_is_admitted_by_the_token_of_the_own_login(
    store: MemoryStore, token_file: Path
) -> None:
    rules = people.parse_rules(
        '[{"user": "ada@example.com", "scope": "realm:demo", "verbs": ["read", "review"]}]'
    )
    principal = await with_people(Logins("ada@example.com"), store, token_file, rules).principal(
        "t"
    )
    assert (principal.name, principal.type) == ("ada@example.com", "human")
    assert principal.has_verb("review", "realm:demo")
    with pytest.raises(Forbidden, match=r"eve@example\.com is in no group that may use"):
        await with_people(Logins("eve@example.com"), store, token_file, rules).principal("t")


async def test_token_for_the_api_server_is_sent_on_only_where_people_are_named(
    store: MemoryStore, token_file: Path
) -> None:
    logins = Logins("ada@example.com", "stewards")
    with pytest.raises(Unauthenticated):
        await with_people(logins, store, token_file, RULES[1:]).principal("login")
    assert [body["spec"].get("audiences") for body in logins.asked] == [["kais-knowledge"]]


async def test_accounts_get_nothing_by_a_group_nor_by_a_token_for_the_api_server(
    server: ApiServer, store: MemoryStore, token_file: Path
) -> None:
    pod = Logins(USERNAME, "stewards", "system:serviceaccounts:demo")
    with pytest.raises(Unauthenticated):
        await with_people(pod, store, token_file, RULES).principal("the token of a pod")
    server.status["user"]["groups"] = ["stewards"]
    principal = await with_people(server, store, token_file, RULES).principal("cell-token")
    assert (principal.name, principal.type) == ("demo/lead-0", "agent")


async def test_account_that_a_rule_names_is_a_person_with_its_verbs(
    server: ApiServer, store: MemoryStore, token_file: Path
) -> None:
    server.status["user"] = {"username": RULES[1].user, "uid": "u-2"}
    principal = await with_people(server, store, token_file, RULES).principal("t")
    assert principal.type == "human"
    assert principal.administers_all_below("platform")


@pytest.mark.parametrize(
    "text", ["{}", '[{"scope": "platform", "verbs": ["read"]}]', '[{"group": "a", "scope": "x"}]']
)
def test_rules_that_are_none_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(people.InvalidRules):
        people.parse_rules(text)


async def test_verdict_is_kept_for_twenty_seconds(
    authentication: KubernetesAuthentication, server: ApiServer, clock: FakeClock
) -> None:
    await authentication.principal("t")
    clock.advance(19)
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
    assert (await authentication.principal("t")).has_verb("admin", "platform")


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
    with pytest.raises(Unauthenticated, match="rejects this token for the audience"):
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
    with pytest.raises(IdentityUnavailable, match="the cluster cannot validate") as caught:
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


def token_of(subject: str, signature: str = "x") -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"sub": subject}).encode()).decode().rstrip("=")
    return f"e30.{claims}.{signature}"


class SlowServer(ApiServer):
    """Answers nobody until it is let go; `most` is how many it was asked at once."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = asyncio.Event()
        self.inside = self.most = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.let_go.wait()
        self.inside -= 1
        return self(request)


class TestFloods:
    @pytest.fixture
    def server(self) -> SlowServer:
        return SlowServer()

    @pytest.fixture
    def slow(
        self, server: SlowServer, store: MemoryStore, token_file: Path, clock: FakeClock
    ) -> KubernetesAuthentication:
        transport = httpx.MockTransport(server.answer)
        client = httpx.AsyncClient(transport=transport, base_url="https://api")
        reviewer = TokenReviewer(client, token_file, "kais-knowledge")
        return KubernetesAuthentication(reviewer, store, {"admin"}, clock.monotonic)

    async def settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0.001)

    async def test_one_token_is_asked_about_once_however_many_come_with_it(
        self, slow: KubernetesAuthentication, server: SlowServer
    ) -> None:
        calls = [asyncio.create_task(slow.principal(token_of(USERNAME))) for _ in range(50)]
        await self.settle()
        calls[0].cancel()
        server.let_go.set()
        principals = await asyncio.gather(*calls[1:])
        assert {principal.name for principal in principals} == {"demo/lead-0"}
        assert len(server.asked) == 1

    async def test_random_tokens_fill_a_narrow_lane_and_the_rest_is_told_to_come_again(
        self, slow: KubernetesAuthentication, server: SlowServer
    ) -> None:
        tasks = [asyncio.create_task(slow.principal(f"made-up-{n}")) for n in range(300)]
        tasks += [asyncio.create_task(slow.principal(token_of(f"nobody-{n}"))) for n in range(300)]
        await self.settle()
        assert server.most == 2
        refused = [call.exception() for call in tasks if call.done()]
        assert len(refused) == 600 - 64
        assert {str(error) for error in refused} == {
            "too many unknown tokens are waiting for review; try again"
        }
        good = asyncio.create_task(slow.principal(token_of(USERNAME)))
        await self.settle()
        assert server.most == 3, "a registered account waits behind nobody's random tokens"
        server.let_go.set()
        assert (await good).name == "demo/lead-0"
        await asyncio.gather(*tasks, return_exceptions=True)

    async def test_forged_tokens_of_one_account_hold_up_that_account_only(
        self, slow: KubernetesAuthentication, server: SlowServer
    ) -> None:
        forged = [
            asyncio.create_task(slow.principal(token_of(USERNAME, f"forged-{n}")))
            for n in range(40)
        ]
        await self.settle()
        assert server.most == 2
        other_task = asyncio.create_task(slow.principal(token_of("admin")))
        await self.settle()
        assert server.most == 3
        server.let_go.set()
        await asyncio.gather(other_task, *forged)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.!!!!.c",
        "a.bnVsbA.c",
        "a.eyJzdWIiOiA3fQ.c",
        "a." + "A" * 20_000 + ".c",
        "a.W1tb.c",
        "a.eyJzdWIiOiAiXHVkODAwIn0.c",
    ],
)
def test_token_that_says_nothing_of_itself_names_nobody(token: str) -> None:
    assert token_review_limits.claimed_subject(token) is None
