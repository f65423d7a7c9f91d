"""What the commands need of a cluster; `cluster.client` has the real one, the tests a fake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kais_cluster.status import Status

Body = dict[str, Any]
"""An object of the Kubernetes API, in the API's spelling."""


@dataclass(frozen=True)
class Target:
    """One object to watch, whether it exists already or not."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Change:
    """A target as it is now; `body` is None when it was deleted."""

    target: Target
    body: Body | None


class Cluster(Protocol):
    """One cluster, as the kubeconfig's user may see it.

    Every method raises `errors.Unreachable` when the API server does not answer and
    `errors.Refused` with its words when it says no.
    """

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, `default` when it names none."""
        ...

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """Read one object, None when there is none."""
        ...

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "") -> list[Body]:
        """Read all objects of a kind in a namespace, or in all; `labels` is a selector."""
        ...

    def create(self, body: Body, *, dry_run: bool = ...) -> Body:
        """Make an object and return it as stored; `errors.Refused` when the name is taken.

        With `dry_run` the API server checks everything and stores nothing.
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
        """Change an object and return it as stored.

        A mapping is a JSON merge patch (RFC 7386), a sequence a JSON patch (RFC 6902).
        """
        ...

    def delete(self, kind: str, namespace: str | None, name: str) -> None:
        """Delete an object with its children in the background; one that is gone is no error."""
        ...

    def logs(
        self, namespace: str, pod: str, *, container: str, tail: int, follow: bool
    ) -> Iterator[str]:
        """Yield what a container wrote, piece by piece; nothing while it has not started."""
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
        """Ask whether the kubeconfig's user may do something; a subresource is `pods/log`.

        Without a `name` the right must hold for all objects of the resource.
        """
        ...

    def version(self) -> str:
        """Ask for the API server's version, `v1.36.3`."""
        ...

    def watch(self, targets: Sequence[Target]) -> Iterator[Change | None]:
        """Yield each target that exists, then every change, and None at least every second.

        Goes on over lost connections until the caller stops.
        """
        ...

    def token(self, namespace: str, account: str, audience: str) -> str | None:
        """Ask for a short-lived token of a ServiceAccount, None when there is no such account."""
        ...

    def forward(self, namespace: str, pod: str, port: int) -> AbstractContextManager[str]:
        """Open a local address, `http://127.0.0.1:…`, that leads to a pod's port.

        A refusal is raised at once, before anything is sent.
        """
        ...


class Clusters(Protocol):
    """Clusters on this machine; the module `kais_cluster.operations` is one.

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
