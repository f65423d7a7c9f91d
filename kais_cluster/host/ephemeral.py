"""Control planes for one test run each, in separate short folders; any number may run at a time.

If a run is killed, its control plane keeps running. The next run finds it through the recorded
owner process, stops it, and reports that.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kais_cluster import settings, subprocesses
from kais_cluster.host import cluster, node_cleanup, processes

_PREFIX = "kais-cp-"
_OWNER = "keeper"  # pid and start time of the process that will stop the control plane


@contextlib.contextmanager
def control_plane(
    *, report: subprocesses.Reporter = subprocesses.print_line, parent: Path | None = None
) -> Iterator[cluster.HostCluster]:
    """Run a control plane without a node during the block.

    Raises:
        StartFailed: It did not start.
    """
    folder = parent or Path(tempfile.gettempdir())
    stop_orphans(folder, report=report)
    root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    (root / _OWNER).write_text(f"{os.getpid()} {processes.start_time(os.getpid())}\n")
    host = settings.HostSettings(root / "c", settings.binaries_dir())
    started = cluster.HostCluster(host, report)
    try:
        started.up(no_node=True)
        yield started
    finally:
        started.down()
        node_cleanup.remove_tree(root)


def stop_orphans(folder: Path, *, report: subprocesses.Reporter = subprocesses.print_line) -> None:
    """Stop the control planes in a folder whose owner process has ended."""
    for owner in folder.glob(f"{_PREFIX}*/{_OWNER}"):
        try:
            pid, started = owner.read_text().split()
        except (OSError, ValueError):  # its run just ended, or it belongs to another user
            continue
        if processes.start_time(int(pid)) == started or owner.stat().st_uid != os.getuid():
            continue
        report(f"stopping the control plane that an earlier run left behind in {owner.parent}")
        host = settings.HostSettings(owner.parent / "c", settings.binaries_dir())
        cluster.HostCluster(host, report).down()
        node_cleanup.remove_tree(owner.parent)
