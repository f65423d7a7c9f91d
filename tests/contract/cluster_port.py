"""The suite that every implementation of the Cluster port passes.

A subclass gives the fixtures `cluster` (the port), `ns` (an empty namespace) and `lead` (a switch:
`lead.on` is what the port's `leads` says).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kais import labels
from kais_operator import errors
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import Cluster


@dataclass
class Lead:
    """Whether the port's user leads."""

    on: bool = True

    def __call__(self) -> bool:
        return self.on


def service(ns: str, **spec: Any) -> Body:
    """Build a Service with a port."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": ns},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80}], **spec},
    }


async def after_conflicts(write: Callable[[], Awaitable[None]], *, tries: int = 20) -> None:
    """Repeat a write that meets the writes of a controller; the last conflict is raised."""
    for _ in range(tries - 1):
        try:
            return await write()
        except errors.Conflict:
            continue
    return await write()


ALTERNATIVES: dict[str, Body] = {
    "volumes": {"volume": {"hostPath": {"path": "/"}}},
    "valueFrom": {"variable": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}},
    "readinessProbe": {"handler": {"exec": {"command": ["sh"]}}},
    "rollingUpdate": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
}
"""What excludes a part of `deployment`, by a word of the API server's refusal."""


def deployment(
    ns: str,
    *,
    volume: Body | None = None,
    variable: Body | None = None,
    handler: Body | None = None,
    strategy: Body | None = None,
) -> Body:
    """Build a Deployment with a volume, a variable and a probe."""
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "V", **(variable or {"value": "1"})}],
        "readinessProbe": handler or {"tcpSocket": {"port": 80}},
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "v", **(volume or {"emptyDir": {}})}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": ns, "labels": {labels.MANAGED_BY: labels.MANAGER}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "d"}},
            "strategy": strategy or {"type": "Recreate"},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod},
        },
    }


def config_map(ns: str, name: str = "m", **metadata: Any) -> Body:
    carried = {labels.MANAGED_BY: labels.MANAGER, **metadata.pop("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": ns, "labels": carried, **metadata},
        "data": {"a": "1"},
    }


def strangers_map(ns: str, name: str = "m") -> Body:
    body = config_map(ns, name)
    del body["metadata"]["labels"]
    return body


def formation(ns: str, name: str = "f", *cells: str) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": "Formation",
        "metadata": {"name": name, "namespace": ns},
        "spec": {
            "cells": [
                {"name": cell, "spec": {"mode": "Task", "container": {"image": "x:1"}}}
                for cell in cells or ("lead",)
            ]
        },
    }


def ref_of(body: Body) -> ObjectRef:
    metadata = body["metadata"]
    return ObjectRef(body["kind"], metadata["namespace"], metadata["name"])


def version(body: Body) -> str:
    return str(body["metadata"]["resourceVersion"])


