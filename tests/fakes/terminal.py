"""A terminal of string streams before a cluster in memory, for tests of the command line."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from kais.resources import kinds
from kais_cli import app, errors, settings
from kais_cli.environment import ClusterOptions, Environment
from kais_cli.ports import Body, Change, LogItem, LogOptions, Target
from tests.fakes.json_copy import json_copy
from tests.fakes.merge_rules import merge_patch

Step = Body | tuple[str, str] | None
"""An object as it becomes, `(kind, name)` of one that is deleted, or a second without a change."""


class FakeCluster:
    """The CLI's cluster port. `script` is what a watch will see; each of its ticks takes 1 s."""

    def __init__(self, *bodies: Body, namespace: str = "demo") -> None:
        self.namespace = namespace
        self.user = "ada@harbour.example"
        self.script: list[Step] = []
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.created: list[Body] = []
        self.tokens: list[tuple[str, str, str]] = []
        self.login: str | None = None
        self.forwarded: list[tuple[str, str, int]] = []
        self.patched: list[tuple[str, str, Any, bool]] = []
        self.written: dict[tuple[str, str], Iterable[LogItem]] = {}
        self.not_started: dict[tuple[str, str], str] = {}
        self.followed = False
        self.log_options: LogOptions | None = None
        self.deleted: list[tuple[str, str | None, str]] = []
        self.checked: set[tuple[str, str]] = set()
        self.used: set[tuple[str, str]] = set()
        self.forbidden: set[tuple[str, str]] = set()
        self.failure: errors.CliError | None = None
        self._objects: dict[tuple[str, str, str], Body] = {}
        for body in bodies:
            self.put(body)

    def put(self, body: Body) -> None:
        """Store an object as somebody else would."""
        metadata = body["metadata"]
        key = (body["kind"], metadata.get("namespace", self.namespace), metadata["name"])
        self._objects[key] = body

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        self._use("get", kind)
        return json_copy(self._objects.get((kind, namespace, name)))

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "") -> list[Body]:
        self._use("list", kind)
        expected = dict(part.split("=") for part in labels.split(",") if part)
        return [
            json_copy(body)
            for (k, ns, _), body in sorted(self._objects.items(), key=lambda item: item[0])
            if k == kind
            and namespace in (None, ns)
            and expected.items() <= body["metadata"].get("labels", {}).items()
        ]

    def create(self, body: Body, *, dry_run: bool = False) -> Body:
        self._use("create", body["kind"])
        metadata = body["metadata"]
        if (body["kind"], metadata["namespace"], metadata["name"]) in self._objects:
            raise errors.Refused(f"create {metadata['name']}: already exists")
        if not dry_run:
            self.created.append(body)
            self.put(body)
        return body

    def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        patch: Body | Sequence[Body],
        *,
        dry_run: bool = False,
    ) -> Body:
        self._use("patch", kind)
        body = json_copy(self._objects.get((kind, namespace, name)))
        if body is None:
            raise errors.Refused(f"change {kind}/{namespace}/{name}: not found")
        self.patched.append((kind, name, patch, dry_run))
        if isinstance(patch, dict):
            body = merge_patch(body, patch)
        else:
            for operation in patch:
                _operate(body, operation)
        if not dry_run:
            self.put(body)
        return body

    def delete(self, kind: str, namespace: str | None, name: str) -> None:
        self._use("delete", kind)
        self.deleted.append((kind, namespace, name))
        self._objects.pop((kind, namespace or self.namespace, name), None)

    def logs(
        self, namespace: str, pod: str, *, container: str, options: LogOptions
    ) -> Iterator[LogItem]:
        self._use("get", "Pod", "log")
        self.followed = options.follow
        self.log_options = options
        if options.previous and (pod, container) not in self.written:
            raise errors.NoPreviousLog(f"{container} in {pod} has not run before")
        if (pod, container) in self.not_started:
            raise errors.NotStarted(self.not_started[pod, container])
        yield from self.written.get((pod, container), ())

    def is_allowed(
        self, verb: str, resource: str, *, namespace: str | None, group: str = "", name: str = ""
    ) -> bool:
        self._fail()
        self.checked.add((verb, resource))
        return (verb, resource) not in self.forbidden

    def user_name(self) -> str:
        self._fail()
        return self.user

    def version(self) -> str:
        self._fail()
        return "v1.36.3"

    def watch(self, targets: Sequence[Target], *, exist: bool = False) -> Iterator[Change | None]:
        by_key = {(t.kind, t.name): t for t in targets}
        for target in targets:
            self._use("list", target.kind)
            self._use("watch", target.kind)
            body = json_copy(self._objects.get((target.kind, target.namespace, target.name)))
            if body is not None or exist:
                yield Change(target, body)
        for step in itertools.chain(self.script, itertools.repeat(None)):
            self.now += timedelta(seconds=1)
            if step is None:
                yield None
            elif isinstance(step, tuple):
                yield Change(by_key[step], None)
            elif (step["kind"], step["metadata"]["name"]) in by_key:
                self.put(step)
                yield Change(by_key[step["kind"], step["metadata"]["name"]], step)

    def watch_list(
        self, kind: str, namespace: str | None, *, labels: str = ""
    ) -> Iterator[Sequence[Body]]:
        """Yield what is there and what the script changes; ends with the script."""
        self._use("watch", kind)
        if bodies := self.list(kind, namespace, labels=labels):
            yield bodies
        for step in self.script:
            self.now += timedelta(seconds=1)
            if isinstance(step, dict) and step["kind"] == kind:
                self.put(step)
                yield [step]

    def token(self, namespace: str, account: str, audience: str) -> str | None:
        self._use("create", "ServiceAccount", "token")
        self.tokens.append((namespace, account, audience))
        exists = ("ServiceAccount", namespace, account) in self._objects
        return f"token-of-{namespace}-{account}" if exists else None

    def login_token(self) -> str | None:
        return self.login

    @contextmanager
    def forward(self, namespace: str, pod: str, port: int) -> Iterator[str]:
        self._use("get", "Pod", "portforward")
        self._use("create", "Pod", "portforward")
        self.forwarded.append((namespace, pod, port))
        yield "http://127.0.0.1:1"

    def _use(self, verb: str, kind: str, subresource: str = "") -> None:
        """Note the right that a call takes, as a role would name it; fail if one was planned."""
        self._fail()
        plural = kinds.BY_NAME[kind].PLURAL if kind in kinds.BY_NAME else f"{kind.lower()}s"
        self.used.add((verb, f"{plural}/{subresource}" if subresource else plural))

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


