"""Builders of Blueprints, revisions and instances, as a user or the operator would write them."""

from __future__ import annotations

from typing import Any

from kais import names
from kais.resources import blueprint_revision
from kais.resources.blueprint import BlueprintSpec
from kais_operator.planning.plan import Body


def blueprint(name: str = "team", *, namespace: str = "demo", **spec: Any) -> Body:
    """Build a Blueprint of one Task cell and a Mission; `spec` overrides fields, None drops one."""
    full_fields = {
        "parameters": [
            {"name": "topic", "type": "string", "example": "pods"},
            {"name": "count", "type": "integer", "default": 1, "min": 1, "max": 5},
        ],
        "formation": {
            "cells": [
                {
                    "name": "worker",
                    "replicas": "{{ count }}",
                    "spec": {"mode": "Task", "container": {"image": "worker:1"}},
                }
            ]
        },
        "mission": {"objective": "explain {{ topic }}", "entrypoint": {"cell": "worker"}},
        **spec,
    }
    return _object(
        "Blueprint", name, namespace, {k: v for k, v in full_fields.items() if v is not None}
    )


def revision(number: int = 1, *, of: Body | None = None, **metadata: Any) -> Body:
    """Build the revision that the operator makes of a Blueprint."""
    head = of or blueprint()
    name, namespace = head["metadata"]["name"], head["metadata"]["namespace"]
    spec = BlueprintSpec.from_dict(head["spec"])
    body = _object(
        "BlueprintRevision",
        names.revision_name(name, number),
        namespace,
        {
            "blueprint": name,
            "revision": number,
            "breaking": [],
            **blueprint_revision.template_of(spec),
        },
    )
    body["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "kais",
        "kais.io/blueprint": names.label_value(name),
        "kais.io/revision": str(number),
    }
    body["metadata"] |= metadata
    return body


def instance(name: str = "use", *, namespace: str = "demo", **spec: Any) -> Body:
    """Build a use of the Blueprint `team` with valid parameters."""
    full_fields = {"blueprintRef": {"name": "team"}, "parameters": {"topic": "pods"}, **spec}
    return _object("BlueprintInstance", name, namespace, full_fields)


def _object(kind: str, name: str, namespace: str, spec: Body) -> Body:
    return {
        "apiVersion": "kais.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
