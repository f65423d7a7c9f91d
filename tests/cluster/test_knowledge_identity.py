"""Mode `kubernetes` against a real API server: whose token opens what, and until when."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kais_cluster import errors as cluster_errors
from knowledge_client import AsyncKnowledgeClient, errors, models
from knowledge_client.retries import NO_RETRIES
from knowledge_service.asgi_app import create_app
from knowledge_service.authentication import kubernetes, people
from tests.cluster.conftest import ControlPlane
from tests.cluster.processes import wait_for
from tests.fakes.clock import FakeClock
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import OPERATOR

pytestmark = pytest.mark.cluster
AUDIENCE = "kais-knowledge"
SLACK_S = 10
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"containers": [{"name": "cell", "image": "none"}]},
}


class Service:
    """The service in process, which asks the real API server with a ServiceAccount of its own."""

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self._plane, self.namespace = plane, namespace
        for name in ("service", "alpha", "beta", "admin"):
            plane.kubectl("create", "serviceaccount", name, "-n", namespace)
        plane.kubectl(
            "create", "clusterrolebinding", f"reviewer-{namespace}",
            "--clusterrole=system:auth-delegator", f"--serviceaccount={namespace}:service",
        )  # fmt: skip
        account = f"system:serviceaccount:{namespace}:service"
        wait_for(lambda: self._may_review(account), subject=f"{account} may review tokens")
        own_path, authority = folder / "token", folder / "ca.crt"
        own_path.write_text(plane.kubectl("create", "token", "service", "-n", namespace))
        config = json.loads(plane.kubectl("config", "view", "--raw", "-o", "json"))
        cluster = config["clusters"][0]["cluster"]
        if "certificate-authority-data" in cluster:
            authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        else:
            authority.write_bytes(Path(cluster["certificate-authority"]).read_bytes())
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.asking = kubernetes.http_client(cluster["server"], authority)
        reviewer = kubernetes.TokenReviewer(self.asking, own_path, AUDIENCE)
        authentication = kubernetes.KubernetesAuthentication(
            reviewer, self.store, set(), self.clock.monotonic, people=self._people()
        )
        self._transport = httpx.ASGITransport(create_app(self.store, authentication))

    def _people(self) -> tuple[people.PersonRule, ...]:
        """Name one account as administrator, as the chart does."""
        return people.parse_rules(
            json.dumps(
                [{"user": f"system:serviceaccount:{self.namespace}:admin", "scope": "platform",
                  "subtree": True, "verbs": ["admin"]}]
            )
        )  # fmt: skip

    def _may_review(self, account: str) -> bool:
        """Ask the authorizer, which learns of a binding some time after it is stored."""
        requests = (
            "auth",
            "can-i",
            "create",
            "tokenreviews.authentication.k8s.io",
            f"--as={account}",
        )
        try:
            return self._plane.kubectl(*requests).strip() == "yes"
        except cluster_errors.CommandFailed:
            return False

    def register(self, account: str) -> str:
        """Register an account with its UID and return the scope in which it is at home."""
        document = json.loads(
            self._plane.kubectl(
                "get", "serviceaccount", account, "-n", self.namespace, "-o", "json"
            )
        )
        home = f"realm:{self.namespace}/formation:team/cell:{account}"
        subject = models.Subject(
            username=f"system:serviceaccount:{self.namespace}:{account}",
            uid=document["metadata"]["uid"],
        )
        body = models.PrincipalIn(
            name=f"{self.namespace}/{account}", type="agent", subject=subject, home=home
        )
        self.store.put_principal(body, actor=OPERATOR)
        return home

    def token(self, account: str, *extra_items: str, audience: str = AUDIENCE) -> str:
        return self._plane.kubectl(
            "create", "token", account, "-n", self.namespace, f"--audience={audience}", *extra_items
        ).strip()

    def pod_token(self, account: str, pod: str) -> str:
        """Make a pod and the token that the kubelet would mount into it."""
        metadata = {"name": pod, "namespace": self.namespace}
        spec = {**POD["spec"], "serviceAccountName": account}  # type: ignore[dict-item]
        self._plane.apply(
            json.dumps({**POD, "metadata": metadata, "spec": spec}), namespace=self.namespace
        )
        return self.token(account, "--bound-object-kind=Pod", f"--bound-object-name={pod}")

    def client(self, token: str) -> AsyncKnowledgeClient:
        return AsyncKnowledgeClient(
            "http://service", token=token, transport=self._transport, retries=NO_RETRIES
        )


@pytest.fixture
async def service(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> AsyncIterator[Service]:
    service = Service(control_plane, namespace, tmp_path)
    yield service
    await service.asking.aclose()


def expired(token: str, key: Path) -> str:
    """Return the token as it would be had it ended an hour ago, signed by the cluster's own key."""
    head, body, _ = token.split(".")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    for name in ("iat", "nbf"):
        claims[name] -= 2 * 3600
    claims["exp"] = claims["iat"] + 3600
    plain = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    signing = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    signed = subprocess.run(
        signing, input=f"{head}.{plain}".encode(), capture_output=True, check=True
    )
    signature = base64.urlsafe_b64encode(signed.stdout).decode().rstrip("=")
    return f"{head}.{plain}.{signature}"


