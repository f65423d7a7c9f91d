"""Implements the cluster port with kr8s. Only this module imports kr8s, which takes a second."""

from __future__ import annotations

import asyncio
import atexit
import json
import tempfile
import warnings
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import kr8s
from kr8s.asyncio.objects import Pod

from kais import labels as kais_labels
from kais.resources import base, kinds
from kais_cli.cluster import logs as cluster_logs
from kais_cli.cluster import watch as cluster_watch
from kais_cli.cluster.event_loop_thread import EventLoopThread
from kais_cli.error_messages import kubernetes_api
from kais_cli.ports import Body, Change, Target

_Result = TypeVar("_Result")
_TIMEOUT_S = 30.0
_TOKEN_LIFE_S = 600  # the minimum of the API server
_BUILTIN_KINDS = {
    "ConfigMap": ("v1", "configmaps"),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
    "Deployment": ("apps/v1", "deployments"),
    "Event": ("v1", "events"),
    "Job": ("batch/v1", "jobs"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
    "Namespace": ("v1", "namespaces"),
    "Pod": ("v1", "pods"),
    "ServiceAccount": ("v1", "serviceaccounts"),
    "StatefulSet": ("apps/v1", "statefulsets"),
}
"""Built-in kinds that commands read, with their API version and plural."""


class KubernetesCluster:
    """A cluster reached with a kubeconfig; logs in at once.

    Raises:
        Unreachable: no usable kubeconfig, or the API server does not answer.
    """

    def __init__(self, kubeconfig: str | None, *, context: str | None = None) -> None:
        self._event_loop = EventLoopThread()
        try:
            with _temporary_key_files():
                self._api = self._run(_log_in(kubeconfig, context), "log in")
        except kubernetes_api.KUBECONFIG_ERRORS as exc:
            raise kubernetes_api.bad_kubeconfig(exc) from exc

    @property
    def namespace(self) -> str:
        """The namespace of the context in use, `default` when it names none."""
        auth = self._api.auth
        if not auth.active_context:
            return str(auth.namespace)
        context = auth.kubeconfig.get_context(auth.active_context)
        return str(context.get("namespace") or "default")

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object, None when there is none."""
        version, plural = path_of(kind)
        call = self._call("GET", version, f"{plural}/{name}", namespace=namespace)
        try:
            return self._event_loop.run(call)
        except kr8s.ServerError as exc:
            if kubernetes_api.is_missing(exc):
                return None
            raise kubernetes_api.translate(exc, f"get {kind}/{namespace}/{name}") from exc
        except kubernetes_api.API_ERRORS as exc:
            raise kubernetes_api.translate(exc, f"get {kind}/{namespace}/{name}") from exc

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "") -> list[Body]:
        """Read all objects of a kind in a namespace, or in all; `labels` is a selector."""
        version, plural = path_of(kind)
        params = {"labelSelector": labels} if labels else {}
        call = self._call("GET", version, plural, namespace=namespace, params=params)
        return list(self._run(call, f"list {plural} in {namespace or 'all namespaces'}")["items"])

    def create(self, body: Body, *, dry_run: bool = False) -> Body:
        """Create an object as field manager kais-cli and return the stored object."""
        version, plural = path_of(body["kind"])
        metadata = body["metadata"]
        call = self._call(
            "POST",
            version,
            plural,
            namespace=metadata["namespace"],
            params=_write_params(dry_run=dry_run),
            json=body,
        )
        subject = f"{body['kind']}/{metadata['namespace']}/{metadata['name']}"
        return self._run(call, f"create {subject}")

    def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        patch: Body | Sequence[Body],
        *,
        dry_run: bool = False,
    ) -> Body:
        """Patch an object as field manager kais-cli and return the stored object."""
        version, plural = path_of(kind)
        form = "merge-patch" if isinstance(patch, dict) else "json-patch"
        call = self._call(
            "PATCH",
            version,
            f"{plural}/{name}",
            namespace=namespace,
            params=_write_params(dry_run=dry_run),
            content=json.dumps(patch),
            headers={"Content-Type": f"application/{form}+json"},
        )
        return self._run(call, f"change {kind}/{namespace}/{name}")

    def delete(self, kind: str, namespace: str | None, name: str) -> None:
        """Delete an object and its children in the background; ignores a missing object."""
        version, plural = path_of(kind)
        call = self._call(
            "DELETE",
            version,
            f"{plural}/{name}",
            namespace=namespace,
            json={"propagationPolicy": "Background"},
        )
        operation = f"delete {kind}/{namespace}/{name}" if namespace else f"delete {kind}/{name}"
        try:
            self._event_loop.run(call)
        except kr8s.ServerError as exc:
            if not kubernetes_api.is_missing(exc):
                raise kubernetes_api.translate(exc, operation) from exc
        except kubernetes_api.API_ERRORS as exc:
            raise kubernetes_api.translate(exc, operation) from exc

    def logs(
        self, namespace: str, pod: str, *, container: str, tail: int, follow: bool
    ) -> Iterator[str]:
        """Yield the log of a container in pieces; yields nothing before it starts."""
        params = {"container": container, "tailLines": str(tail), "follow": json.dumps(follow)}
        lines = cluster_logs.read(self._api, namespace, pod, params=params)
        while True:
            operation = f"read the log of {container} in Pod/{namespace}/{pod}"
            piece = self._run(cluster_logs.next_piece(lines), operation)
            if piece is None:
                return
            yield piece

    def is_allowed(
        self, verb: str, resource: str, *, namespace: str | None, group: str = "", name: str = ""
    ) -> bool:
        """Check a permission with a SelfSubjectAccessReview, which every user may create."""
        plural, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        attributes |= {"name": name} if name else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": attributes | ({"namespace": namespace} if namespace else {})
            },
        }
        call = self._call("POST", "authorization.k8s.io/v1", "selfsubjectaccessreviews", json=body)
        answer = self._run(call, f"ask whether you may {verb} {resource}")
        return bool(answer["status"].get("allowed"))

    def version(self) -> str:
        """Return the version of the API server."""
        return str(self._run(self._api.version(), "ask for the version")["gitVersion"])

    def watch(self, targets: Sequence[Target]) -> Iterator[Change | None]:
        """Yield each target that exists, then every change, and None at least every second."""
        for target in targets:
            path_of(target.kind)
        queue: asyncio.Queue[Change] = asyncio.Queue()
        watches = [
            self._event_loop.run(_start(cluster_watch.follow(self._api, target, queue)))
            for target in targets
        ]
        try:
            while True:
                yield self._event_loop.run(cluster_watch.next_change(queue))
        finally:
            for task in watches:
                self._event_loop.run(_stop(task))

    def token(self, namespace: str, account: str, audience: str) -> str | None:
        """Request a token that is valid for ten minutes; None without such a ServiceAccount."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": _TOKEN_LIFE_S},
        }
        url = f"serviceaccounts/{account}/token"
        operation = f"request a token of ServiceAccount/{namespace}/{account}"
        try:
            call = self._call("POST", "v1", url, namespace=namespace, json=body)
            return str(self._event_loop.run(call)["status"]["token"])
        except kr8s.ServerError as exc:
            if kubernetes_api.is_missing(exc):
                return None
            raise kubernetes_api.translate(exc, operation) from exc
        except kubernetes_api.API_ERRORS as exc:
            raise kubernetes_api.translate(exc, operation) from exc

    @contextmanager
    def forward(self, namespace: str, pod: str, port: int) -> Iterator[str]:
        """Open a local address that leads to a pod's port, closed with the block.

        Tries the connection once first, because kr8s would retry a refused one forever.
        """
        operation = f"forward a port to Pod/{namespace}/{pod}"
        self._run(_try_forward(self._api, namespace, pod, port), operation)
        body = {"metadata": {"name": pod, "namespace": namespace}}
        forwarding = Pod(body, api=self._api).portforward(port, local_port="auto")
        local = self._run(_open_forward(forwarding), operation)
        try:
            yield f"http://127.0.0.1:{local}"
        finally:
            self._event_loop.run(_close_forward(forwarding))

    def close(self) -> None:
        """Close the connections; not required before the process exits."""
        self._event_loop.run(_close(self._api))
        self._event_loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, _Result], operation: str) -> _Result:
        try:
            return self._event_loop.run(coroutine)
        except kubernetes_api.API_ERRORS as exc:
            raise kubernetes_api.translate(exc, operation) from exc

    async def _call(
        self, method: str, version: str, url: str, *, namespace: str | None = None, **options: Any
    ) -> Body:
        async with self._api.call_api(
            method, version=version, namespace=namespace, url=url, timeout=_TIMEOUT_S, **options
        ) as response:
            return dict(response.json())


