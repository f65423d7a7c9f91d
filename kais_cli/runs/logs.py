"""Write the logs of pods, by attempt of a mission or by cell.

The containers of a pod appear in the order in which they run: the work, then each check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kais import labels, names
from kais_cli import errors
from kais_cli.cluster import container_start
from kais_cli.ports import Waiting
from kais_cli.runs import followed_logs, service_cell
from kais_cli.runs.followed_logs import Log

if TYPE_CHECKING:
    from kais_cli.ports import Body, LogOptions
    from kais_cli.session import Session

_JOB_NAME = "batch.kubernetes.io/job-name"
_MAX_ATTEMPTS = 100  # the maximum in the CRD of missions


def write(
    session: Session,
    mission: str,
    *,
    attempt: int | None,
    container: str | None,
    options: LogOptions,
) -> None:
    """Write the logs of the containers of an attempt's pods; of one if `container` names it.

    Raises:
        Refused: The attempt has no pods: its cell keeps running, it has not started, or they were
            deleted.
        UsageError: None of them has a container of this name.
    """
    pods = _pods_of_attempt(session, mission, attempt)
    if not pods:
        raise _no_pods(session, mission, attempt)
    _write_pods(session, pods, container, options)


def _no_pods(session: Session, mission: str, attempt: int | None) -> errors.Refused:
    """Return the error for an attempt without pods, with where else to look."""
    subject = f"Mission/{session.namespace}/{mission}"
    cell = service_cell.find_by_name(session, mission)
    if cell is not None:
        command = service_cell.logs_command(cell, session.namespace)
        return errors.Refused(
            f"{subject} has no pods of its own: it runs in those of"
            f" Cell/{session.namespace}/{cell}, which keeps running; see `{command}`"
        )
    attempt_label = f"attempt {attempt}" if attempt else "any attempt"
    return errors.Refused(
        f"{subject} has no pod of {attempt_label}: it has not started, or its pods were deleted;"
        f" its result is in `kais mission show {mission}`"
    )


def write_cell(session: Session, cell: str, *, container: str | None, options: LogOptions) -> None:
    """Write the logs of the containers of a cell's pods, the oldest pod first.

    Raises:
        Refused: The cell has no pods: it has not started, or they were deleted.
        UsageError: None of them has a container of this name.
    """
    selector = f"{labels.CELL}={names.label_value(cell)}"
    pods = session.cluster.list("Pod", session.namespace, labels=selector)
    if not pods:
        raise errors.Refused(
            f"Cell/{session.namespace}/{cell} has no pod: it has not started, or its pods were"
            f" deleted; see `kais cell show {cell} -n {session.namespace}`"
        )
    _write_pods(session, pods, container, options)


def _pods_of_attempt(session: Session, mission: str, attempt: int | None) -> list[Body]:
    """Return the pods of an attempt; None means the latest one that has pods."""
    pods = session.cluster.list(
        "Pod", session.namespace, labels=f"{labels.MISSION}={names.label_value(mission)}"
    )
    attempt_by_job = {
        names.job_name(mission, number): number for number in range(1, _MAX_ATTEMPTS + 1)
    }
    by_attempt: dict[int, list[Body]] = {}
    for pod in pods:
        job = pod["metadata"].get("labels", {}).get(_JOB_NAME, "")
        by_attempt.setdefault(attempt_by_job.get(job, 0), []).append(pod)
    return by_attempt.get(attempt or max(by_attempt, default=0), [])


def _write_pods(
    session: Session, pods: Sequence[Body], container: str | None, options: LogOptions
) -> None:
    """Write the logs of pods, or a note if they are empty.

    Logs that are followed and do not end before one another are written at the same time.

    Raises:
        UsageError: None of them has a container of this name.
        Refused: There are too many logs to follow at the same time.
        NoPreviousLog: The options ask for previous logs, and no container has one.
        NotStarted: The logs are followed, and no container starts.
    """
    oldest_first = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
    all_logs = [(pod, name) for pod in oldest_first for name in _containers(pod)]
    all_containers = list(dict.fromkeys(name for _, name in all_logs))
    if container is not None and container not in all_containers:
        raise errors.UsageError(
            f"-c {container}: no such container; the pods have {', '.join(all_containers)}"
        )
    pod_names = ", ".join(pod["metadata"]["name"] for pod in oldest_first)
    sequences = [each for pod in oldest_first for each in _sequences(pod, container)]
    selected = [(pod, name) for pod, name in all_logs if container in (None, name)]
    if options.follow and len(sequences) > 1:
        _check_count(session, sequences)
        has_output = followed_logs.write(session, sequences, options)
    else:
        has_output = _write_one_by_one(session, selected, options)
    if not has_output:
        raise _no_log(session, pod_names, options)
    if not any(has_output):
        # The end of a followed log is that of a container that has started since the pod was read.
        unread = [] if options.follow else selected
        session.note(_why_empty(session, unread) or f"the log of {pod_names} is empty")


def _write_one_by_one(
    session: Session, selected: Sequence[tuple[Body, str]], options: LogOptions
) -> list[bool]:
    """Write logs one after another; return whether there was anything in each that exists."""
    has_output = []
    for pod, name in selected:
        if len(selected) > 1:
            session.note(f"== {pod['metadata']['name']}, {name}")
        try:
            has_output.append(_write_container(session, pod, name, options))
        except (errors.NoPreviousLog, errors.NotStarted) as exc:
            session.note(str(exc))
    return has_output


def _check_count(session: Session, sequences: Sequence[Sequence[Log]]) -> None:
    if len(sequences) <= followed_logs.MAX_STREAMS:
        return
    pod = sequences[0][0].pod
    raise errors.Refused(
        f"{len(sequences)} logs are too many to follow at the same time, at most"
        f" {followed_logs.MAX_STREAMS}; choose a container with -c, leave out --follow, or follow"
        f" one pod with `kubectl logs -f {pod} -n {session.namespace}`"
    )


def _why_empty(session: Session, selected: Sequence[tuple[Body, str]]) -> str:
    """Return a line for each reason why containers have not started; empty without one."""
    by_reason: dict[str, str] = {}
    for pod, name in selected:
        reason = container_start.why_not_started(pod, name)
        if reason is not None:
            subject = f"{name} in Pod/{session.namespace}/{pod['metadata']['name']}"
            by_reason.setdefault(reason, f"{subject} has no log, it has not started: {reason}")
    return "\n".join(by_reason.values())


def _no_log(session: Session, pod_names: str, options: LogOptions) -> errors.Refused:
    """Return the error for pods of which no container has the log that the options ask for."""
    if options.previous:
        return errors.NoPreviousLog(
            f"no container of {pod_names} has run before; leave out --previous"
        )
    return errors.NotStarted(
        f"no container of {pod_names} has started; see"
        f" `kubectl describe pods -n {session.namespace}`"
    )


def _write_container(session: Session, pod: Body, container: str, options: LogOptions) -> bool:
    """Write the log of a container; return whether there was anything in it.

    Raises:
        NoPreviousLog: The options ask for the previous log, and there is none.
        NotStarted: The log is followed, and the container does not start.
    """
    has_output = False
    name = pod["metadata"]["name"]
    last_piece = "\n"
    for piece in session.cluster.logs(
        session.namespace, name, container=container, options=options
    ):
        if isinstance(piece, Waiting):
            session.note(piece.message)
            continue
        session.write(piece)
        if options.follow:
            session.environment.write()
        has_output = has_output or bool(piece)
        last_piece = piece or last_piece
    if not last_piece.endswith("\n"):
        session.write("\n")
    return has_output


def _containers(pod: Body) -> Iterator[str]:
    """Yield the names of containers in the order in which they run; checks run after the work."""
    spec = pod.get("spec", {})
    for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
        yield container["name"]


def _sequences(pod: Body, container: str | None) -> Iterator[list[Log]]:
    """Yield the logs of a pod of which each ends before the next one has to be followed.

    A sidecar, and a container of a pod that keeps running, are sequences of their own: they do not
    end. The checks of an attempt end.
    """
    spec: Body = pod.get("spec", {})
    ending: list[Body] = []
    lasting: list[Body] = []
    for each in spec.get("initContainers", []):
        (lasting if each.get("restartPolicy") == "Always" else ending).append(each)
    if spec.get("restartPolicy") == "Always":
        first, *others = spec.get("containers", [])
        ending, lasting = [*ending, first], [*lasting, *others]
    else:
        ending += spec.get("containers", [])
    for sequence in (ending, *([each] for each in lasting)):
        logs = [Log(pod["metadata"]["name"], each["name"]) for each in sequence]
        selected = [log for log in logs if container in (None, log.container)]
        if selected:
            yield selected
