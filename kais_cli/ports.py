"""The ports of the commands; tests use fakes instead of `cluster.kubernetes_cluster`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kais_cluster.status import Status

Body = dict[str, Any]
"""An object of the Kubernetes API, in the API's spelling."""


@dataclass(frozen=True)
class Target:
    """One object to watch, whether it exists or not."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Change:
    """The current state of a target; `body` is None after its deletion."""

    target: Target
    body: Body | None


@dataclass(frozen=True)
class LogOptions:
    """Which part of a container's log to read.

    Attributes:
        tail: maximum number of lines, from the end.
        follow: wait until the container starts, and stream new lines until it ends.
        since: only lines of this last period.
        previous: the log of the container before its last restart.
        timestamps: each line begins with its time.
    """

    tail: int
    follow: bool = False
    since: timedelta | None = None
    previous: bool = False
    timestamps: bool = False


@dataclass(frozen=True)
class Waiting:
    """What a container waits for whose log is followed before it starts."""

    message: str


LogItem = str | Waiting
"""A piece of a log, or what it waits for."""


class Cluster(Protocol):
    """One cluster, with the permissions of the kubeconfig's user.

    Every method raises `errors.Unreachable` if the API server does not answer, and
    `errors.Refused` with the server's message if it rejects the request.
    """

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, `default` when it names none."""
        ...

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object; None if it does not exist."""
        ...

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "") -> list[Body]:
        """Read all objects of a kind in a namespace, or in all; `labels` is a selector."""
        ...

    def create(self, body: Body, *, dry_run: bool = ...) -> Body:
        """Create an object and return the stored object.

        With `dry_run` the API server validates the object without storing it.

        Raises:
            Refused: An object of that name exists, or the API server rejects the request.
        """
        ...

    def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        patch: Body | Sequence[Body],
        *,
        dry_run: bool = ...,
    ) -> Body:
        """Patch an object and return the stored object.

        A mapping is a JSON merge patch (RFC 7386), a sequence a JSON patch (RFC 6902).
        """
        ...

    def delete(self, kind: str, namespace: str | None, name: str) -> None:
        """Delete an object and its children in the background; ignores a missing object."""
        ...

    def logs(
        self, namespace: str, pod: str, *, container: str, options: LogOptions
    ) -> Iterator[LogItem]:
        """Yield the log of a container in pieces; before it starts, wait or yield nothing.

        It waits if the log is followed, and yields once for what. Logs may be read in parallel.

        Raises:
            NoPreviousLog: The options ask for the previous log of a container without one.
            NotStarted: The log is followed, and the container does not start.
        """
        ...

    def is_allowed(
        self,
        verb: str,
        resource: str,
        *,
        namespace: str | None,
        group: str = ...,
        name: str = ...,
    ) -> bool:
        """Return whether the user has a permission; a subresource is written `pods/log`.

        Without `name`, the permission must apply to all objects of the resource.
        """
        ...

    def user_name(self) -> str:
        """Return the name by which the API server knows the user."""
        ...

    def version(self) -> str:
        """Return the version of the API server, such as `v1.36.3`."""
        ...

    def watch(self, targets: Sequence[Target], *, exist: bool = ...) -> Iterator[Change | None]:
        """Yield each target that exists, then every change, and None at least every second.

        With `exist`, the caller has read the targets: one that no longer exists was deleted.
        Continues after lost connections until the caller stops.
        """
        ...

    def watch_list(
        self, kind: str, namespace: str | None, *, labels: str = ""
    ) -> Iterator[Sequence[Body]]:
        """Yield all objects of a kind, then each one that is created, changed or deleted.

        Without a namespace, those of all namespaces. The first list is missing if it is empty.
        Continues after lost connections until the caller stops.
        """
        ...

    def token(self, namespace: str, account: str, audience: str) -> str | None:
        """Request a short-lived token of a ServiceAccount; None if there is no such account."""
        ...

    def login_token(self) -> str | None:
        """Return the token with which the user logs in; None if the login uses none."""
        ...

    def forward(self, namespace: str, pod: str, port: int) -> AbstractContextManager[str]:
        """Open a local address, `http://127.0.0.1:…`, that forwards to a port of a pod.

        A rejected connection raises an error immediately, before any data is sent.
        """
        ...


class Clusters(Protocol):
    """The clusters on this machine; implemented by the module `kais_cluster.operations`.

    Raises `kais_cluster.errors.ClusterError` with a message for the user.
    """

    def up(self, *, no_node: bool = ..., report: Callable[[str], None] = ...) -> Status:
        """Start a cluster, unless it runs already."""
        ...

    def down(self, *, report: Callable[[str], None] = ...) -> None:
        """Stop it and remove its state."""
        ...

    def status(self) -> Status:
        """Return its status."""
        ...

    def env(self) -> Mapping[str, str]:
        """Return the variables for programs that talk to it."""
        ...

    def load_named_image(self, image: str, *, report: Callable[[str], None] = ...) -> None:
        """Load an image of this machine, or an archive, into it."""
        ...
