"""A server in a process of its own, and the load sent to it from another one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kais_cluster.host import ports

_TICKS = os.sysconf("SC_CLK_TCK")


def _resident_kib(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def _unique_kib(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _processor_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Served:
    """The service over one file, or the bare routes; counts its own processor time."""

    def __init__(self, db: Path | None, *arguments: str) -> None:
        (self.port,) = ports.free_ports(1)
        if db is None:
            command = [sys.executable, "-m", "bench.bare", str(self.port)]
        else:
            command = [str(Path(sys.executable).with_name("kais-knowledge")), "serve"]
            command += ["--db", str(db), "--port", str(self.port), "--auth", "none"]
            command += arguments
        start = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()
        self.ready_s = time.perf_counter() - start

    def _wait(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise SystemExit(f"the service ended with {self._process.returncode}")
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                time.sleep(0.01)
            else:
                return
        raise SystemExit("the service did not listen within 120 s")

    def resident_mib(self) -> float:
        """Return what the process holds in memory, together with those that it has started."""
        return (
            sum(_resident_kib(process_id) for process_id in (self._process.pid, *self._children()))
            / 1024
        )

    def unique_mib(self) -> float:
        """Return the memory that is freed when the process and those that it started end.

        Pages that it shares with other processes, such as code of libraries, do not count.
        """
        return (
            sum(_unique_kib(process_id) for process_id in (self._process.pid, *self._children()))
            / 1024
        )

    def _children(self) -> list[int]:
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return [
            int(process_id)
            for task in tasks
            for process_id in (task / "children").read_text().split()
        ]

    def processor_s(self) -> float:
        """Return the processor time that the server and the processes that it started have used."""
        return sum(
            _processor_s(process_id) for process_id in (self._process.pid, *self._children())
        )

    def send(self, *concurrent_jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """Have the load client do jobs at the same time."""
        jobs = [[{"port": self.port, **job} for job in concurrent_jobs]]
        completed = subprocess.run(
            [sys.executable, "-m", "bench.load"], input=json.dumps(jobs), text=True,
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        (answers,) = json.loads(completed.stdout)
        for job, answer in zip(concurrent_jobs, answers, strict=True):
            if answer.get("refusals") or answer.get("missing"):
                raise SystemExit(f"{job['kind']} failed: {answer['refused'] or 'not visible'}")
        results: list[dict[str, Any]] = answers
        return results

    def stop(self) -> None:
        """End the server gracefully."""
        self._process.terminate()
        self._process.wait()
