"""Calls of an API server with the login of a kubeconfig, seen by the server."""

import contextlib
import functools
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from kais_cli import errors
from kais_cli.cluster import logs
from kais_cli.cluster.kubernetes_cluster import KubernetesCluster
from kais_cli.ports import Body, Change, LogItem, LogOptions, Target, Waiting


class Server:
    """An API server that saves requests, and answers them in order; then always `{}`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[tuple[str, str]]]] = []
        self.answers: list[tuple[int, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, list(self.headers.items())))
                status, text = outer.answers.pop(0) if outer.answers else (200, "{}")
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_DELETE = do_PATCH = do_POST = do_GET  # noqa: N815 (as its base calls them)

            def log_message(self, *arguments: object) -> None:
                """Write nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def headers(self, name: str) -> list[list[str]]:
        """Return the values of a header, request by request."""
        return [[v for k, v in headers if k.lower() == name] for _, headers in self.requests]


def write(folder: Path, server: str, *, user: Body, **cluster: str) -> Path:
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@pytest.fixture
def cluster(server: Server, tmp_path: Path) -> Iterator[KubernetesCluster]:
    (tmp_path / "token").write_text("first")
    user = {"tokenFile": "token", "as": "j\u00fcrgen", "as-groups": ["devs", "ops"]}
    cluster = KubernetesCluster(str(write(tmp_path, server.url, user=user)))
    (tmp_path / "token").write_text("second")
    yield cluster
    cluster.close()


UNAUTHORIZED = (401, json.dumps({"message": "expired"}))


def test_a_call_impersonates_the_user_and_the_groups_of_the_kubeconfig(server, cluster):
    cluster.get("Pod", "demo", "x")
    assert server.headers("impersonate-user") == [["j\u00fcrgen".encode().decode("latin-1")]]
    assert server.headers("impersonate-group") == [["devs", "ops"]]
    assert server.headers("authorization") == [["Bearer first"]]


def test_the_version_is_read_with_a_renewed_login(server, cluster):
    server.answers = [UNAUTHORIZED, (200, '{"gitVersion": "v1.36.3"}')]
    assert cluster.version() == "v1.36.3"
    assert server.headers("authorization") == [["Bearer first"], ["Bearer second"]]


def test_a_port_forward_has_the_login_of_the_other_calls_and_renews_it(server, cluster):
    server.answers = [UNAUTHORIZED, (403, "")]
    with pytest.raises(errors.Refused, match="forbidden"), cluster.forward("demo", "x", 80):
        pass
    assert [path for path, _ in server.requests] == [
        "/api/v1/namespaces/demo/pods/x/portforward?ports=80"
    ] * 2
    assert server.headers("authorization") == [["Bearer first"], ["Bearer second"]]
    assert server.headers("impersonate-group") == [["devs", "ops"]] * 2


async def answer_in_frames(connection: WebSocket) -> None:
    """Be the kubelet of a pod that answers every request with the user who opened the socket."""
    await connection.accept()
    for channel in (b"\0", b"\1"):  # each begins with the port
        await connection.send_bytes(channel + (80).to_bytes(2, "little"))
    with contextlib.suppress(WebSocketDisconnect):
        while await connection.receive_bytes():
            user = connection.headers["impersonate-user"].encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(user)
            await connection.send_bytes(b"\0" + head + user)


