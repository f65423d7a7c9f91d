"""Which namespaces the uninstall hook skips, and which refusals end it."""

from __future__ import annotations

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
        " there (GET /apis/batch/v1/namespaces/b/jobs: not allowed); grant them, then run it again"
    )
