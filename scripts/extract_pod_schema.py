"""Extracts the schema of the pod fields that cells accept from the pinned Kubernetes version.

`python -m scripts.extract_pod_schema` reads the OpenAPI document of the Kubernetes module that
`kais_cluster/host/modules/kubernetes/go.mod` pins, from the module cache of Go, and writes
`kais/resources/pod_schema.json`. Descriptions are left out, so that the CRDs stay small. `--check`
writes nothing and fails if the file differs.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "kais/resources/pod_schema.json"
_PIN = ROOT / "kais_cluster/host/modules/kubernetes"
_CORE = "io.k8s.api.core.v1."
_PREFIX = "#/definitions/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

CONTAINER_FIELDS = (
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "resources",
    "securityContext",
    "startupProbe",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
)
"""Fields of a container that `container` of a Cell has besides its own."""
POD_FIELDS = (
    "affinity",
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "priorityClassName",
    "resourceClaims",
    "runtimeClassName",
    "securityContext",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
"""Fields of a pod's spec that `podTemplate.spec` of a Cell has."""
_KEPT: Mapping[str, tuple[str, ...]] = {
    "Container": (
        *CONTAINER_FIELDS,
        *("args", "command", "env", "image", "name", "ports", "restartPolicy"),
    ),
    "ContainerPort": ("containerPort", "name", "protocol"),
    "EnvVarSource": ("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"),
    "PodSecurityContext": (
        "appArmorProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seLinuxOptions",
        "seccompProfile",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "sysctls",
    ),
    "SecurityContext": (
        "allowPrivilegeEscalation",
        "appArmorProfile",
        "capabilities",
        "privileged",
        "procMount",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seLinuxOptions",
        "seccompProfile",
    ),
    "Volume": (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "hostPath",
        "image",
        "name",
        "nfs",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ),
    "VolumeProjection": (
        "clusterTrustBundle",
        "configMap",
        "downwardAPI",
        "secret",
        "serviceAccountToken",
    ),
}
"""Fields of types of which cells accept only a part."""
_SCALARS: Mapping[str, Mapping[str, Any]] = {
    _QUANTITY: {
        "x-kubernetes-int-or-string": True,
        "pattern": (
            r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
            r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
        ),
    },
    _INT_OR_STRING: {"x-kubernetes-int-or-string": True},
    # The metadata of an ephemeral claim; the whole type is that of a stored object.
    _OBJECT_META: {
        "type": "object",
        "properties": {
            key: {"type": "object", "additionalProperties": {"type": "string"}}
            for key in ("annotations", "labels")
        },
    },
}
"""Types that a CRD describes in another way than the OpenAPI document."""
# Without enums: only a running API server lists them, and a newer one may have more values.
_PLAIN_KEYS = (
    "type",
    "format",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)


def extract(document: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the schema of the fields, from the OpenAPI document of an API server."""
    definitions: dict[str, Any] = {}
    fields = {
        part: {
            name: _node(
                document["definitions"][_CORE + type_]["properties"][name], document, definitions
            )
            for name in names
        }
        for part, type_, names in (
            ("container", "Container", CONTAINER_FIELDS),
            ("pod", "PodSpec", POD_FIELDS),
        )
    }
    return {"version": version, **fields, "definitions": dict(sorted(definitions.items()))}


def _node(raw: Mapping[str, Any], document: Mapping[str, Any], found: dict[str, Any]) -> Any:
    if "$ref" in raw:
        return _reference(raw["$ref"].removeprefix(_PREFIX), document, found)
    node = {key: raw[key] for key in _PLAIN_KEYS if key in raw}
    if "items" in raw:
        node["items"] = _node(raw["items"], document, found)
        _require_map_keys(node, found)
    if "additionalProperties" in raw:
        node["additionalProperties"] = _node(raw["additionalProperties"], document, found)
    return node


def _reference(name: str, document: Mapping[str, Any], found: dict[str, Any]) -> Any:
    if name in _SCALARS:
        return dict(_SCALARS[name])
    short = name.rpartition(".")[2]
    if short not in found:
        found[short] = {}
        found[short].update(_definition(document["definitions"][name], short, document, found))
    return {"$ref": short}


def _definition(
    raw: Mapping[str, Any], short: str, document: Mapping[str, Any], found: dict[str, Any]
) -> dict[str, Any]:
    if "properties" not in raw:
        return {key: raw[key] for key in _PLAIN_KEYS if key in raw}
    names = _KEPT.get(short, tuple(raw["properties"]))
    definition: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: _node(raw["properties"][name], document, found) for name in sorted(names)
        },
    }
    if "required" in raw:
        definition["required"] = list(raw["required"])
    if "x-kubernetes-map-type" in raw:
        definition["x-kubernetes-map-type"] = raw["x-kubernetes-map-type"]
    return definition


def _require_map_keys(node: dict[str, Any], found: dict[str, Any]) -> None:
    """Require the keys of a list map, as a CRD must; a port without protocol is one of TCP."""
    if node.get("x-kubernetes-list-type") != "map":
        return
    item = found[node["items"]["$ref"]]
    for key in node["x-kubernetes-list-map-keys"]:
        if key == "protocol":
            item["properties"][key]["default"] = "TCP"
        elif key not in item.get("required", ()):
            item["required"] = [*item.get("required", ()), key]


def read_pinned() -> tuple[dict[str, Any], str]:
    """Read the OpenAPI document of the pinned Kubernetes version, and return that version."""
    pinned = re.search(r"k8s\.io/kubernetes (v\S+)", (_PIN / "go.mod").read_text())
    if pinned is None:
        raise SystemExit(f"{_PIN}/go.mod does not pin k8s.io/kubernetes")
    version = pinned[1]
    module = f"k8s.io/kubernetes@{version}"
    command = ["go", "mod", "download", "-json", module]
    output = subprocess.run(command, cwd=_PIN, capture_output=True, text=True, check=True).stdout
    folder = Path(json.loads(output)["Dir"])
    return json.loads((folder / "api/openapi-spec/swagger.json").read_text()), version


def text_of(schema: Mapping[str, Any]) -> str:
    """Return the content of the generated file."""
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with `--check` only compare; returns the exit status."""
    text = text_of(extract(*read_pinned()))
    if "--check" in arguments:
        if TARGET.read_text() == text:
            return 0
        sys.stderr.write(f"{TARGET} is not current; run python -m scripts.extract_pod_schema\n")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
