"""`kais-operator-uninstall DEPLOYMENT SELECTOR`: the chart runs it before it is uninstalled.

    abort every run -> wait until the operator has ended them -> delete the operator's Deployment
      -> wait until its pods are gone -> make sure that no operator leads
      -> delete the Jobs that are left -> remove our finalizers

If no operator leads, it does not wait for runs. The Job of a run that did not end in time is
deleted; its outcome is recorded when kais is installed again. A watched namespace that was deleted
is skipped; its Role went with it, so the API server may answer 403 as well as 404. Exit status 1: a
call failed, or an operator that is not of the Deployment leads, and some objects may still have the
finalizer; run it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from kais import labels, uninstall_steps
from kais_operator import errors, settings
from kais_operator.clock import SystemClock
from kais_operator.kubernetes import api_client, api_paths
from kais_operator.kubernetes.api_client import MERGE_PATCH, ApiClient
from kais_operator.planning.plan import Body, ObjectRef

_RUNS_TIMEOUT_S = 60.0
"""Time for runs to end; the default grace period of a pod is 30 s."""
_PODS_TIMEOUT_S = 60.0
_POLL_S = 1.0
_MAX_ATTEMPTS = 5  # of a write that conflicts with another one


class Uninstall:
    """The steps of an uninstall; empty `namespaces` stand for the whole cluster."""

    def __init__(
        self, api_client: ApiClient, namespaces: Sequence[str], report: Callable[[str], None]
    ) -> None:
        self._api_client = api_client
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._report = report
        self._skipped: set[str] = set()
        self._refusals: list[str] = []

    async def run(self, *, home: str, deployment: str, selector: str) -> None:
        """Run all steps in order.

        Raises:
            Conflict: An operator leads, though the Deployment was deleted.
            Forbidden: After the steps in all other namespaces: rights in one that exists are
                missing.
        """
        if await self._is_led(home):
            await self._abort()
            await self._wait_until_none(
                self._count_runs, "runs to end and to be recorded", _RUNS_TIMEOUT_S
            )
        await self._stop(home, deployment, selector)
        await self._wait_until_not_led(home)
        await self._delete_jobs()
        for kind in uninstall_steps.FINALIZED_KINDS:
            await self._release(kind)
        if self._refusals:
            raise errors.Forbidden("; ".join(self._refusals))

    async def _is_led(self, home: str) -> bool:
        return uninstall_steps.is_led(await self._lease(home), SystemClock().now())

    async def _lease(self, home: str) -> Body | None:
        ref = ObjectRef("Lease", home, labels.LEASE)
        try:
            return await self._api_client.call("GET", api_paths.single(ref))
        except errors.NotFound:
            return None

    async def _wait_until_not_led(self, home: str) -> None:
        """Wait until the Lease is released or has expired, which takes 30 s after a crash.

        Raises:
            Conflict: An operator that runs elsewhere renews it.
        """
        first = await self._lease(home)
        if not first or not uninstall_steps.is_held(first):
            return
        self._report(uninstall_steps.waiting_message(first))
        expires_at = asyncio.get_running_loop().time() + uninstall_steps.EXPIRY_S
        while asyncio.get_running_loop().time() < expires_at:
            await asyncio.sleep(_POLL_S)
            lease = await self._lease(home)
            if lease is None:
                continue  # to delete the Lease stops no operator
            if not uninstall_steps.is_held(lease):
                return
            if uninstall_steps.is_renewed(lease, first):
                raise errors.Conflict(uninstall_steps.running_message(lease))

    async def _abort(self) -> None:
        for mission in await self._list_all("Mission"):
            patch = uninstall_steps.abort_patch(mission)
            if patch is not None and await self._patch("Mission", mission, patch):
                self._report(f"{_name('Mission', mission)}: its run is aborted")

    async def _count_runs(self) -> int:
        return sum(map(uninstall_steps.is_unsettled, await self._list_all("Mission")))

    async def _stop(self, home: str, name: str, selector: str) -> None:
        """Delete the Deployment; scaling it would leave a field that conflicts with Helm.

        It is deleted even if no operator leads, because one that restarts would add its finalizers
        again.
        """
        path = api_paths.single(ObjectRef("Deployment", home, name))
        options = {"propagationPolicy": "Background"}
        try:
            await self._api_client.call("DELETE", path, body=options)
        except errors.NotFound:
            return  # it runs elsewhere, such as on a laptop
        self._report(f"Deployment/{home}/{name}: deleted")

        async def count_pods() -> int:
            return len(await self._list("Pod", home, selector))

        await self._wait_until_none(count_pods, "the operator's pods to go", _PODS_TIMEOUT_S)

    async def _delete_jobs(self) -> None:
        for job in await self._list_all("Job"):
            if uninstall_steps.is_orphaned(job):
                options = {"propagationPolicy": "Background"}
                async with self._skipping_refusal(job["metadata"]["namespace"]):
                    with contextlib.suppress(errors.NotFound):
                        await self._api_client.call("DELETE", _path("Job", job), body=options)
                    self._report(f"{_name('Job', job)}: deleted; its run did not end")

    async def _release(self, kind: str) -> None:
        for _ in range(_MAX_ATTEMPTS):
            finalized = [
                body
                for body in await self._list_all(kind)
                if uninstall_steps.remove_finalizer_patch(body)
            ]
            if not finalized:
                return
            for body in finalized:
                if await self._patch(
                    kind, body, uninstall_steps.remove_finalizer_patch(body) or {}
                ):
                    self._report(f"{_name(kind, body)}: finalizer removed")
        raise errors.Conflict(f"another client keeps writing the finalizers of {kind} objects")

    async def _patch(self, kind: str, body: Body, patch: Body) -> bool:
        """Send a patch; False if it is refused, or the object was deleted or changed meanwhile."""
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            async with self._skipping_refusal(body["metadata"]["namespace"]):
                await self._api_client.call(
                    "PATCH", _path(kind, body), body=patch, content_type=MERGE_PATCH
                )
                return True
        return False

    async def _list_all(self, kind: str) -> list[Body]:
        bodies: list[Body] = []
        for namespace in self._namespaces:
            if namespace not in self._skipped:
                async with self._skipping_refusal(namespace):
                    bodies += await self._list(kind, namespace)
        return bodies

    @contextlib.asynccontextmanager
    async def _skipping_refusal(self, namespace: str | None) -> AsyncIterator[None]:
        """Skip a watched namespace from now on if a call in it is refused."""
        try:
            yield
        except errors.Forbidden as exc:
            if namespace is None or namespace not in self._namespaces:
                raise
            if namespace not in self._skipped:
                self._skipped.add(namespace)
                await self._report_refusal(namespace, exc)

    async def _report_refusal(self, namespace: str, exc: errors.Forbidden) -> None:
        """Report a skipped namespace; it is a failure only if the namespace is known to exist."""
        if await self._exists(namespace):
            self._refusals.append(
                f"Namespace/{namespace}: its objects may still have the finalizer, because the"
                f" operator lacks rights there ({exc}); grant them, then run it again, or run kais"
                " uninstall as an administrator"
            )
            return
        self._report(
            f"Namespace/{namespace}: skipped; it was deleted, or the operator lost all rights there"
            f" ({exc}). If it exists, run kais uninstall as an administrator"
        )

    async def _exists(self, namespace: str) -> bool:
        try:
            await self._api_client.call(
                "GET", api_paths.single(ObjectRef("Namespace", "", namespace))
            )
        except (errors.NotFound, errors.Forbidden):
            return False
        return True

    async def _list(self, kind: str, namespace: str | None, selector: str = "") -> list[Body]:
        query = {"labelSelector": selector} if selector else {}
        path = api_paths.collection(kind, namespace)
        try:
            page = await self._api_client.call("GET", path, query=query)
        except errors.NotFound:
            return []  # the kind is gone, or the namespace
        return list(page.get("items") or [])

    async def _wait_until_none(
        self, count: Callable[[], Awaitable[int]], description: str, limit_s: float
    ) -> None:
        deadline = asyncio.get_running_loop().time() + limit_s
        while remaining := await count():
            if asyncio.get_running_loop().time() > deadline:
                self._report(f"waited {limit_s:.0f} s for {description}: {remaining} are left")
                return
            await asyncio.sleep(_POLL_S)


def _path(kind: str, body: Body) -> str:
    metadata = body["metadata"]
    return api_paths.single(ObjectRef(kind, metadata["namespace"], metadata["name"]))


def _name(kind: str, body: Body) -> str:
    return f"{kind}/{body['metadata']['namespace']}/{body['metadata']['name']}"


async def run(config: settings.Settings, deployment: str, selector: str) -> None:
    """Connect, and run all steps."""
    client = await api_client.connect(config.kubeconfig)
    try:
        steps = Uninstall(client, config.watch_namespaces, _report)
        await steps.run(home=config.operator_namespace, deployment=deployment, selector=selector)
    finally:
        await client.close()


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run as a program, with the operator's settings."""
    try:
        deployment, selector = sys.argv[1:]
        asyncio.run(run(settings.from_environment(), deployment, selector))
    except (ValueError, errors.OperatorError, OSError) as exc:
        sys.exit(f"kais-operator-uninstall: {exc}")


if __name__ == "__main__":
    main()
