"""The fake API server keeps the port's promises."""

from __future__ import annotations

import pytest

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
