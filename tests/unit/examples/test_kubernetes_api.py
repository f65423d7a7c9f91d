from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from namespace_doctor import kubernetes_api, settings


def reader(
    folder: Path, answer: Callable[[httpx.Request], httpx.Response]
) -> kubernetes_api.NamespaceReader:
    token = folder / "token"
    token.write_text("secret-token\n")
    http = httpx.Client(base_url="https://api", transport=httpx.MockTransport(answer))
    return kubernetes_api.NamespaceReader(http, namespace="demo", token_file=token)


def test_pages_are_read_to_the_last_one_with_the_mounted_token(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v1/namespaces/demo/pods"
        assert request.headers["Authorization"] == "Bearer secret-token"
        if request.url.params["continue"]:
            return httpx.Response(200, json={"items": [{"n": 2}], "metadata": {}})
        return httpx.Response(200, json={"items": [{"n": 1}], "metadata": {"continue": "more"}})

    assert reader(tmp_path, answer).pods() == [{"n": 1}, {"n": 2}]


def test_missing_right_says_what_to_apply(tmp_path: Path) -> None:
    refusing = reader(tmp_path, lambda _: httpx.Response(403, json={"message": "no"}))

    with pytest.raises(kubernetes_api.ClusterError) as caught:
        refusing.events()

    assert str(caught.value) == (
        "list events of namespace demo: 403, the ServiceAccount may not do that; apply the"
        " example's rbac.yaml to this namespace"
    )


def test_api_server_that_is_away_is_named(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    with pytest.raises(kubernetes_api.ClusterError, match="no answer from the API server"):
        reader(tmp_path, answer).pods()


def test_cell_without_an_account_is_told_to_ask_for_one(tmp_path: Path) -> None:
    with pytest.raises(kubernetes_api.ClusterError, match="set apiAccess: true"):
        kubernetes_api.connect("https://api", account=tmp_path)


def test_settings_come_from_the_environment_of_the_pod() -> None:
    matching_settings = settings.read(
        {
            "CELL_NAMESPACE": "demo",
            "KUBERNETES_SERVICE_HOST": "fd00::1",
            "KUBERNETES_SERVICE_PORT": "6443",
            "KAIS_KNOWLEDGE_FILE": "/etc/kais/knowledge/knowledge.json",
            "KAIS_RUN_ID": "run-1",
            "KAIS_ATTEMPT": "2",
            "KAIS_MISSION": "doctor-x1",
        },
        ["--max-pods=7"],
    )

    assert (matching_settings.namespace, matching_settings.max_pods, matching_settings.api_url) == (
        "demo",
        7,
        "https://[fd00::1]:6443",
    )
    assert (matching_settings.run_id, matching_settings.attempt, matching_settings.mission) == (
        "run-1",
        2,
        "doctor-x1",
    )
    assert matching_settings.report_file == Path("/dev/termination-log")
