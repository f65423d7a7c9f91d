"""Find and remove additions by other clients to a Deployment or Service of a cell.

Only its Cell decides a workload's spec. Three kinds of fields do not count as additions: defaults
of the API server, the annotation of `kubectl rollout restart`, and what the installation allows,
for example for a mesh that injects containers. After three removals in a row, a condition reports
the conflict, and the pauses between removals grow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kais import labels
from kais.reasons import Reason
from kais_operator.planning import annotation_values, children, plan
from kais_operator.planning.children import ChildDecision, Ownership
from kais_operator.planning.plan import Body

ALLOWED_ALWAYS = ("spec.template.metadata.annotations[kubectl.kubernetes.io/restartedAt]",)
REMOVALS_BEFORE_PAUSE = 3
"""Number of consecutive removals before the first pause."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=5), timedelta(hours=1)
STREAK_EXPIRES_AFTER = timedelta(hours=2)
"""A removal this long after the last one starts a new count; longer than any pause."""
_MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "name",  # the operator names every port
}
_ANY_VALUE = object()
_DEFAULTS: Mapping[str, Any] = {
    # Deployment
    "progressDeadlineSeconds": 600,
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "serviceAccount": _ANY_VALUE,  # the older spelling of serviceAccountName, always equal to it
    "imagePullPolicy": _ANY_VALUE,  # by the image's tag
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "enableServiceLinks": True,
    "protocol": "TCP",
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "scheme": "HTTP",
    "defaultMode": 420,
    "expirationSeconds": 3600,
    "type": "ClusterIP",
    "apiVersion": "v1",  # of a fieldRef
    "divisor": "0",
    "path": "/",  # of an httpGet probe
    "volumeMode": "Filesystem",
    "pullPolicy": _ANY_VALUE,  # of an image volume
    # Service
    "clusterIP": _ANY_VALUE,
    "clusterIPs": _ANY_VALUE,
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": _ANY_VALUE,
    "ipFamilyPolicy": _ANY_VALUE,
    "sessionAffinity": "None",
}
"""Defaults of the API server by field name; `_ANY_VALUE` where the server chooses the value."""
_PRIVILEGED = re.compile(
    r"\.host(Network|PID|IPC)$|\.(initC|c)ontainers\[[^]]*\]$|\.securityContext\."
    r"|\.env\[(?!(KAIS|KNOWLEDGE|CELL)_)[^]]*\]$"
)
"""Paths that grant privileges.

Variables without a prefix of kais count too: the Cell declares them, so they are the same in every
version.
"""
_WEAKENING = "runAsNonRoot"
"""The field whose value false is not a default: in a container, it overrides true in the pod."""


@dataclass(frozen=True)
class Additions:
    """Fields of a workload that its Cell does not declare.

    Attributes:
        removed: paths to remove.
        allowed: paths that the installation allows.
        spec_patch: merge patch of the spec that removes them; None when there is nothing to remove.
    """

    removed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    spec_patch: Body | None = None


def find_additions(desired: Body, live: Body, *, allowed: Sequence[str]) -> Additions:
    """Compare a workload with the desired one; in the paths `allowed`, `*` matches any text."""
    permitted = [_pattern(path) for path in (*ALLOWED_ALWAYS, *allowed)]
    comparison = _Comparison(permitted)
    cleaned = comparison.walk(desired["spec"], live["spec"], "spec")
    patch = _merge_patch(live["spec"], cleaned)
    allowances = tuple(path for path in comparison.allowed if path not in ALLOWED_ALWAYS)
    return Additions(tuple(comparison.removed), allowances, patch if comparison.removed else None)


class _Comparison:
    """Compares two trees, and collects the paths of additions."""

    def __init__(self, permitted: Sequence[re.Pattern[str]]) -> None:
        self._permitted = permitted
        self.removed: list[str] = []
        self.allowed: list[str] = []

    def walk(self, desired: Any, live: Any, path: str) -> Any:
        """Return `live` without additions to remove, and with `desired` where it differs."""
        if desired == live:
            return live
        if isinstance(desired, Mapping) and isinstance(live, Mapping):
            return self._mapping(desired, live, path)
        key = _MERGE_KEYS.get(path.rpartition(".")[2])
        if isinstance(desired, list | tuple) and isinstance(live, list):
            has_keys = key is not None and all(key in item for item in (*desired, *live))
            if key is not None and has_keys:
                return self._keyed(desired, live, path, key)
            return self._list(desired, live, path)
        return desired if children.differs(desired, live) else live

    def _mapping(self, desired: Mapping[str, Any], live: Mapping[str, Any], path: str) -> Body:
        retained: Body = {}
        for key, value in live.items():
            if key in desired and desired[key] == value:
                retained[key] = value
                continue
            below = f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"
            if key in desired:
                retained[key] = self.walk(desired[key], value, below)
            elif _is_compared_by_part(key, value):
                remainder = self.walk([] if isinstance(value, list) else {}, value, below)
                retained |= {key: remainder} if remainder else {}
            elif _is_default(key, value) or not self._is_removed(below):
                retained[key] = value
        return retained | {
            key: value
            for key, value in desired.items()
            if key not in live and children.differs({key: value}, {})
        }

    def _list(self, desired: Sequence[Any], live: list[Any], path: str) -> list[Any]:
        if len(desired) != len(live):
            return list(desired)
        pairs = enumerate(zip(desired, live, strict=True))
        return [
            self.walk(desired_item, live_item, f"{path}[{i}]")
            for i, (desired_item, live_item) in pairs
        ]

    def _keyed(self, desired: Sequence[Any], live: list[Any], path: str, key: str) -> list[Any]:
        index = {item.get(key): item for item in desired}
        retained = []
        for item in live:
            below = f"{path}[{item.get(key)}]"
            if item.get(key) in index:
                retained.append(self.walk(index.pop(item.get(key)), item, below))
            elif not self._is_removed(below):
                retained.append(item)
        return retained + list(index.values())

    def _is_removed(self, path: str) -> bool:
        is_allowed = any(pattern.fullmatch(path) for pattern in self._permitted)
        (self.allowed if is_allowed else self.removed).append(path)
        return not is_allowed


