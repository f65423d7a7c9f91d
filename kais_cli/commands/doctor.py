"""`kais doctor`: is everything there, does it fit together, and may you use it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer

from kais_cli import errors
from kais_cli.cluster import install_defaults
from kais_cli.commands.options import Output
from kais_cli.doctor import (
    findings,
    installation,
    knowledge,
    permissions,
    refused_requests,
    stuck_objects,
)
from kais_cli.doctor.findings import Finding, Level
from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session, command, group
from kais_cli.views import output
from kais_cli.views.output import Format

app = group("doctor", "")
_DEEP_ADVICE = 'look for "nests deeper" in the log of the operator: it names the object'


@command(app, "doctor")
def doctor(
    session: Session,
    *,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Check the objects of all namespaces.")
    ] = False,
    output_: Output = Format.TABLE,
) -> ExitStatus:
    """Check the cluster, kinds, operator, knowledge service and your permissions."""
    results = findings.merge_refused(_run_checks(session, all_namespaces=all_namespaces))
    if output_ in (Format.TABLE, Format.NAME):
        session.write(findings.format_findings(results))
    else:
        session.write(output.dump([finding.to_dict() for finding in results], output_))
    is_bad = any(finding.level is Level.FAILED for finding in results)
    return ExitStatus.FAILED if is_bad else ExitStatus.SUCCEEDED


def _run_checks(session: Session, *, all_namespaces: bool) -> Iterator[Finding]:
    """Run the checks from the ground up; a check that fails reports that, and the next one runs.

    Raises:
        Unreachable: The API server does not answer the first one.
    """
    from importlib import metadata  # noqa: PLC0415 (only here)

    cluster, now = session.cluster, session.environment.now()
    objects_in = None if all_namespaces else session.namespace
    version, release = (
        metadata.version("kais"),
        install_defaults.release(session.environment.settings),
    )
    yield findings.ok("cluster", f"answers, Kubernetes {cluster.version()}")
    yield from _with_errors_as_findings("kinds", lambda: installation.crds(cluster))
    yield from _with_errors_as_findings(
        "operator", lambda: installation.operator(cluster, release, version=version, now=now)
    )
    yield from _with_errors_as_findings(
        "service", lambda: installation.service(cluster, release, version=version)
    )
    yield from _with_errors_as_findings(
        "service", lambda: installation.lookalikes(cluster, release)
    )
    yield from _with_errors_as_findings(
        "outbox", lambda: [installation.outbox(cluster, release.namespace)]
    )
    yield from _with_errors_as_findings("store", lambda: [knowledge.check(session)])
    yield from _with_errors_as_findings(
        "objects", lambda: stuck_objects.check(cluster, objects_in, now=now)
    )
    yield from _with_errors_as_findings(
        "operator", lambda: refused_requests.check(cluster, objects_in)
    )
    yield from _with_errors_as_findings(
        "rights", lambda: permissions.check(cluster, session.namespace, release)
    )


def _with_errors_as_findings(
    subject: str, check: Callable[[], Iterable[Finding]]
) -> Iterator[Finding]:
    try:
        yield from check()
    except errors.UnknownKind as exc:
        yield findings.warning(subject, f"not checked: {exc}", installation.UPGRADE_KINDS)
    except errors.TooDeep as exc:
        yield findings.warning(subject, f"not checked: {exc}", _DEEP_ADVICE)
    except errors.Refused as exc:
        yield findings.refused(subject, str(exc))
    except errors.Unreachable as exc:
        yield findings.unanswered(subject, str(exc))