async def refused(client: AsyncKnowledgeClient) -> str | None:
    with pytest.raises(errors.KnowledgeError) as caught:
        await client.whoami()
    return caught.value.code


async def refused_soon(client: AsyncKnowledgeClient, clock: FakeClock) -> None:
    """Wait for the API server, which takes a token for ten seconds more; ours is not asked."""
    async with asyncio.timeout(10 + SLACK_S):
        while True:
            clock.advance(21)
            try:
                await client.whoami()
            except errors.Unauthenticated:
                return
            await asyncio.sleep(0.5)


async def test_token_of_a_registered_account_is_its_principal(service: Service) -> None:
    home = service.register("alpha")
    identity = await service.client(service.token("alpha")).whoami()
    assert (identity.name, identity.home, identity.mode) == (
        f"{service.namespace}/alpha",
        home,
        "kubernetes",
    )


async def test_good_token_of_an_unknown_account_is_unregistered(service: Service) -> None:
    assert await refused(service.client(service.token("beta"))) == "principal-unregistered"


async def test_administrator_of_the_chart_writes_and_reviews_what_all_read(
    service: Service,
) -> None:
    service.register("alpha")
    admin, cell = (service.client(service.token(name)) for name in ("admin", "alpha"))
    assert (await admin.whoami()).type == "human"
    fact = await admin.remember(models.FactIn(content="tides turn at noon", scope="platform"))
    approved = await admin.approve(fact.fact_id, models.ApproveIn(reason="measured"))
    assert approved.fact.review == "approved"
    assert (await cell.get_fact(fact.fact_id)).scope == "platform"
    with pytest.raises(errors.PermissionDenied):
        await cell.remember(models.FactIn(content="x", scope="platform"))


async def test_token_for_another_audience_opens_nothing(service: Service) -> None:
    service.register("alpha")
    for audience in ("https://kubernetes.default.svc.cluster.local", "other"):
        token = service.token("alpha", audience=audience)
        assert await refused(service.client(token)) == "unauthenticated", audience


async def test_expired_token_signed_by_the_cluster_opens_nothing(
    service: Service, control_plane: ControlPlane
) -> None:
    service.register("alpha")
    good = service.token("alpha")
    (key,) = control_plane.host.directory.rglob("sa.key")
    await service.client(good).whoami()
    assert await refused(service.client(expired(good, key))) == "unauthenticated"
    forged = ".".join([*good.split(".")[:2], "AAAA"])
    assert await refused(service.client(forged)) == "unauthenticated"


