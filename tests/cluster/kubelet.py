"""Plays the kubelet for task pods on a control plane without a node: a test says how each ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from kais_cluster import errors
from tests.cluster.processes import Cluster

Ending = tuple[int, str]
"""Exit code and termination message."""


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """Give the environment of a pod's first container, with values from annotations."""
    listed = pod["spec"]["containers"][0].get("env") or []
    annotations = pod["metadata"].get("annotations") or {}
    fields = {f"metadata.annotations['{name}']": value for name, value in annotations.items()}
    return {entry["name"]: _value(entry, fields) for entry in listed}


def _value(entry: dict[str, Any], fields: Mapping[str, str]) -> str:
    path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return str(fields[path]) if path in fields else str(entry.get("value", ""))


class Kubelet:
    """Ends every pending pod of a namespace, one after another, as `end` says."""

    def __init__(self, cluster: Cluster, end: Callable[[dict[str, Any]], Ending]) -> None:
        self._cluster = cluster
        self._end = end
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._done: set[str] = set()
        self.problem: Exception | None = None

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            try:
                for pod in self._cluster.items("pods"):
                    self._look(pod)
            except errors.CommandFailed:
                continue  # gone meanwhile, or refused once: the next look is half a second away
            except Exception as exc:  # noqa: BLE001 - told to the test, which runs elsewhere
                self.problem = exc
                return

    def _look(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        if pod["status"].get("phase") != "Pending" or metadata["uid"] in self._done:
            return
        if pod["spec"].get("schedulingGates"):
            return  # nothing schedules it yet
        if metadata.get("deletionTimestamp"):
            self._done.add(metadata["uid"])
            name = metadata["name"]
            self._cluster.kubectl("delete", "pod", name, "--force", "--grace-period=0")
            return
        code, message = self._end(pod)
        self._cluster.finish_pod(pod, exit_code=code, message=message)
        self._done.add(metadata["uid"])
