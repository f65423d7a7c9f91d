"""Why a container fails although its image is present: memory, crash, probe, creation. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from namespace_doctor import pods
from namespace_doctor.diagnoses import Cause, Diagnosis
from namespace_doctor.pods import Body, Container

_NOT_CREATED = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun"})
_NO_SANDBOX = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
_PROBE = re.compile(
    r"^(Readiness|Liveness|Startup) probe (?:failed|errored)[^:]*: ?(.*)$", re.DOTALL
)
_LOGS = "read its last words with kubectl logs --previous and mend the program or its arguments"
_ADVICE_BY_CODE = {
    0: "the program ends by itself: run it as a Job, or make it stay",
    126: "make the command in the image executable",
    127: "correct the command: the image does not have it",
    134: "the program aborted itself; read its last words with kubectl logs --previous",
    139: "the program crashed on invalid memory; look for a wrong architecture or library",
}


def out_of_memory(pod: Body, container: Container, events: Sequence[Body]) -> Diagnosis | None:
    """Recognise a container that the kernel kills for passing its memory limit."""
    if container.is_healthy or container.ended.get("reason") != "OOMKilled":
        return None
    limit = container.memory_limit or "the node's memory"
    return Diagnosis(
        pod=pods.name(pod),
        cause=Cause.MEMORY,
        subject=_subject(pod, container),
        signature=f"OOMKilled {_container_path(pod, container)} limit {limit}",
        explanation=f"is killed out of memory: it needs more than its limit of {limit}",
        advice="raise the memory limit or make it need less",
    )


def not_created(pod: Body, container: Container, events: Sequence[Body]) -> Diagnosis | None:
    """Recognise a container that the kubelet cannot make: a missing reference, a volume."""
    reason = str(container.waiting.get("reason", ""))
    message = str(container.waiting.get("message", ""))
    if reason == "ContainerCreating":
        stuck = [e for e in events if e.get("reason") in _NO_SANDBOX]
        if not stuck:
            return None
        reason, message = str(stuck[-1]["reason"]), str(stuck[-1].get("message", ""))
    elif reason not in _NOT_CREATED:
        return None
    return Diagnosis(
        pod=pods.name(pod),
        cause=Cause.NOT_CREATED,
        subject=_subject(pod, container),
        signature=f"{reason} {_container_path(pod, container)}",
        explanation=f"cannot be created: {pods.plain(message, pod) or reason}",
        advice="create what the message names or correct the reference to it",
    )


def failing_probe(pod: Body, container: Container, events: Sequence[Body]) -> Diagnosis | None:
    """Recognise a probe that fails: the container runs unready, or is restarted by the kubelet."""
    if container.is_healthy:
        return None
    probe_failure = _last_probe(container, events)
    if probe_failure is None:
        return None
    kind, detail = probe_failure
    is_end_the_cause = container.waiting or container.terminated or container.is_ready
    if kind == "Readiness" and is_end_the_cause:
        return None
    return Diagnosis(
        pod=pods.name(pod),
        cause=Cause.PROBE,
        subject=f"{kind.lower()} probe of {_container_path(pod, container)}",
        signature=f"Unhealthy {kind.lower()} {_container_path(pod, container)}",
        explanation=f"fails: {pods.plain(detail, pod) or 'it gives no output'}",
        advice="make the container answer the probe, or correct what the probe asks",
    )


def crash_loop(pod: Body, container: Container, events: Sequence[Body]) -> Diagnosis | None:
    """Recognise a container that exits with an error, once or repeatedly."""
    ended = container.ended
    code = int(ended.get("exitCode", 0))
    is_backing_off = container.waiting.get("reason") == "CrashLoopBackOff"
    if container.is_healthy or not (is_backing_off or code):
        return None
    termination_text = pods.plain(str(ended.get("message", "")), pod)
    if ended.get("reason") in _NOT_STARTED:
        explanation, advice = "cannot be started", "correct the command in the pod or the image"
    elif is_backing_off or container.restarts:
        explanation = f"exits with code {code} and is restarted again and again"
        advice = _ADVICE_BY_CODE.get(code, _LOGS)
    else:
        explanation = f"exited with code {code}"
        advice = _ADVICE_BY_CODE.get(code, _LOGS.replace(" --previous", ""))
    return Diagnosis(
        pod=pods.name(pod),
        cause=Cause.CRASH,
        subject=_subject(pod, container),
        signature=f"CrashLoopBackOff {_container_path(pod, container)} exit {code}",
        explanation=f"{explanation}: {termination_text}" if termination_text else explanation,
        advice=advice,
    )


def _last_probe(container: Container, events: Sequence[Body]) -> tuple[str, str] | None:
    for event in reversed(events):
        if event.get("reason") != "Unhealthy":
            continue
        path = str(event.get("involvedObject", {}).get("fieldPath", ""))
        if path and f"{{{container.name}}}" not in path:
            continue
        if match := _PROBE.match(str(event.get("message", ""))):
            return match[1], match[2]
    return None


def _container_path(pod: Body, container: Container) -> str:
    return f"{pods.workload(pod)}/{container.name}"


def _subject(pod: Body, container: Container) -> str:
    return f"container {_container_path(pod, container)}"