async def test_token_of_a_deleted_pod_ends_with_the_thirty_seconds_of_the_cache(
    service: Service, control_plane: ControlPlane
) -> None:
    service.register("alpha")
    client = service.client(service.pod_token("alpha", "one"))
    await client.whoami()
    control_plane.kubectl(
        "delete", "pod", "one", "-n", service.namespace, "--grace-period=0", "--force"
    )
    service.clock.advance(19)
    await client.whoami()
    service.clock.advance(2)
    await refused_soon(client, service.clock)


async def test_account_made_again_under_the_same_name_is_another_one(
    service: Service, control_plane: ControlPlane
) -> None:
    service.register("alpha")
    old = service.client(service.token("alpha"))
    await old.whoami()
    control_plane.kubectl("delete", "serviceaccount", "alpha", "-n", service.namespace)
    control_plane.kubectl("create", "serviceaccount", "alpha", "-n", service.namespace)
    new = service.client(service.token("alpha"))
    assert await refused(new) == "principal-unregistered"
    await refused_soon(old, service.clock)
    service.register("alpha")
    assert (await new.whoami()).name == f"{service.namespace}/alpha"


async def test_another_pods_token_gives_exactly_that_pods_view_and_is_told_as_it(
    service: Service,
) -> None:
    homes = {name: service.register(name) for name in ("alpha", "beta")}
    tokens = {name: service.pod_token(name, f"{name}-0") for name in homes}
    alpha, beta = (service.client(tokens[name]) for name in ("alpha", "beta"))
    own_result = await alpha.remember(models.FactIn(content="rain of alpha"))
    await beta.remember(models.FactIn(content="rain of beta"))
    recalled = await beta.recall(models.RecallIn(query="rain"))
    assert [fact.content for fact in recalled.facts] == ["rain of beta"]
    assert recalled.facts[0].source.actor == f"{service.namespace}/beta"
    with pytest.raises(errors.NotFound):
        await beta.get_fact(own_result.fact_id)
    assert recalled.receipt is not None
    assert (await beta.get_receipt(recalled.receipt)).principal == f"{service.namespace}/beta"


async def test_nothing_in_a_request_widens_a_token(service: Service) -> None:
    homes = {name: service.register(name) for name in ("alpha", "beta")}
    await service.client(service.token("beta")).remember(models.FactIn(content="rain of beta"))
    alpha = service.client(service.token("alpha"))
    named = {"namespace": service.namespace, "service_account": "beta"}
    for recall_request in (
        models.RecallIn(query="rain", scopes=(homes["beta"],)),
        models.RecallIn(query="rain", act_as=models.ActAs(**named)),
        models.RecallIn(query="rain", run="beta-run"),
    ):
        with pytest.raises((errors.PermissionDenied, errors.NotFound)):
            await alpha.recall(recall_request)
    with pytest.raises(errors.PermissionDenied):
        await alpha.remember(models.FactIn(content="x", scope=homes["beta"]))
    source = models.Source(type="user_input", actor=f"{service.namespace}/beta")
    remembered = await alpha.remember(models.FactIn(content="claimed", source=source))
    assert (await alpha.get_fact(remembered.fact_id)).source.actor == f"{service.namespace}/alpha"
    headers = {
        "Authorization": f"Bearer {service.token('alpha')}",
        "X-Remote-User": f"system:serviceaccount:{service.namespace}:beta",
        "Impersonate-User": f"system:serviceaccount:{service.namespace}:beta",
    }
    async with httpx.AsyncClient(transport=service._transport, base_url="http://service") as http:
        body = (await http.get("/v1/whoami", headers=headers)).json()
        assert body["home"] == homes["alpha"]


async def test_without_a_token_or_with_a_made_up_one_nobody_is_served(service: Service) -> None:
    service.register("alpha")
    for token in ("", "made-up", "a.b.c"):
        with pytest.raises(errors.Unauthenticated):
            await service.client(token or " ").whoami()