def test_a_port_forward_carries_requests_as_the_user_of_the_kubeconfig(tmp_path):
    path = "/api/v1/namespaces/demo/pods/x/portforward"
    app = Starlette(routes=[WebSocketRoute(path, answer_in_frames)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="wsproto"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        cluster = KubernetesCluster(str(write(tmp_path, url, user={"as": "jane"})))
        with cluster.forward("demo", "x", 80) as local:
            assert httpx.get(local).text == "jane"
        cluster.close()
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("text", ["<html>Log in</html>", "[]", ""])
def test_an_answer_that_is_no_object_is_reported_with_its_address(server, cluster, text):
    server.answers = [(200, text)]
    with pytest.raises(errors.Refused, match=r"get Pod/demo/x: http.*/pods/x answers no JSON"):
        cluster.get("Pod", "demo", "x")


LISTED = (200, '{"metadata": {"resourceVersion": "1"}, "items": []}')
FORBIDDEN = (403, '{"message": "missions is forbidden"}')


def test_a_watch_that_is_refused_ends_with_the_words_of_the_server(server, cluster):
    server.answers = [LISTED, (200, '{"typ'), (410, "{}"), FORBIDDEN]
    changes = cluster.watch([Target("Mission", "demo", "x")])
    with pytest.raises(errors.Refused, match="watch Mission/demo/x: missions is forbidden"):
        for _ in changes:
            pass
    assert server.answers == []


def test_a_container_that_has_not_run_before_has_no_previous_log(server, cluster):
    server.answers = [(400, '{"message": "previous terminated container not found"}')] * 2
    read = functools.partial(cluster.logs, "demo", "x", container="cell")
    with pytest.raises(errors.NoPreviousLog, match="read the log of cell in Pod/demo/x: previous"):
        list(read(options=LogOptions(10, previous=True)))
    assert list(read(options=LogOptions(10))) == []


NO_LOG_YET = (400, '{"message": "container \\"check\\" in pod \\"x\\" is waiting to start"}')


def pods(phase: str, **status: object) -> tuple[int, str]:
    """A list of the pod `x`, of which the container `check` runs after `task`."""
    return 200, json.dumps({"items": [{"status": {"phase": phase, **status}}]})


def states(**by_container: Body) -> list[Body]:
    return [{"name": name, "state": state} for name, state in by_container.items()]


def follow(cluster: KubernetesCluster) -> list[LogItem]:
    options = LogOptions(10, follow=True)
    return list(cluster.logs("demo", "x", container="check", options=options))


@pytest.mark.parametrize("answer", [NO_LOG_YET, (204, "")], ids=["waits", "has no node"])
def test_a_container_that_is_followed_before_it_starts_is_awaited(server, cluster, answer):
    initializing = states(check={"waiting": {"reason": "PodInitializing"}})
    waiting = pods("Pending", containerStatuses=initializing)
    server.answers = [answer, waiting, (200, "2 passed\n")]
    assert follow(cluster) == ["2 passed\n"]
    assert server.requests[1][0] == "/api/v1/namespaces/demo/pods?fieldSelector=metadata.name%3Dx"


NO_ROOM = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient memory.",
}
BACK_OFF = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
WAITS = {
    "no node has room": (
        pods("Pending", conditions=[NO_ROOM]),
        "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
    ),
    "an init container fails again and again": (
        pods("Pending", initContainerStatuses=states(task={"waiting": BACK_OFF})),
        "task is in CrashLoopBackOff: back-off 5m0s restarting failed container",
    ),
}


@pytest.mark.parametrize(("pod", "reason"), WAITS.values(), ids=WAITS)
def test_what_a_followed_container_waits_for_is_said_once(
    server, cluster, monkeypatch, pod, reason
):
    monkeypatch.setattr(logs, "_POLL_S", 0.01)
    server.answers = [*[NO_LOG_YET, pod] * 3, (200, "2 passed\n")]
    wait = Waiting(f"check in Pod/demo/x waits to start: {reason}")
    assert follow(cluster) == [wait, "2 passed\n"]


def test_a_container_that_is_created_for_long_is_said_to_wait(server, cluster, monkeypatch):
    monkeypatch.setattr(logs, "_POLL_S", 0.01)
    creating = states(check={"waiting": {"reason": "ContainerCreating"}})
    pod = pods("Pending", containerStatuses=creating)
    server.answers = [*[NO_LOG_YET, pod] * 10, (200, "2 passed\n")]
    assert follow(cluster) == ["2 passed\n"]
    server.answers = [*[NO_LOG_YET, pod] * 20, (200, "2 passed\n")]
    assert follow(cluster) == [
        Waiting(
            "check in Pod/demo/x waits to start: check is in ContainerCreating;"
            " see `kubectl describe pod x -n demo`"
        ),
        "2 passed\n",
    ]


def test_a_followed_container_that_ended_in_between_has_its_log(server, cluster):
    ended = states(check={"terminated": {"exitCode": 0}})
    server.answers = [NO_LOG_YET, pods("Succeeded", containerStatuses=ended), (200, "2 passed\n")]
    assert follow(cluster) == ["2 passed\n"]


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (
            pods(
                "Failed",
                initContainerStatuses=states(task={"terminated": {"exitCode": 3}}),
                containerStatuses=states(check={"waiting": {"reason": "PodInitializing"}}),
            ),
            "the pod has ended: task failed with exit code 3",
        ),
        (
            pods("Failed", reason="Evicted", message="the node was low on memory"),
            "the pod has ended: Evicted: the node was low on memory",
        ),
        (
            pods(
                "Pending",
                initContainerStatuses=states(
                    task={"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
                ),
            ),
            "task does not start: ErrImagePull: no such image",
        ),
        ((200, '{"items": []}'), "the pod was deleted"),
    ],
    ids=["work failed", "evicted", "no image", "deleted"],
)
def test_a_followed_container_that_cannot_start_says_why(server, cluster, pod, reason):
    server.answers = [NO_LOG_YET, pod, NO_LOG_YET]
    with pytest.raises(errors.NotStarted) as caught:
        follow(cluster)
    assert str(caught.value) == (
        'read the log of check in Pod/demo/x: container "check" in pod "x" is waiting to start;'
        f" {reason}"
    )


def test_a_followed_container_whose_pod_is_deleted_before_it_starts_has_not_started(
    server, cluster
):
    gone = (404, '{"message": "pods \\"x\\" not found"}')
    server.answers = [NO_LOG_YET, (200, '{"items": []}'), gone]
    with pytest.raises(errors.NotStarted) as caught:
        follow(cluster)
    assert str(caught.value) == (
        'read the log of check in Pod/demo/x: pods "x" not found; the pod was deleted'
    )


