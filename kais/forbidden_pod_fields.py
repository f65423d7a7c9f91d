"""Fields of Kubernetes that a cell must not set in its pods, by the rules of kais.

The API server checks what Kubernetes knows, and the schema what a field may contain. These rules
protect what kais gives every pod: its volumes, folders, names, identity and labels. Pure.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kais import a2a, pod_baseline
from kais.errors import Violation
from kais.resources.cell_template import CellTemplateSpec
from kais.resources.pod_schema import NO_HOST_PATH
from kais.resources.pod_template import PodFields, PodTemplate, RuntimeFields

RESERVED_VARIABLES = ("KAIS_", "KNOWLEDGE_", "CELL_")
SHARED_VOLUMES = ("workspace", "private", "tmp")
"""Volumes of kais that further containers of the pod may mount."""
_VOLUME_PREFIX = "kais-"
_CONTAINERS = ("task", "cell")
_CHECK_PREFIX = "check-"
_DOMAINS = ("kais.io", "app.kubernetes.io")
_SEALED_FOLDERS = (
    "/etc/kais",
    "/run/secrets",
    "/var/run/secrets",
    "/var/lib/kais-agent",
    "/dev/termination-log",
)
"""Paths of kais and the kubelet in which a cell mounts nothing."""
_OWN_FOLDERS = (*_SEALED_FOLDERS, "/tmp", "/workspace/shared", "/workspace/private")  # noqa: S108
ENFORCE_LABEL = "pod-security.kubernetes.io/enforce"
PRIVILEGED = "privileged"
_CONTROL_PLANE_TAINTS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True)
class Allowed:
    """The names that the installation allows in the pods of cells.

    Attributes:
        priority_classes: names of PriorityClasses.
        runtime_classes: names of RuntimeClasses.
        toleration_keys: taints of control planes that may be tolerated; `*` for a toleration of
            every taint.
    """

    priority_classes: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()
    toleration_keys: tuple[str, ...] = ()


NOTHING_ALLOWED = Allowed()


def violations(spec: CellTemplateSpec) -> list[Violation]:
    """Return the rules that a cell breaks in every installation; paths are relative to its spec."""
    if not _has_pod_fields(spec):
        return []
    template = spec.pod_template or _NO_TEMPLATE
    fields = template.spec or _NO_FIELDS
    volumes = fields.volumes or []
    return [
        *_metadata_violations(template),
        *_volume_violations(volumes, has_api_access=spec.api_access),
        *_own_container_violations(spec, volumes),
        *_init_container_violations(spec, fields, volumes),
        *_root_violations(spec, fields),
    ]


def installation_violations(
    spec: CellTemplateSpec, allowed: Allowed, *, namespace_labels: Mapping[str, str]
) -> list[Violation]:
    """Return the violations of the installation's rules and of the namespace's Pod Security level.

    A namespace without a level counts as baseline: the right to create cells must not grant more
    than the namespace allows.
    """
    if not _has_pod_fields(spec):
        return []
    template = spec.pod_template or _NO_TEMPLATE
    fields = template.spec or _NO_FIELDS
    broken = [
        *_class_violations(fields, allowed),
        *_toleration_violations(fields.tolerations or [], allowed),
    ]
    level = namespace_labels.get(ENFORCE_LABEL)
    if level != PRIVILEGED:
        broken += [
            Violation(
                path,
                f"needs the Pod Security level privileged, and the namespace has "
                f"{level or 'none'}; remove it, or label the namespace {ENFORCE_LABEL}: privileged",
            )
            for path in pod_baseline.forbidden_fields(spec)
        ]
    return broken


_NO_TEMPLATE = PodTemplate()
_NO_FIELDS = PodFields()


def _has_pod_fields(spec: CellTemplateSpec) -> bool:
    """Whether a cell sets any field that a rule is about; most cells do not."""
    if spec.pod_template is not None:
        return True
    container = spec.container
    if container is None:
        return spec.mind is not None and spec.mind.volume_mounts is not None
    fields = (
        *(container.volume_mounts, container.volume_devices, container.env_from),
        *(container.liveness_probe, container.readiness_probe, container.startup_probe),
        *(container.lifecycle, container.security_context),
    )
    return any(field is not None for field in fields)


def _metadata_violations(template: PodTemplate) -> Iterator[Violation]:
    metadata = template.metadata
    for part, values in (
        ("labels", metadata.labels if metadata else None),
        ("annotations", metadata.annotations if metadata else None),
    ):
        for key in values or ():
            domain = key.rpartition("/")[0]
            if any(
                domain == owned_domain or domain.endswith(f".{owned_domain}")
                for owned_domain in _DOMAINS
            ):
                path = f"podTemplate.metadata.{part}[{key}]"
                yield Violation(
                    path, f"is reserved: keys under {domain}/ are set by kais; rename it"
                )


def _volume_violations(volumes: Sequence[Any], *, has_api_access: bool) -> Iterator[Violation]:
    for index, volume in enumerate(volumes):
        path = f"podTemplate.spec.volumes[{index}]"
        name = volume["name"]
        if name in SHARED_VOLUMES or name.startswith(_VOLUME_PREFIX):
            yield Violation(f"{path}.name", f'"{name}" is a volume of kais; choose another name')
        if "hostPath" in volume:
            yield Violation(f"{path}.hostPath", NO_HOST_PATH)
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source and not has_api_access:
                yield Violation(
                    f"{path}.projected.sources[{number}].serviceAccountToken",
                    "needs apiAccess: true, which gives the cell a token of its ServiceAccount",
                )


def _own_container_violations(
    spec: CellTemplateSpec, volumes: Sequence[Any]
) -> Iterator[Violation]:
    names = [volume["name"] for volume in volumes]
    declared: RuntimeFields | None = spec.container or spec.mind
    part = "mind" if spec.container is None else "container"
    mounts = (declared and declared.volume_mounts) or []
    yield from _mount_violations(mounts, names, f"{part}.volumeMounts", shared=())
    for index, mount in enumerate(mounts):
        problem = _covered(mount["mountPath"])
        if problem is not None:
            yield Violation(f"{part}.volumeMounts[{index}].mountPath", problem)
    container = spec.container
    if container is None:
        return
    devices = container.volume_devices or []
    yield from _mount_violations(devices, names, "container.volumeDevices", shared=())
    yield from _prefix_violations(container.env_from or (), "container.envFrom")


def _prefix_violations(sources: Sequence[Any], path: str) -> Iterator[Violation]:
    for index, source in enumerate(sources):
        prefix = source.get("prefix", "")
        if prefix.startswith(RESERVED_VARIABLES):
            yield Violation(
                f"{path}[{index}].prefix",
                f'"{prefix}" is reserved: variables that start with {prefix.split("_")[0]}_ are '
                "set by kais; choose another prefix",
            )


def _mount_violations(
    mounts: Sequence[Any], names: Sequence[str], path: str, *, shared: Sequence[str]
) -> Iterator[Violation]:
    available = [*names, *shared]
    for index, mount in enumerate(mounts):
        if mount["name"] in available:
            continue
        listed = f"it has {', '.join(names)}" if names else "it has none"
        yield Violation(
            f"{path}[{index}].name",
            f'"{mount["name"]}" is no volume of podTemplate.spec.volumes, and {listed}; add the '
            "volume there",
        )


def _covered(mount_path: str) -> str | None:
    """Return why nothing can be mounted at a path; None if it can."""
    path = posixpath.normpath(f"/{mount_path}")
    path = f"/{path.lstrip('/')}"
    for own in _OWN_FOLDERS:
        if path == own or own.startswith(f"{path.rstrip('/')}/"):
            return f'"{mount_path}" would cover {own} of kais; choose another folder'
    for own in _SEALED_FOLDERS:
        if path.startswith(f"{own}/"):
            return f'"{mount_path}" is in {own}, which is reserved; choose another folder'
    return None


def _init_container_violations(
    spec: CellTemplateSpec, fields: PodFields, volumes: Sequence[Any]
) -> Iterator[Violation]:
    names = [volume["name"] for volume in volumes]
    own_ports = _own_ports(spec)
    for index, container in enumerate(fields.init_containers or ()):
        path = f"podTemplate.spec.initContainers[{index}]"
        name = container["name"]
        if name in _CONTAINERS or name.startswith((_CHECK_PREFIX, _VOLUME_PREFIX)):
            yield Violation(f"{path}.name", f'"{name}" is a container of kais; choose another name')
        if not container.get("image"):
            yield Violation(f"{path}.image", "is required")
        mounts = container.get("volumeMounts") or ()
        yield from _mount_violations(mounts, names, f"{path}.volumeMounts", shared=SHARED_VOLUMES)
        devices = container.get("volumeDevices") or ()
        yield from _mount_violations(devices, names, f"{path}.volumeDevices", shared=())
        for number, port in enumerate(container.get("ports") or ()):
            if port["containerPort"] in own_ports:
                yield Violation(
                    f"{path}.ports[{number}].containerPort",
                    f"{port['containerPort']} is a port of the cell, and all containers of a "
                    "pod share their ports; choose another",
                )


def _own_ports(spec: CellTemplateSpec) -> set[int]:
    """Return the ports of a cell's container, with that of its A2A server."""
    container = spec.container
    ports = {port.container_port for port in container.ports} if container is not None else set()
    if not spec.serves_a2a:
        return ports
    server = container.a2a if container is not None else None
    return ports | {a2a.PORT if server is None else server.port}


