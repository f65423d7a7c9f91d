"""Verbs of people that are annotations: write them, and print what was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kais_cli.exit_status import ExitStatus
from kais_cli.session import Session
from kais_cli.views import output
from kais_cli.views.output import Format


def annotate(
    session: Session, kind: str, name: str, annotations: Mapping[str, str], *, dry_run: bool
) -> dict[str, Any]:
    """Set annotations of an object of the session's namespace; returns the changed object."""
    patch = {"metadata": {"annotations": dict(annotations)}}
    return session.cluster.patch(kind, session.namespace, name, patch, dry_run=dry_run)


def write_acknowledgement(
    session: Session, annotated: dict[str, Any], message: str, form: Format
) -> ExitStatus:
    """Print the message and the name of an annotated object, or the object itself."""
    if form is Format.TABLE:
        session.note(message)
        session.write(output.format_names([annotated], kind=annotated["kind"]))
    else:
        session.write(output.dump_object(annotated, form))
    return ExitStatus.SUCCEEDED