def test_a_watch_begins_with_the_deletion_of_what_the_caller_has_read(server, cluster):
    target = Target("Mission", "demo", "x")
    server.answers = [LISTED, FORBIDDEN]
    changes = cluster.watch([target], exist=True)
    assert next(changes) == Change(target, None)
    changes.close()


def test_a_watched_list_whose_login_has_ended_says_so(server, cluster):
    server.answers = [LISTED, LISTED, UNAUTHORIZED, UNAUTHORIZED]
    with pytest.raises(errors.Unreachable, match="watch missions in demo: the login is not"):
        next(iter(cluster.watch_list("Mission", "demo")))


def test_a_socks_proxy_that_does_not_answer_is_reported(tmp_path):
    proxy = {"proxy-url": "socks5://127.0.0.1:1"}
    cluster = KubernetesCluster(str(write(tmp_path, "http://10.0.0.1", user={}, **proxy)))
    with pytest.raises(errors.Unreachable, match=r"of context x in .* does not answer"):
        cluster.version()
    cluster.close()


NO_NAMES = ["", ".", "..", "a/b", "../../other/missions/private", "a%2Fb"]
CALLS = {
    "get": lambda cluster, name: cluster.get("Mission", "demo", name),
    "delete": lambda cluster, name: cluster.delete("Mission", "demo", name),
    "delete of the cluster": lambda cluster, name: cluster.delete("Namespace", None, name),
    "patch": lambda cluster, name: cluster.patch("Mission", "demo", name, {}),
    "token": lambda cluster, name: cluster.token("demo", name, "kais"),
    "logs": lambda cluster, name: list(
        cluster.logs("demo", name, container="cell", options=LogOptions(10))
    ),
    "forward": lambda cluster, name: cluster.forward("demo", name, 80).__enter__(),
    "namespace of a get": lambda cluster, name: cluster.get("Mission", name, "x"),
    "namespace of a list": lambda cluster, name: cluster.list("Mission", name),
    "namespace of a forward": lambda cluster, name: cluster.forward(name, "x", 80).__enter__(),
}


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_with_what_is_no_name_is_refused_and_sends_nothing(server, cluster, call, name):
    with pytest.raises(errors.UsageError, match="is not the name of an object") as refused:
        CALLS[call](cluster, name)
    assert repr(name) in str(refused.value)
    assert server.requests == []


def test_a_name_with_the_characters_of_a_query_stays_one_part_of_the_path(server, cluster):
    cluster.get("Mission", "demo", "x?y=1#z w")
    cluster.get("Pod", "a b", "x:y")
    assert [path for path, _ in server.requests] == [
        "/apis/kais.io/v1/namespaces/demo/missions/x%3Fy%3D1%23z%20w",
        "/api/v1/namespaces/a%20b/pods/x%3Ay",
    ]


DEEP = f'{{"spec": {"[" * 1500}{"]" * 1500}}}'
DEEP_LIST = f'{{"metadata": {{"resourceVersion": "1"}}, "items": [{DEEP}]}}'
DEEP_CHANGE = f'{{"type": "ADDED", "object": {DEEP}}}\n'
TOO_DEEP = ": an object nests too deeply to be read; make it shallower or delete it"


def test_a_list_with_an_object_that_nests_too_deeply_is_refused_with_the_kind(server, cluster):
    server.answers = [(200, DEEP_LIST)]
    with pytest.raises(errors.TooDeep, match=f"list blueprints in all namespaces{TOO_DEEP}"):
        cluster.list("Blueprint")


def test_an_object_that_nests_too_deeply_is_refused_with_its_name(server, cluster):
    server.answers = [(200, DEEP)]
    with pytest.raises(errors.TooDeep, match=f"get Blueprint/demo/x{TOO_DEEP}"):
        cluster.get("Blueprint", "demo", "x")


@pytest.mark.parametrize("status", [200, 404, 422])
def test_a_deep_answer_of_any_status_is_too_deep(server, cluster, status):
    server.answers = [(status, DEEP)]
    with pytest.raises(errors.TooDeep):
        cluster.get("Blueprint", "demo", "x")


@pytest.mark.parametrize("answers", [[(200, DEEP_LIST)], [LISTED, (200, DEEP_CHANGE)]])
def test_a_watch_that_meets_an_object_that_nests_too_deeply_is_refused(server, cluster, answers):
    server.answers = list(answers)
    changes = cluster.watch([Target("Mission", "demo", "x")])
    with pytest.raises(errors.TooDeep, match=f"watch Mission/demo/x{TOO_DEEP}"):
        next(filter(None, changes))
    server.answers = [LISTED, *answers]
    with pytest.raises(errors.TooDeep, match=f"watch missions in demo{TOO_DEEP}"):
        next(iter(cluster.watch_list("Mission", "demo")))
