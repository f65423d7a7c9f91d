"""Build a service cell's Deployment of one pod, and the Service that selects it.

    Cell -> Deployment (Recreate: two pods would share a workspace and a name) -> pod
         -> Service, headless when no port is declared; DNS still resolves to the pod

A pod template is rendered again only when its inputs change: the Cell's spec, its scope, its
formation's workspace. A newer operator, another default or another address of the knowledge service
restarts no pod. Two annotations of the Deployment record its inputs and its rendering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais import a2a, forbidden_pod_fields, labels, names, pod_defaults
from kais.pod_defaults import PodPolicy
from kais.resources.cell import Cell
from kais.resources.cell_template import Port
from kais_operator.controllers.cell.decide import (
    base_pod_spec,
    cell_identity,
    environment,
    minds,
    pod_field_merge,
    process_limits,
    volumes,
    workload_drift,
)
from kais_operator.controllers.cell.decide.cell_identity import CellIdentity, CellInFormation
from kais_operator.controllers.cell.decide.pod_field_merge import NO_DEFAULTS
from kais_operator.planning import children, memo
from kais_operator.planning.agent_settings import NO_AGENTS, AgentSettings
from kais_operator.planning.children import Ownership, Parent
from kais_operator.planning.plan import Body

REVISION_HISTORY_LIMIT = 1
"""ReplicaSets kept of earlier templates; the default of 10 would only fill etcd."""
_NO_DEADLINE: Mapping[str, Any] = {"progressDeadlineSeconds": 2_147_483_647}
"""The API's value for a Deployment without a deadline, and without the condition Progressing.

kais judges a cell by its pod. Each report of progress would cost a status update, before which the
controller manager lists all ReplicaSets of the namespace.
"""
_FIRST_REVISION = {"deployment.kubernetes.io/revision": "1"}
"""The controller manager would record it with a status update of its own."""
_START = {"periodSeconds": 2, "failureThreshold": 150}
"""Five minutes to open the port, an arbitrary time: a program that loads a model is slow."""
_READY = {"periodSeconds": 5}
_ALIVE = {"periodSeconds": 10, "failureThreshold": 6}


@dataclass(frozen=True)
class Workload:
    """The Deployment and the Service of a service cell."""

    deployment: Body
    service: Body


@memo.by_identity(capacity=64)
def workload(  # noqa: PLR0913 (one argument per source of its fields)
    parent: Parent,
    cell_in_formation: CellInFormation,
    identity: CellIdentity,
    *,
    knowledge_url: str,
    replicas: int,
    defaults: Mapping[str, Any] = NO_DEFAULTS,
    agents: AgentSettings = NO_AGENTS,
) -> Workload:
    """Build the Deployment and the Service of a service cell; `defaults` are its pod fields.

    Computed once while a cell is settled: a reconcile decides several times.
    """
    cell = cell_in_formation.cell
    shaped = pod_field_merge.with_defaults(cell, defaults)
    selector = selector_of(cell)
    labelled = {**base_pod_spec.cell_labels(cell), **selector}
    template = {
        "metadata": pod_field_merge.template_metadata(shaped, {**labelled, **parent.label()}),
        "spec": _pod_spec(cell, identity, knowledge_url, agents, shaped=shaped),
    }
    content = {
        "replicas": replicas,
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector},
        "template": template,
    }
    deployment = children.child_body(
        parent,
        api_version="apps/v1",
        kind="Deployment",
        name=names.deployment_name(cell.metadata.name),
        labelled=labelled,
        annotated={
            labels.RENDERED_FROM: _rendered_from(cell_in_formation),
            labels.RENDERED: children.spec_hash(template),
            **pod_field_merge.defaults_annotation(defaults),
        },
        content={"spec": content},
    )
    return Workload(deployment, _service(parent, cell, labelled))


def new_deployment(desired: Body) -> Body:
    """Return the Deployment to create: without a deadline, and with its first revision.

    No later apply adds them to a Deployment that exists: an upgrade would write to each of them.
    """
    metadata, spec = desired["metadata"], desired["spec"]
    return {
        **desired,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], **_FIRST_REVISION}},
        "spec": {**spec, **_NO_DEADLINE},
    }


def progress_deadline(live: Body) -> Body:
    """Return the deadline that an apply must retain: that of a Deployment created without one."""
    return dict(_NO_DEADLINE) if _NO_DEADLINE.items() <= live["spec"].items() else {}


def selector_of(cell: Cell) -> dict[str, str]:
    """Return the labels that select the pods of a service cell and no others."""
    return {
        labels.CELL: names.label_value(cell.metadata.name),
        labels.CELL_MODE: "Service",
    }


def own_pods(cell: Cell, candidates: Sequence[Body]) -> list[Body]:
    """Filter for the pods that the cell's Deployment created, because anyone can set labels.

    The name of a Deployment's ReplicaSet is its name with a hash. Kubernetes deletes a pod whose
    owner does not exist.
    """
    deployment = names.deployment_name(cell.metadata.name)
    return [pod for pod in candidates if _replica_set_of(pod).rpartition("-")[0] == deployment]


def _replica_set_of(pod: Body) -> str:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == "ReplicaSet":
            return str(owner["name"])
    return ""


def keep_rendered_template(
    desired: Body,
    live: Body | None,
    *,
    cell_in_formation: CellInFormation,
    parent: Parent,
    allowed: Sequence[str] = (),
) -> Body:
    """Return the desired Deployment, with the running template if no input has changed.

    A template in which someone edited fields that the Cell declares is not kept but restored.
    """
    if live is None or children.ownership_of(live, parent) is not Ownership.OWNED:
        return desired
    desired = _with_deadline_of(live, desired)
    live_annotations = live["metadata"].get("annotations") or {}
    desired_annotations = desired["metadata"]["annotations"]
    if (
        not _is_formation_missing(cell_in_formation)
        and live_annotations.get(labels.RENDERED_FROM) != desired_annotations[labels.RENDERED_FROM]
    ):
        return desired
    is_same_rendering = (
        live_annotations.get(labels.RENDERED) == desired_annotations[labels.RENDERED]
    )
    is_edited = _is_edited(desired, live) or workload_drift.is_tampered(
        desired, live, allowed=allowed
    )
    if is_same_rendering or is_edited or _cannot_start(live):
        return desired
    return _with_template_of(live, desired)


def _with_deadline_of(live: Body, desired: Body) -> Body:
    return {**desired, "spec": {**desired["spec"], **progress_deadline(live)}}


def defaults_of(
    cell_in_formation: CellInFormation, live: Body | None, *, parent: Parent, policy: PodPolicy
) -> Mapping[str, Any]:
    """Return the defaults to render with: those of the running template if no input has changed.

    So new defaults of the installation restart no pod. Anyone who may edit the Deployment may have
    changed the recorded ones, which therefore may contain only what a Cell may set.
    """
    return _same_object(_defaults_of(cell_in_formation, live, parent=parent, policy=policy))


_USED_DEFAULTS: memo.RecentResults[bytes, Mapping[str, Any]] = memo.RecentResults(64)


def _same_object(defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one object for equal defaults, by which results are kept."""
    return _USED_DEFAULTS.get(memo.digest(defaults), lambda: defaults)


