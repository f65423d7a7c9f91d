"""Whether the kinds, the operator and the service are installed, ready, and of one version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kais import labels
from kais.resources import kinds
from kais_cli import errors, installed
from kais_cli.doctor.findings import Finding, failed, ok, warning

if TYPE_CHECKING:
    from kais_cli.ports import Body, Cluster

_VERSION = "app.kubernetes.io/version"
_PATIENCE = timedelta(seconds=30)  # twice what a Lease holds


def crds(cluster: Cluster) -> Iterator[Finding]:
    """Say whether each kind is served with all the fields that this version writes."""
    found = {body["metadata"]["name"]: body for body in cluster.list("CustomResourceDefinition")}
    missing, older = [], []
    for model in kinds.BY_NAME.values():
        body = found.get(f"{model.PLURAL}.kais.io")
        if body is None:
            missing.append(model.PLURAL)
        else:
            lacks = sorted(_spec_fields(model) - _served_fields(body))
            older += [f"{model.PLURAL} ({', '.join(lacks)})"] if lacks else []
    upgrade = "helm upgrade --install kais-crds charts/kais-crds"
    if missing:
        yield failed("kinds", f"not there: {', '.join(missing)}", upgrade)
    if older:
        yield failed("kinds", f"of an older version, without {'; '.join(older)}", upgrade)
    if not missing and not older:
        yield ok("kinds", f"all {len(kinds.BY_NAME)} are there, with every field")


def operator(cluster: Cluster, *, version: str, now: datetime) -> Iterator[Finding]:
    """Say whether the operator is ready, of this version, and leads."""
    bodies = cluster.list("Deployment", labels=installed.OPERATOR)
    if not bodies:
        yield failed("operator", "not installed", "helm upgrade --install kais charts/kais")
        return
    body = bodies[0]
    yield _ready("operator", "Deployment", body)
    yield from _skew("operator", body, version)
    yield _leader(cluster, body["metadata"]["namespace"], now)


def service(cluster: Cluster, *, version: str) -> Iterator[Finding]:
    """Say whether the knowledge service is ready and of this version."""
    bodies = cluster.list("StatefulSet", labels=installed.KNOWLEDGE)
    if not bodies:
        yield failed("service", "not installed", "helm upgrade --install kais charts/kais")
        return
    yield _ready("service", "StatefulSet", bodies[0])
    yield from _skew("service", bodies[0], version)


def namespace_of(cluster: Cluster) -> str:
    """Name the namespace of the operator; the usual one where it may not be looked for."""
    try:
        found = cluster.list("Deployment", labels=installed.OPERATOR)
    except errors.Refused:
        found = []
    return str(found[0]["metadata"]["namespace"]) if found else installed.NAMESPACE


def outbox(cluster: Cluster, namespace: str) -> Finding:
    """Say whether calls to the service wait because it was away."""
    waiting = cluster.list("ConfigMap", namespace, labels=f"{labels.ROLE}={labels.ROLE_OUTBOX}")
    if not waiting:
        return ok("outbox", "empty: nothing waits for the service")
    refused = [body for body in waiting if labels.REFUSED in _annotations(body)]
    if refused:
        metadata = refused[0]["metadata"]
        words = _annotations(refused[0])[labels.REFUSED]
        return warning(
            "outbox",
            f"the service refuses the calls of {len(refused)} deleted objects "
            f"({metadata['name']}: {words})",
            f"mend what it says, then kubectl annotate configmap {metadata['name']} "
            f"-n {metadata['namespace']} {labels.REFUSED}-",
        )
    names = ", ".join(body["metadata"]["name"] for body in waiting[:3])
    return warning(
        "outbox",
        f"{len(waiting)} deleted missions wait to be recorded ({names})",
        "they are sent when the service answers; do not delete these maps",
    )


def _annotations(body: Body) -> Mapping[str, str]:
    return body["metadata"].get("annotations") or {}


def _ready(subject: str, kind: str, body: Body) -> Finding:
    status, wanted = body.get("status", {}), body.get("spec", {}).get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    where = f"{kind}/{body['metadata']['namespace']}/{body['metadata']['name']}"
    if not wanted:
        return failed(subject, f"{where}: scaled to 0", f"kubectl scale -n {_scale(kind, body)}")
    if ready >= wanted:
        return ok(subject, f"{where}: {ready} of {wanted} ready")
    namespace = body["metadata"]["namespace"]
    advice = (
        f"kubectl describe pods -n {namespace}; kubectl logs -n {namespace} {kind}/"
        + (body["metadata"]["name"])
    )
    say = failed if not ready else warning
    return say(subject, f"{where}: {ready} of {wanted} ready", advice)


def _scale(kind: str, body: Body) -> str:
    metadata = body["metadata"]
    return f"{metadata['namespace']} {kind}/{metadata['name']} --replicas=1"


def _skew(subject: str, body: Body, version: str) -> Iterator[Finding]:
    installed = body["metadata"].get("labels", {}).get(_VERSION)
    if installed is None or installed == version:
        yield ok(subject, f"version {installed or 'unknown'}")
        return
    yield warning(
        subject,
        f"version {installed}, this command is {version}",
        "upgrade the older one: helm upgrade kais charts/kais, or install kais anew",
    )


def _leader(cluster: Cluster, namespace: str, now: datetime) -> Finding:
    lease = cluster.get("Lease", namespace, labels.LEASE)
    spec: Mapping[str, Any] = (lease or {}).get("spec", {})
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    advice = f"kubectl logs -n {namespace} -l {installed.OPERATOR}"
    if not holder or not renewed:
        return failed("leader", f"nobody holds Lease/{namespace}/{labels.LEASE}", advice)
    age = now - datetime.fromisoformat(re.sub(r"Z$", "+00:00", renewed))
    words = f"{holder} leads, renewed {max(0, int(age.total_seconds()))} s ago"
    if age > _PATIENCE:
        return failed("leader", words, advice)
    return ok("leader", words)


def _spec_fields(model: Any) -> set[str]:
    fields = model.model_fields["spec"].annotation.model_fields
    return {field.alias or name for name, field in fields.items()}


def _served_fields(body: Body) -> set[str]:
    for version in body.get("spec", {}).get("versions", []):
        if version.get("name") == "v1" and version.get("served"):
            schema = version.get("schema", {}).get("openAPIV3Schema", {})
            spec = schema.get("properties", {}).get("spec", {})
            return set(spec.get("properties", {}))
    return set()
