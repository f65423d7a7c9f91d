"""Check whether kinds, operator and service are installed, ready, and of the same version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kais import labels
from kais.resources import kinds
from kais.resources.field_types import rfc3339
from kais_cli import errors
from kais_cli.cluster import install_defaults
from kais_cli.doctor.findings import Finding, failed, ok, warning

if TYPE_CHECKING:
    from kais_cli.cluster.install_defaults import Release
    from kais_cli.ports import Body, Cluster

UPGRADE_KINDS = (
    "helm upgrade --install kais-crds charts/kais-crds -n kais-system --create-namespace"
)
"""Adds missing kinds and fields to a cluster."""

CURRENT_KINDS = "current"
"""The state of kinds that have every field that this version writes."""

UNKNOWN = "unknown"
NOT_RUNNING = "not running"
"""The states of an operator that the version command cannot compare."""

_VERSION = "app.kubernetes.io/version"
_LEASE_TIMEOUT = timedelta(seconds=30)  # twice the duration of a Lease
_MAX_LISTED = 5


@dataclass(frozen=True)
class _Renewal:
    """The last renewal of the operator's Lease: its holder, how long ago, and until when it holds.

    A pod that was killed has not released its Lease, so the holder may be gone already.
    """

    holder: str
    age: timedelta
    until: datetime
    now: datetime

    @property
    def age_s(self) -> int:
        return max(0, int(self.age.total_seconds()))

    @property
    def is_stale(self) -> bool:
        return self.age > _LEASE_TIMEOUT

    @property
    def is_over(self) -> bool:
        """Whether the Lease has run out by the clock of this machine, which may be fast."""
        return self.now >= self.until

    @property
    def sentence(self) -> str:
        verb = "held" if self.is_over else "holds"
        return f"{self.holder} {verb} the Lease until {rfc3339(self.until)}"


def crds(cluster: Cluster) -> Iterator[Finding]:
    """Check whether each kind is served with all fields that this version writes."""
    missing, older = _compare_kinds(cluster)
    if missing:
        yield failed("kinds", f"not there: {', '.join(missing)}", UPGRADE_KINDS)
    if older:
        yield failed("kinds", f"of an older version, without {'; '.join(older)}", UPGRADE_KINDS)
    if not missing and not older:
        yield ok("kinds", f"all {len(kinds.BY_NAME)} are there, with every field")


def kinds_state(cluster: Cluster) -> str:
    """Return `CURRENT_KINDS`, `older`, or `not installed`."""
    missing, older = _compare_kinds(cluster)
    if len(missing) == len(kinds.BY_NAME):
        return "not installed"
    return "older" if missing or older else CURRENT_KINDS


def _compare_kinds(cluster: Cluster) -> tuple[list[str], list[str]]:
    """Return the kinds that are missing, and those that lack fields, with the fields."""
    installed_crds = {
        body["metadata"]["name"]: body for body in cluster.list("CustomResourceDefinition")
    }
    missing, older = [], []
    for model in kinds.BY_NAME.values():
        body = installed_crds.get(f"{model.PLURAL}.kais.io")
        if body is None:
            missing.append(model.PLURAL)
        else:
            missing_fields = sorted(_spec_fields(model) - _served_fields(body))
            older += [f"{model.PLURAL} ({', '.join(missing_fields)})"] if missing_fields else []
    return missing, older


def workload_version(cluster: Cluster, kind: str, namespace: str, name: str) -> str:
    """Return the version that the chart's label states, `not installed`, or `unknown`."""
    body = cluster.get(kind, namespace, name)
    if body is None:
        return "not installed"
    return str(body["metadata"].get("labels", {}).get(_VERSION) or UNKNOWN)


def is_scaled_to_0(cluster: Cluster, release: Release) -> bool:
    """Whether the operator of the chart has no pod, so that its label says nothing of what runs."""
    body = cluster.get("Deployment", release.namespace, release.operator)
    return body is not None and body.get("spec", {}).get("replicas", 1) == 0


def outside_version(cluster: Cluster, release: Release, now: datetime) -> str:
    """Return what is known of an operator while that of the chart has no pod.

    Its Lease has no version, and does not say whether the holder runs outside the cluster or was a
    pod that ended just before.
    """
    renewal = _read_renewal(cluster, release.namespace, now)
    if renewal is None or renewal.is_stale:
        return NOT_RUNNING
    name = f"Deployment/{release.namespace}/{release.operator}"
    return f"{UNKNOWN}: {name} has 0 replicas; {renewal.sentence}"


def operator(
    cluster: Cluster, release: Release, *, version: str, now: datetime
) -> Iterator[Finding]:
    """Check whether the operator is ready, has this version, and leads."""
    body = cluster.get("Deployment", release.namespace, release.operator)
    if body is None:
        yield _missing(cluster, release, "operator", "Deployment", install_defaults.OPERATOR)
        return
    namespace = body["metadata"]["namespace"]
    if body.get("spec", {}).get("replicas", 1):
        yield _ready("operator", "Deployment", body)
        yield from _skew("operator", body, version)
        yield _leader(_read_renewal(cluster, namespace, now), namespace)
    else:
        renewal = _read_renewal(cluster, namespace, now)
        yield from _operator_outside(body, renewal, version=version)


