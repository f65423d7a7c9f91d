"""The fields of pods and containers that cells take from Kubernetes as they are.

Their schema is that of the pinned Kubernetes version, see `pod_schema`. A field that is not set
keeps the default of kais.
"""

from typing import Annotated, Any

from pydantic import Field

from kais.resources.base import Model
from kais.resources.pod_schema import PodField

_MAX_METADATA = 64
_MAX_METADATA_CHARACTERS = 4096

Metadata = Annotated[
    dict[str, Annotated[str, Field(max_length=_MAX_METADATA_CHARACTERS)]],
    Field(max_length=_MAX_METADATA),
]
"""Labels or annotations."""


class RuntimeFields(Model):
    """The fields of Kubernetes for the container of the agent runtime."""

    image_pull_policy: Annotated[str, PodField("container.imagePullPolicy")] | None = Field(
        default=None,
        description="When the image is pulled: Always, IfNotPresent or Never.",
    )
    resources: Annotated[dict[str, Any], PodField("container.resources")] | None = Field(
        default=None,
        description=(
            "Requests and limits of any kind, such as nvidia.com/gpu. They take "
            "precedence over spec.resources."
        ),
    )
    volume_mounts: Annotated[list[Any], PodField("container.volumeMounts")] | None = Field(
        default=None,
        description=(
            "Mounts of the volumes in podTemplate.spec.volumes. The folders of kais "
            "cannot be covered."
        ),
    )


class ContainerFields(RuntimeFields):
    """The fields of Kubernetes for a container of a cell."""

    env_from: Annotated[list[Any], PodField("container.envFrom")] | None = Field(
        default=None,
        description=(
            "Secrets and ConfigMaps whose keys become variables. Variables of kais and "
            "of env take precedence."
        ),
    )
    lifecycle: Annotated[dict[str, Any], PodField("container.lifecycle")] | None = Field(
        default=None,
        description=("Commands and requests after the start and before the stop of the container."),
    )
    liveness_probe: Annotated[dict[str, Any], PodField("container.livenessProbe")] | None = Field(
        default=None,
        description="Probe that restarts the container when it fails.",
    )
    readiness_probe: Annotated[dict[str, Any], PodField("container.readinessProbe")] | None = Field(
        default=None,
        description="Probe that decides whether the cell is ready.",
    )
    security_context: Annotated[dict[str, Any], PodField("container.securityContext")] | None = (
        Field(
            default=None,
            description=(
                "Security settings of the container, in addition to those that kais sets. "
                "The namespace's Pod Security level must allow them."
            ),
        )
    )
    startup_probe: Annotated[dict[str, Any], PodField("container.startupProbe")] | None = Field(
        default=None,
        description="Probe that delays the other probes until the process has started.",
    )
    volume_devices: Annotated[list[Any], PodField("container.volumeDevices")] | None = Field(
        default=None,
        description="Block devices of the claims in podTemplate.spec.volumes.",
    )
    working_dir: Annotated[str, PodField("container.workingDir")] | None = Field(
        default=None,
        description="Working directory. Default: that of the image.",
    )


class PodMetadata(Model):
    """Labels and annotations of the pods of a cell."""

    labels: Metadata | None = Field(
        default=None,
        description="Labels of the pods. Keys under kais.io/ and app.kubernetes.io/ are reserved.",
    )
    annotations: Metadata | None = Field(
        default=None,
        description=(
            "Annotations of the pods. Keys under kais.io/ and app.kubernetes.io/ are reserved."
        ),
    )


class PodFields(Model):
    """The fields of Kubernetes for the spec of a cell's pods."""

    affinity: Annotated[dict[str, Any], PodField("pod.affinity")] | None = Field(
        default=None,
        description="Rules for the choice of the node.",
    )
    dns_config: Annotated[dict[str, Any], PodField("pod.dnsConfig")] | None = Field(
        default=None,
        description="DNS servers, search domains and options of the pod.",
    )
    dns_policy: Annotated[str, PodField("pod.dnsPolicy")] | None = Field(
        default=None,
        description="How the pod resolves names: ClusterFirst, Default or None.",
    )
    host_aliases: Annotated[list[Any], PodField("pod.hostAliases")] | None = Field(
        default=None,
        description="Further lines of /etc/hosts in the pod.",
    )
    image_pull_secrets: Annotated[list[Any], PodField("pod.imagePullSecrets")] | None = Field(
        default=None,
        description="Secrets with the credentials for the images.",
    )
    init_containers: Annotated[list[Any], PodField("pod.initContainers")] | None = Field(
        default=None,
        description=(
            "Containers that run before the cell's container; sidecars have restartPolicy Always."
        ),
    )
    node_selector: Annotated[dict[str, Any], PodField("pod.nodeSelector")] | None = Field(
        default=None,
        description="Labels of the nodes that may run the pod.",
    )
    priority_class_name: Annotated[str, PodField("pod.priorityClassName")] | None = Field(
        default=None,
        description="PriorityClass of the pod, which the installation must allow.",
    )
    resource_claims: Annotated[list[Any], PodField("pod.resourceClaims")] | None = Field(
        default=None,
        description="ResourceClaims for devices that containers of the pod use.",
    )
    runtime_class_name: Annotated[str, PodField("pod.runtimeClassName")] | None = Field(
        default=None,
        description="RuntimeClass of the pod, which the installation must allow.",
    )
    security_context: Annotated[dict[str, Any], PodField("pod.securityContext")] | None = Field(
        default=None,
        description=(
            "Security settings of the pod, in addition to those that kais sets. The "
            "namespace's Pod Security level must allow them."
        ),
    )
    termination_grace_period_seconds: (
        Annotated[int, PodField("pod.terminationGracePeriodSeconds")] | None
    ) = Field(
        default=None,
        description="Seconds between the request to stop and the kill of a process.",
    )
    tolerations: Annotated[list[Any], PodField("pod.tolerations")] | None = Field(
        default=None,
        description=(
            "Tolerations of taints, in addition to those of a lost node. The "
            "installation must allow those of control planes."
        ),
    )
    topology_spread_constraints: (
        Annotated[list[Any], PodField("pod.topologySpreadConstraints")] | None
    ) = Field(
        default=None,
        description="How pods are spread over nodes and zones.",
    )
    volumes: Annotated[list[Any], PodField("pod.volumes")] | None = Field(
        default=None,
        description="Volumes for the mounts of the containers; hostPath is not allowed.",
    )


class PodTemplate(Model):
    """Additions to the pods of a cell."""

    metadata: PodMetadata | None = Field(
        default=None, description="Labels and annotations of the pods."
    )
    spec: PodFields | None = Field(default=None, description="Fields of the spec of the pods.")
