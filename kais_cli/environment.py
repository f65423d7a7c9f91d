"""The world of a command: streams, clock, dice, and how to reach cluster and service.

`app.main` builds the real one; a test builds one of string streams and a fake cluster. Clients are
imported when they are first needed, because `kais --help` needs none of them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from kais_cli import clock, settings

if TYPE_CHECKING:
    import httpx

    from kais_cli.ports import Cluster, Clusters

_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own alphabet of generated names: no vowels, so no words."""

_WIDEST = 110
"""Columns; longer lines of prose are hard to read."""


@dataclass(frozen=True)
class Where:
    """Which cluster is meant: what the options say, None for what kubectl would take."""

    kubeconfig: str | None = None
    context: str | None = None


def _open_cluster(where: Where) -> Cluster:
    from kais_cli import cluster_client  # noqa: PLC0415 (kr8s takes a second to load)

    return cluster_client.KubernetesCluster(where.kubeconfig, context=where.context)


def _open_clusters() -> Clusters:
    from kais_cluster import clusters  # noqa: PLC0415 (only `kais cluster` needs it)

    return clusters


def _suffix() -> str:
    import secrets  # noqa: PLC0415 (takes longer to load than all of this module)

    return "".join(secrets.choice(_SAFE) for _ in range(5))


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything outside of a command that it may touch. `width` is None where lines stay whole."""

    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    is_terminal: bool = False
    width: int | None = None
    settings: settings.Settings = field(default_factory=settings.Settings)
    now: Callable[[], datetime] = clock.now
    suffix: Callable[[], str] = _suffix
    open_cluster: Callable[[Where], Cluster] = _open_cluster
    open_clusters: Callable[[], Clusters] = _open_clusters
    knowledge_transport: httpx.BaseTransport | None = None


def real() -> Environment:
    """Describe the terminal, or the pipe, that this process has."""
    is_terminal = sys.stdout.isatty()
    columns = min(shutil.get_terminal_size().columns, _WIDEST) if is_terminal else None
    return Environment(is_terminal=is_terminal, width=columns, settings=settings.from_environment())
