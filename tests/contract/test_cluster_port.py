"""The fake API server keeps the port's promises, and so does the memory before it.

That memory hears of nothing here: no watch tells it anything after its lists, as if every watch
were late for ever. What it promises, it promises by what it writes and asks itself.
"""

from __future__ import annotations

import pytest

from kais_operator.informer.cache import Cache
from kais_operator.informer.read_through_cluster import CachedCluster
from tests.contract.cluster_port import ClusterPortSuite, Lead
from tests.fakes.cluster import FakeCluster


class TestFakeCluster(ClusterPortSuite):
    @pytest.fixture
    def ns(self) -> str:
        return "demo"

    @pytest.fixture
    def lead(self) -> Lead:
        return Lead()

    @pytest.fixture
    def cluster(self, lead: Lead) -> FakeCluster:
        return FakeCluster(leads=lead)


class TestCachedCluster(ClusterPortSuite):
    @pytest.fixture
    def ns(self) -> str:
        return "demo"

    @pytest.fixture
    def lead(self) -> Lead:
        return Lead()

    @pytest.fixture
    def cluster(self, lead: Lead) -> CachedCluster:
        cache = Cache(labelled=["ConfigMap"])
        for kind in ("ConfigMap", "Formation"):
            cache.complete_list(kind, None, uids=set(), version="0")
        live = FakeCluster(leads=lead)
        return CachedCluster(live, cache, clock=live.clock)
