import pytest

from kais_cli import settings
from tests.fakes.terminal import FakeCluster, FakeKnowledge, Terminal
from tests.knowledge_process import serving


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


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a real service that a module has for itself."""
    with serving(tmp_path_factory.mktemp("db") / "knowledge.db") as (_, url):
        yield url


@pytest.fixture
def shell(terminal, service, request):
    """A terminal whose namespace is the test's own; `run` must succeed unless told."""
    terminal.settings = settings.Settings(knowledge_url=service)
    terminal.knowledge = None
    namespace = f"f{abs(hash(request.node.name)) % 10**8}"

    def run(*arguments, status=0, namespace=namespace):
        result = terminal.run("knowledge", *arguments, "-n", namespace)
        assert result == status, terminal.err
        return terminal.out

    run.terminal, run.realm, run.namespace = terminal, f"realm:{namespace}", namespace
    return run
