"""The fields of a cell's pods that the Pod Security level baseline of Kubernetes does not allow.

The rules are those of the Pod Security Standards of the pinned Kubernetes version. Host namespaces,
host ports, ephemeral containers and settings for Windows are missing here, because the schema of a
cell does not have them; hostPath is never allowed. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kais.resources.cell_template import CellTemplateSpec
from kais.resources.pod_template import PodFields, PodMetadata, PodTemplate

_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""Capabilities that may be added."""
_SELINUX_TYPES = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""Kernel settings that affect only the pod."""
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_APPARMOR_DEFAULTS = ("", "runtime/default")
_APPARMOR_LOCAL = "localhost/"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LIFECYCLE_HANDLERS = ("postStart", "preStop")
_REQUESTS = ("httpGet", "tcpSocket")
"""Handlers that the kubelet sends to a host, which is the pod unless `host` names another."""


def forbidden_fields(spec: CellTemplateSpec) -> Iterator[str]:
    """Yield the paths, relative to the spec of a cell, that need the level privileged."""
    template = spec.pod_template or PodTemplate()
    yield from _annotations(template.metadata or PodMetadata())
    for path, context in security_contexts(spec):
        yield from _context_fields(path, context)
    for path, container in _containers(spec):
        yield from _request_hosts(path, container)


def security_contexts(spec: CellTemplateSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the security contexts of a cell with their paths, that of the pod first."""
    pod = _pod_fields(spec).security_context
    if pod is not None:
        yield "podTemplate.spec.securityContext", pod
    for path, container in _containers(spec):
        if container.get("securityContext") is not None:
            yield f"{path}.securityContext", container["securityContext"]


def _pod_fields(spec: CellTemplateSpec) -> PodFields:
    template = spec.pod_template
    return template.spec if template is not None and template.spec is not None else PodFields()


def _containers(spec: CellTemplateSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the fields of each container that a rule is about, with the container's path."""
    cell_container = spec.container
    if cell_container is not None:
        yield (
            "container",
            {
                "securityContext": cell_container.security_context,
                "livenessProbe": cell_container.liveness_probe,
                "readinessProbe": cell_container.readiness_probe,
                "startupProbe": cell_container.startup_probe,
                "lifecycle": cell_container.lifecycle,
            },
        )
    for index, container in enumerate(_pod_fields(spec).init_containers or ()):
        yield f"podTemplate.spec.initContainers[{index}]", container


def _annotations(metadata: PodMetadata) -> Iterator[str]:
    for key, profile in (metadata.annotations or {}).items():
        is_allowed = profile in _APPARMOR_DEFAULTS or profile.startswith(_APPARMOR_LOCAL)
        if key.startswith(_APPARMOR_ANNOTATION) and not is_allowed:
            yield f"podTemplate.metadata.annotations[{key}]"


def _context_fields(path: str, context: Mapping[str, Any]) -> Iterator[str]:
    if context.get("privileged"):
        yield f"{path}.privileged"
    if context.get("procMount", "Default") != "Default":
        yield f"{path}.procMount"
    for profile in ("seccompProfile", "appArmorProfile"):
        if (context.get(profile) or {}).get("type") == "Unconfined":
            yield f"{path}.{profile}"
    added = (context.get("capabilities") or {}).get("add") or ()
    if not set(added) <= _CAPABILITIES:
        yield f"{path}.capabilities.add"
    yield from _selinux_fields(f"{path}.seLinuxOptions", context.get("seLinuxOptions") or {})
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        if sysctl["name"] not in _SYSCTLS:
            yield f"{path}.sysctls[{index}].name"


def _selinux_fields(path: str, options: Mapping[str, str]) -> Iterator[str]:
    for field in ("user", "role"):
        if options.get(field):
            yield f"{path}.{field}"
    if options.get("type", "") not in _SELINUX_TYPES:
        yield f"{path}.type"


def _request_hosts(path: str, container: Mapping[str, Any]) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [
        *((f"{path}.{probe}", container.get(probe)) for probe in _PROBES),
        *((f"{path}.lifecycle.{key}", lifecycle.get(key)) for key in _LIFECYCLE_HANDLERS),
    ]
    for below, handler in handlers:
        for kind in _REQUESTS:
            if ((handler or {}).get(kind) or {}).get("host"):
                yield f"{below}.{kind}.host"
