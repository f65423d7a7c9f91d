"""Which namespaces the uninstall hook skips, and which refusals end it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kais import labels
from kais_operator import errors
from kais_operator.kubernetes.api_client import ApiClient
from kais_operator.planning.plan import Body
from kais_operator.uninstall_hook import Uninstall


class FakeApi:
    """An API server with a scope in each namespace; `refused` names those without rights."""

    def __init__(self, *namespaces: str) -> None:
        self.namespaces = set(namespaces)
        self.refused: set[str] = set()
        self.leases: Iterator[Body | None] = itertools.repeat(None)
        self.finalizers = {name: [labels.FINALIZER] for name in namespaces}

    async def call(
        self, method: str, path: str, *, body: Body | None = None, **_: object
    ) -> dict[str, Any]:
        parts = path.split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        if path.endswith(f"/namespaces/{namespace}") and namespace in self.namespaces:
            return {}
        if namespace in self.refused or namespace not in {*self.namespaces, "home"}:
            raise errors.Forbidden(f"{method} {path}: not allowed")
        if method == "PATCH":
            self.finalizers[namespace] = (body or {})["metadata"]["finalizers"]
            return {}
        is_lease = path.endswith("/leases/kais-operator")
        if is_lease and (lease := next(self.leases)) is not None:
            return dict(lease)
        if "home" in parts:
            raise errors.NotFound(path)
        is_scopes = path.endswith("/knowledgescopes")
        return {"items": [self._scope(namespace)] if is_scopes else []}

    def _scope(self, namespace: str) -> Body:
        metadata = {"name": "all", "namespace": namespace, "resourceVersion": "1"}
        return {"metadata": {**metadata, "finalizers": self.finalizers[namespace]}}


async def uninstall(api: FakeApi, *namespaces: str) -> list[str]:
    reports: list[str] = []
    steps = Uninstall(cast("ApiClient", api), namespaces, reports.append)
    await steps.run(home="home", deployment="kais-operator", selector="a=b")
    return reports


async def test_a_namespace_that_was_deleted_is_skipped_though_its_role_went_with_it() -> None:
    api = FakeApi("a", "c")
    reports = await uninstall(api, "a", "gone", "c")
    assert api.finalizers == {"a": [], "c": []}
    (skipped,) = (line for line in reports if "finalizer removed" not in line)
    assert skipped == (
        "Namespace/gone: skipped; it was deleted, or the operator lost all rights there"
        " (GET /apis/batch/v1/namespaces/gone/jobs: not allowed). If it exists, run kais uninstall"
        " as an administrator"
    )


async def test_missing_rights_in_a_namespace_that_exists_are_an_error_after_the_others() -> None:
    api = FakeApi("a", "b", "c")
    api.refused = {"b"}
    with pytest.raises(errors.Forbidden) as refusal:
        await uninstall(api, "a", "b", "c")
    assert api.finalizers == {"a": [], "b": [labels.FINALIZER], "c": []}
    assert str(refusal.value) == (
        "Namespace/b: its objects may still have the finalizer, because the operator lacks rights"
        " there (GET /apis/batch/v1/namespaces/b/jobs: not allowed); grant them, then run it again,"
        " or run kais uninstall as an administrator"
    )


def lease(renewed: str, holder: str = "laptop-1") -> Body:
    metadata = {"name": labels.LEASE, "namespace": "home"}
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "renewTime": renewed}}


LONG_AGO, FAR_AHEAD = "2020-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"


@pytest.mark.simulated_time
@pytest.mark.parametrize("renewed", [LONG_AGO, FAR_AHEAD], ids=["behind", "ahead"])
async def test_a_lease_of_a_killed_operator_costs_30_s_whatever_its_clock_showed(
    renewed: str,
) -> None:
    api = FakeApi("a")
    api.leases = itertools.repeat(lease(renewed))
    (reported, *others), waited_s = await uninstall_for_s(api)
    assert reported == "Lease/home/kais-operator: waiting 30 s for the Lease of laptop-1 to expire"
    assert others == ["KnowledgeScope/a/all: finalizer removed"]
    assert 30 <= waited_s < 32


@pytest.mark.simulated_time
@pytest.mark.parametrize("renewed", [LONG_AGO, FAR_AHEAD], ids=["behind", "ahead"])
async def test_a_lease_that_is_renewed_ends_the_steps_whatever_its_clock_showed(
    renewed: str,
) -> None:
    api = FakeApi("a")
    api.leases = itertools.chain([lease(renewed)] * 4, [lease(renewed.replace("00Z", "01Z"))])
    with pytest.raises(errors.Conflict, match="stop the operator laptop-1, then run it again"):
        await uninstall(api, "a")
    assert api.finalizers == {"a": [labels.FINALIZER]}


@pytest.mark.simulated_time
async def test_an_operator_that_takes_over_the_lease_of_a_killed_one_is_to_be_stopped() -> None:
    api = FakeApi("a")
    killed, successor = lease(FAR_AHEAD, "killed"), lease(LONG_AGO, "laptop-2")
    api.leases = itertools.chain([killed] * 17, itertools.repeat(successor))
    with pytest.raises(errors.Conflict, match="stop the operator laptop-2, then run it again"):
        await uninstall(api, "a")
    assert api.finalizers == {"a": [labels.FINALIZER]}


@pytest.mark.simulated_time
async def test_an_operator_that_creates_its_deleted_lease_again_is_to_be_stopped() -> None:
    api = FakeApi("a")
    api.leases = itertools.chain(
        [lease(LONG_AGO)] * 3, [None] * 12, itertools.repeat(lease(FAR_AHEAD))
    )
    with pytest.raises(errors.Conflict, match="stop the operator laptop-1, then run it again"):
        await uninstall(api, "a")
    assert api.finalizers == {"a": [labels.FINALIZER]}


@pytest.mark.simulated_time
async def test_a_lease_that_stays_deleted_is_waited_for_as_long_as_one_that_expires() -> None:
    api = FakeApi("a")
    api.leases = itertools.chain([lease(LONG_AGO)] * 3, itertools.repeat(None))
    (_, *others), waited_s = await uninstall_for_s(api)
    assert others == ["KnowledgeScope/a/all: finalizer removed"]
    assert 30 <= waited_s < 32


@pytest.mark.simulated_time
async def test_a_lease_that_is_released_meanwhile_ends_the_wait() -> None:
    api = FakeApi("a")
    released = lease(LONG_AGO, holder="")
    api.leases = itertools.chain([lease(LONG_AGO)] * 5, itertools.repeat(released))
    reports, waited_s = await uninstall_for_s(api)
    assert len(reports) == 2
    assert waited_s == 4


@pytest.mark.simulated_time
async def test_a_lease_that_was_released_costs_no_wait() -> None:
    api = FakeApi("a")
    api.leases = itertools.repeat(lease(FAR_AHEAD, holder=""))
    assert await uninstall_for_s(api) == (["KnowledgeScope/a/all: finalizer removed"], 0)


class StuckApi(FakeApi):
    """An API server with a run that does not end, and an operator's pod that does not go."""

    async def call(
        self, method: str, path: str, *, body: Body | None = None, **options: object
    ) -> dict[str, Any]:
        if path.endswith("/pods"):
            return {"items": [{}]}
        if path.endswith("/missions"):
            annotations = {labels.RUN_ID: "r"}
            metadata = {"name": "busy", "namespace": "a", "annotations": annotations}
            return {"items": [{"metadata": metadata}]}
        if "missions" in path or "deployments" in path:
            return {}
        return await super().call(method, path, body=body, **options)


@pytest.mark.simulated_time
async def test_the_longest_waits_end_a_minute_before_the_deadline_of_the_job_and_of_helm() -> None:
    hook = (Path(__file__).parents[3] / "charts/kais/templates/uninstall-hook.yaml").read_text()
    deadline_s = int(hook.split("activeDeadlineSeconds:")[1].split()[0])
    api = StuckApi("a")
    api.leases = itertools.repeat(lease(FAR_AHEAD))
    reports, waited_s = await uninstall_for_s(api)
    assert [report for report in reports if "wait" in report] == [
        "waited 60 s for runs to end and to be recorded: 1 are left",
        "waited 60 s for the operator's pods to go: 1 are left",
        "Lease/home/kais-operator: waiting 30 s for the Lease of laptop-1 to expire",
    ]
    assert 150 <= waited_s < deadline_s - 60
    assert deadline_s < 300, "Helm waits so long unless it is told otherwise"


async def uninstall_for_s(api: FakeApi) -> tuple[list[str], float]:
    """Uninstall, and return the reports and the seconds that it took."""
    started_s = asyncio.get_running_loop().time()
    reports = await uninstall(api, "a")
    return reports, asyncio.get_running_loop().time() - started_s
