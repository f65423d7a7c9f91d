"""The status of a cluster at one moment."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessStatus:
    """One process of a host cluster; `pid` is None when it has ended."""

    name: str
    pid: int | None


@dataclass(frozen=True)
class Status:
    """The observed state of a cluster."""

    provider: str
    """`host`, `kind`, or `kubeconfig` for a cluster named on purpose."""
    mode: str
    """`node`, `no-node`, `named`, or `down`."""
    answers: bool
    """Whether the API server says it is ready."""
    directory: Path | None = None
    kubeconfig: Path | None = None
    processes: tuple[ProcessStatus, ...] = ()
    nodes: str = ""
    """The nodes as kubectl prints them; empty if there are none."""

    @property
    def is_up(self) -> bool:
        """Return whether the cluster answers and none of its processes has ended."""
        return self.answers and all(process.pid for process in self.processes)

    def lines(self) -> list[str]:
        """Format the status for people."""
        if self.mode == "down":
            return [f"down ({self.directory})"]
        location = f", state: {self.directory}" if self.directory else ""
        lines = [f"{self.provider} cluster, mode: {self.mode}{location}"]
        for process in self.processes:
            running = f"running, pid {process.pid}" if process.pid else "STOPPED"
            lines.append(f"{process.name:<26} {running}")
        if not self.answers:
            lines.append("the API server does not answer")
        return [*lines, *self.nodes.splitlines()]
