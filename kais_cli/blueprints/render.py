"""Renders what an instance would create, as the operator would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kais.resources import base
from kais_cli import errors
from kais_cli.blueprints import render_requests

_ALWAYS_FITS = 32_768  # characters of all values; half of what an objective may have

if TYPE_CHECKING:
    from kais.resources.blueprint_revision import BlueprintRevision
    from kais_cli.ports import Body


def render(
    revision: BlueprintRevision,
    values: Mapping[str, Any],
    *,
    instance: str,
    namespace: str,
    subject: str = "",
) -> list[Body]:
    """Return the Formation and, if the blueprint has one, the Mission of an instance.

    Labels, owners and other additions of the operator are omitted. Errors name the `subject`; by
    default that is the revision.

    Raises:
        UsageError: The parameters or the template are invalid; contains all violations.
    """
    from kais import blueprint_rendering  # noqa: PLC0415 (loads jinja2)

    spec = revision.spec
    names = {
        "parameters": dict(values),
        "blueprint": spec.blueprint,
        "revision": spec.revision,
        "instance": instance,
        "namespace": namespace,
    }
    subject = subject or revision.ref
    rendering = render_requests.render(spec.template().to_dict(), names, subject=subject)
    if isinstance(rendering, blueprint_rendering.Violations):
        listed = "".join(f"\n  {violation}" for violation in rendering.violations)
        raise errors.UsageError(f"{subject} cannot be rendered with these values:{listed}")
    formation = dict(rendering.formation_spec)
    scope = (formation.get("knowledge") or {}).get("scope") or spec.blueprint
    formation["knowledge"] = {**(formation.get("knowledge") or {}), "scope": scope}
    objects = [_object("Formation", instance, namespace, formation)]
    if rendering.mission_spec is not None:
        objects.append(_object("Mission", instance, namespace, rendering.mission_spec))
    return objects


def require_size(
    revision: BlueprintRevision, values: Mapping[str, Any], *, instance: str, namespace: str
) -> None:
    """Render large values before anything is created, because they may exceed a field.

    Raises:
        UsageError: A field would be too long; the message names it, its size and its maximum.
    """
    if len(json.dumps(values)) <= _ALWAYS_FITS:
        return
    try:
        render(revision, values, instance=instance, namespace=namespace)
    except errors.UsageError as exc:
        sizes = "".join(
            f"\n  parameter {name} has {len(value):,} characters"
            for name, value in values.items()
            if isinstance(value, str) and len(value) > _ALWAYS_FITS
        )
        raise errors.UsageError(f"{exc}{sizes}\nnothing was created") from exc


def _object(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> Body:
    return {
        "apiVersion": base.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }
