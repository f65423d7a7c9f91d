"""The adapter of the API server keeps the port's promises, on a real one."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator

import pytest

from kais_operator import errors
from kais_operator.clock import SystemClock
from kais_operator.kubernetes import api_client
from kais_operator.kubernetes.cluster import ApiCluster
from kais_operator.planning.plan import ObjectRef
from tests.contract import cluster_port
from tests.contract.cluster_port import ClusterPortSuite, Lead

pytestmark = pytest.mark.cluster


class TestApiCluster(ClusterPortSuite):
    @pytest.fixture
    def ns(self, control_plane) -> str:
        name = f"port-{uuid.uuid4().hex[:10]}"
        control_plane.kubectl("create", "namespace", name)
        return name

    @pytest.fixture
    def lead(self) -> Lead:
        return Lead()

    @pytest.fixture
    async def cluster(self, control_plane, lead: Lead) -> AsyncIterator[ApiCluster]:
        link = await api_client.connect(str(control_plane.kubeconfig))
        yield ApiCluster(link, is_leader=lead, clock=SystemClock())
        await link.close()

    async def test_what_the_schema_refuses_is_invalid_in_the_servers_words(
        self, cluster: ApiCluster, ns: str
    ):
        wrong = cluster_port.formation(ns)
        wrong["spec"]["cells"][0]["replicas"] = "many"
        with pytest.raises(errors.Invalid, match="replicas"):
            await cluster.create(wrong)

    async def test_an_apply_takes_away_what_others_added_to_a_spec_of_our_kinds(
        self, cluster: ApiCluster, ns: str, control_plane
    ):
        manifest = await cluster.create(cluster_port.formation(ns))
        theirs = cluster_port.formation(ns, "f", "lead", "other")["spec"]
        theirs["budget"] = {"maxTotalCost": 1}
        patch = json.dumps({"metadata": {"labels": {"mine": "x"}}, "spec": theirs})
        control_plane.kubectl("patch", "formation", "f", "-n", ns, "--type=merge", "-p", patch)
        applied = await cluster.apply(cluster_port.formation(ns), uid=manifest["metadata"]["uid"])
        assert [cell["name"] for cell in applied["spec"]["cells"]] == ["lead"]
        assert "budget" not in applied["spec"]
        assert applied["metadata"]["labels"]["mine"] == "x"

    async def test_a_namespace_that_goes_away_takes_nothing_new(
        self, cluster: ApiCluster, ns: str, control_plane
    ):
        held = cluster_port.config_map(ns, "held", finalizers=["kais.io/finalizer"])
        await cluster.create(held)
        control_plane.kubectl("delete", "namespace", ns, "--wait=false")
        with pytest.raises(errors.NamespaceTerminating, match="terminated"):
            await cluster.create(cluster_port.config_map(ns))
        body = await cluster.get(ObjectRef("ConfigMap", ns, "held"))
        assert body is not None
        await cluster.patch_metadata(
            ObjectRef("ConfigMap", ns, "held"),
            {"finalizers": []},
            resource_version=body["metadata"]["resourceVersion"],
        )

    async def test_a_long_list_comes_whole(self, cluster: ApiCluster, ns: str, monkeypatch):
        monkeypatch.setattr("kais_operator.kubernetes.cluster._PAGE", "2")
        for number in range(5):
            await cluster.create(cluster_port.config_map(ns, f"m{number}", labels={"set": "x"}))
        assert len(await cluster.list("ConfigMap", ns, labels="set=x")) == 5


async def test_a_server_that_is_not_there_is_unavailable(tmp_path, control_plane):
    text = control_plane.kubeconfig.read_text().replace(control_plane.server, "https://127.0.0.1:1")
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(text)
    link = await api_client.connect(str(elsewhere))
    cluster = ApiCluster(link, is_leader=lambda: True, clock=SystemClock())
    with pytest.raises(errors.ClusterUnavailable, match="no answer from the API server"):
        await cluster.get(ObjectRef("ConfigMap", "default", "m"))
    await link.close()
