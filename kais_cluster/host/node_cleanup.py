"""Remove the containers, processes, mounts and files of a cluster, found by its state directory.

`down` calls it, even if the cluster died long ago: some processes may be killed, containers may
have no shim, and records of processes may be missing. Other clusters on the machine stay.
"""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from kais_cluster import errors, settings, subprocesses
from kais_cluster.host import processes

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_SHIM_SOCKET = re.compile(r"/run/containerd/s/[0-9a-f]+")


def stop_containers(host: settings.HostSettings) -> None:
    """Kill all containers of this cluster's containerd, then their shims."""
    tasks_directory = host.directory / "run/io.containerd.runtime.v2.task/k8s.io"
    task_by_container = (
        {task.name: task for task in tasks_directory.iterdir()} if tasks_directory.is_dir() else {}
    )
    for container_id, task in task_by_container.items():
        for result in Path("/var/lib/cni/results").glob(f"*-{container_id}-*"):
            result.unlink(missing_ok=True)
        for socket in _shim_sockets(task):
            socket.unlink(missing_ok=True)
    for cgroup in _find_cgroups(set(task_by_container)):
        for pid in _pids_in(cgroup):
            _kill(pid)
    for pid, command in _command_lines("containerd-shim-runc-v2"):
        if f"-address {host.directory}/containerd.sock" in command:
            _kill(pid)


def stop_orphans(host: settings.HostSettings) -> list[str]:
    """Kill the remaining processes of this cluster's binaries; return their names."""
    names = []
    for pid, command in _command_lines():
        executable = _executable(pid)
        if executable.parent == host.binaries and f"{host.directory}/" in command:
            _kill(pid)
            names.append(executable.name)
            while processes.start_time(pid):
                time.sleep(0.02)
    return names


def unmount_below(directory: Path) -> None:
    """Unmount everything below a directory, deepest first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted(
        (mount_point for mount_point in mounts if mount_point.startswith(f"{directory}/")),
        reverse=True,
    ):
        try:
            subprocesses.run(["umount", mount])
        except errors.CommandFailed:
            with contextlib.suppress(errors.CommandFailed):  # already unmounted with its parent
                subprocesses.run(["umount", "-l", mount])


def remove_node_files(host: settings.HostSettings) -> None:
    """Remove the kubelet's cgroups and the files that it keeps outside the state directory."""
    pod_cgroups = [path for path in _find_cgroups(None) if "kubepods" in str(path)]
    for cgroup in sorted(pod_cgroups, key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):  # not empty: it belongs to another cluster
            cgroup.rmdir()
    if (host.directory / "made-var-lib-kubelet").exists():
        remove_tree(Path("/var/lib/kubelet"))
    log_links = Path("/var/log/containers")
    for link in log_links.iterdir() if log_links.is_dir() else ():
        if link.is_symlink() and str(link.readlink()).startswith(f"{host.directory}/"):
            link.unlink()


def remove_tree(directory: Path) -> None:
    """Delete a directory without descending into mounts."""
    if directory.exists():
        subprocesses.run(["rm", "-rf", "--one-file-system", directory])


def _shim_sockets(task: Path) -> Iterator[Path]:
    for name in ("address", "bootstrap.json"):
        with contextlib.suppress(OSError):
            yield from map(Path, _SHIM_SOCKET.findall((task / name).read_text()))


def _find_cgroups(names: set[str] | None) -> list[Path]:
    """Return the cgroups with one of the names; all cgroups for None."""
    if names is not None and not names:
        return []
    walk = os.walk(_CGROUP_ROOT)
    return [Path(root) for root, _, _ in walk if names is None or Path(root).name in names]


def _pids_in(cgroup: Path) -> list[int]:
    try:
        return [int(line) for line in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _command_lines(program: str = "") -> Iterator[tuple[int, str]]:
    """Yield the pid and command line of all processes, or of those that run one program."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or (program and _executable(int(entry.name)).name != program):
            continue
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            yield int(entry.name), arguments.decode(errors="replace")


def _executable(pid: int) -> Path:
    try:
        return Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return Path()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