class ClusterPortSuite:
    """Subclassed once per implementation; see the module."""

    async def test_what_is_missing_reads_as_none(self, cluster: Cluster, ns: str):
        assert await cluster.get(ObjectRef("ConfigMap", ns, "nothing")) is None
        assert list(await cluster.list("ConfigMap", ns, labels="x=y")) == []

    async def test_a_child_is_read_by_its_name(self, cluster: Cluster, ns: str):
        expected_config_map = config_map(ns)
        assert await cluster.get_child(ref_of(expected_config_map)) is None
        created = await cluster.create(expected_config_map)
        assert await cluster.get_child(ref_of(expected_config_map)) == await cluster.get(
            ref_of(expected_config_map)
        )
        await cluster.delete(ref_of(expected_config_map), uid=created["metadata"]["uid"])
        assert await cluster.get_child(ref_of(expected_config_map)) is None

    async def test_a_name_that_a_stranger_has_is_told_after_the_create(
        self, cluster: Cluster, ns: str
    ):
        stranger = await cluster.create(strangers_map(ns))
        assert await cluster.get(ref_of(stranger)) is not None
        with pytest.raises(errors.AlreadyExists):
            await cluster.create(config_map(ns))
        child = await cluster.get_child(ref_of(stranger))
        assert child is not None
        assert child["metadata"]["uid"] == stranger["metadata"]["uid"]
        await cluster.delete(ref_of(stranger), uid=stranger["metadata"]["uid"])
        assert await cluster.get_child(ref_of(stranger)) is None

    async def test_an_object_that_changed_is_not_deleted_as_it_was(self, cluster: Cluster, ns: str):
        created = await cluster.create(config_map(ns))
        ref, uid = ref_of(created), created["metadata"]["uid"]
        marked = await cluster.patch_metadata(
            ref, {"annotations": {"kais.io/run-id": "r"}}, resource_version=version(created)
        )
        with pytest.raises(errors.Conflict):
            await cluster.delete(ref, uid=uid, resource_version=version(created))
        assert await cluster.get(ref, fresh=True) is not None
        await cluster.delete(ref, uid=uid, resource_version=version(marked))
        assert await cluster.get(ref, fresh=True) is None

    async def test_a_fresh_read_is_of_now(self, cluster: Cluster, ns: str):
        created = await cluster.create(config_map(ns, labels={"set": "ours"}))
        assert await cluster.get(ref_of(created), fresh=True) is not None
        results = await cluster.list("ConfigMap", ns, labels="set=ours", fresh=True)
        assert [body["metadata"]["name"] for body in results] == ["m"]

    async def test_a_created_object_is_read_back_with_its_identity(self, cluster: Cluster, ns: str):
        created = await cluster.create(formation(ns))
        read = await cluster.get(ref_of(created))
        assert read is not None
        assert read["metadata"]["uid"] == created["metadata"]["uid"]
        assert read["metadata"]["generation"] == 1
        assert (read["apiVersion"], read["kind"]) == ("kais.io/v1", "Formation")

    async def test_a_second_create_says_already_exists(self, cluster: Cluster, ns: str):
        await cluster.create(config_map(ns))
        with pytest.raises(errors.AlreadyExists, match="already exists"):
            await cluster.create(config_map(ns))

    async def test_fifty_creations_of_one_name_make_one_object(self, cluster: Cluster, ns: str):
        results = await asyncio.gather(
            *(cluster.create(formation(ns)) for _ in range(50)), return_exceptions=True
        )
        created = [result for result in results if isinstance(result, dict)]
        assert len(created) == 1
        assert sum(isinstance(result, errors.AlreadyExists) for result in results) == 49

    async def test_a_missing_namespace_is_named(self, cluster: Cluster, ns: str):
        with pytest.raises(errors.NotFound, match="absent-namespace"):
            await cluster.create(config_map("absent-namespace"))

    async def test_an_apply_takes_away_what_the_create_had_and_it_has_not(
        self, cluster: Cluster, ns: str
    ):
        created = await cluster.create(formation(ns, "f", "lead", "helper"))
        uid = created["metadata"]["uid"]
        applied = await cluster.apply(formation(ns, "f", "lead"), uid=uid)
        assert [cell["name"] for cell in applied["spec"]["cells"]] == ["lead"]
        assert applied["metadata"]["generation"] == 2

    async def test_an_apply_leaves_others_fields_alone(self, cluster: Cluster, ns: str):
        created = await cluster.create(config_map(ns))
        marked = await cluster.patch_metadata(
            ref_of(created),
            {"annotations": {"kais.io/run-id": "r"}},
            resource_version=version(created),
        )
        applied = await cluster.apply(config_map(ns), uid=marked["metadata"]["uid"])
        assert applied["metadata"]["annotations"]["kais.io/run-id"] == "r"

    @pytest.mark.parametrize("path", ALTERNATIVES)
    async def test_an_apply_beside_an_alternative_of_others_is_invalid(
        self, cluster: Cluster, ns: str, path: str
    ):
        manifest = await cluster.create(deployment(ns))
        ref = ObjectRef("Deployment", ns, "d")
        theirs = deployment(ns, **ALTERNATIVES[path])["spec"]
        patch = {key: theirs[key] for key in ("strategy", "template")}

        async def change() -> None:
            live = await cluster.get(ref, fresh=True)
            assert live is not None
            version = live["metadata"]["resourceVersion"]
            await cluster.patch_spec(ref, patch, metadata={}, resource_version=version)

        async def apply() -> None:
            await cluster.apply(deployment(ns), uid=manifest["metadata"]["uid"])

        await after_conflicts(change)
        with pytest.raises(errors.Invalid, match=path):
            await after_conflicts(apply)

    async def test_an_apply_of_other_data_to_an_immutable_map_is_invalid(
        self, cluster: Cluster, ns: str
    ):
        created = await cluster.create({**config_map(ns), "data": {"a": "1"}, "immutable": True})
        changed = {**config_map(ns), "data": {"a": "2"}}
        with pytest.raises(errors.Invalid, match="immutable when `immutable` is set"):
            await cluster.apply(changed, uid=created["metadata"]["uid"])

    async def test_an_equal_apply_changes_nothing(self, cluster: Cluster, ns: str):
        created = await cluster.create(formation(ns))
        uid = created["metadata"]["uid"]
        first = await cluster.apply(formation(ns), uid=uid)
        second = await cluster.apply(formation(ns), uid=uid)
        assert version(first) == version(second)
        assert second["metadata"]["generation"] == 1

    async def test_an_apply_meets_the_same_object_or_nobody(self, cluster: Cluster, ns: str):
        with pytest.raises(errors.Conflict, match="uid"):
            await cluster.apply(config_map(ns), uid="00000000-0000-4000-8000-000000000000")
        await cluster.create(config_map(ns))
        with pytest.raises(errors.Conflict, match="uid"):
            await cluster.apply(config_map(ns), uid="00000000-0000-4000-8000-000000000000")

    async def test_metadata_is_patched_on_the_version_decided_upon(self, cluster: Cluster, ns: str):
        created = await cluster.create(config_map(ns, annotations={"gone": "1", "kept": "1"}))
        ref = ref_of(created)
        patch = {"annotations": {"gone": None, "new": "2"}, "finalizers": ["kais.io/finalizer"]}
        patched = await cluster.patch_metadata(ref, patch, resource_version=version(created))
        assert patched["metadata"]["annotations"] == {"kept": "1", "new": "2"}
        assert patched["metadata"]["finalizers"] == ["kais.io/finalizer"]
        with pytest.raises(errors.Conflict):
            await cluster.patch_metadata(ref, {"labels": {"x": "y"}}, resource_version="1")
        await cluster.patch_metadata(ref, {"finalizers": []}, resource_version=version(patched))

    async def test_a_spec_is_patched_on_the_version_decided_upon(self, cluster: Cluster, ns: str):
        created = await cluster.create(service(ns, type="NodePort", sessionAffinity="ClientIP"))
        ref, note = ref_of(created), {"annotations": {"kais.io/removed-additions": "1"}}
        patched = await cluster.patch_spec(
            ref, {"type": None}, metadata=note, resource_version=version(created)
        )
        assert patched["spec"].get("type", "ClusterIP") == "ClusterIP"
        assert patched["spec"]["sessionAffinity"] == "ClientIP"
        assert patched["metadata"]["annotations"] == note["annotations"]
        with pytest.raises(errors.Conflict):
            await cluster.patch_spec(
                ref, {"type": None}, metadata={}, resource_version=version(created)
            )

    async def test_a_patch_of_what_is_gone_says_not_found(self, cluster: Cluster, ns: str):
        with pytest.raises(errors.NotFound):
            await cluster.patch_metadata(
                ObjectRef("ConfigMap", ns, "m"), {"labels": {}}, resource_version="1"
            )

    async def test_status_is_written_alone_and_only_once(self, cluster: Cluster, ns: str):
        created = await cluster.create(formation(ns))
        fields = {**formation(ns), "status": {"observedGeneration": 1}}
        del fields["spec"]
        first = await cluster.apply_status(fields)
        second = await cluster.apply_status(fields)
        assert first["status"]["observedGeneration"] == 1
        assert first["metadata"]["generation"] == created["metadata"]["generation"]
        assert version(first) == version(second)

    async def test_status_loses_what_it_no_longer_says(self, cluster: Cluster, ns: str):
        await cluster.create(formation(ns))
        base = {key: value for key, value in formation(ns).items() if key != "spec"}
        both = {"observedGeneration": 1, "phase": "Running"}
        await cluster.apply_status({**base, "status": both})
        told = await cluster.apply_status({**base, "status": {"observedGeneration": 1}})
        assert told["status"] == {"observedGeneration": 1}

    async def test_a_delete_meets_the_same_object_or_nobody(self, cluster: Cluster, ns: str):
        created = await cluster.create(config_map(ns))
        ref = ref_of(created)
        with pytest.raises(errors.Conflict):
            await cluster.delete(ref, uid="00000000-0000-4000-8000-000000000000")
        assert await cluster.delete(ref, uid=created["metadata"]["uid"]) is None
        assert await cluster.get(ref) is None
        assert await cluster.delete(ref, uid=created["metadata"]["uid"]) is None

    async def test_a_finalizer_holds_what_is_deleted(self, cluster: Cluster, ns: str):
        created = await cluster.create(config_map(ns, finalizers=["kais.io/finalizer"]))
        ref = ref_of(created)
        remaining_fields = await cluster.delete(ref, uid=created["metadata"]["uid"])
        held = await cluster.get(ref)
        assert held is not None
        assert remaining_fields is not None
        assert remaining_fields["metadata"]["uid"] == held["metadata"]["uid"]
        assert held["metadata"]["deletionTimestamp"]
        await cluster.patch_metadata(ref, {"finalizers": []}, resource_version=version(held))
        assert await cluster.get(ref) is None

    @pytest.mark.parametrize(
        ("selector", "names"),
        [
            ("app=one", ["a"]),
            ("app", ["a", "b"]),
            ("app!=one,set=ours", ["b", "c"]),
            ("app in (one,two)", ["a", "b"]),
            ("!app,set=ours", ["c"]),
        ],
    )
    async def test_lists_are_selected_by_labels(
        self, cluster: Cluster, ns: str, selector: str, names: list[str]
    ):
        for name, extra in (("a", {"app": "one"}), ("b", {"app": "two"}), ("c", {})):
            await cluster.create(config_map(ns, name, labels={"set": "ours", **extra}))
        listed_maps = await cluster.list("ConfigMap", ns, labels=selector)
        assert sorted(body["metadata"]["name"] for body in listed_maps) == names
        assert {(body["apiVersion"], body["kind"]) for body in listed_maps} == {("v1", "ConfigMap")}

    async def test_without_the_lease_nothing_is_written(
        self, cluster: Cluster, ns: str, lead: Lead
    ):
        created = await cluster.create(config_map(ns))
        ref, uid = ref_of(created), created["metadata"]["uid"]
        lead.on = False
        other_config_map = config_map(ns, "other")
        writes = (
            lambda: cluster.create(other_config_map),
            lambda: cluster.apply(config_map(ns), uid=uid),
            lambda: cluster.patch_metadata(ref, {}, resource_version=version(created)),
            lambda: cluster.patch_spec(ref, {}, metadata={}, resource_version="1"),
            lambda: cluster.apply_status(config_map(ns)),
            lambda: cluster.delete(ref, uid=uid),
            lambda: cluster.emit(created, severity="Normal", reason="R", message="m"),
        )
        for write in writes:
            with pytest.raises(errors.NotLeading, match="was not sent"):
                await write()
        assert await cluster.get(ref_of(other_config_map)) is None
        read = await cluster.get(ref)
        assert read is not None
        assert version(read) == version(created)

    async def test_an_event_about_an_object_is_read_back_as_it_was_written(
        self, cluster: Cluster, ns: str
    ):
        created = await cluster.create(config_map(ns))
        await cluster.emit(created, severity="Warning", reason="Tried", message="it was tried")
        ref, uid = (
            ObjectRef("ConfigMap", ns, created["metadata"]["name"]),
            created["metadata"]["uid"],
        )
        (event,) = await cluster.events_about(ref, uid=uid)
        assert (event["type"], event["reason"]) == ("Warning", "Tried")
        assert event["message"] == "it was tried"
        assert event["involvedObject"]["uid"] == uid

    async def test_events_about_another_object_of_the_name_are_not_given(
        self, cluster: Cluster, ns: str
    ):
        created = await cluster.create(config_map(ns))
        await cluster.emit(created, severity="Warning", reason="Tried", message="it was tried")
        ref = ObjectRef("ConfigMap", ns, created["metadata"]["name"])
        assert await cluster.events_about(ref, uid="another") == []