def _root_violations(spec: CellTemplateSpec, fields: PodFields) -> Iterator[Violation]:
    """Find containers that would run as root while the pod forbids it: the kubelet refuses them."""
    of_pod = fields.security_context or {}
    for path, context in pod_baseline.security_contexts(spec):
        user = context.get("runAsUser", of_pod.get("runAsUser"))
        is_forbidden = context.get("runAsNonRoot", of_pod.get("runAsNonRoot", True))
        if user == 0 and is_forbidden and (context.get("runAsUser") == 0 or context is of_pod):
            yield Violation(
                f"{path}.runAsUser",
                "0 is root: also set runAsNonRoot: false there, in a namespace whose Pod Security "
                "level is not restricted",
            )


def _class_violations(fields: PodFields, allowed: Allowed) -> Iterator[Violation]:
    for field, name, names, value in (
        (
            "priorityClassName",
            fields.priority_class_name,
            allowed.priority_classes,
            "priorityClassNames",
        ),
        (
            "runtimeClassName",
            fields.runtime_class_name,
            allowed.runtime_classes,
            "runtimeClassNames",
        ),
    ):
        if name is not None and name not in names:
            yield Violation(f"podTemplate.spec.{field}", _not_allowed(name, names, value))


def _toleration_violations(tolerations: Sequence[Any], allowed: Allowed) -> Iterator[Violation]:
    for index, toleration in enumerate(tolerations):
        key = toleration.get("key") or "*"
        is_of_control_plane = key == "*" or key in _CONTROL_PLANE_TAINTS
        if is_of_control_plane and key not in allowed.toleration_keys:
            yield Violation(
                f"podTemplate.spec.tolerations[{index}].key",
                _not_allowed(key, allowed.toleration_keys, "tolerationKeys"),
            )


def _not_allowed(name: str, names: Sequence[str], value: str) -> str:
    listed = ", ".join(names) if names else "none"
    return (
        f'"{name}" is not allowed in this installation, which allows {listed}; remove it, or have '
        f"it added to cells.allowed.{value} of the chart"
    )