def _operate(body: Body, operation: Body) -> None:
    """Carry out one operation of a JSON patch; a `test` that does not hold refuses it all."""
    *path, last = operation["path"].lstrip("/").split("/")
    target_body: Any = body
    for step in path:
        target_body = target_body[int(step)] if isinstance(target_body, list) else target_body[step]
    key: Any = int(last) if isinstance(target_body, list) else last
    if operation["op"] == "test":
        if target_body[key] != operation["value"]:
            raise errors.Refused(f"the test of {operation['path']} failed")
    elif operation["op"] == "remove":
        del target_body[key]
    else:
        target_body[key] = operation["value"]


class FakeKnowledge:
    """The knowledge service's answers by `METHOD /path`; `requests` keeps what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.get(f"{request.method} {request.url.path}")
        if isinstance(answer, httpx.Response):
            return httpx.Response(answer.status_code, content=answer.content)
        if callable(answer):
            response: httpx.Response = answer(request)
            return response
        if answer is None:
            body = {"title": "t", "status": 404, "code": "not-found", "detail": "no such thing"}
            return httpx.Response(404, json=body)
        return httpx.Response(200, json=answer)

    def sent(self, index: int = -1) -> Any:
        """The JSON body of one request, of those that have one."""
        return json.loads([request for request in self.requests if request.content][index].content)


class Terminal:
    """Runs commands as a person would and keeps what they print."""

    def __init__(self, cluster: FakeCluster, knowledge: FakeKnowledge | None) -> None:
        self.cluster = cluster
        self.knowledge = knowledge
        self.is_terminal = False
        self.width: int | None = None
        self.columns: int | None = None
        self.stdin = ""
        self.settings = settings.Settings()
        self.clusters: Any = None
        self.has_default_kubeconfig = True
        self.is_interrupted = False
        self.asked: list[ClusterOptions] = []
        self.out = self.err = ""

    def open_cluster(self, where: ClusterOptions) -> FakeCluster:
        self.asked.append(where)
        return self.cluster

    def monotonic_s(self) -> float:
        return self.cluster.now.timestamp()

    def environment(self, **streams: io.StringIO) -> Environment:
        open_clusters: Callable[[], Any] = lambda: self.clusters  # noqa: E731
        return Environment(
            stdin=io.StringIO(self.stdin),
            **streams,
            is_terminal=self.is_terminal,
            width=self.width,
            columns=self.columns,
            settings=self.settings,
            now=lambda: self.cluster.now,
            monotonic_s=self.monotonic_s,
            suffix=lambda: "x2k4f",
            open_cluster=self.open_cluster,
            open_clusters=open_clusters,
            has_default_kubeconfig=lambda: self.has_default_kubeconfig,
            is_interrupted=lambda: self.is_interrupted,
            knowledge_transport=httpx.MockTransport(self.knowledge) if self.knowledge else None,
        )

    def run(self, *arguments: str) -> int:
        stream, err = io.StringIO(), io.StringIO()
        status = app.main(arguments, self.environment(stdout=stream, stderr=err))
        self.out, self.err = stream.getvalue(), err.getvalue()
        return int(status)