def _operator_outside(body: Body, renewal: _Renewal | None, *, version: str) -> Iterator[Finding]:
    """Check the Lease, which alone shows whether an operator outside the cluster runs.

    The label of the Deployment is the version of the chart, not that of such an operator.
    """
    namespace = body["metadata"]["namespace"]
    state = f"Deployment/{namespace}/{body['metadata']['name']}: scaled to 0"
    holder = renewal.holder if renewal is not None else "the operator"
    advice = f"if {holder} runs outside the cluster, read its log"
    if renewal is None or renewal.is_stale:
        yield failed(
            "operator",
            f"{state}, and no operator outside the cluster renews the Lease",
            "start the operator outside the cluster, or run:"
            f" kubectl scale -n {_scale('Deployment', body)}",
        )
    else:
        yield _lease_finding("operator", renewal, f"{state}; {renewal.sentence}", advice)
    yield from _skew("chart", body, version)
    yield _leader(renewal, namespace, advice=advice)


def service(cluster: Cluster, release: Release, *, version: str) -> Iterator[Finding]:
    """Check whether the knowledge service is ready and has this version."""
    body = cluster.get("StatefulSet", release.namespace, release.knowledge)
    if body is None:
        yield _missing(cluster, release, "service", "StatefulSet", install_defaults.KNOWLEDGE)
        return
    yield _ready("service", "StatefulSet", body)
    yield from _skew("service", body, version)


def lookalikes(cluster: Cluster, release: Release) -> Iterator[Finding]:
    """Find pods of others with the labels of the knowledge service."""
    pods = _listed(cluster, "Pod", install_defaults.KNOWLEDGE)
    names = [
        f"Pod/{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in pods
        if pod["metadata"]["namespace"] != release.namespace
    ]
    if names:
        remainder = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        yield warning(
            "service",
            f"not of the release {release}, with the labels of its knowledge service:"
            f" {', '.join(names[:_MAX_LISTED])}{remainder}; no token is sent there",
            "delete what you do not know; KAIS_RELEASE=NAMESPACE/NAME selects another release",
        )


def _missing(cluster: Cluster, release: Release, subject: str, kind: str, selector: str) -> Finding:
    """Report that the release lacks a workload, and where workloads with its labels are."""
    other_releases = [
        f"{body['metadata']['namespace']}/{body['metadata']['labels'].get(install_defaults.INSTANCE)}"
        for body in _listed(cluster, kind, selector)
    ]
    name = release.operator if kind == "Deployment" else release.knowledge
    message = f"not installed: there is no {kind}/{release.namespace}/{name}"
    if other_releases:
        advice = (
            f"there is a release {other_releases[0]};"
            f" if it is yours, set KAIS_RELEASE={other_releases[0]}"
        )
        return failed(subject, message, advice)
    return failed(
        subject,
        message,
        f"helm upgrade --install {release.name} charts/kais -n {release.namespace}"
        " --create-namespace",
    )


def _listed(cluster: Cluster, kind: str, selector: str) -> list[Body]:
    """List a kind in all namespaces; empty if the user may not."""
    try:
        return cluster.list(kind, labels=selector)
    except errors.Refused:
        return []


def outbox(cluster: Cluster, namespace: str) -> Finding:
    """Check whether calls to an unreachable service are pending."""
    waiting = cluster.list("ConfigMap", namespace, labels=f"{labels.ROLE}={labels.ROLE_OUTBOX}")
    if not waiting:
        return ok("outbox", "empty: nothing waits for the service")
    refused = [body for body in waiting if labels.REFUSED in _annotations(body)]
    if refused:
        metadata = refused[0]["metadata"]
        message = _annotations(refused[0])[labels.REFUSED]
        return warning(
            "outbox",
            f"the service refuses the calls of {len(refused)} deleted objects "
            f"({metadata['name']}: {message})",
            f"fix the reported problem, then run: kubectl annotate configmap {metadata['name']} "
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
    status, desired = body.get("status", {}), body.get("spec", {}).get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    reference = f"{kind}/{body['metadata']['namespace']}/{body['metadata']['name']}"
    if not desired:
        return failed(
            subject, f"{reference}: scaled to 0", f"kubectl scale -n {_scale(kind, body)}"
        )
    if ready >= desired:
        return ok(subject, f"{reference}: {ready} of {desired} ready")
    namespace = body["metadata"]["namespace"]
    advice = (
        f"kubectl describe pods -n {namespace}; kubectl logs -n {namespace} {kind}/"
        + (body["metadata"]["name"])
    )
    make_finding = failed if not ready else warning
    return make_finding(subject, f"{reference}: {ready} of {desired} ready", advice)


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
        "upgrade the older one: helm upgrade kais charts/kais, or reinstall kais",
    )


def _read_renewal(cluster: Cluster, namespace: str, now: datetime) -> _Renewal | None:
    """Return the last renewal of the operator's Lease; None if no operator holds it."""
    lease = cluster.get("Lease", namespace, labels.LEASE)
    spec: Mapping[str, Any] = (lease or {}).get("spec", {})
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        return None
    renewed_at = datetime.fromisoformat(re.sub(r"Z$", "+00:00", renewed))
    duration = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
    return _Renewal(holder, now - renewed_at, renewed_at + duration, now)


def _leader(renewal: _Renewal | None, namespace: str, *, advice: str = "") -> Finding:
    advice = advice or f"kubectl logs -n {namespace} -l {install_defaults.OPERATOR}"
    if renewal is None:
        return failed("leader", f"no operator holds Lease/{namespace}/{labels.LEASE}", advice)
    if renewal.is_stale:
        message = f"the Lease is stale: {renewal.holder} renewed it {renewal.age_s} s ago"
        return failed("leader", message, advice)
    return _lease_finding("leader", renewal, renewal.sentence, advice)


def _lease_finding(subject: str, renewal: _Renewal, message: str, advice: str) -> Finding:
    """Return a warning if the Lease has run out: no operator leads until it is renewed."""
    return warning(subject, message, advice) if renewal.is_over else ok(subject, message)


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
