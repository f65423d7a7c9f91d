"""Verbs of people that are annotations, such as abort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kais_cli.session import Session


def annotate(
    session: Session, kind: str, name: str, annotations: Mapping[str, str], *, dry_run: bool
) -> dict[str, Any]:
    """Set annotations of an object of the session's namespace; returns the changed object."""
    patch = {"metadata": {"annotations": dict(annotations)}}
    return session.cluster.patch(kind, session.namespace, name, patch, dry_run=dry_run)
