"""Implements the cluster port over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from kais import labels as kais_labels
from kais import resource_names
from kais.resources import base
from kais_cli import errors
from kais_cli.cluster import kubeconfig_login
from kais_cli.cluster import logs as cluster_logs
from kais_cli.cluster import watch as cluster_watch
from kais_cli.cluster.api_client import ApiServer, ResponseError, read_object
from kais_cli.cluster.blocking_portal import BlockingPortal
from kais_cli.error_messages import kubernetes_api
from kais_cli.ports import Body, Change, LogItem, LogOptions, Target

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
    """A cluster reached with a kubeconfig.

    Raises:
        Unreachable: The kubeconfig is not usable.
    """

    def __init__(self, kubeconfig: str | None, *, context: str | None = None) -> None:
        self._api = ApiServer(lambda: kubeconfig_login.read(kubeconfig, context=context))
        self._event_loop = BlockingPortal()

    @property
    def namespace(self) -> str:
        """The namespace of the context in use, `default` when it names none."""
        return self._api.login.namespace

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object; None if it does not exist."""
        version, plural = path_of(kind)
        call = self._call("GET", version, plural, name, namespace=namespace)
        try:
            return self._event_loop.run(call)
        except ResponseError as exc:
            if kubernetes_api.is_missing(exc):
                return None
            raise self._translate(exc, f"get {kind}/{namespace}/{name}") from exc
        except kubernetes_api.API_ERRORS as exc:
            raise self._translate(exc, f"get {kind}/{namespace}/{name}") from exc

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
            plural,
            name,
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
            plural,
            name,
            namespace=namespace,
            json={"propagationPolicy": "Background"},
        )
        operation = f"delete {kind}/{namespace}/{name}" if namespace else f"delete {kind}/{name}"
        try:
            self._event_loop.run(call)
        except ResponseError as exc:
            if not kubernetes_api.is_missing(exc):
                raise self._translate(exc, operation) from exc
        except kubernetes_api.API_ERRORS as exc:
            raise self._translate(exc, operation) from exc

    def logs(
        self, namespace: str, pod: str, *, container: str, options: LogOptions
    ) -> Iterator[LogItem]:
        """Yield the log of a container in pieces; before it starts, wait or yield nothing."""
        params = cluster_logs.params(container, options)
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

    def user_name(self) -> str:
        """Ask for the user's name with a SelfSubjectReview, which every user may create."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        call = self._call("POST", "authentication.k8s.io/v1", "selfsubjectreviews", json=body)
        answer = self._run(call, "ask who you are")
        return str(answer["status"]["userInfo"]["username"])

    def version(self) -> str:
        """Return the version of the API server."""
        return self._run(self._api.version(), "ask for the version")

    def watch(self, targets: Sequence[Target], *, exist: bool = False) -> Iterator[Change | None]:
        """Yield each target that exists, then every change, and None at least every second.

        With `exist`, the targets are known to exist, so a missing one is yielded as deleted.
        """
        for target in targets:
            path_of(target.kind)
        operation = f"watch {', '.join(_describe(target) for target in targets)}"
        queue: asyncio.Queue[Change] = asyncio.Queue()
        watches = [
            self._event_loop.run(
                _start(cluster_watch.follow(self._api, target, queue, exists=exist))
            )
            for target in targets
        ]
        try:
            while True:
                change = cluster_watch.next_item(queue, watches)
                yield self._run(change, operation)
        finally:
            for task in watches:
                self._event_loop.cancel(task)

    def watch_list(
        self, kind: str, namespace: str | None, *, labels: str = ""
    ) -> Iterator[Sequence[Body]]:
        """Yield all objects of a kind, then each one that is created, changed or deleted."""
        # A refused list fails here; later failures of the connection are retried.
        self.list(kind, namespace, labels=labels)
        operation = f"watch {path_of(kind)[1]} in {namespace or 'all namespaces'}"
        queue: asyncio.Queue[Sequence[Body]] = asyncio.Queue()
        collection = cluster_watch.Collection(kind, namespace, labels)
        task = self._event_loop.run(_start(cluster_watch.follow_list(self._api, collection, queue)))
        try:
            while True:
                change = cluster_watch.next_item(queue, [task])
                bodies = self._run(change, operation)
                if bodies is not None:
                    yield bodies
        finally:
            self._event_loop.cancel(task)

    def token(self, namespace: str, account: str, audience: str) -> str | None:
        """Request a token that is valid for ten minutes; None without such a ServiceAccount."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience], "expirationSeconds": _TOKEN_LIFE_S},
        }
        path = ("serviceaccounts", account, "token")
        operation = f"request a token of ServiceAccount/{namespace}/{account}"
        try:
            call = self._call("POST", "v1", *path, namespace=namespace, json=body)
            return str(self._event_loop.run(call)["status"]["token"])
        except ResponseError as exc:
            if kubernetes_api.is_missing(exc):
                return None
            raise self._translate(exc, operation) from exc
        except kubernetes_api.API_ERRORS as exc:
            raise self._translate(exc, operation) from exc

    def login_token(self) -> str | None:
        """Return the token of the kubeconfig or of its credential plugin, if there is one."""
        return self._api.login.token

    @contextmanager
    def forward(self, namespace: str, pod: str, port: int) -> Iterator[str]:
        """Open a local address that leads to a pod's port, closed with the block."""
        from kais_cli.cluster import port_forward  # noqa: PLC0415 (kr8s loads for 0.3 s)

        operation = f"forward a port to Pod/{namespace}/{pod}"
        try:
            forwarding = port_forward.forward(self._api, namespace, pod, port)
            local = self._event_loop.run(forwarding.__aenter__())
        except port_forward.FORWARD_ERRORS as exc:
            raise port_forward.translate(exc, operation) from exc
        try:
            yield f"http://127.0.0.1:{local}"
        finally:
            self._event_loop.run(forwarding.__aexit__(None, None, None))

    def close(self) -> None:
        """Close the connections; not required before the process exits."""
        self._event_loop.run(self._api.close())
        self._event_loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, _Result], operation: str) -> _Result:
        try:
            return self._event_loop.run(coroutine)
        except kubernetes_api.API_ERRORS as exc:
            raise self._translate(exc, operation) from exc

    def _translate(self, failure: Exception, operation: str) -> errors.CliError:
        login = self._api.login
        server = f"the API server {login.server}, of {login.source},"
        return kubernetes_api.translate(failure, operation, server=server)

    async def _call(
        self, method: str, version: str, *path: str, namespace: str | None = None, **options: Any
    ) -> Body:
        async with self._api.call_api(
            method, version=version, namespace=namespace, path=path, timeout=_TIMEOUT_S, **options
        ) as response:
            return read_object(response)


def path_of(kind: str) -> tuple[str, str]:
    """Return the API version of a kind and its plural in paths."""
    if kind in _BUILTIN_KINDS:
        return _BUILTIN_KINDS[kind]
    return base.API_VERSION, resource_names.BY_KIND[kind].plural


def _describe(target: Target) -> str:
    return f"{target.kind}/{target.namespace}/{target.name}"


def _write_params(*, dry_run: bool) -> dict[str, str]:
    params = {"fieldManager": kais_labels.MANAGER_CLI}
    return params | ({"dryRun": "All"} if dry_run else {})


async def _start(coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine)