def _defaults_of(
    cell_in_formation: CellInFormation, live: Body | None, *, parent: Parent, policy: PodPolicy
) -> Mapping[str, Any]:
    present = policy.defaults_of(cell_in_formation.cell.metadata.namespace)
    if live is None or children.ownership_of(live, parent) is not Ownership.OWNED:
        return present
    annotations = live["metadata"].get("annotations") or {}
    if annotations.get(labels.RENDERED_FROM) != _rendered_from(cell_in_formation):
        return present
    recorded = pod_field_merge.read_defaults(annotations)
    if recorded is None or recorded == present:
        return present
    spec = pod_defaults.with_defaults(cell_in_formation.cell.spec, recorded)
    broken = forbidden_pod_fields.installation_violations(spec, policy.allowed, namespace_labels={})
    return present if broken else recorded


def _cannot_start(live: Body) -> bool:
    """Whether a template gives its process more input than the limits allow."""
    return process_limits.problem(live["spec"]["template"]["spec"]["containers"]) is not None


def _is_formation_missing(cell_in_formation: CellInFormation) -> bool:
    """Whether the cell's formation is missing, so that its scope and workspace are unknown."""
    return (
        cell_in_formation.cell.spec.formation_ref is not None
        and cell_in_formation.formation is None
    )


@memo.by_identity(capacity=64)
def _rendered_from(cell_in_formation: CellInFormation) -> str:
    return names.spec_hash(
        {
            "spec": cell_in_formation.cell.spec.to_dict(),
            "scope": str(cell_identity.own_scope(cell_in_formation)),
            "workspace": cell_identity.workspace_claim(cell_in_formation.formation),
        }
    )


def _is_edited(desired: Body, live: Body) -> bool:
    """Whether fields that the Cell declares differ in the live template."""
    desired_fields, live_fields = _declared_fields(desired), _declared_fields(live)
    return children.differs(desired_fields, live_fields)


