"""The environment of a command: streams, clock, random names, and access to cluster and service.

`app.main` creates the real one; a test creates one from string streams and a fake cluster. Clients
are imported on first use, because `kais --help` needs none.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from kais_cli import clock, errors, interrupts, settings
from kais_cli.cluster import kubeconfig
from kais_cli.views import text_layout

if TYPE_CHECKING:
    import httpx

    from kais_cli.ports import Cluster, Clusters
    from kais_cli.settings import Identity

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of generated names in Kubernetes: no vowels, so that no words appear."""

_MAX_PROSE_COLUMNS = 110
"""Columns; longer lines of prose are hard to read."""


@dataclass(frozen=True)
class ClusterOptions:
    """Selects a cluster; None for kubectl's default."""

    kubeconfig: str | None = None
    context: str | None = None


def _open_cluster(cluster_options: ClusterOptions) -> Cluster:
    kubeconfig.require_file(cluster_options.kubeconfig)
    from kais_cli.cluster import kubernetes_cluster  # noqa: PLC0415 (kr8s takes a second to load)

    return kubernetes_cluster.KubernetesCluster(
        cluster_options.kubeconfig, context=cluster_options.context
    )


def _open_clusters() -> Clusters:
    from kais_cluster import operations  # noqa: PLC0415 (only `kais cluster` needs it)

    return operations


def _suffix() -> str:
    import secrets  # noqa: PLC0415 (takes longer to load than all of this module)

    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(5))


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Everything outside of the process that a command may access.

    `columns` is the width of the terminal and `width` the maximum width of prose; both are None if
    lines are not wrapped.
    """

    stdin: TextIO = field(default_factory=lambda: sys.stdin or io.StringIO())
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    is_terminal: bool = False
    width: int | None = None
    columns: int | None = None
    settings: settings.Settings = field(default_factory=settings.Settings)
    now: Callable[[], datetime] = clock.now
    monotonic_s: Callable[[], float] = clock.monotonic_s
    suffix: Callable[[], str] = _suffix
    open_cluster: Callable[[ClusterOptions], Cluster] = _open_cluster
    open_clusters: Callable[[], Clusters] = _open_clusters
    has_default_kubeconfig: Callable[[], bool] = kubeconfig.has_default
    knowledge_transport: httpx.BaseTransport | None = None
    is_interrupted: Callable[[], bool] = lambda: False

    def with_identity(self, identity: Identity) -> Environment:
        """Return this environment with another identity at the knowledge service."""
        return replace(self, settings=replace(self.settings, knowledge_identity=identity))

    def write(self, text: str = "") -> None:
        """Write to stdout; without a text, flush it.

        Raises:
            BrokenOutputPipe: The reader closed the pipe.
            CliError: The output cannot be written, for example because the disk is full.
        """
        _write(self.stdout, text)

    def write_error(self, text: str) -> None:
        """Write to stderr; raises the same."""
        _write(self.stderr, text)


def from_process() -> Environment:
    """Return the environment of this process, with its terminal or pipe."""
    stdout, stderr = _encodable_stream(sys.stdout), _encodable_stream(sys.stderr)
    is_terminal = stdout.isatty()
    columns = shutil.get_terminal_size().columns if is_terminal else None
    recorded = interrupts.Interrupts()
    recorded.record()
    return Environment(
        stdout=stdout,
        stderr=stderr,
        is_terminal=is_terminal,
        width=min(columns, _MAX_PROSE_COLUMNS) if columns else None,
        columns=columns,
        settings=settings.from_environment(),
        is_interrupted=recorded.has_happened,
    )


def _write(stream: TextIO, text: str) -> None:
    try:
        if text:
            stream.write(text)
        else:
            stream.flush()
    except BrokenPipeError as exc:
        discard_output(stream)
        raise errors.BrokenOutputPipe from exc
    except OSError as exc:
        discard_output(stream)
        raise errors.CliError(f"cannot write the output ({exc.strerror})") from exc


def discard_output(stream: TextIO) -> None:
    """Discard what a stream still buffers: Python would try to write it at exit."""
    try:
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, stream.fileno())
        os.close(null_device)
    except (OSError, io.UnsupportedOperation):
        return


def _encodable_stream(stream: TextIO | None) -> TextIO:
    """Return a stream that accepts all text: null if closed, with escapes if not UTF-8."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - until the end
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
        codecs.register_error("kais-escapes", _escape)
        stream.reconfigure(errors="kais-escapes")
    return stream


def _escape(failure: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks with JSON escapes; JSON output stays equal."""
    if not isinstance(failure, UnicodeEncodeError):
        raise failure
    return text_layout.json_escape(failure.object[failure.start : failure.end]), failure.end
