"""Objects of the API as tests need them."""

from __future__ import annotations

from importlib import metadata as distribution
from typing import Any

from kais import labels

VERSION = distribution.version("kais")
AT = "2029-12-31T23:58:00Z"


def condition(type_: str, status: str, reason: str, message: str = "words") -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": AT,
    }


def made(kind: str, name: str, spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "demo",
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": AT,
    }
    body = {"apiVersion": "kais.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    return body | {"status": status} if status else body


TEMPLATE: dict[str, Any] = {
    "description": "Looks at pods",
    "parameters": [
        {"name": "seconds", "type": "integer", "default": 5, "min": 1, "max": 60},
        {"name": "who", "type": "string", "pattern": "[a-z]+", "description": "whom to ask"},
        {"name": "tier", "type": "enum", "values": ["small", "big"], "default": "small"},
    ],
    "formation": {
        "cells": [{"name": "doctor", "spec": {"mode": "Task", "container": {"image": "doctor:1"}}}],
        "topology": {"type": "star", "hub": "doctor"},
    },
    "mission": {"objective": "look for {{ who }} within {{ seconds }} s"},
}


def blueprint(name: str = "doctor", **status: Any) -> dict[str, Any]:
    usual = {
        "observedGeneration": 1,
        "latestRevision": 2,
        "servedRevision": 2,
        "conditions": [
            condition("Compiled", "True", "Compiled"),
            condition("Ready", "True", "Served", "revision 2 serves"),
        ],
    }
    return made("Blueprint", name, TEMPLATE, **(usual | status))


def revision(name: str = "doctor", number: int = 2) -> dict[str, Any]:
    spec = TEMPLATE | {"blueprint": name, "revision": number}
    return made("BlueprintRevision", f"{name}-r{number:05d}", spec)


def instance(name: str = "doctor-x2k4f", **status: Any) -> dict[str, Any]:
    return made("BlueprintInstance", name, {"blueprintRef": {"name": "doctor"}}, **status)


def mission(name: str = "doctor-x2k4f", **status: Any) -> dict[str, Any]:
    spec = {"formationRef": name, "objective": "look for bob"}
    return made("Mission", name, spec, **status)


def ended(outcome: str = "Succeeded", **extra_fields: Any) -> dict[str, Any]:
    status = {
        "phase": "Succeeded" if outcome == "Succeeded" else "Failed",
        "outcome": outcome,
        "runId": "run-1",
        "attempt": 1,
        "startedAt": "2030-01-01T00:00:00Z",
        "finishedAt": "2030-01-01T00:00:12Z",
        "conditions": [condition("KnowledgeExtracted", "True", "Extracted")],
    }
    return mission(**(status | extra_fields))


def fact(fact_id: str, content: str, **extra_fields: Any) -> dict[str, Any]:
    usual = {
        "id": fact_id,
        "scope": "realm:demo/formation:doctor",
        "kind": "fact",
        "content": content,
        "confidence": 0.6,
        "source": {"type": "mission_extraction"},
        "recorded_at": AT,
    }
    return usual | extra_fields


def knowledge_pod() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "kais", "app.kubernetes.io/component": "knowledge"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "kais-knowledge-0",
            "namespace": "kais-system",
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "kais-knowledge",
                    "uid": "uid-kais-knowledge",
                    "controller": True,
                }
            ],
        },
        "spec": {"serviceAccountName": "kais-knowledge"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def account() -> dict[str, Any]:
    metadata = {"name": "kais-user", "namespace": "demo"}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def workload(
    kind: str, component: str, *, ready: int = 1, version: str = VERSION
) -> dict[str, Any]:
    result = {
        "app.kubernetes.io/name": "kais",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/version": version,
    }
    name = f"kais-{component}"
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "kais-system", "labels": result},
        "spec": {"replicas": 1},
        "status": {"readyReplicas": ready},
    }


def lease(
    renewed: str = "2029-12-31T23:59:55.000000Z", *, holder: str = "kais-operator-abc"
) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    metadata_ = {"name": labels.LEASE, "namespace": "kais-system"}
    return {"kind": "Lease", "metadata": metadata_, "spec": spec}
