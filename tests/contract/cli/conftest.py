"""The fixtures of the command line at a real knowledge service."""

import pytest

from kais_cli import settings
from tests.cli.conftest import cluster, knowledge, no_kubeconfig, terminal
from tests.knowledge_process import serving

__all__ = ["cluster", "knowledge", "no_kubeconfig", "terminal"]


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
