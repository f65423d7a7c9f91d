"""`kais uninstall`: the steps of the chart's pre-delete hook, for installations without hooks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from kais import labels, uninstall_steps
from kais.resources import kinds
from kais_cli import errors
from kais_cli.cluster import install_defaults
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group

if TYPE_CHECKING:
    from kais_cli.cluster.install_defaults import Release
    from kais_cli.ports import Body

app = group("uninstall", "")

_LIMIT = timedelta(seconds=60)
_MAX_ATTEMPTS = 5  # of a write that conflicts with another one
_CRDS_HELP = "Also delete the CustomResourceDefinitions, and with them every object of kais."


@command(app, "uninstall")
def uninstall(
    session: Session, crds: Annotated[bool, typer.Option("--crds", help=_CRDS_HELP)] = False
) -> ExitStatus:
    """Abort all runs, stop the operator and remove its finalizers; keeps your objects."""
    release = install_defaults.release(session.environment.settings)
    if uninstall_steps.is_led(_lease(session, release), session.environment.now()):
        _abort(session)
        _wait(session, lambda: _runs(session), "runs to end and to be recorded")
    _stop(session, release)
    _wait_until_not_led(session, release)
    _delete_jobs(session)
    for kind in uninstall_steps.FINALIZED_KINDS:
        _release(session, kind)
    if crds:
        _delete_crds(session)
    session.note(f"now run: helm uninstall {release.name} -n {release.namespace}")
    return ExitStatus.SUCCEEDED


def _lease(session: Session, release: Release) -> Body | None:
    return session.cluster.get("Lease", release.namespace, labels.LEASE)


def _wait_until_not_led(session: Session, release: Release) -> None:
    """Wait until the Lease is released or has expired, which takes 30 s after a crash.

    Raises:
        Refused: an operator that runs elsewhere renews it.
    """
    first = _lease(session, release)
    if first is None or not uninstall_steps.is_held(first):
        return
    session.note(uninstall_steps.waiting_message(first))
    expires_at = session.environment.monotonic_s() + uninstall_steps.EXPIRY_S
    for _ in session.cluster.watch([]):
        lease = _lease(session, release)
        if lease is not None:  # to delete the Lease stops no operator
            if not uninstall_steps.is_held(lease):
                return
            if uninstall_steps.is_renewed(lease, first):
                raise errors.Refused(uninstall_steps.running_message(lease))
        if session.environment.monotonic_s() >= expires_at:
            return


def _abort(session: Session) -> None:
    for mission in session.cluster.list("Mission"):
        patch = uninstall_steps.abort_patch(mission)
        if patch is not None and _patch(session, "Mission", mission, patch):
            session.write(f"{_name('Mission', mission)}: its run is aborted\n")


def _runs(session: Session) -> int:
    return sum(map(uninstall_steps.is_unsettled, session.cluster.list("Mission")))


def _stop(session: Session, release: Release) -> None:
    """Delete the operator's Deployment: scaling it would leave a field that Helm rejects.

    A crashing operator does not lead, and restores its finalizers when it leads again.
    """
    name = release.operator
    if session.cluster.get("Deployment", release.namespace, name) is None:
        return  # it runs outside the cluster, for example on a laptop
    session.cluster.delete("Deployment", release.namespace, name)
    session.write(f"Deployment/{release.namespace}/{name}: deleted\n")
    selector = f"{install_defaults.OPERATOR},{install_defaults.INSTANCE}={release.name}"
    _wait(
        session,
        lambda: len(session.cluster.list("Pod", release.namespace, labels=selector)),
        "the operator's pods to go",
    )


def _delete_jobs(session: Session) -> None:
    for job in session.cluster.list("Job"):
        if uninstall_steps.is_orphaned(job):
            metadata = job["metadata"]
            session.cluster.delete("Job", metadata["namespace"], metadata["name"])
            session.write(f"{_name('Job', job)}: deleted; its run did not end\n")


def _release(session: Session, kind: str) -> None:
    for _ in range(_MAX_ATTEMPTS):
        finalized = [
            body
            for body in session.cluster.list(kind)
            if uninstall_steps.remove_finalizer_patch(body)
        ]
        if not finalized:
            return
        for body in finalized:
            if _patch(session, kind, body, uninstall_steps.remove_finalizer_patch(body) or {}):
                session.write(f"{_name(kind, body)}: finalizer removed\n")
    raise errors.Refused(
        f"another client keeps writing the finalizers of {kind} objects; make sure that no"
        " operator runs, then try again"
    )


def _delete_crds(session: Session) -> None:
    for model in kinds.BY_NAME.values():
        name = f"{model.PLURAL}.kais.io"
        session.cluster.delete("CustomResourceDefinition", None, name)
        session.write(f"CustomResourceDefinition/{name}: deleted\n")


def _patch(session: Session, kind: str, body: Body, patch: Body) -> bool:
    """Apply a patch; return False if the object was deleted or changed meanwhile."""
    metadata = body["metadata"]
    try:
        session.cluster.patch(kind, metadata["namespace"], metadata["name"], patch)
    except errors.Refused:
        current = session.cluster.get(kind, metadata["namespace"], metadata["name"])
        version = (current or {"metadata": {}})["metadata"].get("resourceVersion")
        if version == metadata.get("resourceVersion"):
            raise  # not a conflict: this user may not write, or the patch is invalid
        return False
    return True


def _wait(session: Session, count: Callable[[], int], description: str) -> None:
    """Poll immediately and then each second until nothing is left, for up to a minute."""
    if not count():
        return
    started_at = session.environment.now()
    for _ in session.cluster.watch([]):
        remaining = count()
        if not remaining:
            return
        if session.environment.now() - started_at > _LIMIT:
            session.note(f"waited {_LIMIT.seconds} s for {description}: {remaining} are left")
            return


def _name(kind: str, body: Body) -> str:
    return f"{kind}/{body['metadata']['namespace']}/{body['metadata']['name']}"
