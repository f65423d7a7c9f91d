"""Control planes for one test run, each in a short folder of its own, any number side by side.

A run that was killed leaves its control plane running; the next run finds it by the record of its
keeper, stops it, and says so.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kais_cluster import settings, tools
from kais_cluster.host import cluster, leftovers, processes

_PREFIX = "kais-cp-"
_KEEPER = "keeper"  # pid and start time of the process that will take the control plane down


@contextlib.contextmanager
def control_plane(
    *, say: tools.Say = tools.say, parent: Path | None = None
) -> Iterator[cluster.HostCluster]:
    """Run a control plane without a node for the time of the block.

    Raises:
        StartFailed: it did not come up.
    """
    folder = parent or Path(tempfile.gettempdir())
    sweep(folder, say=say)
    root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    (root / _KEEPER).write_text(f"{os.getpid()} {processes.start_time(os.getpid())}\n")
    host = settings.HostSettings(root / "c", settings.binaries_dir())
    started = cluster.HostCluster(host, say)
    try:
        started.up(no_node=True)
        yield started
    finally:
        started.down()
        leftovers.remove_tree(root)


def sweep(folder: Path, *, say: tools.Say = tools.say) -> None:
    """Stop the control planes in a folder whose keeper has ended."""
    for keeper in folder.glob(f"{_PREFIX}*/{_KEEPER}"):
        try:
            pid, started = keeper.read_text().split()
        except (OSError, ValueError):  # it ends at this moment, or another user's
            continue
        if processes.start_time(int(pid)) == started or keeper.stat().st_uid != os.getuid():
            continue
        say(f"stopping the control plane that an earlier run left behind in {keeper.parent}")
        host = settings.HostSettings(keeper.parent / "c", settings.binaries_dir())
        cluster.HostCluster(host, say).down()
        leftovers.remove_tree(keeper.parent)
