import pytest

from tests.fakes.terminal import FakeCluster, FakeKnowledge, Terminal


@pytest.fixture(autouse=True)
def no_kubeconfig(monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def knowledge():
    return FakeKnowledge()


@pytest.fixture
def terminal(cluster, knowledge):
    return Terminal(cluster, knowledge)
