"""Connects to the knowledge service: a port-forward to its pod, and a token of the realm's account.

    KAIS_KNOWLEDGE_URL set  -> that address, with KNOWLEDGE_TOKEN_FILE's token when there is one
    else                    -> the pod of the release KAIS_RELEASE <- forwarded port
                               namespace: ServiceAccount kais-user of the realm <- TokenRequest
                               admin: ServiceAccount of the release's administrators <- TokenRequest
                               me: the token of the kubeconfig's login
The operator registers `kais-user` where a namespace has objects of kais. In any other the account
is made here; until it is registered the client tries again, for 30 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kais import labels, service_accounts
from kais_cli import errors
from kais_cli.cluster import install_defaults
from kais_cli.error_messages import knowledge_service
from kais_cli.settings import Identity
from knowledge_client import errors as knowledge_errors
from knowledge_client.client import KnowledgeClient
from knowledge_client.retries import RetryPolicy

if TYPE_CHECKING:
    from kais_cli.environment import Environment
    from kais_cli.ports import Body, Cluster

PORT = 8000
# A person waits, so retries are short, except for an account that was just created (30 s).
_RETRY_POLICY = RetryPolicy(unavailable_s=5)


@contextmanager
def connect(
    environment: Environment,
    cluster: Cluster | None,
    *,
    namespace: str,
    creates_account: bool = True,
    as_agent: bool = False,
    timeout_s: float = 10.0,
) -> Iterator[KnowledgeClient]:
    """Open a client that acts for the realm of a namespace, with `as_agent` as an agent.

    `cluster` may be None if KAIS_KNOWLEDGE_URL is set. With `creates_account`, a missing
    ServiceAccount of the realm is created.

    Raises:
        NoAccount: There is no account, and none may be created.
        Unreachable: The service is not ready, or does not answer.
        Refused: The service or the cluster rejects the request.
    """
    url = environment.settings.knowledge_url
    try:
        with _open_client(
            environment,
            cluster,
            namespace=namespace,
            creates_account=creates_account,
            as_agent=as_agent,
            timeout_s=timeout_s,
        ) as client:
            yield client
    except knowledge_errors.KnowledgeError as exc:
        raise knowledge_service.translate(exc, namespace=namespace, url=url) from exc


@contextmanager
def _open_client(
    environment: Environment,
    cluster: Cluster | None,
    *,
    namespace: str,
    creates_account: bool,
    as_agent: bool,
    timeout_s: float,
) -> Iterator[KnowledgeClient]:
    url, transport = environment.settings.knowledge_url, environment.knowledge_transport
    if url is not None or cluster is None:
        with KnowledgeClient(
            url=url,
            retries=_RETRY_POLICY,
            transport=transport,
            as_agent=as_agent,
            timeout_s=timeout_s,
        ) as client:
            yield client
        return
    release = install_defaults.release(environment.settings)
    _require_pod(cluster, release)  # first: without a service no account is created
    identity = environment.settings.knowledge_identity
    if identity is Identity.ME:
        token = _login_token(cluster)
    elif identity is Identity.ADMIN:
        token = _admin_token(cluster, release)
    else:
        token = _account_token(cluster, namespace, creates_account=creates_account)
    with (
        cluster.forward(release.namespace, release.knowledge_pod, PORT) as address,
        KnowledgeClient(
            url=address,
            token=token,
            retries=_RETRY_POLICY,
            transport=transport,
            as_agent=as_agent,
            timeout_s=timeout_s,
        ) as client,
    ):
        yield client


def _login_token(cluster: Cluster) -> str:
    token = cluster.login_token()
    if token is None:
        raise errors.Refused(
            "the user of your kubeconfig logs in without a token, so the knowledge service cannot"
            " ask the API server who you are; use `--as admin`, or a kubeconfig with a token"
        )
    return token


def _admin_token(cluster: Cluster, release: install_defaults.Release) -> str:
    token = cluster.token(release.namespace, release.knowledge_admin, labels.AUDIENCE)
    if token is None:
        raise errors.NoAccount(
            f"there is no ServiceAccount/{release.namespace}/{release.knowledge_admin};"
            " the chart creates it, so upgrade the release"
        )
    return token


def _account_token(cluster: Cluster, namespace: str, *, creates_account: bool) -> str:
    token = cluster.token(namespace, labels.USER_ACCOUNT, labels.AUDIENCE)
    if token is not None:
        return token
    if not creates_account:
        raise errors.NoAccount(f"there is no ServiceAccount/{namespace}/{labels.USER_ACCOUNT}")
    _create_account(cluster, namespace)
    token = cluster.token(namespace, labels.USER_ACCOUNT, labels.AUDIENCE)
    if token is None:
        raise errors.Refused(
            f"ServiceAccount/{namespace}/{labels.USER_ACCOUNT} was deleted while it was used;"
            " try again"
        )
    return token


def _create_account(cluster: Cluster, namespace: str) -> None:
    try:
        cluster.create(service_accounts.realm_account(namespace))
    except errors.Refused:
        # The operator may just have created it; any other error is raised.
        if cluster.get("ServiceAccount", namespace, labels.USER_ACCOUNT) is None:
            raise


def _require_pod(cluster: Cluster, release: install_defaults.Release) -> None:
    """Require that the pod of the release is ready, because it receives a token of the realm.

    Raises:
        Refused: The pod of that name does not belong to the release.
        Unreachable: There is no such pod, or it is not ready.
    """
    try:
        pod = cluster.get("Pod", release.namespace, release.knowledge_pod)
    except errors.Refused as exc:
        if "forbidden" not in str(exc):
            raise
        role = f"the Role {release.people} of {release.namespace}, bound to you,"
        raise errors.Refused(f"{exc}; {role} allows it") from exc
    pod_reference = f"Pod/{release.namespace}/{release.knowledge_pod}"
    if pod is None:
        raise errors.Unreachable(
            f"there is no {pod_reference}, the knowledge service of the release {release};"
            " `kais doctor` says"
            " whether it is installed, or scaled to 0; set KAIS_RELEASE to NAMESPACE/NAME of"
            " another release, or KAIS_KNOWLEDGE_URL"
        )
    mismatch = _release_mismatch(pod, release)
    if mismatch:
        raise errors.Refused(
            f"{pod_reference} {mismatch}, so it is not the knowledge service of the release"
            f" {release}; no token was sent to it"
        )
    if not _is_ready(pod):
        phase = pod.get("status", {}).get("phase", "Unknown")
        raise errors.Unreachable(
            f"the knowledge service is not ready ({pod_reference} is {phase});"
            " see `kubectl describe` of it"
        )


def _release_mismatch(pod: Body, release: install_defaults.Release) -> str | None:
    """Describe how a pod differs from one of the release's StatefulSet; None if it does not."""
    references = pod["metadata"].get("ownerReferences") or []
    owner = next((reference for reference in references if reference.get("controller")), None)
    if owner is None:
        return f"is not controlled by StatefulSet/{release.knowledge}"
    if (owner["apiVersion"], owner["kind"], owner["name"]) != (
        "apps/v1",
        "StatefulSet",
        release.knowledge,
    ):
        actual = f"{owner['kind']}/{owner['name']}"
        return f"is controlled by {actual}, not by StatefulSet/{release.knowledge}"
    account = pod.get("spec", {}).get("serviceAccountName", "default")
    if account != release.knowledge:
        return f"runs as ServiceAccount {account}, not as {release.knowledge}"
    return None


def _is_ready(pod: Body) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