def path_of(kind: str) -> tuple[str, str]:
    """Return the API version of a kind and its plural in paths."""
    if kind in _BUILTIN_KINDS:
        return _BUILTIN_KINDS[kind]
    return base.API_VERSION, kinds.BY_NAME[kind].PLURAL


def _write_params(*, dry_run: bool) -> dict[str, str]:
    params = {"fieldManager": kais_labels.MANAGER_CLI}
    return params | ({"dryRun": "All"} if dry_run else {})


async def _log_in(kubeconfig: str | None, context: str | None) -> Any:
    with warnings.catch_warnings():
        # kr8s warns of a server version that it was not tested with; ours are stable APIs.
        warnings.simplefilter("ignore")
        return await kr8s.asyncio.api(kubeconfig=kubeconfig, context=context)


async def _close(api: Any) -> None:
    await api._session.aclose()  # noqa: SLF001 - kr8s has no way to close an Api


async def _start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _try_forward(api: Any, namespace: str, pod: str, port: int) -> None:
    url = f"pods/{pod}/portforward"
    params = {"ports": str(port)}
    async with api.open_websocket(version="v1", namespace=namespace, url=url, params=params):
        return


async def _open_forward(forwarding: Any) -> int:
    return int(await forwarding.__aenter__())


async def _close_forward(forwarding: Any) -> None:
    await forwarding.__aexit__(None, None, None)


@contextmanager
def _temporary_key_files() -> Iterator[None]:
    """Remove the key files that kr8s writes for an inline kubeconfig when the process exits."""
    folder = tempfile.TemporaryDirectory(prefix="kais-")
    atexit.register(folder.cleanup)
    original_tempdir, tempfile.tempdir = tempfile.tempdir, folder.name
    try:
        yield
    finally:
        tempfile.tempdir = original_tempdir