@dataclass(frozen=True)
class RemovalStreak:
    """The number of consecutive removals, and the time of the last one."""

    count: int = 0
    last: datetime | None = None

    def contested_until(self) -> datetime | None:
        """Return the end of the pause between removals; None when there is no pause."""
        if self.last is None or self.count < REMOVALS_BEFORE_PAUSE:
            return None
        pause: timedelta = FIRST_PAUSE * 2 ** min(self.count - REMOVALS_BEFORE_PAUSE, 10)
        return self.last + min(LONGEST_PAUSE, pause)


def removal_streak(live: Body, now: datetime) -> RemovalStreak:
    """Read the consecutive removals from a workload; none if the last one is too long ago."""
    text = (live["metadata"].get("annotations") or {}).get(labels.REMOVED_ADDITIONS, "")
    number, _, at = text.partition(" ")
    try:
        count, last = annotation_values.parse_digits(number), annotation_values.time(at)
    except annotation_values.BROKEN:
        return RemovalStreak()
    if count is None or last is None or not timedelta(0) <= now - last < STREAK_EXPIRES_AFTER:
        return RemovalStreak()
    return RemovalStreak(count, last)


def next_annotation(streak: RemovalStreak, now: datetime) -> str:
    """Return the annotation with one more removal."""
    return f"{streak.count + 1} {now.strftime('%Y-%m-%dT%H:%M:%SZ')}"


def decide_removal(
    desired: Body, live: Body, *, allowed: Sequence[str], now: datetime
) -> tuple[ChildDecision, tuple[str, ...]]:
    """Choose what to do about additions to a cell's workload.

    The removal also reverts every other difference. An apply would leave fields that others own,
    and the API server refuses for example a volume with two sources.

    Returns:
        The decision, and the paths that the installation allows.
    """
    additions = find_additions(desired, live, allowed=allowed)
    if additions.spec_patch is None:
        return ChildDecision(Ownership.OWNED), additions.allowed
    ref, streak = children.ref_of(live), removal_streak(live, now)
    contested_until = streak.contested_until()
    if contested_until is not None and now < contested_until:
        message = (
            f"{ref} got {list_paths(additions.removed)} again after each of {streak.count} "
            f"removals; the next one is at {contested_until:%H:%M} UTC. Stop the client that "
            "adds it, or allow it in the chart's operator.allowedAdditions"
        )
        contested = ChildDecision(
            Ownership.OWNED,
            reason=Reason.DRIFT_CONTESTED,
            message=message,
            requeue_after=contested_until - now,
        )
        return contested, additions.allowed
    patch = plan.PatchSpec(
        ref,
        live["metadata"]["resourceVersion"],
        spec=additions.spec_patch,
        annotations={labels.REMOVED_ADDITIONS: next_annotation(streak, now)},
    )
    message = f"{ref} had {list_paths(additions.removed)}, which the Cell does not declare; removed"
    event = plan.EmitEvent("Warning", "AdditionRemoved", message)
    return ChildDecision(Ownership.OWNED, (patch, event)), additions.allowed


def _is_compared_by_part(key: str, value: Any) -> bool:
    """Whether each part of an added value is compared under a separate path."""
    if isinstance(value, list):
        return bool(value) and key in _MERGE_KEYS
    return bool(value) and key in ("annotations", "labels")


def is_tampered(desired: Body, live: Body, *, allowed: Sequence[str]) -> bool:
    """Whether a pod template has more privileges than any version of kais grants.

    It is for a template that an older version rendered, whose variables and mounts may rightly
    differ.
    """
    removed = find_additions(desired, live, allowed=allowed).removed
    volumes = live["spec"]["template"]["spec"].get("volumes") or ()
    of_host = tuple(
        f"spec.template.spec.volumes[{volume.get('name')}]"
        for volume in volumes
        if "hostPath" in volume
    )
    return any(_PRIVILEGED.search(path) or path.startswith(of_host) for path in removed)


def _is_default(key: str, value: Any) -> bool:
    if value is None or value is False or value in ("", [], {}):
        return key != _WEAKENING or value is None
    default = _DEFAULTS.get(key)
    return default is _ANY_VALUE or (default is not None and value == default)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in path.split("*")))


def _merge_patch(live: Any, retained: Any) -> Body:
    """Return the JSON merge patch (RFC 7386) that turns `live` into `retained`."""
    patch: Body = {}
    for key, value in live.items():
        if key not in retained:
            patch[key] = None
        elif value != retained[key]:
            is_mapping = isinstance(value, Mapping)
            patch[key] = _merge_patch(value, retained[key]) if is_mapping else retained[key]
    return patch


def list_paths(paths: Sequence[str]) -> str:
    """List paths for a message; of many only the first five."""
    paths_shown = ", ".join(paths[:_MAX_PATHS_SHOWN])
    return (
        paths_shown
        if len(paths) <= _MAX_PATHS_SHOWN
        else f"{paths_shown} and {len(paths) - _MAX_PATHS_SHOWN} more"
    )


_MAX_PATHS_SHOWN = 5
