"""Which kubeconfig a command uses: the named one, kubectl's default, or that of `kais cluster`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cluster.errors import NotRunning

if TYPE_CHECKING:
    from kais_cli.ports import Clusters

_SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def require_file(kubeconfig: str | None) -> None:
    """Check that a named kubeconfig exists; of several, one is enough, as for kubectl.

    Raises:
        Unreachable: None of the files exists; the message names them.
    """
    paths = [path for path in (kubeconfig or "").split(os.pathsep) if path]
    if not paths or any(Path(path).expanduser().exists() for path in paths):
        return
    subject = f"the kubeconfig {paths[0]} does not exist"
    if len(paths) > 1:
        subject = f"none of the kubeconfigs {', '.join(paths)} exists"
    raise errors.Unreachable(
        f"{subject}; correct --kubeconfig or the variable KUBECONFIG, which names it, or unset it"
    )


def has_default(home: Path | None = None, token: Path = _SERVICE_ACCOUNT_TOKEN) -> bool:
    """Return whether kubectl's default file exists, or the command runs in a pod of a cluster."""
    return ((home or Path.home()) / ".kube/config").exists() or token.exists()


def of_local_cluster(clusters: Clusters, note: Callable[[str], None]) -> str | None:
    """Return the kubeconfig of the cluster that runs on this machine, and say that it is used.

    Return None if no cluster runs.
    """
    try:
        kubeconfig = clusters.env()["KUBECONFIG"]
    except NotRunning:
        return None
    note(f"no kubeconfig is named: using the cluster of `kais cluster`, {kubeconfig}")
    return kubeconfig