def _declared_fields(deployment: Body) -> Body:
    template = deployment["spec"]["template"]["spec"]
    keys = ("image", "command", "args", "resources", "securityContext")
    containers = [
        {"name": container["name"], **{key: container[key] for key in keys if key in container}}
        for container in template.get("containers") or ()
    ]
    return {"serviceAccountName": template.get("serviceAccountName"), "containers": containers}


def _with_template_of(live: Body, desired: Body) -> Body:
    """Keep the live template with its hash and annotations, so that keeping it is no change."""
    metadata, spec = desired["metadata"], desired["spec"]
    carried = live["metadata"].get("labels") or {}
    fingerprint = carried.get(labels.SPEC_HASH, metadata["labels"][labels.SPEC_HASH])
    return {
        **desired,
        "metadata": {
            **metadata,
            "labels": {**metadata["labels"], labels.SPEC_HASH: fingerprint},
            "annotations": _render_annotations(live["metadata"].get("annotations") or {}),
        },
        "spec": {**spec, "template": live["spec"]["template"]},
    }


def _render_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    keys = (labels.RENDERED_FROM, labels.RENDERED, labels.RENDERED_DEFAULTS)
    return {key: annotations[key] for key in keys if key in annotations}


def _pod_spec(
    cell: Cell,
    identity: CellIdentity,
    knowledge_url: str,
    agents: AgentSettings,
    *,
    shaped: Cell,
) -> Body:
    """Build the spec of the pod; `shaped` is the cell with the defaults of its pod fields."""
    mounted = volumes.volumes(cell, identity, knowledge_map=None)
    extra: dict[str, str] = {}
    mind = cell.spec.mind
    if mind is not None:
        mounted = [*mounted, *minds.volumes(mind, cell.spec.tools)]
        extra = minds.variables(mind, agents, cell.spec.tools)
    variables = environment.variables(cell, identity, knowledge_url=knowledge_url, extra=extra)
    container = base_pod_spec.container(
        shaped,
        base_pod_spec.SERVICE,
        variables=variables,
        mounted=mounted,
        agent_image=agents.image,
    )
    ports = named_ports(cell)
    if ports:
        container["ports"] = [{"containerPort": port, "name": name} for name, port in ports]
        probes = _probes(ports[0][1]) if mind is None else _agent_probes()
        container = {**probes, **container}
    return base_pod_spec.pod_spec(shaped, identity, containers=[container], mounted=mounted)


def _probes(port: int) -> Body:
    """Probe whether the first port accepts connections, which works with any image."""
    opened = {"tcpSocket": {"port": port}}
    return {
        "startupProbe": {**opened, **_START},
        "readinessProbe": {**opened, **_READY},
        "livenessProbe": {**opened, **_ALIVE},
    }


def _agent_probes() -> Body:
    """Probe whether the agent runtime answers with its card."""
    card = {"httpGet": {"path": a2a.CARD_PATH, "port": a2a.PORT}}
    return {
        "startupProbe": {**card, **_START, "periodSeconds": 1, "failureThreshold": 300},
        "readinessProbe": {**card, **_READY},
        "livenessProbe": {"tcpSocket": {"port": a2a.PORT}, **_ALIVE},
    }


def named_ports(cell: Cell) -> list[tuple[str, int]]:
    """Return each declared port with a unique name; of equal names the first port keeps it."""
    declared: list[Port] = cell.spec.container.ports if cell.spec.container else []
    ports_by_name: dict[str, int] = {}
    for port in declared:
        name = port.name if port.name not in ports_by_name else f"port-{port.container_port}"
        ports_by_name[name] = port.container_port
    if cell.spec.serves_a2a:
        server = cell.spec.container.a2a if cell.spec.container else None
        port_number = server.port if server is not None else a2a.PORT
        if port_number not in ports_by_name.values():
            ports_by_name[_free_name(ports_by_name)] = port_number
    return list(ports_by_name.items())


def _free_name(ports_by_name: Mapping[str, int]) -> str:
    return a2a.PORT_NAME if a2a.PORT_NAME not in ports_by_name else f"kais-{a2a.PORT_NAME}"


def _service(parent: Parent, cell: Cell, labelled: Mapping[str, str]) -> Body:
    ports = [
        {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
        for name, port in named_ports(cell)
    ]
    return children.child_body(
        parent,
        api_version="v1",
        kind="Service",
        name=names.service_name(cell.metadata.name),
        labelled=labelled,
        content={
            "spec": {
                "selector": selector_of(cell),
                **({"ports": ports} if ports else {"clusterIP": "None"}),
            }
        },
    )
